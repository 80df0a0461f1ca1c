/** Where the groups of processes lie (cgroups(7)), and what those of this process leave it. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const MEBIBYTE = 1024 * 1024;

/** One cgroup as a folder. A v1 one is of one controller, or of a few that are mounted together. */
export type Group = { path: string; version: "v1" | "v2" };

/** A mount of a hierarchy, or of a part of one. */
export type Mount = { version: "v1" | "v2"; root: string; top: string; options: string[] };

/** A hierarchy that a process is in, as far as this process sees it. */
type Hierarchy = {
  version: "v1" | "v2";
  /** where it is mounted, or the part of it that a container is given */
  top: string;
  /** the process's group below that; null where the part that is mounted does not hold it */
  below: string | null;
};

/**
 * The group that a controller counts a process in; that of version 1 where the host has both. Null where no mount
 * shows it.
 * @param membership as /proc/PID/cgroup has it (cgroups(7))
 */
export function groupOf(controller: string, membership: string, mounts: readonly Mount[]): Group | null {
  const holding = hierarchiesOf(controller, membership, mounts).find(({ below }) => below !== null);
  return holding === undefined ? null : upwards(holding)[0]!;
}

/**
 * The groups that this process is in, and all above them as far as they are mounted: a limit holds for all that is
 * below it, so that the least of them is the one that counts. Each answer is read from the kernel anew.
 */
export class OwnGroups {
  readonly #cpu: Group[];
  readonly #memory: Group[];
  readonly #pids: Group[];

  /** @param proc folder of a process in proc(5) */
  static find(proc = "/proc/self"): OwnGroups {
    const membership = readFileSync(join(proc, "cgroup"), "utf8");
    const mounts = mountsIn(readFileSync(join(proc, "mountinfo"), "utf8"));
    return new OwnGroups((controller, file) =>
      hierarchiesOf(controller, membership, mounts)
        .flatMap(upwards)
        .filter(({ path, version }) => existsSync(join(path, file[version]))),
    );
  }

  private constructor(levels: (controller: string, file: Record<Group["version"], string>) => Group[]) {
    this.#cpu = levels("cpu", { v1: "cpu.cfs_quota_us", v2: "cpu.max" });
    this.#memory = levels("memory", { v1: "memory.limit_in_bytes", v2: "memory.max" });
    this.#pids = levels("pids", { v1: "pids.max", v2: "pids.max" });
  }

  /** Cores by the least quota; infinite where there is none. */
  cpuCores(): number {
    const quotas = this.#cpu.map(({ path, version }) => {
      const [quota = "", period = ""] =
        version === "v2"
          ? read(path, "cpu.max").split(" ")
          : [read(path, "cpu.cfs_quota_us"), read(path, "cpu.cfs_period_us")];
      return parseCpuQuota(quota, period);
    });
    return least(quotas);
  }

  /** Mebibytes that can be had without passing a limit, or being slowed down by one; infinite where there is none. */
  memoryMb(): number {
    const rooms = this.#memory.map((group) => {
      const limits =
        group.version === "v2"
          ? [read(group.path, "memory.max"), read(group.path, "memory.high")]
          : [read(group.path, "memory.limit_in_bytes")];
      const limit = least(limits.map(parseMemoryLimit));
      return limit === Number.POSITIVE_INFINITY ? null : (limit - memoryUsedBytes(group)) / MEBIBYTE;
    });
    return Math.max(0, Math.floor(least(rooms)));
  }

  /** Processes and threads that may still be made; infinite where there is no limit. */
  pids(): number {
    const rooms = this.#pids.map(({ path }) => {
      const limit = Number(read(path, "pids.max"));
      return Number.isFinite(limit) ? limit - Number(read(path, "pids.current")) : null;
    });
    return Math.max(0, least(rooms));
  }
}

/** What a group uses of memory, less the cache that the kernel drops where somebody needs it. 0 for one that is gone. */
export function memoryUsedBytes({ path, version }: Group): number {
  const used = Number(read(path, version === "v2" ? "memory.current" : "memory.usage_in_bytes"));
  const names = version === "v2" ? V2_CACHE : V1_CACHE;
  const cache = read(path, "memory.stat")
    .split("\n")
    .map((line) => line.split(" "))
    .reduce((sum, [name, bytes]) => (names.has(name!) ? sum + Number(bytes) : sum), 0);
  return Math.max(0, used - cache);
}

/** Members of memory.stat, of the group with all below it. */
const V2_CACHE = new Set(["active_file", "inactive_file", "slab_reclaimable"]);
const V1_CACHE = new Set(["total_active_file", "total_inactive_file"]);

/** Cores of a v1 `cpu.cfs_quota_us` and `cpu.cfs_period_us`, or of a v2 `cpu.max`; null for no quota. */
export function parseCpuQuota(quota: string, period: string): number | null {
  const quotaUs = Number(quota.trim());
  const periodUs = Number(period.trim());
  if (quota.trim() === "max" || !(quotaUs > 0) || !(periodUs > 0)) return null;
  // Whole thousandths, rounded down: more than the quota must not be promised.
  return Math.floor((quotaUs * 1000) / periodUs) / 1000;
}

/** A memory limit in bytes; null for none, which v1 writes as nearly 2^63 and v2 as `max`, or by having no such file. */
export function parseMemoryLimit(limit: string): number | null {
  const bytes = Number(limit.trim());
  return limit.trim() !== "" && Number.isFinite(bytes) && bytes < 2 ** 62 ? bytes : null;
}

/** Version 1 before version 2. */
function hierarchiesOf(controller: string, membership: string, mounts: readonly Mount[]): Hierarchy[] {
  const found: Hierarchy[] = [];
  for (const line of membership.split("\n")) {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    if (controllers === undefined || path === undefined) continue;
    const version = controllers === "" ? "v2" : "v1";
    if (version === "v1" && !controllers.split(",").includes(controller)) continue;
    const fitting = mounts.filter(
      (mount) => mount.version === version && (version === "v2" || mount.options.includes(controller)),
    );
    const holding = fitting.flatMap(({ root, top }) => {
      const below = pathBelow(root, path);
      return below === null ? [] : [{ version, top, below } as const];
    });
    // A hierarchy may be mounted more than once: where most of it is, most of the groups above are seen.
    const widest = holding.reduce<(typeof holding)[number] | null>(
      (best, one) => (best === null || one.below.length > best.below.length ? one : best),
      null,
    );
    if (widest !== null) found.push(widest);
    else if (fitting[0] !== undefined) found.push({ version, top: fitting[0].top, below: null });
  }
  return found.sort((a, b) => a.version.localeCompare(b.version));
}

/** The hierarchies that are mounted. @param mountinfo as /proc/self/mountinfo has it (proc_pid_mountinfo(5)) */
export function mountsIn(mountinfo: string): Mount[] {
  return mountinfo.split("\n").flatMap((line) => {
    const [before = "", after = ""] = line.split(" - ");
    const [type, , options = ""] = after.split(" ");
    const [, , , root, top] = before.split(" ").map(unescaped);
    if ((type !== "cgroup" && type !== "cgroup2") || root === undefined || top === undefined) return [];
    const version = type === "cgroup2" ? ("v2" as const) : ("v1" as const);
    return [{ version, root, top, options: options.split(",") }];
  });
}

/** Blanks and backslashes are written in octal there. */
function unescaped(field: string): string {
  return field.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

/** A group's path below another, `/` of that one itself. Null where it is not within it. */
export function pathBelow(root: string, path: string): string | null {
  // A group outside of this process's cgroup namespace is named by the way up from its root.
  if (path.split("/").includes("..")) return null;
  if (root === "/") return path;
  if (path === root) return "/";
  return path.startsWith(`${root}/`) ? path.slice(root.length) : null;
}

/**
 * A group and all above it, to the top of what is mounted. Where that does not hold the group, its top alone: what a
 * container is given of a hierarchy is its own.
 */
function upwards({ version, top, below }: Hierarchy): Group[] {
  const groups: Group[] = [];
  for (let path = below ?? "/"; path !== "/"; path = dirname(path))
    groups.push({ path: join(top, path), version });
  return [...groups, { path: top, version }];
}

function least(values: (number | null)[]): number {
  return Math.min(...values.map((value) => value ?? Number.POSITIVE_INFINITY));
}

/** Without the end of its line; empty where there is no such file. */
function read(folder: string, file: string): string {
  try {
    return readFileSync(join(folder, file), "utf8").trimEnd();
  } catch {
    return "";
  }
}
