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

/**
 * Writes the outputs under their paths below the working directory (others under their whole path), `stdout` and
 * `stderr` where there is any, `attestation.jwt`, and `jwks.json` unless the caller keeps the keys elsewhere.
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
  for (const output of result.outputs)
    write(localPath(output, task.spec.working_directory), await client.tasks.output(task.id, output));
  for (const name of ["stdout", "stderr"] as const)
    if (result[name].kept_bytes > 0) write(name, await client.tasks.stream(task.id, name));
  const attestations = await client.tasks.attestations(task.id);
  const decisive = attestations.find(({ id }) => id === task.attestation_id);
  if (!decisive)
    throw new DsecError("ATTESTATION_NOT_FOUND", `task ${task.id} is ${task.state} and has no attestation`);
  write(ATTESTATION_FILE, `${decisive.jwt}\n`);
  if (withKeys) write(JWKS_FILE, `${JSON.stringify(await client.jwks(), null, 2)}\n`);
}

/** Paths come from a sandbox: the gateway lets no `..` through, and this does not depend on it. */
function localPath({ path }: Output, workingDirectory: string): string {
  const inside = path.startsWith(`${workingDirectory}/`) ? path.slice(workingDirectory.length) : path;
  const members = inside.split("/").filter((member) => member !== "");
  if (members.length === 0 || members.some((member) => member === "." || member === "..")) {
    throw new DsecError("INVALID_REQUEST", `output path ${JSON.stringify(path)} cannot be saved in a folder`);
  }
  return members.join("/");
}
