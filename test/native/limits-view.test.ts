import { existsSync, readFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  cgroupPrefixOf,
  cgroupsOf,
  plan,
  run,
  runKept,
  SLOWNESS,
  shell,
  type TestLauncher,
  testLauncher,
} from "./sandboxes.ts";

const MIB = 1 << 20;
/** Where the command sees its group for a controller, under either version. */
const GROUP =
  '$(test -e /sys/fs/cgroup/cgroup.controllers && echo /sys/fs/cgroup || echo "/sys/fs/cgroup/$1")';
const group = `group() { echo ${GROUP}; };`;

let host: TestLauncher;
beforeAll(async () => {
  host = await testLauncher();
});
afterAll(() => host[Symbol.asyncDispose]());

async function answer(argv: string[], limits = {}): Promise<string> {
  const { stdout, stderr, end } = await run(host.launcher, argv, { limits });
  expect([stderr.toString(), end.reason, end.exitCode]).toEqual(["", "exited", 0]);
  return stdout.toString();
}

describe("programs see as many processors as the limit allows, rounded up", () => {
  const python = `
import os
from multiprocessing import cpu_count
print(os.cpu_count(), cpu_count(), len(os.sched_getaffinity(0)))
print(os.sysconf("SC_NPROCESSORS_ONLN"), open("/proc/cpuinfo").read().count("processor\\t:"))
print(sum(line[:3] == "cpu" and line[3] != " " for line in open("/proc/stat")))`;

  test.each([300, 1000, 1001, 2000])("%i thousandths of one", async (cpuMillis) => {
    const count = Math.min(Math.ceil(cpuMillis / 1000), availableParallelism());
    expect(await answer(["nproc"], { cpuMillis })).toBe(`${count}\n`);
    const words = (await answer(["python3", "-c", python], { cpuMillis })).trim().split(/\s+/);
    expect(words).toEqual(Array(6).fill(`${count}`));
  });

  test("the files name the processors that the command may run on, each with its number", async () => {
    const script = `
import os
def numbers(text):
    spans = [part.split("-") for part in text.strip().split(",")]
    return [n for span in spans for n in range(int(span[0]), int(span[-1]) + 1)]
mine = sorted(os.sched_getaffinity(0))
cpu = "/sys/devices/system/cpu/"
for name in ("online", "present"): assert numbers(open(cpu + name).read()) == mine, name
# whoever keeps a table by processor number makes it this long
possible = numbers(open(cpu + "possible").read())
assert possible == list(range(mine[-1] + 1)), possible
assert sorted(name for name in os.listdir(cpu) if name[3:].isdigit()) == sorted(f"cpu{n}" for n in possible)
listed = [int(line.split(":")[1]) for line in open("/proc/cpuinfo") if line.startswith("processor")]
assert listed == mine, listed
assert "model name" in open("/proc/cpuinfo").read() or os.uname().machine != "x86_64"
print("agreed")`;
    for (const cpuMillis of [1000, 2000]) {
      expect(await answer(["python3", "-c", script], { cpuMillis })).toBe("agreed\n");
    }
  });

  test("neighbours are spread over the host's processors, and make room when they end", async () => {
    const affinity = (pid: number) =>
      /^Cpus_allowed_list:\t(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]!;
    const launch = () => host.launcher.launch(plan(["sleep", "600"], { limits: { cpuMillis: 1000 } }));
    const first = await launch();
    const second = await launch();
    const whereFirst = affinity(first.pid);
    const whereSecond = affinity(second.pid);
    if (availableParallelism() > 1) expect(whereSecond).not.toBe(whereFirst);
    await first.destroy();
    const third = await launch();
    expect(affinity(third.pid)).toBe(whereFirst);
    await Promise.all([second.destroy(), third.destroy()]);
  });
});

describe("programs see as much memory as the limit allows", () => {
  test("free and /proc/meminfo: all of it, no swap, and nothing of the host's", async () => {
    const [, memory, swap] = (await answer(["free", "-b"], { memoryBytes: 300 * MIB })).split("\n");
    expect(memory!.split(/\s+/).slice(1)).toEqual([300 * MIB, 0, 300 * MIB, 0, 0, 300 * MIB].map(String));
    expect(swap!.split(/\s+/).slice(1)).toEqual(["0", "0", "0"]);
    const names = (text: string) => text.match(/^\S+:/gm);
    const meminfo = await answer(["cat", "/proc/meminfo"], { memoryBytes: 300 * MIB });
    expect(names(meminfo)).toEqual(names(readFileSync("/proc/meminfo", "utf8")));
    expect(meminfo).not.toContain(`${totalmem() / 1024} kB`);
  });

  test("a limit above the host's memory shows what the host has", async () => {
    const meminfo = await answer(["cat", "/proc/meminfo"], { memoryBytes: 2 ** 50 });
    expect(meminfo).toMatch(new RegExp(`^MemTotal: +${totalmem() / 1024} kB$`, "m"));
  });

  test("node knows its limit, and what of it is left", async () => {
    const script = `
      const { constrainedMemory, availableMemory } = process;
      const before = availableMemory.call(process);
      globalThis.kept = Buffer.alloc(100 << 20, 1);
      console.log(constrainedMemory.call(process), os.totalmem(), os.cpus().length, os.availableParallelism());
      console.log(before - availableMemory.call(process) > 90 << 20);`;
    const { stdout } = await runNode(script, { cpuMillis: 1000 });
    expect(stdout).toBe(`${512 * MIB} ${512 * MIB} 1 1\ntrue\n`);
  });

  test("java, where the host has it, takes a quarter of the limit for its heap and the limit's processors", async () => {
    const script = `
      if ! command -v java >/dev/null; then echo 134217728 1; exit; fi
      flags=$(java -Xlog:os+container=trace -XX:+PrintFlagsFinal -version 2>&1)
      echo $(echo "$flags" | sed -n 's/.* MaxHeapSize *= *\\([0-9]*\\).*/\\1/p') \
        $(echo "$flags" | sed -n 's/.*OSContainer::active_processor_count: //p' | head -n1)`;
    expect(await answer(shell(script), { cpuMillis: 1000 })).toBe("134217728 1\n");
  });

  test.each([
    ["150 MB of objects", 150, "Array(1 << 17).fill(0.5)"],
    ["300 MB of buffers", 300, "Buffer.alloc(1 << 20, 1)"],
  ])(
    "node that keeps %s lives in 512 MB: it collects its garbage before the kernel would end it",
    async (_, mib, one) => {
      const script = `
      const kept = [];
      for (let i = 0; i < ${mib * 4}; i++) kept[i % ${mib}] = ${one};
      console.log(kept.length);`;
      const { stdout, end } = await runNode(script);
      expect([end.reason, end.exitCode, stdout]).toEqual(["exited", 0, `${mib}\n`]);
    },
  );

  /** With the Node that runs the tests, which the project brings. */
  async function runNode(script: string, limits = {}) {
    const mounts = [{ source: dirname(process.execPath), target: "/opt/node" }];
    const argv = ["/opt/node/node", "-e", script];
    const { stdout, end } = await run(host.launcher, argv, { mounts, limits });
    return { stdout: stdout.toString(), end };
  }
});

describe("/sys/fs/cgroup is the sandbox's own group, as the kernel keeps it", () => {
  test("it tells the limits and, live, what is used", async () => {
    const limits = { cpuMillis: 1500, memoryBytes: 256 * MIB, pids: 37 };
    const script = `${group}
      cd "$(group memory)"; cat memory.max memory.limit_in_bytes 2>/dev/null
      cd "$(group pids)"; cat pids.max pids.current
      cd "$(group cpu)"; cat cpu.max 2>/dev/null || echo $(cat cpu.cfs_quota_us cpu.cfs_period_us)
      cd "$(group memory)"; used() { cat memory.current memory.usage_in_bytes 2>/dev/null; }
      before=$(used); head -c 50M /dev/zero > /dev/shm/f; echo $(( ($(used) - before) >> 20 ))`;
    const lines = (await answer(shell(script), limits)).trim().split("\n");
    expect(lines.slice(0, 2)).toEqual([String(256 * MIB), "37"]);
    // init, the shell, cat
    expect(lines[2]).toBe("3");
    expect(lines[3]).toBe("150000 100000");
    expect(Number(lines[4])).toBeGreaterThanOrEqual(49);
  });

  test("/proc/self/cgroup and the mounts agree: every group is seen at its root", async () => {
    const [membership, mounts] = (
      await answer(shell("cat /proc/self/cgroup; echo --; cat /proc/self/mountinfo"))
    ).split("--\n");
    expect(membership!.match(/^\d+:[^:]*:(?!\/$).*$/gm)).toBeNull();
    const groups = mounts!.split("\n").filter((line) => / - cgroup2? /.test(line));
    expect(groups.length).toBeGreaterThanOrEqual(1);
    for (const line of groups) {
      const [, , , root, place, options] = line.split(" ");
      expect([line, root]).toEqual([line, "/"]);
      expect(place).toMatch(/^\/sys\/fs\/cgroup/);
      expect(options!.split(",")).toEqual(expect.arrayContaining(["ro", "nosuid", "nodev", "noexec"]));
    }
    const isV2 = groups.some((line) => line.includes(" - cgroup2 "));
    // The type by which libuv, .NET and others tell the versions apart.
    const type = await answer(["stat", "-f", "-c", "%T", "/sys/fs/cgroup"]);
    expect(type).toBe(isV2 ? "cgroup2fs\n" : "tmpfs\n");
  });

  test("nothing in it can be written, and no other group is to be found", async () => {
    const neighbour = await host.launcher.launch(plan(["sleep", "600"]));
    const script = `
import os
written = []
for top in ("/sys", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat"):
    for folder, folders, files in os.walk(top) if os.path.isdir(top) else [("/", [], [top])]:
        for path in [os.path.join(folder, name) for name in files]:
            try: os.close(os.open(path, os.O_WRONLY)); written.append(path)
            except OSError: pass
            try: os.chmod(path, 0o666); written.append(path)
            except OSError: pass
        for attempt in (lambda: os.mkdir(folder + "/made"), lambda: os.mknod(folder + "/file")):
            if folder == "/": break
            try: attempt(); written.append(folder)
            except OSError: pass
print(written)
groups = [folder for folder, _, files in os.walk("/sys/fs/cgroup") if "cgroup.procs" in files]
print([g for g in groups if any(other != g and g.startswith(other + "/") for other in groups)])
print(sorted({int(pid) for g in groups for pid in open(g + "/cgroup.procs").read().split()} - {1, 2}))`;
    expect(await answer(["python3", "-c", script])).toBe("[]\n[]\n[]\n");
    for (const path of cgroupsOf(cgroupPrefixOf(host.stateDirectory))) {
      expect(existsSync(join(path, "made"))).toBe(false);
    }
    await neighbour.destroy();
  });

  test("what is attested comes from the kernel, whatever the sandbox is shown", async () => {
    const limits = { cpuMillis: 1100, memoryBytes: 2 ** 50, pids: 21 };
    const { sandbox } = await run(host.launcher, ["true"], { limits });
    expect(sandbox.observation.limits).toMatchObject({ cpuMillis: 1100, pids: 21 });
    // not what /proc/meminfo in there says, which is bounded by the host's memory
    expect(sandbox.observation.limits.memoryBytes).toBe(2 ** 50);
  });
});

test("a launcher that closes leaves no group behind, its own included", async () => {
  const closed = await testLauncher();
  // without the dash that only names of sandboxes come after
  const name = cgroupPrefixOf(closed.stateDirectory).slice(0, -1);
  const { sandbox } = await runKept(closed.launcher, ["true"]);
  expect(cgroupsOf(name).some((path) => path.endsWith(sandbox.id))).toBe(true);
  await closed[Symbol.asyncDispose]();
  expect(cgroupsOf(name)).toEqual([]);
});

test("many sandboxes of different sizes each see their own", async () => {
  // More than the launcher keeps files for.
  const sizes = Array.from({ length: 300 / SLOWNESS }, (_, index) => (64 + index) * MIB);
  const first = await host.launcher.launch(plan(["sleep", "600"], { limits: { memoryBytes: 63 * MIB } }));
  for (const memoryBytes of sizes) {
    expect(await answer(["head", "-n1", "/proc/meminfo"], { memoryBytes })).toMatch(
      new RegExp(`^MemTotal: +${memoryBytes / 1024} kB\n$`),
    );
  }
  const text = readFileSync(`/proc/${first.pid}/root/proc/meminfo`, "utf8");
  expect(text).toMatch(new RegExp(`^MemTotal: +${63 * 1024} kB$`, "m"));
  await first.destroy();
});
