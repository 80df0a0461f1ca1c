import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { leastMs } from "#test/support/least-ms.ts";
import {
  cgroupPrefixOf,
  cgroupsOf,
  NATIVE_PROGRAMS,
  plan,
  run,
  runKept,
  shell,
  type TestLauncher,
  testLauncher,
} from "./sandboxes.ts";

const MIB = 1 << 20;

let host: TestLauncher;
beforeAll(async () => {
  host = await testLauncher();
});
afterAll(() => host[Symbol.asyncDispose]());

/** Touches this much memory, a page at a time. */
const allocate = (mib: number): string[] => [
  "python3",
  "-c",
  `b = bytearray(${mib} << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint("allocated")`,
];

describe("limits are the kernel's, and are read back from it", () => {
  test("the observation tells what the cgroup files hold", async () => {
    const limits = { cpuMillis: 1500, memoryBytes: 300 * MIB, pids: 40, diskIops: 123 };
    const sandbox = await host.launcher.launch(plan(["sleep", "60"], { limits }));
    expect(sandbox.observation.limits).toEqual(limits);
    const paths = cgroupsOf(cgroupPrefixOf(host.stateDirectory)).filter((path) => path.endsWith(sandbox.id));
    const members = paths.map((path) => readFileSync(join(path, "cgroup.procs"), "utf8").split("\n"));
    // init and its command are in every one of them
    for (const pids of members) expect(pids).toContain(String(sandbox.pid));
    expect(paths.length).toBeGreaterThanOrEqual(1);
    if (sandbox.observation.cgroup === "v1") {
      const iops = paths
        .map((path) => join(path, "blkio.throttle.write_iops_device"))
        .find((path) => path.includes("/blkio/"));
      expect(readFileSync(iops!, "utf8")).toMatch(/^\d+:\d+ 123\n$/);
    } else {
      const [path, ...more] = paths;
      expect(more).toEqual([]);
      expect(readFileSync(join(path!, "io.max"), "utf8")).toMatch(/ riops=123 wiops=123\n$/);
      expect(readFileSync(join(path!, "memory.max"), "utf8")).toBe(`${300 * MIB}\n`);
      expect(readFileSync(join(path!, "cpu.max"), "utf8")).toBe("150000 100000\n");
      expect(readFileSync(join(path!, "pids.max"), "utf8")).toBe("40\n");
    }
    await sandbox.destroy();
  });

  test("no IOPS limit is no limit, and is told as none", async () => {
    const { sandbox } = await run(host.launcher, ["true"], { limits: { diskIops: 0 } });
    expect(sandbox.observation.limits.diskIops).toBeNull();
  });
});

describe("memory (B07)", () => {
  test("past the limit the cause is out of memory, told by the kernel's counter", async () => {
    const { end, stdout } = await run(host.launcher, allocate(200), { limits: { memoryBytes: 64 * MIB } });
    expect(end).toMatchObject({ reason: "oom_killed", exitCode: null, signal: 9 });
    expect(stdout.toString()).toBe("");
    expect(end.usage.memoryPeakBytes).toBeGreaterThan(48 * MIB);
    expect(end.usage.memoryPeakBytes).toBeLessThanOrEqual(64 * MIB);
  });

  test("below the limit nothing happens", async () => {
    const { end, stdout } = await run(host.launcher, allocate(40), { limits: { memoryBytes: 96 * MIB } });
    expect([end.reason, end.exitCode, stdout.toString()]).toEqual(["exited", 0, "allocated\n"]);
  });

  test("a deadline is not out of memory, and a kill -9 of its own is neither", async () => {
    const timedOut = await run(host.launcher, shell("trap '' TERM; sleep 60"), { timeoutMs: 300 });
    expect(timedOut.end.reason).toBe("timed_out");
    const killed = await run(host.launcher, shell("kill -9 $$"));
    expect(killed.end).toMatchObject({ reason: "signaled", signal: 9 });
  });

  test("a child that ran out of memory while the command went on is the command's to judge", async () => {
    const script = `python3 -c 'b = bytearray(200 << 20)
for i in range(0, len(b), 4096): b[i] = 1'; echo child ended with $?; exit 3`;
    const { end, stdout } = await run(host.launcher, shell(script), { limits: { memoryBytes: 64 * MIB } });
    expect([end.reason, end.exitCode]).toEqual(["exited", 3]);
    expect(stdout.toString()).toContain("child ended with 137");
  });

  test("too little even for init ends that sandbox and no other", async () => {
    for (const memoryBytes of [1, 4096, 65_536, 262_144, MIB]) {
      const outcome = await run(host.launcher, ["true"], { limits: { memoryBytes } }).catch(
        (error: Error) => error,
      );
      if (!(outcome instanceof Error)) expect(["oom_killed", "exited"]).toContain(outcome.end.reason);
    }
    expect((await run(host.launcher, ["true"])).end.exitCode).toBe(0);
  });

  test("files in /dev/shm count as memory", async () => {
    const { end } = await run(host.launcher, ["dd", "if=/dev/zero", "of=/dev/shm/f", "bs=1M", "count=60"], {
      limits: { memoryBytes: 32 * MIB },
    });
    expect(end.exitCode).not.toBe(0);
  });
});

describe("processes", () => {
  test("a fork bomb stays within its number", async () => {
    const script = "bomb() { bomb | bomb & }; bomb; sleep 2; echo alive";
    const { end } = await run(host.launcher, shell(script), { limits: { pids: 32 }, timeoutMs: 5_000 });
    expect(["exited", "timed_out"]).toContain(end.reason);
  });

  test("exactly the number fits, init among them", async () => {
    const script = `
import os, time
made = 0
try:
    while made < 100:
        if os.fork() == 0: time.sleep(30)
        made += 1
except BlockingIOError:
    pass
print(made)`;
    const { stdout } = await run(host.launcher, ["python3", "-c", script], { limits: { pids: 20 } });
    expect(Number(stdout.toString())).toBe(18);
  });
});

test("a CPU quota holds: half a core takes about two seconds for one second's work", async () => {
  const work = ["python3", "-c", "import time\nwhile time.process_time() < 1: pass"];
  const { end } = await run(host.launcher, work, { limits: { cpuMillis: 500 } });
  expect(end.runUs).toBeGreaterThan(1_600_000);
  expect(end.usage.cpuUs).toBeGreaterThan(950_000);
  // what it used over the time it took is not above the quota by more than a period's grace
  expect(end.usage.cpuUs / end.runUs).toBeLessThan(0.6);
});

test("the least quota does not hold up the launcher", async () => {
  const enoughMs = 2_000;
  const tookMs = await leastMs(enoughMs, async () => {
    const slow = await host.launcher.launch(plan(["sleep", "60"], { limits: { cpuMillis: 10 } }));
    const startedMs = performance.now();
    await run(host.launcher, ["true"]);
    const endedMs = performance.now();
    await slow.destroy();
    return endedMs - startedMs;
  });
  expect(tookMs).toBeLessThan(enoughMs);
});

test("direct disk operations are held to their number a second", async () => {
  const script = "dd if=/dev/zero of=/work/f bs=4k count=100 oflag=direct 2>/dev/null";
  const { end } = await run(host.launcher, shell(script), { limits: { diskIops: 50 } });
  expect(end.exitCode).toBe(0);
  // 100 operations at 50 a second; the throttle may let the first slice through at once
  expect(end.runUs).toBeGreaterThan(1_000_000);
});

describe("the writable layer has a bound", () => {
  test.each([
    ["one large file", "head -c 300M /dev/zero > /work/f; sleep 30"],
    ["many files", "for i in $(seq 300); do head -c 1M /dev/zero > /work/f$i; done; sleep 30"],
    [
      "a file that was unlinked while open",
      "exec 3>/work/f; rm /work/f; head -c 300M /dev/zero >&3; sleep 30",
    ],
    [
      "an unlinked file whose path looks like memory's",
      "mkdir /memfd:x; exec 3>/memfd:x/f; rm /memfd:x/f; head -c 300M /dev/zero >&3; sleep 30",
    ],
    [
      "an unlinked file that only a thread's own table holds, the first thread having ended",
      `exec python3 -c '
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
def hold():
    libc.close_range(1000, 1000, 2)  # CLOSE_RANGE_UNSHARE
    f = os.open("/work/f", os.O_WRONLY | os.O_CREAT)
    os.unlink("/work/f")
    for _ in range(300): os.write(f, bytes(1 << 20))
    time.sleep(30)
threading.Thread(target=hold).start()
libc.pthread_exit(None)'`,
    ],
    ["room that was only set aside", "fallocate -l 300M /work/f; sleep 30"],
  ])("%s past it ends the sandbox, which says so", async (_, script) => {
    const { end } = await run(host.launcher, shell(script), { limits: { diskBytes: 64 * MIB } });
    expect(end).toMatchObject({ reason: "disk_full", exitCode: null, signal: 9 });
  });

  test("below it nothing happens, and a sparse file counts for what it holds", async () => {
    const script = "truncate -s 10G /work/sparse; head -c 16M /dev/zero > /work/f; sleep 1; echo fine";
    const { end, stdout } = await run(host.launcher, shell(script), { limits: { diskBytes: 64 * MIB } });
    expect([end.reason, stdout.toString()]).toEqual(["exited", "fine\n"]);
  });

  test("what a full sandbox wrote before is still there to be read", async () => {
    const { sandbox, end } = await runKept(
      host.launcher,
      shell("echo early > /work/a; head -c 300M /dev/zero > /work/f; sleep 30"),
      {
        limits: { diskBytes: 64 * MIB },
      },
    );
    expect(end.reason).toBe("disk_full");
    expect([...sandbox.listOutput(Buffer.from("/work"))].flat().length).toBe(2);
    await sandbox.destroy();
  });
});

test("both cgroup versions: names of files and forms of values", () => {
  const folder = mkdtempSync(join(tmpdir(), "dsec-cgroup-"));
  execFileSync(join(NATIVE_PROGRAMS, "cgroup_interface_test"), [folder], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  rmSync(folder, { recursive: true });
});
