/**
 * Values of a query. Integers are exact however long they are: what a double cannot hold is a bigint, so that
 * 9007199254740993 and 9007199254740992 stay two numbers. JavaScript compares the two kinds by their mathematical value.
 */
import type { Digest } from "#core/ids.ts";

export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Unshown
  | Value[]
  | { [member: string]: Value }
  /** The event is of a type that has no such member. */
  | undefined;

/** A value that the trace holds the digest of, and not itself. It is there, and equals nothing that can be written. */
export class Unshown {
  readonly digest: Digest | null;
  readonly bytes: number | null;
  constructor(digest: Digest | null, bytes: number | null) {
    this.digest = digest;
    this.bytes = bytes;
  }
}

/** Sixteen digits in a row: without them no integer is past 2^53. */
const LONG = /\d{16}/;

/** @throws SyntaxError where the text is no JSON, RangeError where it is nested too deep to be read exactly */
export function parseExact(text: string): Value {
  if (!LONG.test(text)) return JSON.parse(text) as Value;
  return (JSON.parse as ExactParse)(text, (_name, value, { source }) =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(source)
      ? BigInt(source)
      : value,
  );
}

/** With the source text of each primitive (the JSON.parse source text access proposal), which the library's types lack. */
type ExactParse = (
  text: string,
  reviver: (name: string, value: unknown, context: { source: string }) => unknown,
) => Value;

/** What a text says: its value, or itself where it is no JSON, such as the arguments that a model left unfinished. */
export function valueOfText(text: string | null | undefined): Value {
  if (text === null || text === undefined) return null;
  try {
    return parseExact(text);
  } catch {
    return text;
  }
}

/** The member of an object or the item of a list (counted from 0, from the end where negative); null where it is not there. */
export function partOf(value: Value, name: string | number): Value {
  if (typeof value !== "object" || value === null || value instanceof Unshown) return null;
  if (Array.isArray(value)) return typeof name === "number" ? (value.at(name) ?? null) : null;
  return Object.hasOwn(value, name) ? value[name]! : null;
}

/** By type and value: 1 equals 1.0, and "1" neither. What nests deeper than 500 levels equals nothing. */
export function equal(a: Value, b: Value, depth = 0): boolean {
  if (a === b) return a !== undefined && !(a instanceof Unshown);
  if (isNumber(a) && isNumber(b)) return a <= b && a >= b;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (a instanceof Unshown || b instanceof Unshown || depth > 500) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((item, at) => equal(item, b[at], depth + 1));
  }
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length) return false;
  return names.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name], depth + 1));
}

export function isNumber(value: Value): value is number | bigint {
  return typeof value === "number" || typeof value === "bigint";
}

/**
 * Text that is equal for equal values: RFC 8785, but for integers past 2^53, which keep their digits. Two calls whose
 * arguments differ in such an integer are two calls. Without recursion: JSON from outside may be nested as deep as it is long.
 */
export function canonicalExact(value: Value): string {
  const parts: string[] = [];
  const pending: (Value | Written)[] = [value];
  while (pending.length > 0) {
    const part = pending.pop();
    if (part instanceof Written) parts.push(part.text);
    else if (Array.isArray(part)) {
      parts.push("[");
      pending.push(new Written("]"));
      for (let at = part.length - 1; at >= 0; at--) {
        pending.push(part[at]);
        if (at > 0) pending.push(new Written(","));
      }
    } else if (typeof part === "object" && part !== null && !(part instanceof Unshown)) {
      parts.push("{");
      pending.push(new Written("}"));
      const names = Object.keys(part).sort();
      for (let at = names.length - 1; at >= 0; at--) {
        const name = names[at]!;
        pending.push(part[name], new Written(`${at > 0 ? "," : ""}${JSON.stringify(name)}:`));
      }
    } else parts.push(scalarText(part));
  }
  return parts.join("");
}

/** Text between values that waits for its turn. */
class Written {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

function scalarText(value: Exclude<Value, Value[]>): string {
  if (typeof value === "bigint") return value.toString();
  if (value instanceof Unshown) return `{"unshown":${JSON.stringify(value.digest)}}`;
  return JSON.stringify(value ?? null);
}
