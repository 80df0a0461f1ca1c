import { Readable } from "node:stream";
import { createZstdDecompress } from "node:zlib";
import { DsecError } from "#core/errors.ts";

/** The content of one zstd frame, as it comes. @throws TRACE_CORRUPT naming the archive */
export async function* unpackFrame(
  frame: AsyncIterable<Uint8Array>,
  archive: string,
): AsyncGenerator<Uint8Array> {
  const unpack = createZstdDecompress();
  const input = Readable.from(frame, { objectMode: false });
  input.on("error", (error) => unpack.destroy(error));
  try {
    for await (const bytes of input.pipe(unpack)) yield bytes as Uint8Array;
  } catch (cause) {
    if (cause instanceof DsecError) throw cause;
    throw corruptArchive(archive, `a frame does not unpack: ${(cause as Error).message}`, cause);
  } finally {
    input.destroy();
  }
}

export function corruptArchive(archive: string, why: string, cause?: unknown): DsecError {
  return new DsecError("TRACE_CORRUPT", `${archive}: ${why}; fetch the archive again`, { cause });
}
