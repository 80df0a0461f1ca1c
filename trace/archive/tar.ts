/** Headers of tar members: POSIX.1-2017 pax with ustar fields, which every tar reads. */
import { DsecError } from "#core/errors.ts";

export const TAR_BLOCK_BYTES = 512;

/** Two blocks of zeros end an archive. */
export const TAR_END_BYTES = 2 * TAR_BLOCK_BYTES;

/** What stands before a file's content. @param modifiedS seconds since 1970 */
export function tarHeader({
  name,
  size,
  modifiedS,
}: {
  name: string;
  size: number;
  modifiedS: number;
}): Uint8Array {
  const bytes = encoder.encode(name);
  const fits = bytes.length <= 100 && bytes.every((byte) => byte < 0x80) && size <= LARGEST_OCTAL;
  if (fits) return block(bytes, size, modifiedS, "0");
  const records = encoder.encode(paxRecord("path", name) + paxRecord("size", String(size)));
  const before = block(encoder.encode("pax"), records.length, modifiedS, "x");
  const header = new Uint8Array(before.length + padded(records.length) + TAR_BLOCK_BYTES);
  header.set(before);
  header.set(records, before.length);
  header.set(
    block(bytes.subarray(0, 99), Math.min(size, LARGEST_OCTAL), modifiedS, "0"),
    header.length - TAR_BLOCK_BYTES,
  );
  return header;
}

/** Of content and of what fills its last block. */
export function padded(size: number): number {
  return Math.ceil(size / TAR_BLOCK_BYTES) * TAR_BLOCK_BYTES;
}

/**
 * Whether the bytes are the header that `tarHeader` makes of this member.
 * @throws TRACE_CORRUPT where they are another's
 */
export function checkTarHeader(
  bytes: Uint8Array,
  member: { name: string; size: number },
  archive: string,
): void {
  const modifiedS = numberAt(bytes, bytes.length - TAR_BLOCK_BYTES + 136, 12);
  const expected = tarHeader({ ...member, modifiedS });
  if (expected.length === bytes.length && expected.every((byte, at) => byte === bytes[at])) return;
  throw new DsecError(
    "TRACE_CORRUPT",
    `${archive}: what its index calls ${JSON.stringify(member.name).slice(0, 200)} is another member; fetch the archive again, or read it with tar --zstd`,
  );
}

const encoder = new TextEncoder();
const LARGEST_OCTAL = 0o77777777777;

function block(name: Uint8Array, size: number, modifiedS: number, type: string): Uint8Array {
  const bytes = new Uint8Array(TAR_BLOCK_BYTES);
  bytes.set(name.subarray(0, 100));
  const text = (at: number, value: string) => bytes.set(encoder.encode(value), at);
  text(100, "0000644\0");
  text(108, "0000000\0");
  text(116, "0000000\0");
  text(124, `${size.toString(8).padStart(11, "0")}\0`);
  text(136, `${Math.max(0, Math.floor(modifiedS)).toString(8).padStart(11, "0")}\0`);
  text(148, "        ");
  text(156, type);
  text(257, "ustar\x0000");
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  text(148, `${sum.toString(8).padStart(6, "0")}\0 `);
  return bytes;
}

/** Its length counts itself. */
function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  const restBytes = encoder.encode(rest).length;
  let length = restBytes + 1;
  while (String(length).length + restBytes !== length) length = String(length).length + restBytes;
  return `${length}${rest}`;
}

function numberAt(bytes: Uint8Array, at: number, length: number): number {
  const text = String.fromCharCode(...bytes.subarray(at, at + length)).replace(/[\0 ]/g, "");
  return /^[0-7]{1,11}$/.test(text) ? Number.parseInt(text, 8) : 0;
}
