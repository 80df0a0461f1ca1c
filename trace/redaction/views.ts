/** A text as it reads once an encoding is taken off it, with the way back to where each character came from. */
import { bytesOfLatin1 } from "#core/bytes.ts";
import { hexBytes } from "./hex.ts";
import type { Span } from "./mark.ts";

/** `source` gives what must go of the text that was looked at, for a part of what is read. */
export type View = { text: string; source(part: Span): Span };

/** Digits that bytes may have been written in; in base64 of the standard's alphabet, without line ends and padding. */
export type EncodedRun = Span & { encoding: "base64" | "hexadecimal"; digits: string };

/** The other readings of the text; those that say the same as the text are left out. */
export function* viewsOf(text: string): Generator<View> {
  if (text.includes("%") || text.includes("+")) yield* unescaped(text, PERCENT, percentPieces);
  if (text.includes("\\")) yield* unescaped(text, BACKSLASH, (given) => [piece(backslashText(given), given)]);
  if (text.includes("&")) yield* unescaped(text, ENTITY, (given) => [piece(entityText(given), given)]);
  if (/[\xc2-\xf4]/.test(text)) yield* unescaped(text, UTF8, (given) => [piece(bytesText(given), given)]);
}

export function* encodedRunsOf(text: string): Generator<EncodedRun> {
  for (const { index, 0: digits } of text.matchAll(/[0-9a-fA-F]{8,}/g)) {
    yield { start: index, end: index + digits.length, encoding: "hexadecimal", digits };
  }
  for (const { index, 0: run } of text.matchAll(BASE64)) {
    const digits = /^[A-Za-z0-9+/]+$/.test(run) ? run : standardDigits(run);
    yield { start: index, end: index + run.length, encoding: "base64", digits };
  }
}

function standardDigits(run: string): string {
  return run
    .replace(/[\r\n=]/g, "")
    .replaceAll("-", "+")
    .replaceAll("_", "/");
}

/** What the run says, where that is text: a word that was never encoded decodes to noise, in which any match is chance. */
export function* readingsOf(run: EncodedRun): Generator<View> {
  // what stands before it may be of the alphabet too
  for (let from = 0; from < (run.encoding === "base64" ? 4 : 2); from++) {
    const bytes =
      run.encoding === "base64" ? textBytes(run.digits, from) : hexBytes(evenFrom(run.digits, from));
    if (bytes === null || bytes.length < 4) continue;
    const share = printable(bytes) / bytes.length;
    if (share < 0.4) continue;
    const text = utf8Of(bytes);
    if (share >= 0.8 || !text.includes("\uFFFD")) yield { text, source: () => run };
  }
}

/** Runs of percent-encoded bytes are UTF-8 together; a plus is a blank, as in forms. */
const PERCENT = /(?:%[0-9a-fA-F]{2})+|\+/g;
const BACKSLASH =
  /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\u\{[0-9a-fA-F]{1,6}\}|\\x[0-9a-fA-F]{2}|\\[bfnrtv0"'`/\\]/g;
const ENTITY = /&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos|nbsp|commat);/g;

/** Characters in UTF-8 whose bytes stand for one character each: so streams, and bytes that are not all text, are looked at. */
const UTF8 = /[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}/g;

/** What a part of the text reads as; `length` is that of the part. */
type Piece = { text: string; length: number };

function piece(text: string, given: string): Piece {
  return { text, length: given.length };
}

function* unescaped(text: string, pattern: RegExp, decode: (given: string) => Piece[]): Generator<View> {
  let out = "";
  // where what each character of `out` stands for begins and ends in the text
  const starts: number[] = [];
  const ends: number[] = [];
  const add = (plain: string, start: number, length: number) => {
    out += plain;
    for (let i = 0; i < plain.length; i++) {
      starts.push(start);
      ends.push(start + length);
    }
  };
  let at = 0;
  const copyTo = (to: number) => {
    for (; at < to; at++) add(text[at]!, at, 1);
  };
  for (const { index, 0: given } of text.matchAll(pattern)) {
    copyTo(index);
    for (const { text: plain, length } of decode(given)) {
      add(plain, at, length);
      at += length;
    }
  }
  if (at === 0) return;
  copyTo(text.length);
  // an escape is never cut: one that is half in a match goes whole
  yield {
    text: out,
    source: ({ start, end }) => ({ start: starts[start]!, end: ends[end - 1]! }),
  };
}

function percentPieces(given: string): Piece[] {
  if (given === "+") return [piece(" ", given)];
  const bytes = hexBytes(given.replaceAll("%", ""));
  const pieces: Piece[] = [];
  for (let at = 0; at < bytes.length; ) {
    const lead = bytes[at]!;
    const size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    const char = bytes.subarray(at, at + size);
    pieces.push({ text: utf8Of(char), length: 3 * char.length });
    at += char.length;
  }
  return pieces;
}

function bytesText(given: string): string {
  return utf8Of(bytesOfLatin1(given));
}

const NAMED_ESCAPES: Readonly<Record<string, string>> = {
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  "0": "\0",
};

function backslashText(escaped: string): string {
  const kind = escaped[1]!;
  if (kind === "u" && escaped[2] !== "{") {
    // two of a pair come together
    const units = escaped.split("\\u").slice(1);
    return String.fromCharCode(...units.map((unit) => Number.parseInt(unit, 16)));
  }
  if (kind === "u" || kind === "x") {
    const point = Number.parseInt(escaped.replace(/[^0-9a-fA-F]/g, ""), 16);
    return point <= 0x10ffff ? String.fromCodePoint(point) : "\uFFFD";
  }
  return NAMED_ESCAPES[kind] ?? kind;
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  commat: "@",
};

function entityText(escaped: string): string {
  const name = escaped.slice(1, -1);
  if (!name.startsWith("#")) return ENTITIES[name]!;
  const point = name[1] === "x" ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
  return point <= 0x10ffff ? String.fromCodePoint(point) : "\uFFFD";
}

function evenFrom(digits: string, from: number): string {
  return digits.slice(from, digits.length - ((digits.length - from) % 2));
}

/** Long lines that follow each other are one text, as in mail (RFC 2045 section 6.8). */
const BASE64 = /[A-Za-z0-9+/_-]{60,}(?:\r?\n[A-Za-z0-9+/_-]{4,})+={0,2}|[A-Za-z0-9+/_-]{8,}={0,2}/g;

/** By the code of a digit its value. */
const DIGITS = new Uint8Array(128);
for (const [value, digit] of [
  ..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
].entries()) {
  DIGITS[digit.charCodeAt(0)] = value;
}

/** How many of the first bytes tell noise from text. */
const SAMPLE_BYTES = 12;

/** The bytes of base64 from a digit on; null where they begin as noise does. */
function textBytes(digits: string, from: number): Uint8Array | null {
  const length = Math.floor(((digits.length - from) * 6) / 8);
  const bytes = new Uint8Array(length);
  let [bits, held, at] = [0, 0, 0];
  for (let i = from; i < digits.length; i++) {
    bits = ((bits << 6) | DIGITS[digits.charCodeAt(i)]!) & 0xffff;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes[at++] = bits >> held;
    if (at === SAMPLE_BYTES && printable(bytes.subarray(0, at)) < 0.4 * at) return null;
  }
  return bytes;
}

function printable(bytes: Uint8Array): number {
  let count = 0;
  for (const byte of bytes) {
    if ((byte >= 0x20 && byte < 0x7f) || byte === 0x0a || byte === 0x0d || byte === 0x09) count++;
  }
  return count;
}

const utf8 = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });

function utf8Of(bytes: Uint8Array): string {
  return utf8.decode(bytes);
}
