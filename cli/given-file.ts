/** Files and standard input as they are given to a command: never held beyond a bound, and refused by name. */
import { closeSync, createReadStream, fstatSync, openSync, readFileSync, type Stats } from "node:fs";
import { Readable } from "node:stream";
import { DsecError } from "#core/errors.ts";
import { type Json, parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { usageError } from "./program.ts";

/**
 * A file as the content of an artifact; of a link what it leads to, and of a pipe what comes through it.
 * @param named as it is named to us, for messages
 * @throws NOT_FOUND where it cannot be read, BODY_TOO_LARGE past `artifactBytes`, CONFIG_INVALID for a folder
 */
export function fileStream(file: string, named: string): Uint8Array | ReadableStream<Uint8Array> {
  const { descriptor, found } = opened(file, named);
  let isPassedOn = false;
  try {
    if (found.isDirectory()) throw usageError(`${named} is a folder; pack it: tar -cf ${file}.tar ${file}`);
    if (found.size > LIMITS.artifactBytes) {
      throw new DsecError(
        "BODY_TOO_LARGE",
        `${named} has ${found.size} bytes; at most ${LIMITS.artifactBytes} may be sent`,
      );
    }
    // small files can be sent again when an answer is lost; large ones are not held in memory for that
    if (found.isFile() && found.size <= LIMITS.requestBodyBytes) return readFileSync(descriptor);
    isPassedOn = true;
    return Readable.toWeb(createReadStream(file, { fd: descriptor })) as ReadableStream<Uint8Array>;
  } finally {
    if (!isPassedOn) closeSync(descriptor);
  }
}

function opened(file: string, named: string): { descriptor: number; found: Stats } {
  try {
    const descriptor = openSync(file, "r");
    return { descriptor, found: fstatSync(descriptor) };
  } catch (cause) {
    const error = cause as NodeJS.ErrnoException;
    const why = error.code === "ENOENT" ? "no such file" : `it cannot be read: ${error.message}`;
    throw new DsecError("NOT_FOUND", `${named}: ${why}`, { cause });
  }
}

/** JSON that the gateway judges, from a file or, where that is `-`, from standard input. */
export async function readGivenJson(file: string, option: string, way: string): Promise<Json> {
  if (file === "-") return parseJson(await readStandardInput(LIMITS.givenJsonBytes, way), "standard input");
  const named = `${option} ${file}`;
  return parseJson(await readGivenFile(file, named, LIMITS.givenJsonBytes, way), named);
}

/**
 * The bytes of a file.
 * @param named as it is named to us, for messages
 * @param way what to do with more than `maxBytes`
 * @throws NOT_FOUND where it cannot be read, BODY_TOO_LARGE past `maxBytes`
 */
export function readGivenFile(
  file: string,
  named: string,
  maxBytes: number,
  way: string,
): Promise<Uint8Array> {
  return readBounded(createReadStream(file), named, maxBytes, way);
}

/** Standard input to its end as `readGivenFile` reads a file, however slowly it comes. A folder is CONFIG_INVALID. */
export async function readStandardInput(maxBytes: number, way: string): Promise<Uint8Array> {
  // Which process.stdin has as an empty one.
  if (fstatSync(0).isDirectory()) throw usageError("standard input is a folder; give a file or a pipe");
  return readBounded(process.stdin, "standard input", maxBytes, way);
}

/** By the bytes that come, not by a size that is told: a device or a pipe has none of its own. */
async function readBounded(
  source: AsyncIterable<Uint8Array>,
  named: string,
  maxBytes: number,
  way: string,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const part of source) {
      parts.push(part);
      length += part.length;
      if (length > maxBytes) break;
    }
  } catch (cause) {
    throw new DsecError("NOT_FOUND", `${named} cannot be read: ${(cause as Error).message}`, { cause });
  }
  if (length <= maxBytes) return Buffer.concat(parts);
  throw new DsecError("BODY_TOO_LARGE", `${named} has more than ${maxBytes} bytes; ${way}`);
}
