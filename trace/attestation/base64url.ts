/**
 * Base64url without padding (RFC 4648 section 5, as JOSE uses it), strictly: one text for one byte string. Lenient
 * decoders skip unknown characters and ignore the unused low bits of the last one, so that several texts carry the
 * same signature and a changed token still verifies.
 */
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const VALUE = new Int8Array(256).fill(-1);
for (let i = 0; i < ALPHABET.length; i++) VALUE[ALPHABET.charCodeAt(i)] = i;
const CODE = Uint8Array.from(ALPHABET, (character) => character.charCodeAt(0));

const encoder = new TextEncoder();
const ascii = new TextDecoder();

export function encodeBase64url(bytes: Uint8Array): string {
  const codes = new Uint8Array(Math.ceil((bytes.length * 4) / 3));
  const whole = bytes.length - (bytes.length % 3);
  let at = 0;
  for (let i = 0; i < whole; i += 3) {
    const group = (bytes[i]! << 16) | (bytes[i + 1]! << 8) | bytes[i + 2]!;
    codes[at++] = CODE[group >> 18]!;
    codes[at++] = CODE[(group >> 12) & 63]!;
    codes[at++] = CODE[(group >> 6) & 63]!;
    codes[at++] = CODE[group & 63]!;
  }
  if (whole < bytes.length) {
    const group = (bytes[whole]! << 16) | ((bytes[whole + 1] ?? 0) << 8);
    codes[at++] = CODE[group >> 18]!;
    codes[at++] = CODE[(group >> 12) & 63]!;
    if (at < codes.length) codes[at] = CODE[(group >> 6) & 63]!;
  }
  return ascii.decode(codes);
}

/** The bytes, or null where the text is not the one encoding that `encodeBase64url` gives them. */
export function decodeBase64url(text: string): Uint8Array<ArrayBuffer> | null {
  // Reading an array is several times faster than reading a text by character. What is no ASCII becomes bytes that have
  // no value, and so is refused.
  const codes = encoder.encode(text);
  const tail = codes.length % 4;
  if (tail === 1) return null;
  const bytes = new Uint8Array(Math.floor((codes.length * 3) / 4));
  const whole = codes.length - tail;
  let at = 0;
  let seen = 0;
  for (let i = 0; i < whole; i += 4) {
    const group =
      (VALUE[codes[i]!]! << 18) |
      (VALUE[codes[i + 1]!]! << 12) |
      (VALUE[codes[i + 2]!]! << 6) |
      VALUE[codes[i + 3]!]!;
    // a foreign character has the value -1, whose sign bit stays set through every shift and every or
    seen |= group;
    bytes[at++] = group >> 16;
    bytes[at++] = group >> 8;
    bytes[at++] = group;
  }
  if (seen < 0) return null;
  if (tail === 0) return bytes;
  const group =
    (VALUE[codes[whole]!]! << 12) |
    (VALUE[codes[whole + 1]!]! << 6) |
    (tail === 3 ? VALUE[codes[whole + 2]!]! : 0);
  const unused = tail === 2 ? 0x3ff : 0x3;
  if (group < 0 || (group & unused) !== 0) return null;
  bytes[at++] = group >> 10;
  if (tail === 3) bytes[at] = group >> 2;
  return bytes;
}
