import { createHash } from "node:crypto";
import { close, read } from "node:fs";
import { mkdir, open, rename } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { DsecError } from "#core/errors.ts";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { Output } from "#core/wire/tasks.ts";
import { matchOutputs, type OutputSource } from "./output-walk.ts";
import { bytesFromName, wirePath } from "./sandbox-path.ts";

const CHUNK_BYTES = 256 * 1024;

/**
 * Copies the regular files that the patterns match out of an ended sandbox, to files named by digest. The sandbox's
 * own view decides what a path is: links are resolved within its root by the kernel (openat2 RESOLVE_IN_ROOT), so a
 * link to a file in the sandbox is that file and a link out of it is nothing. Wildcards do not descend through links.
 *
 * Rejects with OUTPUT_TOO_LARGE past the bounds of `core/limits.ts`.
 */
export async function collectOutputs(
  source: OutputSource,
  patterns: readonly string[],
  options: { workingDirectory: string; directory: string },
): Promise<Output[]> {
  if (patterns.length === 0) return [];
  const paths = await matchOutputs(source, patterns, options.workingDirectory);
  await mkdir(options.directory, { recursive: true, mode: 0o700 });
  const outputs: Output[] = [];
  let totalBytes = 0;
  for (const { path, bytes } of inOrder(paths)) {
    const descriptor = source.openOutput(bytes);
    if (descriptor === null) continue; // its path is longer than the kernel takes
    try {
      const name = checkedName(path);
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

function inOrder(paths: ReadonlySet<string>): { path: string; bytes: Uint8Array }[] {
  const named = [...paths].map((path) => ({ path, bytes: bytesFromName(path) }));
  return named.sort((a, b) => Buffer.compare(a.bytes, b.bytes));
}

function checkedName(path: string): string {
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
