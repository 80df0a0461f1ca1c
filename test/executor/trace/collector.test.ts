/** The way of events from whoever records them to a trace on disk: nothing is lost, and what is written is readable. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import type { Lease } from "#core/wire/leases.ts";
import { DEFAULT_RESOURCES, TaskSpecSchema } from "#core/wire/tasks.ts";
import { EventLog } from "#executor/channel/event-log.ts";
import { Collector } from "#executor/trace/collector.ts";
import { trajectoriesIn } from "#executor/trace/paths.ts";
import { readTrace } from "#test/support/trace-file.ts";
import { cleanUp } from "#trace/node/clean-up.ts";

let directory: string;
let collector: Collector;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "dsec-collector-"));
  collector = await Collector.start();
});
afterEach(async () => {
  await collector.close();
  await rm(directory, { recursive: true, force: true });
});

/** As the gateway grants one. */
function leaseOf(number: number): Lease {
  const id = String(number).padStart(26, "0");
  return {
    lease_id: `lease_${id}`,
    task_id: `task_${id}`,
    key_id: `key_${id}`,
    fence: 1,
    attempt: 1,
    ttl_ms: 30_000,
    expires_at: "2026-01-01T00:00:00.000Z",
    spec: TaskSpecSchema.parse({ command: ["true"], resources: DEFAULT_RESOURCES }),
    spec_digest: `sha256:${"0".repeat(64)}`,
  };
}

const output = (text: string, offset = 0) => ({ stream: "stdout" as const, offset, data: Buffer.from(text) });

test("events of many sandboxes at once, many times what the ring holds, all come to their traces in order", async () => {
  const logs = Array.from({ length: 20 }, (_, n) => EventLog.open(collector, directory, leaseOf(n)));
  const filler = "x".repeat(2_000);
  const each = 2_500;
  for (let i = 0; i < each; i++) {
    for (const [n, log] of logs.entries()) log.append("output", output(`${n} ${i} ${filler}`));
  }
  const traces = await Promise.all(logs.map((log) => log.seal()));
  const counters = collector.counters();
  // 20 opened, 20 ended; how often somebody had to wait is the machine's affair (test/native/ring.test.ts makes it).
  expect(counters).toMatchObject({ produced: 20 * each + 40, collected: 20 * each + 40, lost: 0 });
  expect(counters.producedBytes).toBeGreaterThan(4 * LIMITS.recorderRingBytes);
  for (const [n, trace] of traces.entries()) {
    const { events, chain_head } = await readTrace(await readFile(trace.path));
    expect(chain_head).toBe(logs[n]!.head);
    const said = events.map((event) => (event.type === "output" ? Buffer.from(event.data).toString() : ""));
    expect(said).toEqual(Array.from({ length: each }, (_, i) => `${n} ${i} ${filler}`));
  }
  expect(await trajectoriesIn(directory)).toEqual([]);
});

test("a short recording becomes its trace without a trajectory between, a long one is readable all along", async () => {
  const short = EventLog.open(collector, directory, leaseOf(1));
  short.append("output", output("short"));
  const sealed = await short.seal();
  expect((await readTrace(await readFile(sealed.path))).state).toBe("sealed");
  const long = EventLog.open(collector, directory, leaseOf(2));
  long.append("output", output("first"));
  while (long.recording.flushedBytes === 0) await sleep(5);
  const flushedBytes = long.recording.flushedBytes;
  const live = await readTrace(await readFile(long.recording.trajectoryPath));
  expect([live.state, live.count]).toEqual(["open", 1]);
  long.append("output", output("second", 5));
  while (long.recording.flushedBytes === flushedBytes) await sleep(5);
  long.append("output", output("third", 11));
  const { path, count, size } = await long.seal();
  const whole = await readFile(path);
  expect([count, size]).toEqual([3, whole.length]);
  expect((await readTrace(whole)).chain_head).toBe(long.head);
  expect(path).toMatch(/\/\d{4}-\d\d-\d\d\/task_0+2-1-lease_0+2\.trace$/);
});

test("wall time follows a clock that is set, and monotonic time does not", async () => {
  const log = EventLog.open(collector, directory, leaseOf(1));
  const real = Date.now;
  log.append("output", output("before"));
  Date.now = () => real() + 3_600_000;
  await sleep(5);
  log.append("output", output("after"));
  Date.now = real;
  const { events } = await readTrace(await readFile((await log.seal()).path));
  const [before, after] = events;
  expect(after!.t_us - before!.t_us).toBeLessThan(60_000_000);
  expect(after!.wall_us - before!.wall_us).toBeGreaterThan(3_500_000_000);
});

test("on a full disk the recording fails with the way out, and its file is whole up to there", async () => {
  const disk = join(directory, "disk");
  await mkdir(disk);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=512k", "tmpfs", disk]);
  try {
    const log = EventLog.open(collector, disk, leaseOf(1));
    const failed = log.failed.catch((error: Error) => error.message);
    const noise = () => Buffer.from(Array.from({ length: 32_768 }, () => Math.floor(Math.random() * 256)));
    let appended = 0;
    while (log.recording.failure === null) {
      log.append("output", { stream: "stdout", offset: 0, data: noise() });
      appended++;
      await sleep(1);
    }
    expect(await failed).toMatch(
      /the event log cannot be written: .*\.traj cannot be written: ENOSPC.*free space/,
    );
    expect(() => log.checkRoom()).toThrow("ENOSPC");
    await expect(log.seal()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    const [trajectory] = await trajectoriesIn(disk);
    const { count, state } = await readTrace(await readFile(trajectory!));
    expect(state).toBe("open");
    expect(count).toBeGreaterThan(0);
    expect(count).toBeLessThan(appended);
    // Another recording, where there is room, goes on.
    const other = EventLog.open(collector, directory, leaseOf(2));
    other.append("output", output("fine"));
    expect((await other.seal()).count).toBe(1);
  } finally {
    execFileSync("umount", [disk]);
  }
});

test("a recording whose file is taken fails, as making its trace does, and does not touch it", async () => {
  const { recording } = EventLog.open(collector, directory, leaseOf(1));
  const taken = recording.trajectoryPath;
  const contentOf = () => readFile(taken).catch(() => Buffer.of());
  while ((await contentOf()).length === 0) await sleep(1);
  const before = await contentOf();
  const log = EventLog.open(collector, directory, leaseOf(1));
  await expect(log.failed).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  await expect(log.seal()).rejects.toThrow(/cannot be written: .*\.traj exists already/);
  expect(await readFile(taken)).toEqual(before);
});

test("once a recording is being sealed nothing is recorded in it, nor in the one that has its place", async () => {
  const ended = EventLog.open(collector, directory, leaseOf(1));
  ended.append("output", output("before"));
  await ended.recording.flush();
  const sealing = ended.seal();
  const refused = expect.objectContaining({
    code: "STORE_UNAVAILABLE",
    message: expect.stringContaining("is being sealed"),
  });
  expect(() => ended.append("output", output("while it is sealed"))).toThrow(refused);
  expect((await sealing).count).toBe(1);
  const flushedBytes = ended.recording.flushedBytes;
  const next = EventLog.open(collector, directory, leaseOf(2));
  expect(() => ended.append("output", output("into another's trace"))).toThrow(refused);
  for (let i = 0; i < 100; i++) next.append("output", output(`its own ${i}`));
  await next.recording.flush();
  expect(ended.recording.flushedBytes).toBe(flushedBytes);
  expect(next.recording.flushedBytes).toBeGreaterThan(flushedBytes);
  const { path, count } = await next.seal();
  expect(count).toBe(100);
  expect((await readFile(path)).includes("another")).toBe(false);
  expect(await ended.seal()).toEqual(await sealing);
});

test("what is recorded after the day's folder was removed comes to its trace", async () => {
  await EventLog.open(collector, directory, leaseOf(1)).seal();
  for (const day of await readdir(directory)) await rm(join(directory, day), { recursive: true });
  expect(await EventLog.open(collector, directory, leaseOf(2)).seal()).toMatchObject({ count: 0 });
});

test("a trajectory stays as new as its recorder while nothing happens, so that a clean-up leaves it", async () => {
  // An hour in three seconds, for the recorder's thread too.
  const clock =
    "const [now, start] = [Date.now, Date.now()]; Date.now = () => start + (now() - start) * 1200;";
  const program = `
    import { Collector } from "#executor/trace/collector.ts";
    import { EventLog } from "#executor/channel/event-log.ts";
    const log = EventLog.open(await Collector.start(), ${JSON.stringify(directory)}, ${JSON.stringify(leaseOf(7))});
    log.append("output", { stream: "stdout", offset: 0, data: Buffer.from("first") });
    setInterval(() => log.recording.flushedBytes > 0 && console.log(Date.now()), 10);`;
  const file = join(process.cwd(), "build", `silent-${process.pid}.ts`);
  await writeFile(file, program);
  const env = { ...process.env, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(clock)}` };
  const child = spawn(process.execPath, [file], { stdio: ["ignore", "pipe", "inherit"], env });
  const ended = once(child, "exit");
  try {
    let begunMs = 0;
    let nowMs = 0;
    for await (const line of createInterface(child.stdout)) {
      nowMs = Number(line);
      begunMs ||= nowMs;
      if (nowMs - begunMs > 1.5 * LIMITS.cleanUpLiveMs) break;
    }
    const rule = { beforeMs: null, keepLast: 0, dryRun: false };
    const { deleted, skipped } = cleanUp(directory, rule, nowMs);
    expect([deleted, skipped.length]).toEqual([[], 1]);
  } finally {
    child.kill("SIGKILL");
    await ended;
    await rm(file);
  }
});

test("a short recording, too, has a trace's name once it is on disk, and loses its own once that name is", async () => {
  const told = `
    import { syncBuiltinESMExports } from "node:module";
    import fs from "node:fs";
    for (const name of ["fsyncSync", "linkSync", "rmSync", "unlinkSync"]) {
      const call = fs[name];
      fs[name] = (on, ...rest) => {
        const path = typeof on === "number" ? fs.readlinkSync("/proc/self/fd/" + on) : on;
        fs.writeSync(1, name + " " + path + "\\n");
        return call(on, ...rest);
      };
    }
    syncBuiltinESMExports();`;
  const program = `
    import { Collector } from "#executor/trace/collector.ts";
    import { EventLog } from "#executor/channel/event-log.ts";
    const collector = await Collector.start();
    const log = EventLog.open(collector, ${JSON.stringify(directory)}, ${JSON.stringify(leaseOf(7))});
    log.append("output", { stream: "stdout", offset: 0, data: Buffer.from("short") });
    console.log("sealed " + (await log.seal()).path);
    await collector.close();`;
  const file = join(process.cwd(), "build", `synced-${process.pid}.ts`);
  await writeFile(file, program);
  try {
    const env = { ...process.env, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(told)}` };
    const lines = execFileSync(process.execPath, [file], { env, encoding: "utf8" }).trim().split("\n");
    const trace = lines.at(-1)!.replace("sealed ", "");
    const trajectory = trace.replace(/\.trace$/, ".traj");
    expect(lines).toEqual([
      `fsyncSync ${trajectory}`,
      `linkSync ${trajectory}`,
      `fsyncSync ${dirname(trace)}`,
      `rmSync ${trajectory}`,
      `sealed ${trace}`,
    ]);
  } finally {
    await rm(file);
  }
});

test("after SIGKILL a trajectory is readable to its last whole flush, and is sealed by the next life", async () => {
  const program = `
    import { Collector } from "#executor/trace/collector.ts";
    import { EventLog } from "#executor/channel/event-log.ts";
    const log = EventLog.open(await Collector.start(), ${JSON.stringify(directory)}, ${JSON.stringify(leaseOf(7))});
    for (let i = 0; ; i++) {
      log.append("output", { stream: "stdout", offset: i, data: Buffer.from("event " + i) });
      if (i % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      if (i % 500 === 0 && log.recording.flushedBytes > 0) console.log(log.recording.flushedBytes);
    }`;
  const file = join(process.cwd(), "build", `killed-${process.pid}.ts`);
  await writeFile(file, program);
  try {
    const child = spawn(process.execPath, [file], { stdio: ["ignore", "pipe", "inherit"] });
    let flushedBytes = 0;
    for await (const line of createInterface(child.stdout)) {
      flushedBytes = Number(line);
      if (flushedBytes > 20_000) break;
    }
    child.kill("SIGKILL");
    await once(child, "exit");
    const [trajectory, ...others] = await trajectoriesIn(directory);
    expect(others).toEqual([]);
    const bytes = await readFile(trajectory!);
    expect(bytes.length).toBeGreaterThanOrEqual(flushedBytes);
    const left = await readTrace(bytes);
    expect(left.state).toBe("open");
    const said = left.events.map((event) =>
      event.type === "output" ? Buffer.from(event.data).toString() : "",
    );
    expect(said).toEqual(said.map((_, i) => `event ${i}`));
    const sealed = await collector.sealLeft(trajectory!);
    expect(sealed).toMatchObject({ count: left.count, chain_head: left.chain_head });
    const names = await readdir(join(trajectory!, ".."));
    expect(names).toEqual([trajectory!.split("/").at(-1)!.replace(".traj", ".trace")]);
  } finally {
    await rm(file);
  }
});

test("what a killed life left of no use to anybody is gone after the next, and its trace stays", async () => {
  const { path } = await EventLog.open(collector, directory, leaseOf(1)).seal();
  const trace = await readFile(path);
  const trajectory = path.replace(/\.trace$/, ".traj");
  // Killed before the first flush, and between the trace and the removal of what it was made of.
  for (const [left, content] of [
    [trajectory.replace("lease", "other"), ""],
    [trajectory, trace],
  ] as const) {
    await writeFile(left, content);
    expect(await collector.sealLeft(left)).toBeNull();
  }
  // Killed while it made the trace; that of another attempt is being made.
  const unfinished = (of: string) => join(dirname(of), `.${basename(of)}.0123456789ab.tmp`);
  const other = unfinished(path.replace(/\.trace$/, "x.trace"));
  for (const left of [unfinished(path), other, trajectory]) await writeFile(left, "");
  expect(await collector.sealLeft(trajectory)).toBeNull();
  expect((await readdir(dirname(path))).sort()).toEqual([basename(other), basename(path)]);
  expect(await trajectoriesIn(directory)).toEqual([]);
  expect(await readFile(path)).toEqual(trace);
});

test("a collector that has ended takes nothing, and says so", async () => {
  const log = EventLog.open(collector, directory, leaseOf(1));
  log.append("output", output("before"));
  await collector.close();
  expect(() => log.append("output", output("after"))).toThrow("the collector has ended");
  const [trajectory] = await trajectoriesIn(directory);
  expect((await readTrace(await readFile(trajectory!))).count).toBe(1);
});
