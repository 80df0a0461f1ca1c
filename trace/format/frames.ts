/**
 * The outermost layer of a trace file: zstd frames, and skippable frames that hold what zstd need not know (RFC 8878
 * section 3.1). `zstd -dc` of a file is the content of the zstd frames alone.
 */
import { DsecError } from "#core/errors.ts";

export const ZSTD_MAGIC = 0xfd2fb528;
/** Magic numbers of our skippable frames; the other thirteen are passed over. */
export const HEADER_FRAME = 0x184d2a50;
export const BLOCK_FRAME = 0x184d2a51;
export const FOOTER_FRAME = 0x184d2a52;

/** Magic number and size. */
export const FRAME_HEAD_BYTES = 8;

/** First in a file header's frame; its last character is the version of the container. */
export const HEADER_MAGIC = new TextEncoder().encode("DSECTRC1");
/** Last in a sealed file. */
export const FOOTER_MAGIC = new TextEncoder().encode("DSECEND1");
/** After the footer in its frame: its SHA-256, its length as uint32, the magic. */
export const TRAILER_BYTES = 32 + 4 + 8;

export function skippableFrame(magic: number, ...parts: Uint8Array[]): Uint8Array {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const frame = new Uint8Array(FRAME_HEAD_BYTES + length);
  const view = new DataView(frame.buffer);
  view.setUint32(0, magic, true);
  view.setUint32(4, length, true);
  let at = FRAME_HEAD_BYTES;
  for (const part of parts) {
    frame.set(part, at);
    at += part.length;
  }
  return frame;
}

/** Where the parts of a zstd frame lie, counted from its magic number, by the byte that follows that (RFC 8878 section 3.1.1.1). */
export function zstdLayout(descriptor: number) {
  const isSingleSegment = (descriptor & 0x20) !== 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3]!;
  const contentSizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >>> 6]!;
  const contentSizeAt = 5 + (isSingleSegment ? 0 : 1) + dictionaryBytes;
  return {
    ...{ dictionaryBytes, contentSizeAt, contentSizeBytes },
    blocksAt: contentSizeAt + contentSizeBytes,
    checksumBytes: (descriptor & 4) !== 0 ? 4 : 0,
  };
}

export function isSkippable(magic: number): boolean {
  return magic >>> 4 === 0x184d2a5;
}

export function uint32At(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0;
}

export function startsWith(bytes: Uint8Array, start: Uint8Array): boolean {
  return bytes.length >= start.length && start.every((byte, at) => bytes[at] === byte);
}

export function sameBytes(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && startsWith(one, other);
}

export function concatBytes(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export type Place = { name: string; offset: number };

export function corruptAt({ name, offset }: Place, why: string, cause?: unknown): DsecError {
  return new DsecError(
    "TRACE_CORRUPT",
    `${name}: at offset ${offset}: ${why}; what comes before can be kept with \`dsec trace seal\`, or fetch the file again`,
    { cause, details: { offset, reason: why } },
  );
}

export function unsupportedAt({ name, offset }: Place, why: string): DsecError {
  return new DsecError(
    "TRACE_UNSUPPORTED",
    `${name}: at offset ${offset}: ${why}; read it with a newer dsec`,
    { details: { offset, reason: why } },
  );
}

/** The error with file and offset, where it has none yet. */
export function placed(error: unknown, place: Place): DsecError {
  if (error instanceof DsecError && error.details?.offset !== undefined) return error;
  const { message } = error as Error;
  if (error instanceof DsecError && error.code === "TRACE_UNSUPPORTED") return unsupportedAt(place, message);
  return corruptAt(place, message, error);
}
