/**
 * Bytes that an event must hold to pass a test, so that most events are passed over without being read. Text members lie
 * in an event as they are. Within JSON a character may be escaped: there the event may instead hold `\u`.
 */
import type { EventType, TraceEvent } from "#trace/events/event.ts";
import type { EventView } from "./event-view.ts";
import { type Constants, meaningOf, type Surroundings } from "./names.ts";
import type { Expression } from "./parse.ts";
import { valueOfText } from "./value.ts";

/** What is looked for in the blocks of one section, each text once however many types of events may hold it. */
export class Haystack {
  readonly #needles = new Map<string, Needle>();
  readonly #indexOf: IndexOf;
  readonly #escape: Needle;

  constructor(indexOf: IndexOf) {
    this.#indexOf = indexOf;
    this.#escape = new Needle("\\u", indexOf, null);
  }

  /** The text as it is, or where it lies within JSON what of it can only be written as it is or with `\u`. */
  needle(text: string, within: "text" | "json"): Needle[] {
    const certain = within === "text" ? text : longestPlain(text);
    if (certain === "" || !certain.isWellFormed()) return [];
    const name = `${within} ${certain}`;
    const needle =
      this.#needles.get(name) ?? new Needle(certain, this.#indexOf, within === "json" ? this.#escape : null);
    this.#needles.set(name, needle);
    return [needle];
  }
}

/** Where the wanted bytes begin in the content, at `from` or after it; -1 where they are not. */
export type IndexOf = (content: Uint8Array, wanted: Uint8Array, from: number) => number;

/** Looks for some bytes in one content after another, from front to back. */
export class Needle {
  readonly #bytes: Uint8Array;
  readonly #indexOf: IndexOf;
  readonly #instead: Needle | null;
  #content: Uint8Array | null = null;
  /** Where the next one begins; those before it have been passed. */
  #next = 0;
  #from = 0;

  /** @param instead what may be held instead */
  constructor(text: string, indexOf: IndexOf, instead: Needle | null) {
    this.#bytes = new TextEncoder().encode(text).subarray(0, MOST_BYTES);
    this.#indexOf = indexOf;
    this.#instead = instead;
  }

  /** @param from @param to the part of the content that is looked at; no earlier than those asked for before, or all */
  held(content: Uint8Array, from: number, to: number): boolean {
    if (content !== this.#content || from < this.#from) {
      this.#content = content;
      this.#next = -1;
    }
    this.#from = from;
    if (this.#next < from) this.#next = this.#find(content, from);
    if (this.#next + this.#bytes.length <= to) return true;
    return this.#instead?.held(content, from, to) ?? false;
  }

  #find(content: Uint8Array, from: number): number {
    const found = this.#indexOf(content, this.#bytes, from);
    return found < 0 ? Number.POSITIVE_INFINITY : found;
  }
}

/** Of a long text its beginning is enough to pass over most events. */
const MOST_BYTES = 32;

/** Horspool's search ("Practical fast searching in strings", 1980), for where the platform has none. */
export const portableIndexOf: IndexOf = (content, wanted, from) => {
  const last = wanted.length - 1;
  const skips = new Uint8Array(256).fill(wanted.length);
  for (let at = 0; at < last; at++) skips[wanted[at]!] = last - at;
  for (let end = from + last; end < content.length; end += skips[content[end]!]!) {
    let at = last;
    while (at >= 0 && content[end - last + at] === wanted[at]) at--;
    if (at < 0) return end - last;
  }
  return -1;
};

/** All of these must be held by an event of the type that the expression is true of. */
export function needlesOf(
  expression: Expression,
  type: EventType,
  constants: Constants,
  haystack: Haystack,
): Needle[] {
  if (expression.kind === "and")
    return expression.of.flatMap((part) => needlesOf(part, type, constants, haystack));
  if (expression.kind !== "compare") return [];
  const { operator, left, right } = expression;
  if (left.kind !== "name" || right.kind !== "literal" || typeof right.value !== "string") return [];
  if (!["==", "contains", "starts_with", "ends_with"].includes(operator)) return [];
  if (left.path[0] === "any") return haystack.needle(right.value, "json");
  if (left.path[0] === "memory_state") return [];
  const meaning = meaningOf(left, type, constants);
  if (meaning?.state !== "read" || meaning.elsewhere) return [];
  return haystack.needle(right.value, meaning.text === null ? "json" : "text");
}

/** Whether some text of the event, also within JSON, contains this. Digests are no text. */
export function anyContains(
  text: string,
  haystack: Haystack,
): (view: EventView, around: Surroundings) => boolean {
  const needles = haystack.needle(text, "json");
  return (view, around) =>
    needles.every((one) => one.held(view.content, view.from, view.to)) && anyText(around.whole(view), text);
}

/** The longest part that JSON can only write as it is, or with `\u`. */
function longestPlain(text: string): string {
  let [best, start] = ["", 0];
  for (let at = 0; at <= text.length; at++) {
    const escaped = at === text.length || text[at]! < " " || ESCAPED.includes(text[at]!);
    if (!escaped) continue;
    if (at - start > best.length) best = text.slice(start, at);
    start = at + 1;
  }
  return best;
}

const ESCAPED = '"\\/';

/** Without recursion: JSON from outside may be nested as deep as it is long. */
function anyText({ type: _, ...members }: TraceEvent, wanted: string): boolean {
  const pending: { part: unknown; json: boolean }[] = [{ part: members, json: false }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { part, json } = next;
    if (typeof part === "string" && part.includes(wanted)) return true;
    if (typeof part !== "object" || part === null) continue;
    if (part instanceof Uint8Array) pending.push({ part: decoder.decode(part), json });
    else if (Array.isArray(part)) for (const item of part) pending.push({ part: item, json });
    else {
      for (const [name, inner] of Object.entries(part)) {
        if (json && name.includes(wanted)) return true;
        if (!json && name.endsWith("_digest")) continue;
        pending.push({ part: inner, json });
        if (!json && name.endsWith("_json")) pending.push({ part: valueOfText(inner), json: true });
      }
    }
  }
  return false;
}

const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
