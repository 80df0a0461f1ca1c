/**
 * Values that are known to be secret, looked for wherever they stand. Letters of ASCII are alike in either case; a short value
 * counts only as a word of its own, for within others it would be chance.
 */
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { Span } from "./mark.ts";

/** Shorter values are taken out only where their field or pattern says so. */
const LEAST_CHARS = 4;
/** From here on a value is no chance part of another word. */
const LONG_CHARS = 8;

export class SecretValues {
  /** By their first characters, the longest first. */
  readonly #byStart = new Map<number, string[]>();
  readonly #known = new Set<string>();
  readonly #starts = new Uint8Array(1 << 16);

  get size(): number {
    return this.#known.size;
  }

  /** @throws INVALID_REQUEST past `LIMITS.redactionValues` */
  add(text: string): void {
    const value = folded(text.trim());
    if (value.length < LEAST_CHARS || this.#known.has(value)) return;
    if (this.#known.size >= LIMITS.redactionValues) {
      throw new DsecError(
        "INVALID_REQUEST",
        `more than ${LIMITS.redactionValues} different values are to be redacted; name fewer fields, or narrower patterns`,
      );
    }
    this.#known.add(value);
    const start = hashAt(value, 0);
    const values = this.#byStart.get(start) ?? [];
    this.#byStart.set(start, values);
    values.push(value);
    values.sort((one, other) => other.length - one.length);
    this.#starts[start & 0xffff] = 1;
  }

  *in(given: string, longOnly = false): Generator<Span> {
    if (this.#known.size === 0) return;
    const text = folded(given);
    for (let at = 0; at + LEAST_CHARS <= text.length; at++) {
      const start = hashAt(text, at);
      if (this.#starts[start & 0xffff] === 0) continue;
      const value = this.#byStart
        .get(start)
        ?.find((candidate) => text.startsWith(candidate, at) && counts(candidate, text, at, longOnly));
      if (value === undefined) continue;
      yield { start: at, end: at + value.length };
      at += value.length - 1;
    }
  }
}

function counts(value: string, text: string, at: number, longOnly: boolean): boolean {
  if (value.length >= LONG_CHARS && !/^\d+$/.test(value)) return true;
  if (longOnly) return value.length >= LONG_CHARS;
  return !isWord(text, at - 1) && !isWord(text, at + value.length);
}

function isWord(text: string, at: number): boolean {
  return /[\p{L}\p{N}]/u.test(text[at] ?? "");
}

/** Of ASCII alone: to fold all letters could change the length. */
function folded(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

function hashAt(text: string, at: number): number {
  let hash = 0;
  for (let i = 0; i < LEAST_CHARS; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(at + i)) | 0;
  return hash;
}
