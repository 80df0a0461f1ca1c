/**
 * Values that are known to be secret, looked for wherever they stand. Letters are alike in either case; a short value counts
 * only as a word of its own, for within others it would be chance.
 */
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { base64Of } from "#trace/exchange/event-lines.ts";
import type { Span } from "./mark.ts";

/** Shorter values are taken out only where their field or pattern says so. */
const LEAST_CHARS = 4;
/** From here on a value is no chance part of another word. */
const LONG_CHARS = 8;
/** Shorter fragments of base64 would be chance. */
const LEAST_BYTES_ENCODED = 6;

export class SecretValues {
  readonly #values = new Needles();
  readonly #base64 = new Needles();
  readonly #hexadecimal = new Needles();

  /** @throws INVALID_REQUEST past `LIMITS.redactionValues` */
  add(given: string): void {
    const value = given.trim();
    if (value.length < LEAST_CHARS || !this.#values.add(folded(value))) return;
    if (this.#values.size > LIMITS.redactionValues) {
      throw new DsecError(
        "INVALID_REQUEST",
        `more than ${LIMITS.redactionValues} different values are to be redacted; name fewer fields, or narrower patterns`,
      );
    }
    const bytes = new TextEncoder().encode(value);
    if (bytes.length < LEAST_BYTES_ENCODED) return;
    for (const before of [0, 1, 2]) this.#base64.add(base64Within(bytes, before));
    this.#hexadecimal.add(Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(""));
  }

  /** @param longOnly leaves out those that could be there by chance where it is no text */
  *in(given: string, longOnly = false): Generator<Span> {
    if (this.#values.size === 0) return;
    const text = folded(given);
    yield* this.#values.in(text, (value, at) => counts(value, text, at, longOnly));
  }

  /** Whether a run of base64 (RFC 4648 section 4) has a value in it, among whatever other bytes. */
  isInBase64(run: string): boolean {
    return this.#base64.size > 0 && !this.#base64.in(run).next().done;
  }

  isInHexadecimal(run: string): boolean {
    return this.#hexadecimal.size > 0 && !this.#hexadecimal.in(run.toLowerCase()).next().done;
  }
}

/** Many texts that are looked for at once, by their first characters and then, however many begin alike, by length. */
class Needles {
  readonly #byStart = new Map<number, { length: number; needles: Set<string> }[]>();
  /** By the lower half of the start's hash: most places are passed over with one look. */
  readonly #starts = new Uint8Array(1 << 16);
  size = 0;

  /** False for one that is known. */
  add(needle: string): boolean {
    const start = hashAt(needle, 0);
    const lengths = this.#byStart.get(start) ?? [];
    this.#byStart.set(start, lengths);
    const { length } = needle;
    // the longest first, so that a match is never a part of a longer one
    let at = lengths.findIndex((alike) => alike.length <= length);
    if (at < 0) at = lengths.length;
    if (lengths[at]?.length !== length) lengths.splice(at, 0, { length, needles: new Set() });
    const { needles } = lengths[at]!;
    if (needles.has(needle)) return false;
    needles.add(needle);
    this.size++;
    this.#starts[start & 0xffff] = 1;
    return true;
  }

  *in(text: string, counts: (needle: string, at: number) => boolean = () => true): Generator<Span> {
    for (let at = 0; at + LEAST_CHARS <= text.length; at++) {
      const start = hashAt(text, at);
      if (this.#starts[start & 0xffff] === 0) continue;
      for (const { length, needles } of this.#byStart.get(start) ?? []) {
        const part = text.slice(at, at + length);
        if (!needles.has(part) || !counts(part, at)) continue;
        yield { start: at, end: at + length };
        at += length - 1;
        break;
      }
    }
  }
}

function hashAt(text: string, at: number): number {
  let hash = 0;
  for (let i = at; i < at + LEAST_CHARS; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return hash;
}

function counts(value: string, text: string, at: number, longOnly: boolean): boolean {
  if (value.length >= LONG_CHARS && !/^\d+$/.test(value)) return true;
  if (longOnly) return value.length >= LONG_CHARS;
  return !isWord(text, at - 1) && !isWord(text, at + value.length);
}

function isWord(text: string, at: number): boolean {
  return /[\p{L}\p{N}]/u.test(text[at] ?? "");
}

/** Letters in lower case, as long as that moves nothing. */
function folded(text: string): string {
  const lower = text.toLowerCase();
  return lower.length === text.length ? lower : text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Those digits of base64 that only these bytes decide, behind as many others. */
function base64Within(bytes: Uint8Array, before: number): string {
  const all = new Uint8Array(before + bytes.length);
  all.set(bytes, before);
  return base64Of(all).slice(Math.ceil((before * 8) / 6), Math.floor((all.length * 8) / 6));
}
