import { Readable } from "node:stream";
import { constants, createZstdDecompress } from "node:zlib";
import { FrameCutter, type FramePart } from "#trace/archive/zstd-frames.ts";

/** A window of 128 MiB, the most that every decoder may be asked for without a word (RFC 8878 section 3.1.1.1.2). */
const WINDOW_LOG_MAX = 27;

/**
 * The content of all frames of a zstd stream, one after another, each piece as soon as it can be had. Node's own
 * decompressor ends with the first frame of a chunk and drops what follows without a word.
 * @param name of the stream, for errors
 * @throws TRACE_CORRUPT for what is no frame; an error with a code of zlib's where one does not unpack
 */
export async function* unpackZstd(
  source: AsyncIterable<Uint8Array>,
  name: string,
): AsyncGenerator<Uint8Array> {
  const parts = partsOf(source, name);
  for (;;) {
    const first = await parts.next();
    if (first.done) return;
    if (first.value.kind === "bytes") yield* unpackFrame(frameFrom(first.value.bytes, parts));
  }
}

/** The content of one frame. */
export async function* unpackFrame(frame: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const unpack = createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG_MAX } });
  const input = Readable.from(frame, { objectMode: false });
  input.on("error", (error) => unpack.destroy(error));
  try {
    for await (const bytes of input.pipe(unpack)) yield bytes as Uint8Array;
  } finally {
    input.destroy();
  }
}

async function* partsOf(source: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<FramePart> {
  const cutter = new FrameCutter(name);
  for await (const bytes of source) yield* cutter.push(bytes);
  cutter.end();
}

async function* frameFrom(first: Uint8Array, parts: AsyncGenerator<FramePart>): AsyncGenerator<Uint8Array> {
  yield first;
  for (let part = await parts.next(); !part.done && part.value.kind === "bytes"; part = await parts.next()) {
    yield part.value.bytes;
  }
}
