/**
 * Base64url without padding (RFC 4648 section 5, as JOSE uses it), strictly: one text for one byte string. Lenient
 * decoders skip unknown characters and ignore the unused low bits of the last one, so that several texts carry the
 * same signature and a changed token still verifies.
 */
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const VALUE = new Int8Array(128).fill(-1);
for (let i = 0; i < ALPHABET.length; i++) VALUE[ALPHABET.charCodeAt(i)] = i;
const CODE = Uint8Array.from(ALPHABET, (character) => character.charCodeAt(0));

const ascii = new TextDecoder();

export function encodeBase64url(bytes: Uint8Array): string {
  const codes = new Uint8Array(Math.ceil((bytes.length * 4) / 3));
  let at = 0;
  for (let i = 0; i < bytes.length; i += 3) {
    const group = (bytes[i]! << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    codes[at++] = CODE[group >> 18]!;
    codes[at++] = CODE[(group >> 12) & 63]!;
    // writes past the end of a typed array are dropped: that is the padding we do not write
    codes[at++] = CODE[(group >> 6) & 63]!;
    codes[at++] = CODE[group & 63]!;
  }
  return ascii.decode(codes);
}

/** The bytes, or null where the text is not the one encoding that `encodeBase64url` gives them. */
export function decodeBase64url(text: string): Uint8Array<ArrayBuffer> | null {
  const tail = text.length % 4;
  if (tail === 1) return null;
  const bytes = new Uint8Array(Math.floor((text.length * 3) / 4));
  let at = 0;
  let bits = 0;
  let held = 0;
  for (let i = 0; i < text.length; i++) {
    const value = VALUE[text.charCodeAt(i)] ?? -1;
    if (value < 0) return null;
    held = ((held << 6) | value) & 0xffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes[at++] = held >> bits;
    }
  }
  const unused = held & ((1 << bits) - 1);
  return unused === 0 ? bytes : null;
}
