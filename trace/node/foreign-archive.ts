/** Archives that other tools made, as `tar --zstd` does: without an index, so they are read from their start. */
import { Readable } from "node:stream";
import { extract } from "tar-stream";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { MemberNames } from "#trace/archive/member-name.ts";
import type { Source } from "#trace/format/walk.ts";
import { corruptArchive, frameDoesNotUnpack } from "./corrupt-archive.ts";
import { unpackZstd } from "./unpack-zstd.ts";

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
  names.checkTogether();
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
  let total = 0;
  try {
    for await (const bytes of unpackZstd(piecesOf(source), source.name)) {
      total += bytes.length;
      if (total > source.size * LIMITS.archiveExpansion) {
        throw corruptArchive(
          source.name,
          `it unpacks to more than ${LIMITS.archiveExpansion} times its size`,
        );
      }
      yield bytes;
    }
  } catch (cause) {
    if (cause instanceof DsecError) throw cause;
    throw frameDoesNotUnpack(source.name, cause);
  }
}

const PIECE_BYTES = 256 * 1024;

async function* piecesOf(source: Source): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < source.size; at += PIECE_BYTES) {
    yield await source.read(at, Math.min(PIECE_BYTES, source.size - at));
  }
}
