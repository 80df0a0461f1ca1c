/** A text as it reads once an encoding is taken off it, with the way back to where each character came from. */
import { hexBytes } from "./hex.ts";
import type { Span } from "./mark.ts";

/** `source` gives what must go of the text that was looked at, for a part of what is read. */
export type View = { text: string; source(part: Span): Span };

/** The other readings of the text; those that say the same as the text are left out. */
export function* viewsOf(text: string): Generator<View> {
  if (text.includes("%") || text.includes("+")) yield* unescaped(text, PERCENT, percentPieces);
  if (text.includes("\\")) yield* unescaped(text, BACKSLASH, (given) => [piece(backslashText(given), given)]);
  if (text.includes("&")) yield* unescaped(text, ENTITY, (given) => [piece(entityText(given), given)]);
  yield* hexadecimal(text);
  yield* base64(text);
}

/** Runs of percent-encoded bytes are UTF-8 together; a plus is a blank, as in forms. */
const PERCENT = /(?:%[0-9a-fA-F]{2})+|\+/g;
const BACKSLASH =
  /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\u\{[0-9a-fA-F]{1,6}\}|\\x[0-9a-fA-F]{2}|\\[bfnrtv0"'`/\\]/g;
const ENTITY = /&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos|nbsp|commat);/g;

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
  yield { text: out, source: ({ start, end }) => ({ start: starts[start]!, end: ends[end - 1]! }) };
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

function* hexadecimal(text: string): Generator<View> {
  for (const { index, 0: run } of text.matchAll(/[0-9a-fA-F]{8,}/g)) {
    const whole = { start: index, end: index + run.length };
    for (const from of [0, 1]) {
      const digits = run.slice(from, run.length - ((run.length - from) % 2));
      yield* readable(hexBytes(digits), whole);
    }
  }
}

/** Long lines that follow each other are one text, as in mail (RFC 2045 section 6.8). */
const BASE64 = /[A-Za-z0-9+/_-]{60,}(?:\r?\n[A-Za-z0-9+/_-]{4,})+={0,2}|[A-Za-z0-9+/_-]{8,}={0,2}/g;

function* base64(text: string): Generator<View> {
  for (const { index, 0: run } of text.matchAll(BASE64)) {
    const whole = { start: index, end: index + run.length };
    const digits = run
      .replace(/[\r\n=]/g, "")
      .replaceAll("-", "+")
      .replaceAll("_", "/");
    // what stands before it may be of the alphabet too
    for (let from = 0; from < 4; from++) yield* readable(base64Bytes(digits.slice(from)), whole);
  }
}

function base64Bytes(digits: string): Uint8Array {
  const whole = digits.length % 4 === 1 ? digits.slice(0, -1) : digits;
  return Uint8Array.from(atob(whole), (char) => char.charCodeAt(0));
}

/** A word that was never encoded decodes to noise, in which nothing needs to be looked for. */
function* readable(bytes: Uint8Array, whole: Span): Generator<View> {
  if (bytes.length < 4) return;
  let printable = 0;
  for (const byte of bytes)
    if ((byte >= 0x20 && byte < 0x7f) || byte === 0x0a || byte === 0x0d || byte === 0x09) printable++;
  const text = utf8Of(bytes);
  const noise = text.includes("\uFFFD") ? 0.8 : 0.4;
  if (printable >= noise * bytes.length) yield { text, source: () => whole };
}

const utf8 = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });

function utf8Of(bytes: Uint8Array): string {
  return utf8.decode(bytes);
}
