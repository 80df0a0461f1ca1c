/**
 * Deletes old traces below a folder, and nothing else: files that end in `.trace` or `.traj`. Links are never followed, and
 * nothing whose path says checkpoint is touched.
 */
import type { Stats } from "node:fs";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { Folder } from "./folder.ts";

export type CleanUpRule = {
  /** Only what was last written before; in milliseconds since 1970. Null: of any age. */
  beforeMs: number | null;
  /** The newest that are kept, whatever their age. */
  keepLast: number;
  dryRun: boolean;
};

export type CleanedFile = { path: string; size: number; modified_ms: number };
export type CleanUp = {
  /** Or, of a dry run, what would be. */
  deleted: CleanedFile[];
  kept: number;
  /** Passed over, and why. */
  skipped: { path: string; why: string }[];
  failed: { path: string; why: string }[];
};

/**
 * @param nowMs what is the time, in milliseconds since 1970
 * @throws INVALID_REQUEST where the root is a link, no folder, or of a checkpoint; NOT_FOUND
 */
export function cleanUp(
  root: string,
  rule: CleanUpRule,
  nowMs: number,
  onFile: (path: string, done: number) => void = () => {},
): CleanUp {
  const result: CleanUp = { deleted: [], kept: 0, skipped: [], failed: [] };
  const folder = Folder.open(root);
  try {
    // also where a relative path or a link above does not show it
    const checkpoint = folder.realPath().split("/").find(isCheckpointName);
    if (checkpoint !== undefined) {
      throw new DsecError(
        "INVALID_REQUEST",
        `${root} is not cleaned up: it is ${JSON.stringify(checkpoint)} or lies below it, whose name says checkpoint; name another folder, or delete its traces by hand`,
      );
    }
    const found: Found[] = [];
    find(folder, [], found, result);
    // of files that are equally old the name decides, so that a dry run says what a run would do
    found.sort((one, other) => other.stats.mtimeMs - one.stats.mtimeMs || (one.name < other.name ? -1 : 1));
    for (const [index, file] of found.entries()) {
      const path = pathOf(folder, file);
      const { mtimeMs, size } = file.stats;
      const isOld = rule.beforeMs === null || mtimeMs < rule.beforeMs;
      if (index < rule.keepLast || !isOld) {
        result.kept++;
        continue;
      }
      if (isBeingWritten(file, nowMs)) {
        result.skipped.push({ path, why: "a trajectory that was written lately may still be" });
        continue;
      }
      onFile(path, result.deleted.length);
      try {
        if (!rule.dryRun) remove(folder, file);
        result.deleted.push({ path, size, modified_ms: Math.floor(mtimeMs) });
      } catch (error) {
        result.failed.push({ path, why: (error as Error).message });
      }
    }
    return result;
  } finally {
    folder.close();
  }
}

/** Whether a name in a path says that what it names is, or belongs to, a checkpoint. */
export function isCheckpointName(name: string): boolean {
  return /check[-_ ]?point|(?:^|[^a-z])ckpt/i.test(name);
}

type Found = { folders: string[]; name: string; stats: Stats };

const SUFFIX = /\.(?:trace|traj)$/;

function find(folder: Folder, folders: string[], found: Found[], result: CleanUp): void {
  for (const name of folder.names()) {
    const path = `${folder.path.replace(/\/+$/, "")}/${name}`;
    const stats = folder.stat(name);
    // gone meanwhile
    if (stats === null) continue;
    const isTrace = SUFFIX.test(name);
    if (isCheckpointName(name)) {
      if (isTrace || stats.isDirectory()) result.skipped.push({ path, why: "its name says checkpoint" });
    } else if (stats.isDirectory()) {
      if (folders.length >= LIMITS.cleanUpDepth) {
        result.skipped.push({ path, why: `more than ${LIMITS.cleanUpDepth} folders deep` });
        continue;
      }
      let inner: Folder;
      try {
        inner = folder.folder(name);
      } catch (error) {
        result.failed.push({ path, why: (error as Error).message });
        continue;
      }
      try {
        find(inner, [...folders, name], found, result);
      } finally {
        inner.close();
      }
    } else if (stats.isSymbolicLink()) result.skipped.push({ path, why: "a link" });
    else if (isTrace && stats.isFile()) found.push({ folders, name, stats });
  }
}

/** By the same names from the root on, each opened without following a link; only what is still the file that was judged. */
function remove(root: Folder, { folders, name, stats }: Found): void {
  const opened: Folder[] = [];
  try {
    let folder = root;
    for (const part of folders) {
      folder = folder.folder(part);
      opened.push(folder);
    }
    const now = folder.stat(name);
    if (now === null) return;
    if (now.ino !== stats.ino || now.dev !== stats.dev || now.mtimeMs !== stats.mtimeMs) {
      throw new DsecError("INVALID_REQUEST", "it was changed meanwhile");
    }
    folder.unlink(name);
  } finally {
    for (const one of opened) one.close();
  }
}

/** A recorder touches its file far more often, also while nothing happens. */
function isBeingWritten({ name, stats }: Found, nowMs: number): boolean {
  return name.endsWith(".traj") && nowMs - stats.mtimeMs < LIMITS.cleanUpLiveMs;
}

function pathOf(root: Folder, { folders, name }: Found): string {
  return [root.path.replace(/(?<=.)\/+$/, ""), ...folders, name].join("/");
}
