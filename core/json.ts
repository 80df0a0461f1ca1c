import canonicalize from "canonicalize";
import { hexOf } from "./bytes.ts";
import { DsecError } from "./errors.ts";
import type { Digest } from "./ids.ts";
import { LIMITS } from "./limits.ts";

export type Json = null | boolean | number | string | Json[] | { [member: string]: Json };

/**
 * The RFC 8785 (JCS) form of a value. INVALID_REQUEST for what JSON cannot carry: NaN, the infinities (which is what
 * `JSON.parse` makes of 1e400), cycles, lone surrogates, functions.
 */
export function canonicalJson(value: unknown): string {
  let text: string | undefined;
  try {
    text = canonicalize(value);
  } catch (cause) {
    throw new DsecError("INVALID_REQUEST", `the value has no canonical JSON: ${(cause as Error).message}`, {
      cause,
    });
  }
  if (text === undefined) throw new DsecError("INVALID_REQUEST", "the value has no JSON form");
  return text;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export async function sha256(bytes: Uint8Array | string): Promise<Digest> {
  const data = typeof bytes === "string" ? encoder.encode(bytes) : bytes;
  return digestOf(new Uint8Array(await crypto.subtle.digest("SHA-256", data as Uint8Array<ArrayBuffer>)));
}

/** The address of content whose raw SHA-256 is already known. */
export function digestOf(hash: Uint8Array): Digest {
  return `sha256:${hexOf(hash)}`;
}

/** The SHA-256 of a value's RFC 8785 form: equal for equal values, whatever the member order. */
export function jsonDigest(value: unknown): Promise<Digest> {
  return sha256(canonicalJson(value));
}

/**
 * Parses JSON that comes from outside (RFC 8259, with the restrictions of I-JSON, RFC 7493): well-formed UTF-8
 * without a byte-order mark, no member name twice in one object, no lone surrogates, bounded nesting.
 * `JSON.parse` alone keeps the last of two equal names, so that two readers may see two different requests.
 * @param what the object named in the error, such as `request body`
 */
export function parseJson(input: Uint8Array | string, what: string): Json {
  let text: string;
  try {
    text = typeof input === "string" ? input : decoder.decode(input);
  } catch (cause) {
    throw malformed(what, "it is not UTF-8", cause);
  }
  if (text.startsWith("\uFEFF")) throw malformed(what, "it starts with a byte-order mark; send plain UTF-8");
  if (!text.isWellFormed()) throw malformed(what, "it holds a lone surrogate");
  const names = countNames(text, what);
  let value: Json;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw malformed(what, syntaxError(cause as SyntaxError));
  }
  // The engine keeps the last of two equal names, so that fewer members than names are left. Escapes may hide a lone
  // surrogate. Both are rare; only then is the text read string by string.
  if (text.includes("\\") || countMembers(value) !== names) checkStrings(text, what);
  return value;
}

/** The engine's reason without the piece of text that it quotes: what does not parse may be a key or a secret. */
function syntaxError(error: SyntaxError): string {
  const reason = error.message.replace(/,? ?(\.\.\.)?".*"(\.\.\.)? is not valid JSON$/s, "");
  return reason.slice(0, 200) || "it is not a JSON value";
}

function malformed(what: string, why: string, cause?: unknown): DsecError {
  return new DsecError("MALFORMED_JSON", `${what} is not valid JSON: ${why}`, { cause });
}

/** How many member names the text has, if it is JSON. Bounds the nesting, before anything is parsed. */
function countNames(text: string, what: string): number {
  let names = 0;
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case 0x7b: // {
      case 0x5b:
        if (++depth > LIMITS.jsonDepth) {
          throw malformed(what, `it nests deeper than ${LIMITS.jsonDepth} levels at offset ${i}`);
        }
        break;
      case 0x7d: // }
      case 0x5d:
        depth--;
        break;
      case 0x3a: // :
        names++;
        break;
      case 0x22:
        i = closingQuote(text, i);
        break;
    }
  }
  return names;
}

function countMembers(value: Json): number {
  if (typeof value !== "object" || value === null) return 0;
  const parts = Array.isArray(value) ? value : Object.values(value);
  let members = Array.isArray(value) ? 0 : parts.length;
  for (const part of parts) members += countMembers(part);
  return members;
}

/** Refuses repeated names and lone surrogates, in a text that is JSON. */
function checkStrings(text: string, what: string): void {
  // One entry for each open bracket: the names seen so far in an object, or null for an array.
  const open: (Set<string> | null)[] = [];
  let nameComes = false;
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case 0x7b: // {
      case 0x5b: {
        const isObject = text.charCodeAt(i) === 0x7b;
        open.push(isObject ? new Set() : null);
        nameComes = isObject;
        break;
      }
      case 0x7d: // }
      case 0x5d:
        open.pop();
        nameComes = false;
        break;
      case 0x2c: // ,
        nameComes = open.at(-1) instanceof Set;
        break;
      case 0x22: {
        const start = i;
        i = closingQuote(text, start);
        const string = stringAt(text, start, i, what);
        const names = open.at(-1);
        if (!nameComes || !(names instanceof Set)) break;
        if (names.has(string)) {
          const name = JSON.stringify(string).slice(0, 80);
          throw malformed(what, `member ${name} is repeated at offset ${start}`);
        }
        names.add(string);
        nameComes = false;
      }
    }
  }
}

/** Offset of the quote that ends the string which starts at `start`, or the text's length where none does. */
function closingQuote(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === 0x5c) backslashes++;
    if (backslashes % 2 === 0) return end;
  }
  return text.length;
}

/** The string between two quotes with its escapes resolved, because `\u0061` and `a` are one name. */
function stringAt(text: string, start: number, end: number, what: string): string {
  const raw = text.slice(start + 1, end);
  if (!raw.includes("\\")) return raw;
  const string = JSON.parse(text.slice(start, end + 1)) as string;
  if (!string.isWellFormed()) throw malformed(what, `lone surrogate in the string at offset ${start}`);
  return string;
}
