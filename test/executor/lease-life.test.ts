/** What happens to a running attempt when its lease, its gateway, its launcher or its executor goes. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type Digest, type KeyId, newId } from "#core/ids.ts";
import { jsonDigest } from "#core/json.ts";
import { isFinal } from "#core/task.ts";
import type { AttestationClaims } from "#core/wire/attestations.ts";
import type { Executor } from "#core/wire/executors.ts";
import { type TaskEvent, TaskSpecSchema } from "#core/wire/tasks.ts";
import { diskShortage } from "#executor/disk-room.ts";
import { openIdentity } from "#executor/identity.ts";
import { ISSUER, openTestGateway, type TestGateway } from "#test/gateway/gateway-under-test.ts";
import { claimsOf, openTestProxy, reach } from "#test/gateway/proxy/proxy-under-test.ts";
import { eventually, Rig } from "./executor-under-test.ts";
import { cgroupsWith, processesOf, processesWith } from "./host.ts";

let gateway: TestGateway;
let rig: Rig;
beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway?.close());
beforeEach(async () => {
  rig = await Rig.open(gateway);
});
afterEach(async () => {
  await rig?.[Symbol.asyncDispose]();
});

const attemptFolders = () => readdir(join(rig.directory, "data/attempts"));
const eventsOf = (taskId: string) => rig.gateway.store.listEvents(taskId as never, 0, 10_000);
type OutputEvent = Extract<TaskEvent, { type: "stdout" | "stderr" }>;
const outputOf = (events: TaskEvent[]) =>
  events.filter((event): event is OutputEvent => event.type === "stdout");

function brokenOff(): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start: (controller) => controller.enqueue(new Uint8Array(1_000)),
    pull: (controller) => controller.error(new TypeError("terminated")),
  });
}

/** Cuts the line once the first event of this type has been told, before which no attempt is completed. */
function cutAfter(type: "running" | "stdout"): Rig["fetch"] {
  let hasCut = false;
  return async (request) => {
    const isEvents = request.url.endsWith("/v1/leases/events");
    const tells = isEvents && (await request.clone().text()).includes(`"${type}"`);
    const response = await rig.fetch(request);
    if (tells && !hasCut) {
      hasCut = true;
      rig.cutLine();
    }
    return response;
  };
}

/** Gives a lease back behind its executor's back, so that the task may be leased anew. */
async function takeLeaseAway(leaseId: string, executorId: string, fence: number): Promise<void> {
  const identity = await openIdentity(join(rig.directory, "data"));
  const headers = {
    authorization: `Bearer ${identity.token(executorId, ISSUER, rig.gateway.clock.nowMs)}`,
    "content-type": "application/json",
  };
  const body = JSON.stringify({ fence });
  const response = await rig.gateway.fetch(`/v1/leases/${leaseId}/release`, {
    method: "POST",
    headers,
    body,
  });
  expect(response.status, await response.text()).toBe(200);
}

test("an executor whose lease was re-issued kills its sandbox and writes nothing more (B52)", async () => {
  const executor = await rig.start();
  const marker = "76543.1";
  const script = `echo begun; (sleep ${marker} &); while :; do echo tick; sleep 0.05; done`;
  const { id } = await rig.submit({ command: ["sh", "-c", script] });
  await rig.until(id, ({ state }) => state === "running");
  const leased = rig.events.find((event) => event.type === "leased")!;
  await takeLeaseAway(leased.leaseId, executor.executorId, 1);
  await rig.until(id, ({ fence, state }) => fence === 2 && state === "running");
  await eventually(() =>
    rig.events.some((event) => event.type === "lost" && event.leaseId === leased.leaseId),
  );
  // The second attempt runs, and of the first no process is left.
  await eventually(async () => (await processesOf(`sleep ${marker}`)).length === 1);
  await eventually(async () => (await attemptFolders()).length === 1);
  const before = (await eventsOf(id)).filter((event) => event.type === "stdout" && event.fence === 1).length;
  await rig.client.ok("POST", `/v1/tasks/${id}/cancel`);
  const { task, attestations } = await rig.finished(id);
  expect(task.state).toBe("cancelled");
  expect(task.fence).toBe(2);
  expect(attestations.map(({ fence }) => fence)).toEqual([2]);
  const events = await eventsOf(id);
  expect(events.filter((event) => event.type === "stdout" && event.fence === 1)).toHaveLength(before);
  expect(rig.requests.filter((request) => request.endsWith(`${leased.leaseId}/complete`))).toEqual([]);
});

test("an executor that cannot renew in time kills its sandbox and writes nothing more, though nobody told it", async () => {
  await rig.start({
    fetch: async (request) => {
      const response = await rig.fetch(request);
      if (!request.url.endsWith("/v1/leases") || !response.ok) return response;
      const { leases } = (await response.json()) as { leases: { ttl_ms: number }[] };
      return Response.json({ leases: leases.map((lease) => ({ ...lease, ttl_ms: 3_000 })) });
    },
  });
  const marker = "76543.2";
  const { id } = await rig.submit({ command: ["sh", "-c", `echo begun; sleep ${marker}`] });
  await rig.until(id, ({ state }) => state === "running");
  const { leaseId } = rig.events.findLast(({ type }) => type === "running")!;
  rig.cutLine();
  await eventually(() => rig.events.some((event) => event.type === "lost" && event.leaseId === leaseId));
  expect(await processesOf(`sleep ${marker}`)).toEqual([]);
  rig.mendLine();
  const requestsBefore = rig.requests.length;
  await eventually(async () => (await attemptFolders()).length === 0);
  const later = rig.requests
    .slice(requestsBefore)
    .filter((request) => /complete|fail|blobs|events/.test(request));
  expect(later).toEqual([]);
}, 120_000);

test("a lease that comes too late to be kept is given back unburned, and runs when it comes in time", async () => {
  let grants = 0;
  await rig.start({
    fetch: async (request) => {
      const response = await rig.fetch(request);
      if (!request.url.endsWith("/v1/leases") || !response.ok) return response;
      const { leases } = (await response.json()) as { leases: { ttl_ms: number }[] };
      const isFirst = leases.length > 0 && grants++ === 0;
      return Response.json({ leases: isFirst ? leases.map((lease) => ({ ...lease, ttl_ms: 500 })) : leases });
    },
  });
  const { task } = await rig.sh("sleep 1", { retries: 0 });
  expect(task).toMatchObject({ state: "succeeded", attempts: 1, fence: 2 });
  expect(rig.events.filter(({ type }) => type === "running")).toHaveLength(1);
});

test("a task whose spec this version does not take costs no other task, and ends with what to do", async () => {
  // As an earlier version stored it, which knew no such bound.
  const spec = {
    ...TaskSpecSchema.parse({ command: ["true"], retries: 1 }),
    outputs: ["{a,b}".repeat(12)],
  };
  const old = { id: newId("task"), keyId: rig.client.id as KeyId, spec, idempotencyKey: null };
  const { task } = await gateway.store.submitTask({ ...old, specDigest: await jsonDigest(spec) });
  const others = await Promise.all([rig.submit({}), rig.submit({})]);
  await rig.start();
  for (const { id } of others) expect((await rig.finished(id)).task).toMatchObject({ state: "succeeded" });
  const ended = await rig.until(task.id, ({ state }) => isFinal(state));
  expect(ended).toMatchObject({
    state: "dead",
    attempts: 2,
    result: { outcome: { reason: "launch_failed" } },
  });
  expect(ended.result!.outcome.message).toMatch(
    new RegExp(`^TASK_UNSUPPORTED: task ${task.id}: .*outputs\\[0\\]: .*alternatives.*; submit`),
  );
  expect((await rig.sh("true")).task.state).toBe("succeeded");
});

test("a gateway that is away for five seconds while a task ends still gets all of its result", async () => {
  await rig.start({ fetch: cutAfter("stdout") });
  const { id } = await rig.submit({
    command: ["sh", "-c", "echo first; sleep 1; echo second; echo file > out"],
    outputs: ["out"],
  });
  await eventually(() => rig.events.some((event) => event.type === "ended"));
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  expect((await rig.get(id)).state).toBe("running");
  rig.mendLine();
  const { task, stdout, output, attestations } = await rig.finished(id);
  expect(task.state).toBe("succeeded");
  expect(task.attempts).toBe(1);
  expect(stdout.toString()).toBe("first\nsecond\n");
  expect((await output("/work/out")).toString()).toBe("file\n");
  expect(attestations).toHaveLength(1);
  const live = outputOf(await eventsOf(id));
  expect(live.map((event) => Buffer.from(event.data, "base64").toString()).join("")).toBe("first\nsecond\n");
  await eventually(async () => (await attemptFolders()).length === 0);
  // One line for the outage, one for its end; not one for each call.
  expect(rig.logged.filter(({ level }) => level !== "info").length).toBeLessThanOrEqual(2);
});

test("a gateway that goes away while a task's input comes costs the task no attempt", async () => {
  const artifact = await rig.client.upload(randomBytes(300_000));
  const failures: (() => Response)[] = [
    () => {
      throw new TypeError("fetch failed");
    },
    () => new Response(brokenOff()),
  ];
  await rig.start({
    fetch: async (request) => {
      const failure = request.url.endsWith(`/v1/artifacts/${artifact}`) ? failures.shift() : undefined;
      return failure === undefined ? rig.fetch(request) : failure();
    },
  });
  const { task, stdout } = await rig.sh("wc -c < /in", {
    ...{ inputs: [{ artifact, mount_path: "/in" }], retries: 0 },
  });
  expect(failures).toEqual([]);
  expect(task).toMatchObject({ state: "succeeded", attempts: 1 });
  expect(stdout.toString()).toBe("300000\n");
});

test("tasks that wait for one download end as they are cancelled, whether or not it ever does", async () => {
  const artifact = await rig.client.upload(randomBytes(1_000));
  const asked = Promise.withResolvers<void>();
  await rig.start({
    fetch: async (request) => {
      if (!request.url.endsWith(`/v1/artifacts/${artifact}`)) return rig.fetch(request);
      asked.resolve();
      return new Promise<never>(() => {});
    },
  });
  const submit = () => rig.submit({ command: ["true"], inputs: [{ artifact, mount_path: "/in" }] });
  const tasks = [await submit(), await submit(), await submit()];
  await asked.promise;
  await eventually(() => rig.events.filter(({ type }) => type === "leased").length === tasks.length);
  // The first began the download; the others joined it.
  for (const { id } of [tasks[1]!, tasks[0]!, tasks[2]!]) {
    await rig.client.ok("POST", `/v1/tasks/${id}/cancel`);
    await eventually(() => rig.events.some(({ type, taskId }) => type === "delivered" && taskId === id));
    const { task, attestations } = await rig.finished(id);
    expect(task).toMatchObject({ state: "cancelled", result: { outcome: { reason: "cancelled" } } });
    expect(attestations).toHaveLength(1);
  }
});

test("a result whose answer was lost is delivered once, and the task ends once", async () => {
  let lost = 0;
  await rig.start({
    fetch: async (request) => {
      const response = await rig.fetch(request);
      // The gateway has taken it; the executor cannot know.
      if (request.url.endsWith("/complete") && ++lost <= 2) throw new TypeError("fetch failed: ECONNRESET");
      return response;
    },
  });
  const { task, attestations } = await rig.sh("echo once");
  await eventually(() => rig.events.some((event) => event.type === "delivered"));
  expect(task.state).toBe("succeeded");
  expect(attestations).toHaveLength(1);
  expect(lost).toBe(3);
});

test("a finished result that could not be delivered goes out in the executor's next life", async () => {
  const executor = await rig.start({ fetch: cutAfter("running") });
  const { id } = await rig.submit({
    command: ["sh", "-c", "sleep 0.5; echo kept; echo file > out"],
    outputs: ["out"],
  });
  await eventually(() => rig.events.some((event) => event.type === "ended"));
  await executor.close();
  expect(await attemptFolders()).toHaveLength(1);
  rig.mendLine();
  await rig.start();
  const { task, stdout, output } = await rig.finished(id);
  expect(task).toMatchObject({ state: "succeeded", attempts: 1 });
  expect(stdout.toString()).toBe("kept\n");
  expect((await output("/work/out")).toString()).toBe("file\n");
  await eventually(async () => (await attemptFolders()).length === 0);
});

test("a task that is cancelled before its command began ends as cancelled, and is attested", async () => {
  const started = Promise.withResolvers<void>();
  const cancelled = Promise.withResolvers<void>();
  await rig.start({
    fetch: async (request) => {
      if (request.url.endsWith("/v1/leases/events")) {
        started.resolve();
        await cancelled.promise;
      }
      return rig.fetch(request);
    },
  });
  const { id } = await rig.submit({ command: ["sleep", "76543.5"] });
  await started.promise;
  await rig.client.ok("POST", `/v1/tasks/${id}/cancel`);
  await eventually(() => rig.events.some(({ type }) => type === "ended"));
  cancelled.resolve();
  const { task, attestations } = await rig.finished(id);
  expect(task).toMatchObject({ state: "cancelled", result: { outcome: { reason: "cancelled" } } });
  expect(attestations).toHaveLength(1);
});

test("a drain lets running tasks end, pulls no more, and closes", async () => {
  const executor = await rig.start();
  const running = await rig.submit({ command: ["sh", "-c", "sleep 1; echo done"] });
  await rig.until(running.id, ({ state }) => state === "running");
  const drained = executor.drain();
  const later = await rig.submit({ command: ["true"] });
  await drained;
  await executor.done;
  expect((await rig.finished(running.id)).stdout.toString()).toBe("done\n");
  expect(await rig.get(later.id)).toMatchObject({ state: "queued", attempts: 0 });
  expect(await processesWith("dsec-launcher", process.pid)).toEqual([]);
});

test("a drain that runs out of patience gives leases back unburned, time after time (B57)", async () => {
  const marker = "76543.3";
  const { id } = await rig.submit({ command: ["sleep", marker], retries: 0 });
  for (let shutdown = 0; shutdown < 3; shutdown++) {
    const executor = await rig.start({ drainGraceMs: 1 });
    await rig.until(id, ({ state }) => state === "running");
    await executor.drain();
    expect(await rig.get(id)).toMatchObject({ state: "queued", attempts: 0 });
  }
  expect(await processesOf(`sleep ${marker}`)).toEqual([]);
  expect(await attemptFolders()).toEqual([]);
});

test("closing while draining ends at once", async () => {
  const executor = await rig.start();
  const { id } = await rig.submit({ command: ["sleep", "76543.4"] });
  await rig.until(id, ({ state }) => state === "running");
  const drained = executor.drain();
  await executor.close();
  await drained;
  expect(await rig.get(id)).toMatchObject({ state: "queued" });
});

test("a lost launcher fails its attempts, comes back by itself, and the tasks are run again", async () => {
  await rig.start();
  // The first attempt ends by the loss alone; what it remembers tells the second that it is one.
  const script = `dsec-tool memory get second > /dev/null 2>&1; first=$?
    [ $first = 0 ] || dsec-tool memory set second true > /dev/null
    echo begun; [ $first = 0 ] || sleep 600; echo ended`;
  const { id } = await rig.submit({ command: ["sh", "-c", script], retries: 1 });
  await rig.begun(id);
  const [launcher] = await processesWith("dsec-launcher", process.pid);
  process.kill(launcher!, "SIGKILL");
  const { task, stdout } = await rig.finished(id);
  expect(task).toMatchObject({ state: "succeeded", attempts: 2 });
  expect(stdout.toString()).toBe("begun\nended\n");
  expect(new Set(outputOf(await eventsOf(id)).map(({ fence }) => fence)).size).toBe(2);
});

test("an attempt that a fault of ours ends is attested with the calls that it had made", async () => {
  const proxy = await openTestProxy();
  const calling = await Rig.open(proxy.gateway);
  try {
    await calling.start();
    const { url, port } = await proxy.serve((_request, response) => response.end("here"));
    const script = `dsec-tool api-call --url ${url}/ > /dev/null; echo begun; sleep 60`;
    const { id } = await calling.submit({ command: ["sh", "-c", script], retries: 0, policy: reach(port) });
    await calling.begun(id);
    const [launcher] = await processesWith("dsec-launcher", process.pid);
    process.kill(launcher!, "SIGKILL");
    const { task, attestations } = await calling.finished(id);
    expect(task.state).toBe("dead");
    expect(attestations).toHaveLength(1);
    const { dsec } = claimsOf<AttestationClaims>(attestations[0]!.jwt);
    expect(dsec.result.outcome.reason).toBe("launch_failed");
    expect(dsec.calls.count).toBe(1);
    const { receipts_root } = await proxy.gateway.store.summarizeCalls(id as never, 1);
    expect(dsec.calls.receipts_root).toBe(receipts_root);
    // The log that says what led there is kept too.
    expect(dsec.trace!.count).toBeGreaterThanOrEqual(2);
    expect(await proxy.gateway.ports.blobs.size(dsec.trace!.digest as Digest)).toBe(dsec.trace!.size);
    // What the lost launcher left goes with the next one, which nobody has to ask for.
    await eventually(async () => (await cgroupsWith(dsec.lease_id)).length === 0);
  } finally {
    await calling[Symbol.asyncDispose]();
    await proxy.close();
  }
});

test("a refused token ends the start with the gateway's code and leaves no launcher behind", async () => {
  await expect(rig.start({ token: "dsk_wrong" })).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
  const { secret } = await rig.gateway.client("tasks");
  await expect(rig.start({ token: secret })).rejects.toMatchObject({ code: "FORBIDDEN" });
  expect(await processesWith("dsec-launcher", process.pid)).toEqual([]);
});

test("a second executor on the same folder is refused, and the first goes on", async () => {
  await rig.start();
  await expect(rig.start()).rejects.toThrow(/launcher|lock|folder/i);
  expect((await rig.sh("echo still here")).stdout.toString()).toBe("still here\n");
});

test("a start waits for a gateway that does not answer, until it is told to give up", async () => {
  rig.cutLine();
  const giveUp = new AbortController();
  const start = rig.start({ signal: giveUp.signal });
  await eventually(() => rig.logged.some(({ level }) => level === "warn"));
  giveUp.abort(new Error("enough"));
  await expect(start).rejects.toThrow("enough");
  expect(await processesWith("dsec-launcher", process.pid)).toEqual([]);
});

test("an executor that an administrator drains pulls no more", async () => {
  const executor = await rig.start();
  await rig.client.ok("POST", `/v1/executors/${executor.executorId}/drain`);
  const { id } = await rig.submit({ command: ["true"] });
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect((await rig.get(id)).state).toBe("queued");
});

test("an executor whose disk is full takes no task, says so, and goes on by itself once there is room", async () => {
  const data = join(rig.directory, "data");
  await mkdir(data);
  const tmpfs = (options: string) => execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", data]);
  const said = (message: RegExp) => async () => rig.logged.some((event) => message.test(event.message));
  const asked = () => rig.requests.filter((request) => request === "POST /v1/leases").length;
  tmpfs("size=64m");
  try {
    const executor = await rig.start();
    await eventually(said(/MiB free of the \d+ MiB that sandboxes need; no task is taken/));
    const { id } = await rig.submit({ command: ["true"] });
    tmpfs("remount,size=2g,nr_inodes=4000");
    expect(diskShortage(data)).toMatch(/inodes free/);
    await eventually(async () => {
      const { items } = await rig.client.ok<{ items: Executor[] }>("GET", "/v1/executors");
      return items.find(({ id }) => id === executor.executorId)?.free.disk_mb === 0;
    });
    expect([asked(), (await rig.get(id)).state]).toEqual([0, "queued"]);
    tmpfs("remount,nr_inodes=100000");
    expect((await rig.finished(id)).task).toMatchObject({ state: "succeeded", attempts: 1 });
    expect(await said(/has room again/)()).toBe(true);
    await executor.close();
  } finally {
    execFileSync("umount", ["-l", data]);
  }
});

test("an executor whose disk has become smaller than it was takes what still fits, and burns no try of the rest", async () => {
  const data = join(rig.directory, "data");
  await mkdir(data);
  const tmpfs = (options: string) => execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", data]);
  tmpfs("size=4g");
  try {
    const offered = { cpu_cores: 2, memory_mb: 1024, pids: 600, disk_mb: 3000 };
    const executor = await rig.start({ capacity: offered });
    await eventually(() => rig.requests.includes("POST /v1/leases"));
    tmpfs("remount,size=900m");
    // Granted to the poll that stands, which has offered more.
    const large = await rig.submit({ command: ["true"], resources: { disk_mb: 1024 }, retries: 0 });
    await eventually(() => rig.requests.filter((request) => request.endsWith("/release")).length > 0);
    expect((await rig.sh("echo fits", { resources: { disk_mb: 64 } })).stdout.toString()).toBe("fits\n");
    const released = rig.requests.filter((request) => request.endsWith("/release")).length;
    expect((await rig.sh("echo fits", { resources: { disk_mb: 64 } })).task.attempts).toBe(1);
    expect(await rig.get(large.id)).toMatchObject({ state: "queued", attempts: 0 });
    expect(rig.requests.filter((request) => request.endsWith("/release"))).toHaveLength(released);
    await eventually(async () => {
      const { items } = await rig.client.ok<{ items: Executor[] }>("GET", "/v1/executors");
      const { free, capacity } = items.find(({ id }) => id === executor.executorId)!;
      return free.disk_mb > 0 && free.disk_mb <= 900 - 512 && capacity.disk_mb === offered.disk_mb;
    });
    tmpfs("remount,size=4g");
    expect((await rig.finished(large.id)).task).toMatchObject({ state: "succeeded", attempts: 1 });
    await executor.close();
  } finally {
    execFileSync("umount", ["-l", data]);
  }
});

test("a task whose host has become too small for it while its inputs came is given back unburned", async () => {
  const data = join(rig.directory, "data");
  await mkdir(data);
  const tmpfs = (options: string) => execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", data]);
  tmpfs("size=4g");
  const fetching = Promise.withResolvers<void>();
  const shrunk = Promise.withResolvers<void>();
  try {
    const artifact = await rig.client.upload(Buffer.from("input"));
    const executor = await rig.start({
      fetch: async (request) => {
        if (request.url.includes("/v1/artifacts/")) {
          fetching.resolve();
          await shrunk.promise;
        }
        return rig.fetch(request);
      },
    });
    const { id } = await rig.submit({
      command: ["cat", "/in"],
      inputs: [{ artifact, mount_path: "/in" }],
      resources: { disk_mb: 1024 },
      retries: 0,
    });
    await fetching.promise;
    tmpfs("remount,size=900m");
    shrunk.resolve();
    await eventually(() => rig.events.some(({ type }) => type === "released"));
    // A poll that stood meanwhile may bring it once more.
    await rig.until(id, ({ state, attempts }) => state === "queued" && attempts === 0);
    expect(rig.logged.some(({ message }) => /only \d+ left; its lease is given back/.test(message))).toBe(
      true,
    );
    tmpfs("remount,size=4g");
    const { task, stdout } = await rig.finished(id);
    expect([task.attempts, stdout.toString()]).toEqual([1, "input"]);
    await executor.close();
  } finally {
    execFileSync("umount", ["-l", data]);
  }
});

test("tasks that do not fit together run one after the other, and what was freed is offered at once", async () => {
  await rig.start({ capacity: { cpu_cores: 2, memory_mb: 1024, pids: 600, disk_mb: 4096 } });
  const finished = await Promise.all(
    Array.from({ length: 6 }, () =>
      rig.sh("date +%s%N; sleep 0.3; date +%s%N", { resources: { cpu_cores: 1.5 } }),
    ),
  );
  const spans = finished
    .map(({ stdout }) => stdout.toString().trim().split("\n").map(Number) as [number, number])
    .sort((a, b) => a[0] - b[0]);
  for (let i = 1; i < spans.length; i++) expect(spans[i]![0]).toBeGreaterThanOrEqual(spans[i - 1]![1]);
  for (const { task } of finished) expect(task).toMatchObject({ state: "succeeded", attempts: 1 });
});

test("an executor keeps its id over restarts", async () => {
  const executor = await rig.start();
  await executor.close();
  expect((await rig.start()).executorId).toBe(executor.executorId);
});
