/**
 * PostgreSQL stores neither U+0000 nor lone surrogates. Requests with them are refused at the edge; text that
 * comes from failures is kept readable instead, because a failure that cannot be stored would never end.
 */

/** The text with U+0000 and lone surrogates written out as `\u0000`. */
export function storableText(text: string): string {
  if (!text.includes("\0") && text.isWellFormed()) return text;
  let clean = "";
  // Iterating goes by code points: a surrogate that comes alone has no partner.
  for (const char of text) clean += char === "\0" || !char.isWellFormed() ? escaped(char) : char;
  return clean;
}

/** JSON text of a value, with every string and member name in it storable. */
export function storableJson(value: unknown): string {
  const text = JSON.stringify(value);
  // JSON.stringify escapes exactly what must not be stored; a match may also be an escaped backslash before "u0000".
  return /\\u(?:0000|d[89a-f])/.test(text) ? JSON.stringify(clean(value)) : text;
}

function clean(value: unknown): unknown {
  if (typeof value === "string") return storableText(value);
  if (Array.isArray(value)) return value.map(clean);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [storableText(name), clean(member)]),
  );
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
