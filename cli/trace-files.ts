/** Trace files as they are named on the command line: by path, by folder or by glob, thousands of them one at a time. */
import { glob, lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { DsecError } from "#core/errors.ts";
import { hasColour, plainLine } from "./terminal.ts";

const SUFFIXES = [".trace", ".traj"];

/**
 * The files that the words name, in order: a path as it is, of a folder the traces and trajectories in it and below, of a
 * glob what it matches. Links in folders are not followed.
 * @throws NOT_FOUND for a word that names nothing
 */
export async function* traceFiles(words: readonly string[]): AsyncGenerator<string> {
  for (const word of words) {
    const stats = await lstat(word).catch(() => null);
    let found = false;
    for await (const path of stats === null ? matching(word) : stats.isDirectory() ? below(word) : [word]) {
      found = true;
      yield path;
    }
    if (found) continue;
    const why =
      stats === null ? "no such file, folder or match" : `no ${SUFFIXES.join(" or ")} file in this folder`;
    throw new DsecError("NOT_FOUND", `${word}: ${why}`);
  }
}

async function* below(folder: string): AsyncGenerator<string> {
  for await (const path of filesBelow(folder))
    if (SUFFIXES.some((suffix) => path.endsWith(suffix))) yield path;
}

/** Every regular file in the folder and below, in order. */
export async function* filesBelow(folder: string): AsyncGenerator<string> {
  const entries = await readdir(folder, { withFileTypes: true });
  entries.sort((one, other) => (one.name < other.name ? -1 : 1));
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    else if (entry.isFile()) yield path;
  }
}

async function* matching(pattern: string): AsyncGenerator<string> {
  const paths: string[] = [];
  for await (const path of glob(pattern)) paths.push(path);
  for (const path of paths.sort()) if ((await lstat(path)).isFile()) yield path;
}

export type Progress = {
  /** What is done now, and how many were done before it. */
  at(what: string, done: number): void;
  end(): void;
};

const EVERY_MS = 100;

/** A line on standard error that tells how long work goes; nothing where that is no terminal. */
export function progress(verb: string): Progress {
  const shown = hasColour(process.stderr);
  let saidAtMs = Number.NEGATIVE_INFINITY;
  return {
    at(what, done) {
      if (!shown || performance.now() - saidAtMs < EVERY_MS) return;
      saidAtMs = performance.now();
      const line = `${verb} ${plainLine(what)} (${done} done)`;
      process.stderr.write(`\r\x1b[K${line.slice(0, (process.stderr.columns ?? 80) - 1)}`);
    },
    end() {
      if (shown) process.stderr.write("\r\x1b[K");
    },
  };
}
