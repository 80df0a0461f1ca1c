import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { LIMITS } from "#core/limits.ts";
import type { Resources } from "#core/resources.ts";
import type { Sandbox } from "#native/index.ts";
import { measureFree } from "./capacity.ts";
import { type Group, groupOf, type Mount, memoryUsedBytes, mountsIn, type OwnGroups } from "./cgroups.ts";

const MEBIBYTE = 1024 * 1024;
/** To look at hundreds of sandboxes takes milliseconds, and offers may be made one right after the other. */
const MEASURED_FOR_MS = 250;

/** The axes that others on the host use up as well. */
export type Room = Pick<Resources, "memory_mb" | "disk_mb">;

/** Those on the host of which something is left. */
type Living = { readonly sandboxes: Iterable<Pick<Sandbox, "id" | "pid" | "diskBytes">> };

/**
 * What the host has for sandboxes, all of them together, at this moment: what is free, and what they use already. What is
 * free alone would not do: of what a running task has set aside it may have used all or nothing, and the rest is still
 * to be kept for it. The sum changes only with what others use, such as files that this executor keeps.
 */
export class HostRoom {
  readonly #dataDirectory: string;
  readonly #groups: OwnGroups;
  readonly #launcher: Living;
  readonly #groupOf = new WeakMap<object, Group | null>();
  #mounts: Mount[] | null = null;
  #last: { room: Room; atMs: number } | null = null;

  constructor(dataDirectory: string, groups: OwnGroups, launcher: Living) {
    this.#dataDirectory = dataDirectory;
    this.#groups = groups;
    this.#launcher = launcher;
  }

  /** What nobody uses. */
  free(): Room {
    return measureFree(this.#dataDirectory, this.#groups);
  }

  /** Less what stays free in any case; never below nothing. As it is now, or was within the last moment. */
  forSandboxes(): Room {
    const nowMs = performance.now();
    if (this.#last === null || nowMs - this.#last.atMs >= MEASURED_FOR_MS)
      this.#last = { room: this.#measure(), atMs: nowMs };
    return this.#last.room;
  }

  /** It has turned out to be other than it was: the next question is answered anew. */
  forget(): void {
    this.#last = null;
  }

  #measure(): Room {
    // First what they use: what they take meanwhile is then missing in both, and not counted twice.
    let memoryBytes = -LIMITS.hostMemoryFreeBytes;
    let diskBytes = -LIMITS.hostDiskFreeBytes;
    for (const sandbox of this.#launcher.sandboxes) {
      const group = this.#groupOfSandbox(sandbox);
      if (group !== null) memoryBytes += memoryUsedBytes(group);
      diskBytes += sandbox.diskBytes;
    }
    const free = this.free();
    return {
      memory_mb: Math.max(0, free.memory_mb + Math.floor(memoryBytes / MEBIBYTE)),
      disk_mb: Math.max(0, free.disk_mb + Math.floor(diskBytes / MEBIBYTE)),
    };
  }

  #groupOfSandbox(sandbox: { id: string; pid: number }): Group | null {
    let group = this.#groupOf.get(sandbox);
    if (group === undefined) {
      this.#mounts ??= mountsIn(readFileSync("/proc/self/mountinfo", "utf8"));
      group = findGroup(sandbox.pid, this.#mounts);
      // The process may have ended, and its number be another's.
      if (group !== null && !basename(group.path).endsWith(sandbox.id)) group = null;
      this.#groupOf.set(sandbox, group);
    }
    return group;
  }
}

/** Null for a process that has ended. */
function findGroup(pid: number, mounts: readonly Mount[]): Group | null {
  let membership: string;
  try {
    membership = readFileSync(`/proc/${pid}/cgroup`, "utf8");
  } catch {
    return null;
  }
  return groupOf("memory", membership, mounts);
}
