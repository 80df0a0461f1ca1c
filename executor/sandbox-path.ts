/**
 * File names are bytes. Inside the executor a name is a string that holds them without loss: well-formed UTF-8 as
 * itself, any other byte as U+DC80…U+DCFF (as Python's surrogateescape does), so that patterns match characters.
 */
export function nameFromBytes(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch {
    return decodeLossless(bytes);
  }
}

export function bytesFromName(name: string): Uint8Array {
  if (name.isWellFormed()) return Buffer.from(name, "utf8");
  const parts = [...name].map((character) => {
    const code = character.codePointAt(0)!;
    return isEscaped(code) ? Buffer.from([code - 0xdc00]) : Buffer.from(character, "utf8");
  });
  return Buffer.concat(parts);
}

/** A name as the wire writes it (OutputSchema): bytes that are not UTF-8 as percent escapes, and the percent sign. */
export function wirePath(name: string): string {
  let path = "";
  for (const character of name) {
    const code = character.codePointAt(0)!;
    if (character === "%") path += "%25";
    else if (isEscaped(code)) path += `%${(code - 0xdc00).toString(16).toUpperCase()}`;
    else path += character;
  }
  return path;
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function isEscaped(code: number): boolean {
  return code >= 0xdc80 && code <= 0xdcff;
}

/** Takes the longest well-formed character at each place, and a single byte where there is none. */
function decodeLossless(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; ) {
    const length = characterLength(bytes[i]!);
    const slice = bytes.subarray(i, i + length);
    try {
      text += strict.decode(slice);
      i += length;
    } catch {
      text += String.fromCharCode(0xdc00 + bytes[i]!);
      i++;
    }
  }
  return text;
}

/** Length that a first byte of UTF-8 announces (RFC 3629 section 3). */
function characterLength(first: number): number {
  if (first >= 0xf0) return 4;
  if (first >= 0xe0) return 3;
  return first >= 0xc0 ? 2 : 1;
}
