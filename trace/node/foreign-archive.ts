/** Archives that other tools made, as `tar --zstd` does: without an index, so they are read from their start. */
import { Readable } from "node:stream";
import { extract } from "tar-stream";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { MemberNames } from "#trace/archive/member-name.ts";
import { FrameCutter, type FramePart } from "#trace/archive/zstd-frames.ts";
import type { Source } from "#trace/format/walk.ts";
import { corruptArchive, unpackFrame } from "./unpack-frame.ts";

/**
 * All members, once it is clear that each may be extracted.
 * @throws INVALID_REQUEST for names that lead elsewhere and for all but plain files; TRACE_CORRUPT
 */
export async function listForeign(source: Source): Promise<{ name: string; size: number }[]> {
  const members: { name: string; size: number }[] = [];
  const names = new MemberNames(source.name);
  for await (const { header } of entriesOf(source)) {
    // folders are made as they are needed
    if (header.type === "directory") continue;
    const name = plainName(header.name);
    if (header.type !== "file" && header.type !== "contiguous-file") {
      throw new DsecError(
        "INVALID_REQUEST",
        `${source.name}: member ${JSON.stringify(name).slice(0, 200)} is a ${header.type}; only files are extracted, and nothing of this archive`,
      );
    }
    names.add(name);
    members.push({ name, size: header.size });
  }
  return members;
}

/** The files in the archive's order. What is not read of one is passed over. */
export async function* foreignFiles(
  source: Source,
): AsyncGenerator<{ name: string; content: AsyncIterable<Uint8Array> }> {
  for await (const entry of entriesOf(source)) {
    if (entry.header.type === "directory") continue;
    yield { name: plainName(entry.header.name), content: entry as AsyncIterable<Uint8Array> };
  }
}

function plainName(name: string): string {
  return name.replace(/^(?:\.\/)+/, "");
}

async function* entriesOf(source: Source) {
  const parser = extract();
  const input = Readable.from(allContent(source), { objectMode: false });
  input.on("error", (error) => parser.destroy(error));
  input.pipe(parser);
  try {
    for await (const entry of parser) {
      yield entry;
      entry.resume();
    }
  } catch (cause) {
    if (cause instanceof DsecError) throw cause;
    throw corruptArchive(source.name, `it is no tar archive: ${(cause as Error).message}`, cause);
  } finally {
    input.destroy();
  }
}

/** The content of all frames, one after another. */
async function* allContent(source: Source): AsyncGenerator<Uint8Array> {
  const parts = partsOf(source);
  let total = 0;
  for (;;) {
    const first = await parts.next();
    if (first.done) return;
    if (first.value.kind === "end") continue;
    for await (const bytes of unpackFrame(frameFrom(first.value.bytes, parts), source.name)) {
      total += bytes.length;
      if (total > source.size * LIMITS.archiveExpansion) {
        throw corruptArchive(
          source.name,
          `it unpacks to more than ${LIMITS.archiveExpansion} times its size`,
        );
      }
      yield bytes;
    }
  }
}

async function* frameFrom(first: Uint8Array, parts: AsyncGenerator<FramePart>): AsyncGenerator<Uint8Array> {
  yield first;
  for (let part = await parts.next(); !part.done && part.value.kind === "bytes"; part = await parts.next()) {
    yield part.value.bytes;
  }
}

const PIECE_BYTES = 256 * 1024;

async function* partsOf(source: Source): AsyncGenerator<FramePart> {
  const cutter = new FrameCutter(source.name);
  for (let at = 0; at < source.size; at += PIECE_BYTES) {
    yield* cutter.push(await source.read(at, Math.min(PIECE_BYTES, source.size - at)));
  }
  cutter.end();
}
