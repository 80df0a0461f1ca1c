import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  groupOf,
  memoryUsedBytes,
  mountsIn,
  OwnGroups,
  parseCpuQuota,
  parseMemoryLimit,
  pathBelow,
} from "#executor/cgroups.ts";

const MEBIBYTE = 1024 * 1024;

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "dsec-cgroups-"));
});
afterEach(() => {
  rmSync(root, { recursive: true });
});

/** Files by their paths below the test's folder. */
function write(files: Record<string, string | number>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), `${content}\n`);
  }
}

/** A process in these groups (lines of /proc/PID/cgroup) where these parts of hierarchies are mounted. */
function groups(membership: string[], mounts: { root?: string; at: string; v1?: string }[]): OwnGroups {
  const lines = mounts.map(({ root: part = "/", at, v1 }) =>
    v1 === undefined
      ? `29 23 0:25 ${part} ${root}/${at} rw shared:9 - cgroup2 cgroup2 rw,nsdelegate`
      : `30 23 0:26 ${part} ${root}/${at} rw - cgroup cgroup rw,${v1}`,
  );
  write({ "proc/cgroup": membership.join("\n"), "proc/mountinfo": lines.join("\n") });
  return OwnGroups.find(join(root, "proc"));
}

const NONE = { cores: Infinity, memory: Infinity, pids: Infinity };
const roomIn = (own: OwnGroups) => ({ cores: own.cpuCores(), memory: own.memoryMb(), pids: own.pids() });

test("the limits of a unit count for a process that was moved into a group of its own below it", () => {
  const unit = "v2/system.slice/dsec.service";
  write({
    [`${unit}/dsec-supervisor/memory.max`]: "max",
    [`${unit}/dsec-supervisor/cpu.max`]: "max 100000",
    [`${unit}/dsec-supervisor/pids.max`]: "max",
    [`${unit}/memory.max`]: 4096 * MEBIBYTE,
    [`${unit}/memory.current`]: 1000 * MEBIBYTE,
    [`${unit}/memory.stat`]: `anon 5\nactive_file ${100 * MEBIBYTE}\ninactive_file ${200 * MEBIBYTE}`,
    [`${unit}/cpu.max`]: "250000 100000",
    [`${unit}/pids.max`]: 4915,
    [`${unit}/pids.current`]: 15,
  });
  const own = groups(["0::/system.slice/dsec.service/dsec-supervisor"], [{ at: "v2" }]);
  expect(roomIn(own)).toEqual({ cores: 2.5, memory: 4096 - 700, pids: 4900 });
});

test("of all limits above a process the one that leaves least counts, whichever group it is on", () => {
  write({
    "v2/a/b/cpu.max": "300000 100000",
    "v2/a/b/memory.max": 1000 * MEBIBYTE,
    "v2/a/b/memory.current": 0,
    "v2/a/b/pids.max": 100,
    "v2/a/b/pids.current": 1,
    "v2/a/cpu.max": "200000 100000",
    "v2/a/memory.max": 8000 * MEBIBYTE,
    // it slows down what passes it
    "v2/a/memory.high": 5000 * MEBIBYTE,
    "v2/a/memory.current": 4500 * MEBIBYTE,
    "v2/a/pids.max": 1000,
    "v2/a/pids.current": 950,
  });
  const own = groups(["0::/a/b"], [{ at: "v2" }]);
  expect(roomIn(own)).toEqual({ cores: 2, memory: 500, pids: 50 });
  // What changes is seen.
  write({ "v2/a/memory.current": 4990 * MEBIBYTE, "v2/a/pids.current": 2000 });
  expect(roomIn(own)).toEqual({ cores: 2, memory: 10, pids: 0 });
});

test("on version 1 each controller's own hierarchy is looked through, to its top", () => {
  write({
    "memory/s/x/memory.limit_in_bytes": "9223372036854771712",
    "memory/s/memory.limit_in_bytes": 2048 * MEBIBYTE,
    "memory/s/memory.usage_in_bytes": 100 * MEBIBYTE,
    "memory/s/memory.stat": `cache 7\ntotal_active_file ${10 * MEBIBYTE}\ntotal_inactive_file ${40 * MEBIBYTE}`,
    "cpu/y/cpu.cfs_quota_us": -1,
    "cpu/y/cpu.cfs_period_us": 100_000,
    "cpu/cpu.cfs_quota_us": 150_000,
    "cpu/cpu.cfs_period_us": 100_000,
    "pids/p/pids.max": 20,
    "pids/p/pids.current": 4,
  });
  const own = groups(
    ["9:name=systemd:/", "8:pids:/p", "4:memory:/s/x", "1:cpu,cpuacct:/y", "0::/"],
    [
      { at: "v2" },
      { at: "cpu", v1: "cpu,cpuacct" },
      { at: "memory", v1: "memory" },
      { at: "pids", v1: "pids" },
    ],
  );
  expect(roomIn(own)).toEqual({ cores: 1.5, memory: 2048 - 50, pids: 16 });
});

test.each([
  ["the part that holds the group", "/docker/1", "0::/docker/1/inner"],
  ["another part, by which the group is not to be found", "/docker/1", "0::/elsewhere"],
  ["the whole, outside of which the group is", "/", "0::/../other"],
  ["a part above this namespace", "/..", "0::/"],
])("where a container has %s mounted, its top counts", (_, part, membership) => {
  write({
    "v2/memory.max": 512 * MEBIBYTE,
    "v2/memory.current": 0,
    "v2/cpu.max": "50000 100000",
    "v2/pids.max": 10,
    "v2/pids.current": 3,
  });
  const own = groups([membership], [{ root: part, at: "v2" }]);
  expect(roomIn(own)).toEqual({ cores: 0.5, memory: 512, pids: 7 });
});

test("a hierarchy that is mounted twice is looked through where most of it is", () => {
  write({ "all of it/a/b/pids.max": "max", "all of it/a/pids.max": 8, "all of it/a/pids.current": 0 });
  write({ "part/pids.max": "max" });
  const mounts = [
    { root: "/a/b", at: "part" },
    { root: "/", at: "all\\040of\\040it" },
  ];
  expect(groups(["0::/a/b"], mounts).pids()).toBe(8);
  expect(groups(["0::/a/b"], mounts.reverse()).pids()).toBe(8);
});

test("without limits, or without cgroups, there is none", () => {
  write({ "v2/a/memory.max": "max", "v2/a/cpu.max": "max 100000", "v2/a/pids.max": "max" });
  expect(roomIn(groups(["0::/a"], [{ at: "v2" }]))).toEqual(NONE);
  expect(roomIn(groups([], []))).toEqual(NONE);
});

test("a limit on a group above this process's is what the kernel leaves it", () => {
  const hierarchy = existsSync("/sys/fs/cgroup/pids") ? "/sys/fs/cgroup/pids" : "/sys/fs/cgroup";
  const outer = join(hierarchy, `dsec-test-${process.pid}`);
  const inner = join(outer, "inner");
  mkdirSync(outer);
  try {
    if (existsSync(join(outer, "cgroup.subtree_control")))
      writeFileSync(join(outer, "cgroup.subtree_control"), "+pids");
    mkdirSync(inner);
    writeFileSync(join(outer, "pids.max"), "3000");
    const program = `
      import { OwnGroups } from "#executor/cgroups.ts";
      console.log(OwnGroups.find().pids());`;
    const script = `echo 0 > ${inner}/cgroup.procs; exec "$0" --input-type=module -e "$1"`;
    const left = execFileSync("sh", ["-c", script, process.execPath, program], {
      cwd: new URL("../..", import.meta.url),
    });
    expect(Number(left)).toBeGreaterThan(2900);
    expect(Number(left)).toBeLessThan(3000);
  } finally {
    if (existsSync(inner)) rmdirSync(inner);
    rmdirSync(outer);
  }
});

test("the group that counts a process is found on hosts of either version and of both", () => {
  const v1 = "30 23 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct";
  const set = "31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";
  const v2 = "29 23 0:25 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw,nsdelegate";
  const part = "29 23 0:25 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
  const both = "4:cpuset:/b\n3:cpu,cpuacct:/dsec-1\n0::/";
  expect(groupOf("cpu", both, mountsIn([set, v2, v1].join("\n")))).toEqual({
    ...{ path: "/sys/fs/cgroup/cpu,cpuacct/dsec-1", version: "v1" },
  });
  expect(groupOf("cpu", "0::/a:b/1\n", mountsIn(v2))).toEqual({
    path: "/sys/fs/cgroup/unified/a:b/1",
    version: "v2",
  });
  expect(groupOf("cpu", "0::/docker/1/a\n", mountsIn(part))).toEqual({
    path: "/sys/fs/cgroup/a",
    version: "v2",
  });
  expect(groupOf("cpu", "0::/dsec/1\n", mountsIn(part))).toBeNull();
  expect(groupOf("cpu", "4:cpuset:/b\n", mountsIn([set, v1].join("\n")))).toBeNull();
});

test("a group that is gone uses nothing", () => {
  expect(memoryUsedBytes({ path: join(root, "gone"), version: "v2" })).toBe(0);
});

test.each([
  ["-1", "100000", null],
  ["max", "100000", null],
  ["150000", "100000", 1.5],
  ["10000\n", "100000\n", 0.1],
  ["33333", "100000", 0.333],
  ["", "", null],
])("CPU quota %j of period %j is %s cores", (quota, period, cores) => {
  expect(parseCpuQuota(quota, period)).toBe(cores);
});

test.each([
  ["9223372036854771712", null],
  ["max\n", null],
  ["", null],
  ["536870912\n", 512 * MEBIBYTE],
  ["0\n", 0],
])("memory limit %j is %s bytes", (limit, bytes) => {
  expect(parseMemoryLimit(limit)).toBe(bytes);
});

test("a group is within another by its whole names, not by how they begin", () => {
  expect(pathBelow("/dsec/s1", "/dsec/s1")).toBe("/");
  expect(pathBelow("/dsec/s1", "/dsec/s1/tool")).toBe("/tool");
  expect(pathBelow("/dsec/s1", "/dsec/s10")).toBe(null);
  expect(pathBelow("/dsec/s1", "/dsec")).toBe(null);
});
