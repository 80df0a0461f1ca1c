/**
 * The index of an archive: the last frame of the file, which zstd and tar pass over (RFC 8878 section 3.1.2). Its payload is JSON
 * `{"version":1,"members":[…]}`, the JSON's SHA-256, its length as uint32 and the magic; all integers little-endian.
 */
import { DsecError } from "#core/errors.ts";
import { type Digest, isDigest } from "#core/ids.ts";
import { parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { FRAME_HEAD_BYTES, sameBytes, skippableFrame, startsWith, uint32At } from "#trace/format/frames.ts";
import type { Source } from "#trace/format/walk.ts";
import { MemberNames } from "./member-name.ts";

/** `offset` and `bytes` are of the member's zstd frame, `size` and `digest` of its content. */
export type ArchiveMember = { name: string; size: number; digest: Digest; offset: number; bytes: number };

type Sha256 = (bytes: Uint8Array) => Uint8Array;

export function indexFrame(members: readonly ArchiveMember[], sha256: Sha256): Uint8Array {
  const json = new TextEncoder().encode(JSON.stringify({ version: 1, members }));
  if (json.length > LIMITS.archiveIndexBytes) {
    throw new DsecError(
      "INVALID_REQUEST",
      `${members.length} members are too many for one archive; make several`,
    );
  }
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, json.length, true);
  return skippableFrame(INDEX_FRAME, json, sha256(json), length, INDEX_MAGIC);
}

/**
 * The members by the archive's index, with names that are safe to extract; null where there is no index.
 * @throws TRACE_CORRUPT for a damaged one, INVALID_REQUEST for names that lead elsewhere
 */
export async function readIndex(source: Source, sha256: Sha256): Promise<ArchiveMember[] | null> {
  if (source.size < FRAME_HEAD_BYTES + TRAILER_BYTES) return null;
  const trailer = await source.read(source.size - TRAILER_BYTES, TRAILER_BYTES);
  if (!sameBytes(trailer.subarray(36), INDEX_MAGIC)) return null;
  const length = uint32At(trailer, 32);
  const offset = source.size - TRAILER_BYTES - length - FRAME_HEAD_BYTES;
  if (length > LIMITS.archiveIndexBytes || offset < 0)
    throw damaged(source, "it says a length that cannot be");
  const frame = await source.read(offset, FRAME_HEAD_BYTES + length);
  if (uint32At(frame, 0) !== INDEX_FRAME || uint32At(frame, 4) !== length + TRAILER_BYTES) {
    throw damaged(source, "its frame is not where its end says");
  }
  const json = frame.subarray(FRAME_HEAD_BYTES);
  if (!startsWith(trailer, sha256(json))) throw damaged(source, "its digest is another");
  return membersOf(parseJson(json, `${source.name}: index`), source, offset);
}

/** One of ours that no other tool has a use for; `zstd` passes over all sixteen. */
const INDEX_FRAME = 0x184d2a55;
const INDEX_MAGIC = new TextEncoder().encode("DSECIDX1");
const TRAILER_BYTES = 32 + 4 + 8;

function membersOf(value: unknown, source: Source, end: number): ArchiveMember[] {
  const { version, members } = (value ?? {}) as { version?: unknown; members?: unknown };
  if (version !== 1) {
    throw new DsecError(
      "TRACE_UNSUPPORTED",
      `${source.name}: its index is of version ${JSON.stringify(version)}, known here is 1; use a newer dsec`,
    );
  }
  if (!Array.isArray(members)) throw damaged(source, "it lists no members");
  const names = new MemberNames(source.name);
  for (const member of members as Partial<ArchiveMember>[]) {
    const { name, size, digest, offset, bytes } = member ?? {};
    const counts = [size, offset, bytes].every((count) => Number.isSafeInteger(count) && count! >= 0);
    if (typeof name !== "string" || !counts || typeof digest !== "string" || !isDigest(digest)) {
      throw damaged(source, "it has a member without name, place or digest");
    }
    if (offset! + bytes! > end) throw damaged(source, `${JSON.stringify(name)} lies outside the archive`);
    if (size! > bytes! * LIMITS.archiveExpansion) {
      throw damaged(source, `${JSON.stringify(name)} would unpack to ${size} bytes from ${bytes}`);
    }
    names.add(name);
  }
  names.checkTogether();
  return members as ArchiveMember[];
}

function damaged({ name }: Source, why: string): DsecError {
  return new DsecError(
    "TRACE_CORRUPT",
    `${name}: its index is damaged: ${why}; fetch the archive again, or read it with tar --zstd`,
  );
}
