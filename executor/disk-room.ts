import { statfsSync } from "node:fs";
import { LIMITS } from "#core/limits.ts";
import type { LogEvent } from "./failure-reporter.ts";

const MEBIBYTE = 1024 * 1024;

/**
 * Whether the file system of the data folder has room for another task. What tasks ask for is counted in the ledger; this
 * is about what others fill, without which every task would fail at once, and the next be pulled.
 */
export class DiskRoom {
  readonly #directory: string;
  readonly #log: (event: LogEvent) => void;
  #state: "enough" | "short" = "enough";

  constructor(directory: string, log: (event: LogEvent) => void) {
    this.#directory = directory;
    this.#log = log;
  }

  /** Asks the kernel, which answers from memory. The log is told of each change. */
  hasRoom(): boolean {
    const shortage = diskShortage(this.#directory);
    const state = shortage === null ? "enough" : "short";
    if (state !== this.#state) {
      this.#state = state;
      this.#log(
        shortage === null
          ? { level: "info", message: `${this.#directory} has room again; tasks are taken` }
          : { level: "warn", message: `${shortage}; no task is taken until there is more, so free some` },
      );
    }
    return state === "enough";
  }
}

/** What the folder's file system (statfs(2)) has too little of for sandboxes; null where it has enough. */
export function diskShortage(directory: string): string | null {
  const { bavail, bsize, files, ffree } = statfsSync(directory);
  const freeBytes = bavail * bsize;
  if (freeBytes < LIMITS.hostDiskFreeBytes) {
    const leastMb = LIMITS.hostDiskFreeBytes / MEBIBYTE;
    return `${directory} has ${Math.floor(freeBytes / MEBIBYTE)} MiB free of the ${leastMb} MiB that sandboxes need`;
  }
  // File systems that make inodes as they are needed, such as btrfs, count none.
  if (files > 0 && ffree < LIMITS.hostInodesFree)
    return `${directory} has ${ffree} inodes free of the ${LIMITS.hostInodesFree} that sandboxes need`;
  return null;
}
