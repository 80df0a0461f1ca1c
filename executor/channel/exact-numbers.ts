/**
 * Numbers as whoever asked wrote them. JSON.parse makes doubles, and 9007199254740993 and 1.0 would be sent on as other numbers, or
 * come back as another request's id: the text of each that a double would change is kept beside the object that holds it.
 */
import { type Json, parseJson } from "#core/json.ts";

const texts = new WeakMap<object, Map<string, string>>();

/** Without these a number is written as JSON.stringify would write it. */
const MAY_DIFFER = /\d{16}|\d[.eE]|-0/;

// "JSON.parse source text access", which TypeScript does not declare yet.
type Reviver = (this: object, key: string, value: unknown, context: { source?: string }) => unknown;
const parseWith = JSON.parse as (text: string, reviver: Reviver) => Json;
const { rawJSON } = JSON as unknown as { rawJSON(text: string): object };

/** As `parseJson`, with the texts of numbers for the functions below. */
export function parseExact(bytes: Uint8Array, what: string): Json {
  const value = parseJson(bytes, what);
  const text = new TextDecoder().decode(bytes);
  if (!MAY_DIFFER.test(text)) return value;
  return parseWith(text, function (key, value, { source }) {
    if (typeof value === "number" && source !== undefined && source !== String(value)) {
      const held = texts.get(this) ?? new Map<string, string>();
      texts.set(this, held.set(key, source));
    }
    return value;
  });
}

/** JSON of a value with its numbers as they were written. @param members of it that are taken; all without */
export function exactJson(value: unknown, members?: { has(name: string): boolean }): string {
  return JSON.stringify(value, function (this: object, key: string, part: unknown) {
    if (members !== undefined && this === value && !members.has(key)) return undefined;
    const text = typeof part === "number" ? texts.get(this)?.get(key) : undefined;
    return text === undefined ? part : rawJSON(text);
  });
}

/** A member or an item as text: strings as they are, other values as JSON. */
export function memberText(holder: object, name: string): string {
  const value = (holder as Record<string, unknown>)[name];
  if (typeof value === "string") return value;
  return (typeof value === "number" ? texts.get(holder)?.get(name) : undefined) ?? exactJson(value);
}
