/**
 * Whether a path lies under a prefix for every server that may read it. Servers and the proxies before them decode
 * percent escapes never, once or twice, take `\` for `/`, and cut `;parameters` off; any of these can turn an
 * innocent segment into `..` after it was judged.
 */

/**
 * The form in which paths and prefixes are compared (RFC 3986 section 6.2.2): escapes of unreserved characters
 * decoded, the others in upper case. Dot segments were resolved by the URL parser.
 */
export function comparablePath(path: string): string {
  if (!path.includes("%")) return path;
  return path.replace(/%([0-9A-Fa-f]{2})/g, (encoded, hex: string) => {
    const char = String.fromCharCode(Number.parseInt(hex, 16));
    return /[A-Za-z0-9._~-]/.test(char) ? char : encoded.toUpperCase();
  });
}

/** Prefixes end at a segment's end: `/v1` holds `/v1` and `/v1/x` but not `/v10`; `/v1/` holds only what is below it. */
export function isUnder(comparable: string, prefix: string): boolean {
  if (!comparable.startsWith(prefix)) return false;
  return prefix.endsWith("/") || comparable.length === prefix.length || comparable[prefix.length] === "/";
}

/** Whether some way of decoding the path holds a `..` segment that the URL parser did not see as one. */
export function hidesTraversal(path: string): boolean {
  let reading = path;
  for (let round = 0; round < DECODING_ROUNDS; round++) {
    if (reading.split(/[/\\]/).some((segment) => DOT_DOT.test(segment))) return true;
    const next = decodeOnce(reading);
    if (next === reading) return false;
    reading = next;
  }
  return true; // nobody nests escapes so deep in good faith
}

const DECODING_ROUNDS = 6;

// Two dots or more, then what some server drops: white space, or everything from a NUL or a semicolon on.
// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL and white space are what servers drop
const DOT_DOT = /^\.{2,}[\x00-\x20]*(?:[\x00;].*)?$/s;

/** Bytes as Latin-1, which keeps `%2e` and `%2f` apart from the rest whatever the charset; and the known aliases of both. */
function decodeOnce(text: string): string {
  return text
    .replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/%u([0-9A-Fa-f]{4})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/\xc0\xae|\xe0\x80\xae|\uff0e|\xef\xbc\x8e/g, ".")
    .replace(/\xc0\xaf|\xe0\x80\xaf|\uff0f|\xef\xbc\x8f/g, "/")
    .replace(/\xc1\x9c|\xe0\x81\x9c|\uff3c|\xef\xbc\xbc/g, "\\");
}
