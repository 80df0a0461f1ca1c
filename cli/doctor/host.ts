/** What sandboxes need of the kernel and of its settings, read from /proc (proc(5), namespaces(7), cgroups(7)). */
import { accessSync, constants, existsSync, readFileSync, statfsSync } from "node:fs";
import { release } from "node:os";
import { dirname, join, resolve } from "node:path";
import { diskShortage } from "#executor/disk-room.ts";
import { type Check, fail, ok, warn } from "./check.ts";

const NAMESPACES = ["pid", "net", "mnt", "uts", "ipc", "user", "cgroup"];

export function checkPrivilege(): Check[] {
  if (process.platform !== "linux")
    return [fail("system", process.platform, "executors run on Linux; a gateway runs anywhere")];
  if (process.geteuid?.() === 0) return [ok("root", "running as root")];
  return [
    fail(
      "root",
      `running as user ${process.geteuid?.()}`,
      "run executors as root: they make namespaces, mounts and cgroups",
    ),
  ];
}

export function checkKernel(): Check[] {
  const version = release();
  const checks: Check[] = [];
  // pidfd, clone3 into a group: 5.7; close_range: 5.11; idmapped mounts: 5.12; overlayfs on layers that are: 5.19
  checks.push(
    kernelAtLeast(5, 19)
      ? ok("kernel", `${version}: overlayfs on layers with mapped ids`)
      : fail(
          "kernel",
          version,
          "install Linux 5.19 or later, better 6.12: a sandbox's layers are seen through its own ids",
        ),
  );
  const missing = NAMESPACES.filter((name) => !existsSync(`/proc/self/ns/${name}`));
  const closed = NAMESPACES.filter((name) => number(`/proc/sys/user/max_${name}_namespaces`) === 0);
  if (missing.length > 0)
    checks.push(
      fail("namespaces", `no ${missing.join(", ")}`, "boot a kernel with these namespaces built in"),
    );
  else if (closed.length > 0) {
    const settings = closed.map((name) => `user.max_${name}_namespaces`).join(", ");
    checks.push(
      fail("namespaces", `${settings} is 0`, `raise it: sysctl -w user.max_${closed[0]}_namespaces=10000`),
    );
  } else checks.push(ok("namespaces", NAMESPACES.join(", ")));

  const filesystems = read("/proc/filesystems");
  for (const name of ["overlay", "erofs"]) {
    const built = new RegExp(`^\\s*(nodev\\s+)?${name}$`, "m").test(filesystems);
    const module = existsSync(`/lib/modules/${version}/kernel/fs/${name === "overlay" ? "overlayfs" : name}`);
    if (built) checks.push(ok(name, "in the kernel"));
    else if (module) checks.push(ok(name, "a module, loaded on first use"));
    else checks.push(fail(name, "not in this kernel", `modprobe ${name}, or boot a kernel that has it`));
  }
  if (kernelAtLeast(6, 12)) checks.push(ok("erofs images", "mounted straight from their files"));
  else if (existsSync("/dev/loop-control"))
    checks.push(ok("erofs images", "mounted over loop devices; Linux 6.12 or later needs none"));
  else checks.push(fail("erofs images", `${version} mounts them over loop devices`, "modprobe loop"));
  const actions = read("/proc/sys/kernel/seccomp/actions_avail");
  checks.push(
    actions.includes("kill_process") && actions.includes("errno")
      ? ok("seccomp", actions.trim())
      : fail("seccomp", actions.trim() || "absent", "boot a kernel with CONFIG_SECCOMP_FILTER"),
  );
  return checks;
}

export function checkCgroups(): Check[] {
  const mounts = read("/proc/self/mountinfo")
    .split("\n")
    .flatMap((line) => {
      const [head, tail] = line.split(" - ");
      const [type, , superOptions] = (tail ?? "").split(" ");
      const path = head?.split(" ")[4];
      return path && type && /^cgroup2?$/.test(type) ? [{ type, path, options: superOptions ?? "" }] : [];
    });
  if (mounts.length === 0) {
    return [fail("cgroups", "no cgroup file system is mounted", "mount -t cgroup2 none /sys/fs/cgroup")];
  }
  const v1 = new Set(
    mounts.filter(({ type }) => type === "cgroup").flatMap((mount) => mount.options.split(",")),
  );
  const v2Path = mounts.find(({ type }) => type === "cgroup2")?.path;
  const v2 = new Set((v2Path ? read(join(v2Path, "cgroup.controllers")) : "").trim().split(/\s+/));
  const wanted: [string, v1: string, v2: string, string][] = [
    ["cpu limit", "cpu", "cpu", "CPU limits do not hold"],
    ["memory limit", "memory", "memory", "memory limits do not hold and out-of-memory ends cannot be told"],
    ["process limit", "pids", "pids", "process limits do not hold"],
    ["disk limit", "blkio", "io", "disk operation limits do not hold"],
  ];
  return wanted.map(([name, one, two, effect]) => {
    if (v2.has(two)) return ok(name, `cgroup v2 controller ${two}`);
    if (v1.has(one)) return ok(name, `cgroup v1 controller ${one}`);
    const mend = v2Path
      ? `enable it: echo +${two} > ${v2Path}/cgroup.subtree_control (it must be free of v1 use)`
      : `boot with systemd.unified_cgroup_hierarchy=1, or mount the v1 controller ${one}`;
    return name === "disk limit"
      ? warn(name, `no controller: ${effect}`, mend)
      : fail(name, `no controller: ${effect}`, mend);
  });
}

export function checkLimits(): Check[] {
  const checks: Check[] = [];
  const pidMax = number("/proc/sys/kernel/pid_max") ?? 0;
  checks.push(
    pidMax >= 131_072
      ? ok("pid_max", String(pidMax))
      : warn("pid_max", `${pidMax}: bounds how many sandboxes fit`, "sysctl -w kernel.pid_max=4194304"),
  );
  const files = /^Max open files\s+(\d+|unlimited)\s+(\d+|unlimited)/m.exec(read("/proc/self/limits"));
  const hard = files?.[2] === "unlimited" ? Number.POSITIVE_INFINITY : Number(files?.[2] ?? 0);
  checks.push(
    hard >= 65_536
      ? ok("RLIMIT_NOFILE", `${files?.[1]} (hard ${files?.[2]})`)
      : warn(
          "RLIMIT_NOFILE",
          `hard limit ${files?.[2]}`,
          "raise it: LimitNOFILE=1048576 in the unit, or ulimit -Hn 1048576",
        ),
  );
  const watches = number("/proc/sys/user/max_inotify_instances");
  if (watches !== undefined && watches < 128) {
    checks.push(
      warn("inotify", `${watches} instances a user`, "sysctl -w fs.inotify.max_user_instances=8192"),
    );
  }
  return checks;
}

/** Numbers of statfs(2) `f_type`. */
const FILE_SYSTEMS: Record<number, string> = {
  61267: "ext4",
  1481003842: "xfs",
  2435016766: "btrfs",
  16914836: "tmpfs",
  2035054128: "overlay",
  26985: "nfs",
  4266872130: "cifs",
  1702057286: "fuse",
  801189825: "zfs",
  2240043254: "ramfs",
};
const LEAST_FREE_BYTES = 2 * 1024 ** 3;

export function checkFolder(name: string, path: string): Check[] {
  let there = resolve(path);
  while (!existsSync(there) && there !== dirname(there)) there = dirname(there);
  const stats = statfsSync(there);
  const type = FILE_SYSTEMS[Number(stats.type)] ?? `0x${Number(stats.type).toString(16)}`;
  const freeBytes = Number(stats.bavail) * Number(stats.bsize);
  const found = `${resolve(path)} on ${type}, ${(freeBytes / 1024 ** 3).toFixed(1)} GiB free`;
  try {
    accessSync(there, constants.W_OK);
  } catch {
    return [fail(name, `${found}, not writable`, "choose another folder with --data")];
  }
  if (["overlay", "nfs", "cifs", "fuse"].includes(type)) {
    return [
      fail(
        name,
        found,
        `overlayfs cannot write on ${type}: put the folder on ext4, xfs or btrfs with --data`,
      ),
    ];
  }
  if (type === "ramfs" || (type === "tmpfs" && !kernelAtLeast(6, 3)))
    return [fail(name, found, `${type} maps no ids here: put the folder on ext4, xfs or btrfs with --data`)];
  if (type === "tmpfs") return [warn(name, found, "its content lives in memory and ends with the host's")];
  const shortage = diskShortage(there);
  if (shortage !== null) return [fail(name, shortage, "free some: until then executors take no task")];
  if (freeBytes < LEAST_FREE_BYTES) return [warn(name, found, "free some space: sandboxes write there")];
  return [ok(name, found)];
}

/** Parts that the set-up brings. */
export function checkParts(root: string): Check[] {
  const parts: [string, string][] = [
    ["launcher", join(root, "build/native/dsec-launcher")],
    ["mkfs.erofs", "/usr/bin/mkfs.erofs"],
    ["database template", join(root, "build/pglite-template")],
  ];
  return parts.map(([name, path]) =>
    existsSync(path)
      ? ok(name, path)
      : fail(name, `${path} is missing`, `sh ${join(root, "setup/setup.sh")} run`),
  );
}

function kernelAtLeast(major: number, minor: number): boolean {
  const [a = 0, b = 0] = release()
    .split(".")
    .map((part) => Number.parseInt(part, 10));
  return a > major || (a === major && b >= minor);
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function number(path: string): number | undefined {
  const text = read(path).trim();
  return /^\d+$/.test(text) ? Number(text) : undefined;
}
