/** The parts one after the other; one that is alone is given as it is. */
export function joined(parts: readonly Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Two lower-case digits for each byte. */
export function hexOf(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at++) text += HEX[bytes[at]!];
  return text;
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** What bytes that came as Latin-1, one character for each, say in UTF-8; null where they are none. */
export function utf8OfLatin1(latin1: string): string | null {
  if (!/[^\0-\x7f]/.test(latin1)) return latin1;
  if (/[^\0-\xff]/.test(latin1)) return null;
  try {
    return utf8.decode(bytesOfLatin1(latin1));
  } catch {
    return null;
  }
}

/** One character for each byte. */
export function latin1Of(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192)
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return text;
}

/** Of text with one character for each byte. */
export function bytesOfLatin1(latin1: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(latin1, (char) => char.charCodeAt(0));
}

/** Every byte outside ASCII as its percent escape. */
export function escapedBytes(latin1: string): string {
  return latin1.replaceAll(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase()}`);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
