import { createHash } from "node:crypto";
import { close, read } from "node:fs";
import { mkdir, open, rename } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { promisify } from "node:util";
import { DsecError } from "#core/errors.ts";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { Output } from "#core/wire/tasks.ts";
import type { Sandbox } from "#native/index.ts";
import { compileGlob, type GlobStep } from "./glob.ts";
import { bytesFromName, nameFromBytes, wirePath } from "./sandbox-path.ts";

/** The part of an ended sandbox that outputs are read from. */
export type OutputSource = Pick<Sandbox, "listOutput" | "openOutput">;

/** So many names may be looked at for one task; a pattern such as `/**` over an image meets hundreds of thousands. */
const NAMES_MAX = 1_000_000;
const CHUNK_BYTES = 256 * 1024;

/**
 * Copies the regular files that the patterns match out of an ended sandbox, to files named by digest. The sandbox's
 * own view decides what a path is: links are resolved within its root by the kernel (openat2 RESOLVE_IN_ROOT), so a
 * link to a file in the sandbox is that file and a link out of it is nothing. Wildcards do not descend through links.
 *
 * Rejects with OUTPUT_TOO_LARGE past the bounds of `core/limits.ts`, and with INVALID_REQUEST for a pattern with
 * too many alternatives.
 */
export async function collectOutputs(
  source: OutputSource,
  patterns: string[],
  options: { workingDirectory: string; directory: string },
): Promise<Output[]> {
  if (patterns.length === 0) return [];
  const paths = await matchPaths(
    source,
    patterns.flatMap((p) => compileGlob(p, options.workingDirectory)),
  );
  await mkdir(options.directory, { recursive: true, mode: 0o700 });
  const outputs: Output[] = [];
  let totalBytes = 0;
  for (const path of [...paths].sort(byBytes)) {
    const descriptor = source.openOutput(bytesFromName(path));
    if (descriptor === null) continue; // a folder, a device, or a link that leads nowhere inside
    try {
      const name = checkedName(path, outputs.length);
      const maxBytes = Math.min(LIMITS.outputFileBytes, LIMITS.outputTotalBytes - totalBytes);
      const { digest, size } = await copyByDigest(descriptor, options.directory, maxBytes, name);
      totalBytes += size;
      outputs.push({ path: name, digest, size });
    } finally {
      await closeDescriptor(descriptor);
    }
  }
  return outputs;
}

/** Where the content of a digest lies among collected files. */
export function outputFile(directory: string, digest: string): string {
  return join(directory, digest.replace(":", "-"));
}

/** A place in an alternative: the step that the next name must match. */
type Place = { steps: GlobStep[]; at: number };

/** Walks the sandbox once for all alternatives together, listing only folders that a wildcard needs listed. */
async function matchPaths(source: OutputSource, alternatives: GlobStep[][]): Promise<Set<string>> {
  const found = new Set<string>();
  const pending: { path: string; places: Place[] }[] = [
    { path: "", places: alternatives.map((steps) => ({ steps, at: 0 })) },
  ];
  let names = 0;
  while (pending.length > 0) {
    const { path, places } = pending.pop()!;
    const open = withSkippedFolders(places);
    const fixed = new Set(open.flatMap(({ steps, at }) => (isFixed(steps[at]) ? [steps[at].name] : [])));
    const wild = open.filter(({ steps, at }) => !isFixed(steps[at]));
    const visit = (name: string, from: Place[], descend: boolean) => {
      const child = `${path}/${name}`;
      const next: Place[] = [];
      for (const place of from) {
        const step = place.steps[place.at]!;
        if (!matches(step, name)) continue;
        if (place.at === place.steps.length - 1) found.add(child);
        if (step === "**") next.push(place);
        else if (place.at < place.steps.length - 1) next.push({ steps: place.steps, at: place.at + 1 });
      }
      if (descend && next.length > 0) pending.push({ path: child, places: next });
    };
    // A fixed name is opened, not looked for, and may be a link: where it leads is resolved within the root.
    for (const name of fixed)
      visit(
        name,
        open.filter(({ steps, at }) => isFixed(steps[at])),
        true,
      );
    if (wild.length === 0) continue;
    for (const piece of source.listOutput(bytesFromName(path === "" ? "/" : path))) {
      names += piece.length;
      if (names > NAMES_MAX) {
        throw tooLarge(`the output patterns make more than ${NAMES_MAX} names be looked at; name a folder`);
      }
      for (const { name, kind } of piece) visit(nameFromBytes(name), wild, kind === "directory");
      await nextTurn(); // other tasks go on meanwhile
    }
  }
  return found;
}

/** `**` also stands for no folder at all: then the step after it is to match here. */
function withSkippedFolders(places: Place[]): Place[] {
  const all = new Map<GlobStep[], Set<number>>();
  const open: Place[] = [];
  for (const place of places) {
    for (let at = place.at; at < place.steps.length; at++) {
      const seen = all.get(place.steps) ?? new Set();
      all.set(place.steps, seen);
      if (!seen.has(at)) {
        seen.add(at);
        open.push({ steps: place.steps, at });
      }
      if (place.steps[at] !== "**") break;
    }
  }
  return open;
}

function isFixed(step: GlobStep | undefined): step is { name: string } {
  return typeof step === "object" && "name" in step;
}

function matches(step: GlobStep, name: string): boolean {
  if (step === "**") return true;
  return isFixed(step) ? step.name === name : step.matches(name);
}

function byBytes(a: string, b: string): number {
  return Buffer.compare(bytesFromName(a), bytesFromName(b));
}

function checkedName(path: string, before: number): string {
  if (before >= LIMITS.outputFiles) {
    throw tooLarge(
      `more than ${LIMITS.outputFiles} files match the output patterns; put out an archive instead`,
    );
  }
  const name = wirePath(path);
  if (name.length > LIMITS.outputPathBytes) {
    throw tooLarge(
      `the output path ${name.slice(0, 100)}… has ${name.length} characters, over ${LIMITS.outputPathBytes}`,
    );
  }
  return name;
}

/** One pass: what is hashed is what is kept, whatever the file does. */
async function copyByDigest(
  descriptor: number,
  directory: string,
  maxBytes: number,
  name: string,
): Promise<{ digest: Output["digest"]; size: number }> {
  const temporary = join(directory, "copying");
  const hash = createHash("sha256");
  const target = await open(temporary, "w", 0o600);
  let size = 0;
  try {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    for (;;) {
      const { bytesRead } = await readDescriptor(descriptor, buffer, 0, buffer.length, size);
      if (bytesRead === 0) break;
      size += bytesRead;
      if (size > maxBytes) {
        throw tooLarge(
          `output ${name} passes the bounds of ${LIMITS.outputFileBytes} bytes for one file and ` +
            `${LIMITS.outputTotalBytes} for all files of a task`,
        );
      }
      const chunk = buffer.subarray(0, bytesRead);
      hash.update(chunk);
      await target.writeFile(chunk);
    }
  } finally {
    await target.close();
  }
  const digest = digestOf(hash.digest());
  await rename(temporary, outputFile(directory, digest));
  return { digest, size };
}

const readDescriptor = promisify(read);
const closeDescriptor = promisify(close);

function tooLarge(message: string): DsecError {
  return new DsecError("OUTPUT_TOO_LARGE", message);
}
