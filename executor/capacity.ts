import { constants, readFileSync, statfsSync } from "node:fs";
import { open, readFile, unlink, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Resources } from "#core/resources.ts";
import { fromWire, type WireResources } from "#core/wire/common.ts";

const MEBIBYTE = 1024 * 1024;

/** Left to the host and to this executor, so that full sandboxes do not starve what supervises them. */
const HEADROOM = { memoryMb: 256, memoryShare: 0.05, pids: 1024, diskMb: 1024, diskShare: 0.05 };
/** Megabits a second where no link tells its speed, as virtual ones do not. */
const NETWORK_MBPS_DEFAULT = 100;

/**
 * What this host has for sandboxes, read from the kernel: CPUs by affinity and cgroup quota, memory and disk by what
 * is available now, process ids by pid_max and the cgroup, all less a headroom; disk operations by a short
 * measurement of synchronous writes, kept for later starts. `configured` replaces single axes. GPU memory is 0 until
 * configured.
 */
export async function measureCapacity(
  dataDirectory: string,
  configured: Partial<WireResources> = {},
): Promise<Resources> {
  const cgroup = await readCgroupLimits();
  const free = measureFree(dataDirectory);
  const measured: WireResources = {
    cpu_cores: Math.min(availableParallelism(), cgroup.cpuCores ?? Number.POSITIVE_INFINITY),
    memory_mb: afterHeadroom(Math.min(free.memory_mb, cgroup.memoryMb ?? Number.POSITIVE_INFINITY), {
      least: HEADROOM.memoryMb,
      share: HEADROOM.memoryShare,
    }),
    gpu_memory_mb: 0,
    disk_iops: configured.disk_iops ?? (await knownDiskIops(dataDirectory)),
    network_mbps: NETWORK_MBPS_DEFAULT,
    pids: Math.max(0, (await readPids()) - HEADROOM.pids),
    disk_mb: afterHeadroom(free.disk_mb, { least: HEADROOM.diskMb, share: HEADROOM.diskShare }),
  };
  return fromWire({ ...measured, ...configured });
}

/**
 * Memory and disk that are free on the host at this moment, whoever uses the rest. At once: the kernel answers both from
 * memory, in less time than handing the question to another thread takes.
 */
export function measureFree(dataDirectory: string): { memory_mb: number; disk_mb: number } {
  const meminfo = readFileSync("/proc/meminfo", "utf8");
  const disk = statfsSync(dataDirectory);
  return {
    memory_mb: parseAvailableMemoryMb(meminfo),
    disk_mb: Math.floor((disk.bavail * disk.bsize) / MEBIBYTE),
  };
}

/** `MemAvailable` of /proc/meminfo (proc(5)) in mebibytes: what can be had without swapping. */
export function parseAvailableMemoryMb(meminfo: string): number {
  const kilobytes = /^MemAvailable:\s+(\d+) kB$/m.exec(meminfo)?.[1];
  if (kilobytes === undefined)
    throw new Error("/proc/meminfo has no MemAvailable; Linux 3.14 or later is needed");
  return Math.floor(Number(kilobytes) / 1024);
}

/** Cores of a v1 `cpu.cfs_quota_us` and `cpu.cfs_period_us`, or of a v2 `cpu.max`; null for no quota. */
export function parseCpuQuota(quota: string, period: string): number | null {
  const quotaUs = Number(quota.trim());
  const periodUs = Number(period.trim());
  if (quota.trim() === "max" || !(quotaUs > 0) || !(periodUs > 0)) return null;
  // Whole thousandths, rounded down: more than the quota must not be promised.
  return Math.floor((quotaUs * 1000) / periodUs) / 1000;
}

/** A memory limit in bytes as mebibytes; null for none, which v1 writes as nearly 2^63 and v2 as `max`. */
export function parseMemoryLimitMb(limit: string): number | null {
  const bytes = Number(limit.trim());
  return Number.isFinite(bytes) && bytes < 2 ** 62 ? Math.floor(bytes / MEBIBYTE) : null;
}

function afterHeadroom(total: number, headroom: { least: number; share: number }): number {
  return Math.max(0, Math.floor(total - Math.max(headroom.least, total * headroom.share)));
}

/** The limits of the cgroup that this process is in, so that a confined executor does not promise the whole host. */
async function readCgroupLimits(): Promise<{ cpuCores: number | null; memoryMb: number | null }> {
  const paths = parseCgroupPaths(await readFile("/proc/self/cgroup", "utf8"));
  const [max, quota, period, memoryMax, memoryLimit] = await Promise.all([
    readOptional(cgroupFile("", paths, "cpu.max")),
    readOptional(cgroupFile("cpu", paths, "cpu.cfs_quota_us")),
    readOptional(cgroupFile("cpu", paths, "cpu.cfs_period_us")),
    readOptional(cgroupFile("", paths, "memory.max")),
    readOptional(cgroupFile("memory", paths, "memory.limit_in_bytes")),
  ]);
  const [v2Quota = "", v2Period = ""] = (max ?? "").trim().split(" ");
  return {
    cpuCores: parseCpuQuota(v2Quota, v2Period) ?? parseCpuQuota(quota ?? "", period ?? ""),
    memoryMb: parseMemoryLimitMb(memoryMax ?? "max") ?? parseMemoryLimitMb(memoryLimit ?? "max"),
  };
}

/** Controller (empty for v2) to path, from /proc/self/cgroup (cgroups(7)). */
export function parseCgroupPaths(text: string): Map<string, string> {
  const paths = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers === undefined || path === undefined) continue;
    for (const controller of controllers.split(",")) paths.set(controller, path);
  }
  return paths;
}

function cgroupFile(controller: string, paths: Map<string, string>, file: string): string {
  return join("/sys/fs/cgroup", controller, paths.get(controller) ?? "/", file);
}

/** Process ids that may still be made: the least of pid_max, threads-max and the cgroup's, less those in use. */
async function readPids(): Promise<number> {
  const paths = parseCgroupPaths(await readFile("/proc/self/cgroup", "utf8"));
  const [pidMax, threadsMax, loadavg, ...cgroup] = await Promise.all([
    readFile("/proc/sys/kernel/pid_max", "utf8"),
    readFile("/proc/sys/kernel/threads-max", "utf8"),
    readFile("/proc/loadavg", "utf8"),
    readOptional(cgroupFile("pids", paths, "pids.max")),
    readOptional(cgroupFile("", paths, "pids.max")),
  ]);
  const limits = [pidMax, threadsMax, ...cgroup].map((text) => Number((text ?? "max").trim()));
  const inUse = Number(/\d+\/(\d+)/.exec(loadavg)?.[1] ?? 0);
  return Math.min(...limits.filter(Number.isFinite)) - inUse;
}

async function knownDiskIops(dataDirectory: string): Promise<number> {
  const path = join(dataDirectory, "disk-iops");
  const known = Number(await readOptional(path));
  if (known > 0) return known;
  const measured = await measureDiskIops(dataDirectory);
  await writeFile(path, `${measured}\n`, { mode: 0o600 });
  return measured;
}

/**
 * Synchronous 4 KiB writes a second by one writer over a tenth of a second, down to two digits. That is the least
 * such a disk does: with more writers, or without waiting for each, it does more.
 */
async function measureDiskIops(directory: string): Promise<number> {
  const path = join(directory, "disk-iops.probe");
  const file = await open(
    path,
    constants.O_RDWR | constants.O_CREAT | constants.O_TRUNC | constants.O_DSYNC,
    0o600,
  );
  try {
    const block = Buffer.alloc(4096);
    const blocks = 1024;
    await file.writeFile(Buffer.alloc(4096 * blocks));
    const startedMs = performance.now();
    let writes = 0;
    let elapsedMs = 0;
    for (; elapsedMs < 100; elapsedMs = performance.now() - startedMs) {
      await file.write(block, 0, block.length, Math.floor(Math.random() * blocks) * block.length);
      writes++;
    }
    const perSecond = (writes / elapsedMs) * 1000;
    const unit = 10 ** Math.max(0, Math.floor(Math.log10(perSecond)) - 1);
    return Math.floor(perSecond / unit) * unit;
  } finally {
    await file.close();
    await unlink(path);
  }
}

async function readOptional(path: string): Promise<string | null> {
  return readFile(path, "utf8").catch(() => null);
}
