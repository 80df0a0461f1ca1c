/** A result as a folder that a stranger can be handed and that `dsec verify` reads. */
import { mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { DsecError } from "#core/errors.ts";
import type { Output, Task } from "#core/wire/tasks.ts";
import type { Client } from "#sdk/client.ts";
import { makeFolders, writeAtomically } from "./data-folder.ts";
import { unwritable, usageError } from "./program.ts";
import { ATTESTATION_FILE, JWKS_FILE } from "./verification.ts";

/**
 * Makes the folder that a result is to be saved in, before there is one that could be lost. It must be empty: beside an
 * attestation every file has to be an output of its task.
 */
export function makeResultFolder(what: string, folder: string): void {
  try {
    makeFolders(folder);
    if (readdirSync(folder).length === 0) return;
  } catch (error) {
    throw usageError(`${what} ${folder} is no folder that can be written: ${(error as Error).message}`);
  }
  throw usageError(`${what} ${folder} holds files already; name another folder, or empty this one`);
}

/** Names in the folder that no output may have. */
const OWN_NAMES = [ATTESTATION_FILE, JWKS_FILE, "stdout", "stderr"];

/**
 * Writes `attestation.jwt`, `jwks.json` unless the caller keeps the keys elsewhere, `stdout` and `stderr` where there is
 * any, and the outputs: under their paths below the working directory, and under their whole paths where they are outside
 * of it or where something else has that place.
 * @throws OUTPUT_UNWRITABLE that names each output for which there is no place, once everything else is saved
 */
export async function saveResult(
  client: Client,
  task: Task,
  folder: string,
  { withKeys = true }: { withKeys?: boolean } = {},
): Promise<void> {
  const result = task.result;
  if (result === null) {
    throw new DsecError("OUTPUT_NOT_FOUND", `task ${task.id} is ${task.state} and left no result to save`);
  }
  const write = (path: string, content: Uint8Array | string) => {
    try {
      mkdirSync(dirname(join(folder, path)), { recursive: true, mode: 0o700 });
      writeAtomically(join(folder, path), content);
    } catch (error) {
      throw unwritable(
        `${path} of ${task.id} (\`dsec task save ${task.id} DIR\` saves it elsewhere)`,
        error as Error,
      );
    }
  };
  const attestations = await client.tasks.attestations(task.id);
  const decisive = attestations.find(({ id }) => id === task.attestation_id);
  if (!decisive)
    throw new DsecError("ATTESTATION_NOT_FOUND", `task ${task.id} is ${task.state} and has no attestation`);
  write(ATTESTATION_FILE, `${decisive.jwt}\n`);
  if (withKeys) write(JWKS_FILE, `${JSON.stringify(await client.jwks(), null, 2)}\n`);
  for (const name of ["stdout", "stderr"] as const)
    if (result[name].kept_bytes > 0) write(name, await client.tasks.stream(task.id, name));
  const { places, unplaced } = placesOf(result.outputs, task.spec.working_directory);
  for (const [output, place] of places) write(place, await client.tasks.output(task.id, output));
  if (unplaced.length > 0) {
    const [first, more] = [unplaced[0]!.path, unplaced.length - 1];
    throw new DsecError(
      "OUTPUT_UNWRITABLE",
      `${first}${more === 0 ? "" : ` and ${more} more outputs`} of ${task.id} would take the place of the result's own ` +
        `${OWN_NAMES.join(", ")}; all else is saved, and GET /v1/tasks/${task.id}/outputs/content?path=${encodeURIComponent(first)} has it`,
    );
  }
}

/**
 * Where outputs go in the folder. A short path gives way to the whole one where it meets another's or a name of ours. Whole
 * paths are of one file tree and meet none but ours: what does is not placed.
 */
function placesOf(
  outputs: Output[],
  workingDirectory: string,
): { places: Map<Output, string>; unplaced: Output[] } {
  const places = new Map(outputs.map((output) => [output, shortPlace(output.path, workingDirectory)]));
  for (;;) {
    const meets = meetingOthers([...OWN_NAMES, ...places.values()]);
    const met = outputs.filter((output) => meets(places.get(output)!));
    const movable = met.filter((output) => places.get(output) !== wholePlace(output.path));
    if (movable.length === 0) {
      for (const output of met) places.delete(output);
      return { places, unplaced: met };
    }
    for (const output of movable) places.set(output, wholePlace(output.path));
  }
}

/** Tells of each of these files whether it is there twice, is a folder of another, or has another as its folder. */
function meetingOthers(files: string[]): (file: string) => boolean {
  const seen = new Set<string>();
  const twice = new Set(files.filter((file) => seen.size === seen.add(file).size));
  const folders = new Set(files.flatMap(foldersOf));
  return (file) => twice.has(file) || folders.has(file) || foldersOf(file).some((folder) => seen.has(folder));
}

/** `a` and `a/b` of `a/b/c`. */
function foldersOf(place: string): string[] {
  const members = place.split("/");
  return members.slice(1).map((_, i) => members.slice(0, i + 1).join("/"));
}

function shortPlace(path: string, workingDirectory: string): string {
  return path.startsWith(`${workingDirectory}/`)
    ? wholePlace(path.slice(workingDirectory.length))
    : wholePlace(path);
}

/** Paths come from a sandbox: the gateway lets no `..` through, and this does not depend on it. */
function wholePlace(path: string): string {
  const members = path.split("/").filter((member) => member !== "");
  if (members.length === 0 || members.some((member) => member === "." || member === "..")) {
    throw new DsecError("INVALID_REQUEST", `output path ${JSON.stringify(path)} cannot be saved in a folder`);
  }
  return members.join("/");
}
