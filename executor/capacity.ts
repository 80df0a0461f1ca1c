import { constants, readFileSync, statfsSync } from "node:fs";
import { open, readFile, unlink, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Resources } from "#core/resources.ts";
import { fromWire, type WireResources } from "#core/wire/common.ts";
import type { OwnGroups } from "./cgroups.ts";

const MEBIBYTE = 1024 * 1024;

/** Left to the host and to this executor, so that full sandboxes do not starve what supervises them. */
const HEADROOM = { memoryMb: 256, memoryShare: 0.05, pids: 1024, diskMb: 1024, diskShare: 0.05 };
/** Megabits a second where no link tells its speed, as virtual ones do not. */
const NETWORK_MBPS_DEFAULT = 100;

/**
 * What this host has for sandboxes, read from the kernel: CPUs by affinity and cgroup quota, memory and disk by what
 * is available now, process ids by pid_max and the cgroups, all less a headroom; disk operations by a short
 * measurement of synchronous writes, kept for later starts. `configured` replaces single axes. GPU memory is 0 until
 * configured.
 * @param groups found once the launcher has started, which may move this process
 */
export async function measureCapacity(
  dataDirectory: string,
  groups: OwnGroups,
  configured: Partial<WireResources> = {},
): Promise<Resources> {
  const free = measureFree(dataDirectory, groups);
  const measured: WireResources = {
    cpu_cores: Math.min(availableParallelism(), groups.cpuCores()),
    memory_mb: afterHeadroom(free.memory_mb, { least: HEADROOM.memoryMb, share: HEADROOM.memoryShare }),
    gpu_memory_mb: 0,
    disk_iops: configured.disk_iops ?? (await knownDiskIops(dataDirectory)),
    network_mbps: NETWORK_MBPS_DEFAULT,
    pids: Math.max(0, freePids(groups) - HEADROOM.pids),
    disk_mb: afterHeadroom(free.disk_mb, { least: HEADROOM.diskMb, share: HEADROOM.diskShare }),
  };
  return fromWire({ ...measured, ...configured });
}

/**
 * Memory and disk that are free for this process's groups at this moment, whoever uses the rest. At once: the kernel
 * answers both from memory, in less time than handing the question to another thread takes.
 */
export function measureFree(
  dataDirectory: string,
  groups: OwnGroups,
): { memory_mb: number; disk_mb: number } {
  const meminfo = readFileSync("/proc/meminfo", "utf8");
  const disk = statfsSync(dataDirectory);
  return {
    memory_mb: Math.min(parseAvailableMemoryMb(meminfo), groups.memoryMb()),
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

function afterHeadroom(total: number, headroom: { least: number; share: number }): number {
  return Math.max(0, Math.floor(total - Math.max(headroom.least, total * headroom.share)));
}

/** Process ids that may still be made: by pid_max and threads-max, less those in use, and by the cgroups. */
function freePids(groups: OwnGroups): number {
  const [pidMax, threadsMax, loadavg] = ["sys/kernel/pid_max", "sys/kernel/threads-max", "loadavg"].map(
    (file) => readFileSync(join("/proc", file), "utf8"),
  ) as [string, string, string];
  const inUse = Number(/\d+\/(\d+)/.exec(loadavg)?.[1] ?? 0);
  return Math.min(Number(pidMax) - inUse, Number(threadsMax) - inUse, groups.pids());
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
