/** Recordings of sandboxes that still run: looked on from outside, and known after their executor is gone. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DsecError } from "#core/errors.ts";
import { GatewayClient } from "#executor/gateway-client.ts";
import { openIdentity } from "#executor/identity.ts";
import { sendTrajectory } from "#executor/trace/live.ts";
import { trajectoriesIn } from "#executor/trace/paths.ts";
import { type RunningGateway, startGateway } from "#gateway/node/server.ts";
import { createClient } from "#sdk/client.ts";
import { dsec } from "#test/cli/dsec.ts";
import { eventually, Rig } from "#test/executor/executor-under-test.ts";
import { ISSUER, openTestGateway, type TestGateway } from "#test/gateway/gateway-under-test.ts";
import { readTrace } from "#test/support/trace-file.ts";
import type { TraceEvent } from "#trace/events/event.ts";
import { followTrajectory } from "#trace/format/follow.ts";
import { nodeEngine } from "#trace/node/engine.ts";

let gateway: TestGateway;
let server: RunningGateway;
let rig: Rig;
beforeAll(async () => {
  gateway = await openTestGateway();
  server = await startGateway({ ports: gateway.ports, host: "127.0.0.1", port: 0 });
  rig = await Rig.open(gateway);
  await rig.start();
});
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
  await server?.close();
  await gateway?.close();
});

test("what a sandbox does is seen while it does it, and all of it is in its sealed trace", async () => {
  // It ends once it was seen to run.
  const script = `
for i in 1 2 3 4 5 6; do echo line $i; dsec-tool memory set at $i; sleep 0.5; done
until dsec-tool observe --wait 20000 | grep -q seen; do :; done`;
  const { id } = await rig.submit({ command: ["sh", "-c", script], timeout_ms: 60_000 });
  const client = createClient({ gateway: server.url, apiKey: rig.client.secret });
  const seen: { seq: number; state: string }[] = [];
  const seenRunning = () => seen.filter(({ state }) => state === "running").length;
  let told = false;
  let live: Uint8Array = Buffer.of();
  const parts = async function* () {
    for await (const part of client.tasks.followTrace(id)) {
      live = Buffer.concat([live, part]);
      yield part;
    }
  };
  for await (const followed of followTrajectory(parts(), nodeEngine, id)) {
    if (followed.kind === "header") {
      expect(followed.header).toMatchObject({ task_id: id, attempt: 1 });
      continue;
    }
    const { state } = await rig.get(id);
    for (const { seq } of followed.events) seen.push({ seq, state });
    if (told || seenRunning() <= 4) continue;
    told = true;
    await rig.client.ok("POST", `/v1/tasks/${id}/observations`, { content: "seen" });
  }
  expect(seen.map(({ seq }) => seq)).toEqual(seen.map((_, i) => i + 1));
  expect(seenRunning()).toBeGreaterThan(4);
  const { attestations } = await rig.finished(id);
  expect(attestations).toHaveLength(1);
  const sealed = await readTrace(
    new Uint8Array(await (await rig.client.send("GET", `/v1/tasks/${id}/trace`)).arrayBuffer()),
  );
  const cut = await readTrace(live);
  expect(cut.events).toEqual(sealed.events.slice(0, cut.count));
  expect(sealed.count).toBeGreaterThanOrEqual(cut.count);
});

test("dsec trace tail prints a running task's events to the last, and those of a task that has ended", async () => {
  const script = "for i in 1 2 3 4; do dsec-tool memory set at $i; sleep 0.7; done; echo bye";
  const { id } = await rig.submit({ command: ["sh", "-c", script], timeout_ms: 60_000 });
  const env = { DSEC_GATEWAY: server.url, DSEC_API_KEY: rig.client.secret };
  const tail = await dsec(["trace", "tail", id, "--json"], { env });
  expect([tail.code, tail.stderr]).toEqual([0, ""]);
  const events = JSON.parse(tail.stdout.toString()) as { seq: number; type: string; value?: unknown }[];
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1));
  expect(events.filter(({ type }) => type === "memory_write")).toHaveLength(4);
  expect(events.at(-1)).toMatchObject({ type: "process", state: "exit" });
  const again = await dsec(["trace", "tail", id], { env });
  const lines = again.stdout.toString().trimEnd().split("\n");
  expect(lines).toHaveLength(events.length);
  expect(lines.at(-1)).toMatch(/^ +\d+ +\S+ +process/);
  const none = await dsec(["trace", "tail", id, "--attempt", "9"], { env });
  expect(none.stdout.toString()).toBe("");
});

/** All output, which comes in one event or in several. */
const saidIn = (events: TraceEvent[]) =>
  Buffer.concat(events.flatMap((event) => (event.type === "output" ? [event.data] : []))).toString();

test("what a lost executor had recorded is with the gateway, and its task's next holder reads it", async () => {
  const script = "echo first; sleep 2.5; echo second; sleep 60";
  const { id } = await rig.submit({ command: ["sh", "-c", script], timeout_ms: 90_000, retries: 1 });
  const path = `/v1/tasks/${id}/trace`;
  await eventually(async () => (await rig.client.send("GET", path)).ok);
  await eventually(async () => {
    const { events } = await readTrace(
      new Uint8Array(await (await rig.client.send("GET", path)).arrayBuffer()),
    );
    return saidIn(events) === "first\nsecond\n";
  });
  const task = await rig.get(id);
  const holds = await gateway.store.listTrajectories(id as never, null);
  expect(holds).toMatchObject([{ attempt: 1, held: true }]);
  // Its lease is ended under it, as by its time; a second executor takes the task up, for the first pulls no more.
  await gateway.store.drainExecutor(task.executor_id as never);
  const [file] = (await trajectoriesIn(join(rig.directory, "data/traces"))).filter((name) =>
    name.includes(id),
  );
  const leaseId = /lease_[a-z0-9]+/.exec(file!)![0];
  await gateway.store.failLease(
    task.executor_id as never,
    { lease_id: leaseId as never, fence: task.fence },
    { reason: "launch_failed", exit_code: null, signal: null, message: "lost" },
    null,
  );
  const directory = join(rig.directory, "second");
  await mkdir(directory);
  const identity = await openIdentity(directory);
  const second = new GatewayClient({
    gatewayUrl: ISSUER,
    fetch: (request) => gateway.app.fetch(request),
    identity,
  });
  const signal = AbortSignal.timeout(30_000);
  const free = {
    ...{ cpu_cores: 64, memory_mb: 4096, gpu_memory_mb: 0 },
    ...{ disk_iops: 1000, network_mbps: 0, pids: 4096, disk_mb: 8192 },
  };
  await second.enrol(rig.token, {
    public_key: identity.publicKey,
    capacity: free,
    images: [],
    build: "test",
    host: { hostname: "second", kernel: "6", cgroup: "v2", arch: "x64" },
  });
  const acquire = async () =>
    (await second.acquire({ free, max_leases: 1, wait_ms: 5_000 }, signal)).leases[0];
  let lease = await acquire();
  while (lease === undefined) lease = await acquire();
  expect(lease.task_id).toBe(id);
  const parts: Uint8Array[] = [];
  for await (const part of await second.earlierTrace(lease, lease.fence, signal)) parts.push(part);
  const earlier = await readTrace(Buffer.concat(parts));
  expect(earlier.header).toMatchObject({ lease_id: leaseId, attempt: 1 });
  expect(saidIn(earlier.events)).toBe("first\nsecond\n");
  await second.release({ lease_id: lease.lease_id, fence: lease.fence }, signal);
});

test("a file is sent on from where the receiver says that it is", async () => {
  const file = join(rig.directory, "part");
  await writeFile(file, "0123456789");
  const sent: string[] = [];
  await sendTrajectory(file, 2, 8, async (offset, bytes) => {
    sent.push(`${offset} ${Buffer.from(bytes)}`);
    return sent.length === 1 ? 4 : offset + bytes.length;
  });
  expect(sent).toEqual(["2 234567", "4 4567"]);
});

test("a receiver that goes round is not sent the same bytes for ever", async () => {
  const file = join(rig.directory, "round");
  await writeFile(file, "0123456789");
  const gapAt = (size: number) => new DsecError("TRACE_GAP", `known up to ${size}`, { details: { size } });
  const receivers: { [name: string]: (offset: number, length: number) => number } = {
    "tells of the same gap": () => {
      throw gapAt(4);
    },
    "loses what it has taken": (offset, length) => {
      if (offset > 0) throw gapAt(0);
      return length / 2;
    },
    "takes nothing": (offset) => offset,
  };
  for (const [name, receive] of Object.entries(receivers)) {
    let sent = 0;
    const sending = sendTrajectory(file, 2, 8, async (offset, bytes) => {
      if (++sent === 10) throw new Error(`${name}: it is sent the same again`);
      return receive(offset, bytes.length);
    });
    await expect(sending, name).rejects.toMatchObject({ code: "TRACE_GAP" });
  }
});

test("a receiver that has lost what it had is sent it again", async () => {
  const file = join(rig.directory, "lost");
  await writeFile(file, "0123456789");
  const sent: string[] = [];
  await sendTrajectory(file, 8, 10, async (offset, bytes) => {
    sent.push(`${offset} ${Buffer.from(bytes)}`);
    if (offset === 8) throw new DsecError("TRACE_GAP", "known up to 3", { details: { size: 3 } });
    return offset + bytes.length;
  });
  expect(sent).toEqual(["8 89", "3 3456789"]);
});
