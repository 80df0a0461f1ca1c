/** The executor as a process of its own, over HTTP, that is killed and suspended from outside. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { openIdentity } from "#executor/identity.ts";
import { type RunningGateway, startGateway } from "#gateway/node/server.ts";
import { ISSUER, openTestGateway, type TestGateway } from "#test/gateway/gateway-under-test.ts";
import { readTrace } from "#test/support/trace-file.ts";
import type { TraceEvent } from "#trace/events/event.ts";
import { eventually, Rig } from "./executor-under-test.ts";
import { cgroupsWith, mountsWith, processesOf, processesWith } from "./host.ts";

let gateway: TestGateway;
let server: RunningGateway;
let rig: Rig;
let data: string;
const children: ChildProcess[] = [];

beforeAll(async () => {
  gateway = await openTestGateway();
  server = await startGateway({ ports: gateway.ports, host: "127.0.0.1", port: 0 });
});
afterAll(async () => {
  await server?.close();
  await gateway?.close();
});
beforeEach(async () => {
  rig = await Rig.open(gateway);
  data = await mkdtemp(join(tmpdir(), "dsec-crash-"));
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill("SIGCONT");
    // The first asks it to drain, the others to end sooner: whichever it is, nothing of its sandboxes stays.
    while (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGTERM");
      await sleep(100);
    }
  }
  await rig?.[Symbol.asyncDispose]();
  await rm(data, { recursive: true, force: true });
});

/** `dsec executor` over the data folder; resolves once it pulls. */
async function startProcess(gatewayUrl = server.url): Promise<{ child: ChildProcess; executorId: string }> {
  const child = spawn(
    process.execPath,
    ["cli/main.ts", "executor", "--gateway", gatewayUrl, "--data", data],
    {
      env: { ...process.env, DSEC_TOKEN: rig.token },
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  children.push(child);
  const lines: string[] = [];
  for await (const line of createInterface(child.stderr!)) {
    lines.push(line);
    const executorId = /executor (exec_\S+) pulls/.exec(line)?.[1];
    if (executorId === undefined) continue;
    child.stderr!.resume();
    return { child, executorId };
  }
  throw new Error(`the executor ended before it pulled:\n${lines.join("\n")}`);
}

const outputBegan = async (taskId: string) =>
  (await gateway.store.listEvents(taskId as never, 0, 1000)).some((event) => event.type === "stdout");

const withoutMemory = (events: TraceEvent[]) => events.filter(({ type }) => !type.startsWith("memory_"));

/** Everything on this host that carries the data folder's name or one of the leases'. */
async function leftovers(leaseIds: string[]): Promise<string[]> {
  const found = [...(await mountsWith(data))];
  for (const id of leaseIds) found.push(...(await cgroupsWith(id)));
  for (const folder of ["attempts", "launcher"]) {
    const names = await readdir(join(data, "executor", folder)).catch(() => []);
    found.push(...names.filter((name) => leaseIds.some((id) => name.includes(id))));
  }
  return found;
}

test("after SIGKILL every process dies at once, and the next life leaves nothing of the last, while each task ends once", async () => {
  const { child } = await startProcess();
  const marker = "65432.1";
  // The first attempt ends by the kill alone; what it remembers tells the second that it is one.
  const script = `dsec-tool memory get second > /dev/null 2>&1; first=$?
    [ $first = 0 ] || dsec-tool memory set second true > /dev/null
    echo begun; (setsid sleep ${marker} &); [ $first = 0 ] || sleep 600; echo ended; echo file > out`;
  const tasks = await Promise.all(
    Array.from({ length: 4 }, () =>
      rig.submit({
        command: ["sh", "-c", script],
        outputs: ["out"],
        resources: { cpu_cores: 0.25, memory_mb: 64 },
      }),
    ),
  );
  for (const { id } of tasks) await eventually(() => outputBegan(id));
  const leaseIds = (await readdir(join(data, "executor/attempts"))).map((name) => name.replace(/_\d+$/, ""));
  expect(leaseIds).toHaveLength(4);
  const traces = join(data, "executor/traces");
  const recordings = async () =>
    (await readdir(traces, { recursive: true })).filter((name) => /lease_/.test(name)).sort();
  const readRecording = async (name: string) => readTrace(await readFile(join(traces, name)));
  await eventually(async () => (await recordings()).length === leaseIds.length);
  expect(await recordings()).toEqual(leaseIds.map(() => expect.stringMatching(/\.traj$/)));
  // It has no beginning yet in the moment after its file was made.
  const printed = async (name: string) =>
    (await readRecording(name).catch(() => null))?.events.some(({ type }) => type === "output") ?? false;
  for (const name of await recordings()) await eventually(() => printed(name));
  child.kill("SIGKILL");
  await once(child, "exit");
  await eventually(async () => (await processesOf(`sleep ${marker}`)).length === 0);
  await eventually(async () => (await processesWith(join(data, "executor"))).length === 0);

  await startProcess();
  // Recovery runs beside the first poll.
  await eventually(async () => (await leftovers(leaseIds)).length === 0);
  const ofLast = (await recordings()).filter((name) => leaseIds.some((id) => name.includes(id)));
  expect(ofLast).toEqual(leaseIds.map(() => expect.stringMatching(/\.trace$/)));
  for (const name of ofLast) {
    const { state, events } = await readRecording(name);
    expect(state).toBe("sealed");
    expect(withoutMemory(events)).toMatchObject([{ type: "process", state: "exec" }, { type: "output" }]);
  }
  for (const { id } of tasks) {
    const { task, stdout, output, attestations } = await rig.finished(id);
    expect(task).toMatchObject({ state: "succeeded", attempts: 2, fence: 2 });
    expect(stdout.toString()).toBe("begun\nended\n");
    expect((await output("/work/out")).toString()).toBe("file\n");
    expect(attestations.filter(({ fence }) => fence === 2)).toHaveLength(1);
    const finals = (await gateway.store.listEvents(id as never, 0, 1000)).filter(
      (event) => event.type === "state" && event.state === "succeeded",
    );
    expect(finals).toHaveLength(1);
    // The next life has sent on what the killed one recorded, so that whoever asks later knows what happened.
    const first = await rig.client.send("GET", `/v1/tasks/${id}/trace?attempt=1`);
    const { state, events } = await readTrace(new Uint8Array(await first.arrayBuffer()));
    expect([state, withoutMemory(events)]).toMatchObject(["open", [{ type: "process" }, { type: "output" }]]);
  }
});

test("an executor that was suspended while its task ran elsewhere writes nothing when it wakes (B52)", async () => {
  const { child, executorId } = await startProcess();
  const marker = "65432.2";
  // The first attempt goes on for as long as nobody tells it to end, which is told to the second one alone.
  const script = `(sleep ${marker} &)
    (until [ -s told ]; do dsec-tool observe --wait 20000 > told; done; echo > end) &
    until [ -e end ]; do echo tick; sleep 0.05; done`;
  // More than half of the host, so that the suspended executor's open poll cannot be granted it a second time.
  const resources = { cpu_cores: 0.75 * availableParallelism() };
  const { id } = await rig.submit({ command: ["sh", "-c", script], resources });
  await eventually(() => outputBegan(id));
  const [folder] = await readdir(join(data, "executor/attempts"));
  child.kill("SIGSTOP");
  // Its lease is given up in its name, as the database does when the time is over.
  const identity = await openIdentity(join(data, "executor"));
  const token = identity.token(executorId, ISSUER, gateway.clock.nowMs);
  const response = await gateway.fetch(`/v1/leases/${folder!.replace(/_\d+$/, "")}/release`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ fence: 1 }),
  });
  expect(response.status).toBe(200);
  const stdoutOf = async (fence: number) =>
    (await gateway.store.listEvents(id as never, 0, 10_000)).filter(
      (event) => event.type === "stdout" && event.fence === fence,
    );
  const before = await stdoutOf(1);
  const second = await rig.start();
  await rig.until(id, ({ fence, state }) => fence === 2 && state === "running");
  await rig.client.ok("POST", `/v1/tasks/${id}/observations`, { content: "end" });
  const { task, stdout, attestations } = await rig.finished(id);
  child.kill("SIGCONT");
  await eventually(async () => (await readdir(join(data, "executor/attempts"))).length === 0);
  await eventually(async () => (await processesOf(`sleep ${marker}`)).length === 0);
  await eventually(async () => (await leftovers([folder!])).length === 0);

  expect(task).toMatchObject({ state: "succeeded", fence: 2, executor_id: second.executorId });
  expect(stdout.toString()).toMatch(/^(tick\n)+$/);
  expect(await stdoutOf(1)).toEqual(before);
  expect(attestations.map(({ fence }) => fence)).toEqual([2]);
  expect(await rig.get(id)).toEqual(task);
});

test("the first SIGTERM drains and the process ends by itself with status 0", async () => {
  const { child } = await startProcess();
  const { id } = await rig.submit({ command: ["sh", "-c", "echo begun; sleep 1; echo ended"] });
  await eventually(() => outputBegan(id));
  child.kill("SIGTERM");
  const [code] = await once(child, "exit");
  expect(code).toBe(0);
  expect((await rig.finished(id)).stdout.toString()).toBe("begun\nended\n");
  expect(await processesWith(join(data, "executor"))).toEqual([]);
});

test("a SIGTERM to every process of the executor drains as well", async () => {
  const { child } = await startProcess();
  const { id } = await rig.submit({ command: ["sh", "-c", "echo begun; sleep 1; echo ended"], retries: 0 });
  await eventually(() => outputBegan(id));
  const processes = await processesWith(join(data, "executor"));
  expect(processes.length).toBe(3); // the launcher and its helpers
  for (const pid of [...processes, child.pid!]) process.kill(pid, "SIGTERM");
  const [code] = await once(child, "exit");
  expect(code).toBe(0);
  const { task, stdout } = await rig.finished(id);
  expect([task.state, stdout.toString()]).toEqual(["succeeded", "begun\nended\n"]);
  expect(await processesWith(join(data, "executor"))).toEqual([]);
});

/** Sends SIGTERM and waits until the executor says that it has heard it. */
async function terminate(child: ChildProcess, answer: RegExp): Promise<void> {
  let said = "";
  const listener = (chunk: Buffer) => {
    said += chunk;
  };
  child.stderr!.on("data", listener);
  child.kill("SIGTERM");
  await eventually(() => answer.test(said));
  child.stderr!.off("data", listener);
}

test("the second SIGTERM ends what runs and gives it back unburned", async () => {
  const { child } = await startProcess();
  const marker = "65432.3";
  const { id } = await rig.submit({ command: ["sh", "-c", `echo begun; sleep ${marker}`], retries: 0 });
  await eventually(() => outputBegan(id));
  const exit = once(child, "exit");
  await terminate(child, /SIGTERM: draining/);
  child.kill("SIGTERM");
  expect(await exit).toEqual([0, null]);
  expect(await rig.get(id)).toMatchObject({ state: "queued", attempts: 0 });
  expect(await processesOf(`sleep ${marker}`)).toEqual([]);
  expect(await processesWith(join(data, "executor"))).toEqual([]);
});

test("the third SIGTERM does not wait for a gateway that is away", async () => {
  const own = await startGateway({ ports: gateway.ports, host: "127.0.0.1", port: 0 });
  const { child } = await startProcess(own.url);
  const { id } = await rig.submit({ command: ["sh", "-c", "echo begun; sleep 600"] });
  await eventually(() => outputBegan(id));
  await own.close();
  const exit = once(child, "exit");
  await terminate(child, /SIGTERM: draining/);
  await terminate(child, /SIGTERM: giving the leases back/);
  child.kill("SIGTERM");
  expect(await exit).toEqual([143, null]);
});
