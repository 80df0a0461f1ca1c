import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { join } from "node:path";
import { type Group, groupOf, type Mount, mountsIn } from "../cgroups.ts";

/** How long a sandbox's threads have been kept from running, in microseconds since some moment; null where it is not known. */
export type CpuReading = { waitUs: number | null; throttledUs: number | null };

/** Readings are this far apart at least, of however many calls they are. */
const BETWEEN_MS = 5;
/** Threads of one sandbox that are looked at where the kernel has no sum of them. */
const THREADS_MAX = 64;

/**
 * What a sandbox's cgroup says of its waiting: for a processor that others have (v2: cpu.pressure; v1: the run delay in
 * each thread's schedstat, less what ended between two readings), and for its own CPU limit to let it run again
 * (cpu.stat). Files stay open, so that a reading is a few system calls.
 */
export class SandboxCpu {
  readonly #stat: number;
  readonly #waiting: Pressure | ThreadDelays | null;
  #last: CpuReading | null = null;
  #lastMs = Number.NEGATIVE_INFINITY;

  /** Null where the process is gone, or this kernel tells neither. @param pid of any process of the sandbox */
  static open(pid: number): SandboxCpu | null {
    try {
      const group = cpuGroupOf(pid);
      return group === null ? null : new SandboxCpu(group);
    } catch {
      return null;
    }
  }

  private constructor({ path, version }: Group) {
    this.#stat = openSync(join(path, "cpu.stat"), "r");
    this.#waiting = version === "v2" ? Pressure.open(path) : ThreadDelays.open(path);
  }

  /** As it is now, or was within the last milliseconds. */
  read(): CpuReading {
    const nowMs = performance.now();
    if (this.#last !== null && nowMs - this.#lastMs < BETWEEN_MS) return this.#last;
    this.#lastMs = nowMs;
    this.#last = this.look();
    return this.#last;
  }

  /** As it is now. */
  look(): CpuReading {
    return { waitUs: this.#waiting?.us() ?? null, throttledUs: throttledUs(contentOf(this.#stat)) };
  }

  /** In all, once every process has ended, and before the sandbox is destroyed. Of ended threads nothing is known. */
  ended(): CpuReading {
    const waitUs = this.#waiting instanceof Pressure ? this.#waiting.us() : null;
    return { waitUs, throttledUs: throttledUs(contentOf(this.#stat)) };
  }

  close(): void {
    closeSync(this.#stat);
    this.#waiting?.close();
  }
}

/** Folder of the cgroup that a sandbox's processes are in; null where this host has none. @throws where the process is gone */
export function groupOfProcess(pid: number): string | null {
  return cpuGroupOf(pid)?.path ?? null;
}

function cpuGroupOf(pid: number): Group | null {
  return groupOf("cpu", readFileSync(`/proc/${pid}/cgroup`, "utf8"), mounts());
}

let known: Mount[] | null = null;
/** Read once: what holds the groups of living sandboxes stays mounted. */
function mounts(): Mount[] {
  known ??= mountsIn(readFileSync("/proc/self/mountinfo", "utf8"));
  return known;
}

/** v1 counts nanoseconds (throttled_time), v2 microseconds (throttled_usec). */
export function throttledUs(stat: string | null): number | null {
  if (stat === null) return null;
  const found = /^throttled_(time|usec) (\d+)$/m.exec(stat);
  if (found === null) return null;
  return found[1] === "time" ? Number(found[2]) / 1000 : Number(found[2]);
}

/** The time in which some thread of the group waited, which is no more than the time that passed. */
class Pressure {
  readonly #file: number;

  static open(group: string): Pressure | null {
    try {
      return new Pressure(openSync(join(group, "cpu.pressure"), "r"));
    } catch {
      return null; // a kernel without pressure stall information
    }
  }

  private constructor(file: number) {
    this.#file = file;
  }

  us(): number | null {
    const total = /^some .*total=(\d+)/m.exec(contentOf(this.#file) ?? "")?.[1];
    return total === undefined ? null : Number(total);
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** The waiting of all threads, added up. */
class ThreadDelays {
  readonly #tasks: number;
  readonly #threads = new Map<string, { file: number; us: number }>();
  #us = 0;

  static open(group: string): ThreadDelays | null {
    try {
      return new ThreadDelays(openSync(join(group, "tasks"), "r"));
    } catch {
      return null;
    }
  }

  private constructor(tasks: number) {
    this.#tasks = tasks;
  }

  us(): number {
    const ids = new Set((contentOf(this.#tasks) ?? "").split("\n", THREADS_MAX).filter((id) => id !== ""));
    for (const [id, thread] of this.#threads) if (!ids.has(id)) this.#forget(id, thread.file);
    for (const id of ids) {
      const thread = this.#threads.get(id) ?? this.#begin(id);
      if (thread === null) continue;
      // /proc/PID/schedstat: nanoseconds on a processor, nanoseconds waiting for one, times that it got one
      const delay = /^\d+ (\d+) /.exec(contentOf(thread.file) ?? "")?.[1];
      if (delay === undefined) {
        this.#forget(id, thread.file);
        continue;
      }
      const us = Number(delay) / 1000;
      this.#us += us - thread.us;
      thread.us = us;
    }
    return this.#us;
  }

  close(): void {
    closeSync(this.#tasks);
    for (const [id, { file }] of this.#threads) this.#forget(id, file);
  }

  /** All that it waited it waited since the reading before, for it was not there then. */
  #begin(id: string): { file: number; us: number } | null {
    try {
      const thread = { file: openSync(`/proc/${id}/schedstat`, "r"), us: 0 };
      this.#threads.set(id, thread);
      return thread;
    } catch {
      return null;
    }
  }

  #forget(id: string, file: number): void {
    this.#threads.delete(id);
    closeSync(file);
  }
}

const buffer = Buffer.alloc(4096);

/** Null where the file's object is gone. */
function contentOf(file: number): string | null {
  try {
    return buffer.toString("latin1", 0, readSync(file, buffer, 0, buffer.length, 0));
  } catch {
    return null;
  }
}
