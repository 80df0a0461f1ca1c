/**
 * Bytes that an event must hold to pass a test, so that most events are passed over without being read. Text members lie
 * in an event as they are. Within JSON a character may be escaped: there the event may instead hold `\u`.
 */
import type { EventType, TraceEvent } from "#trace/events/event.ts";
import type { EventView } from "./event-view.ts";
import { type Constants, meaningOf, type Surroundings } from "./names.ts";
import type { Expression } from "./parse.ts";
import { valueOfText } from "./value.ts";

export type Needle = { bytes: Uint8Array; rarest: number; within: "text" | "json" };

/** All of these must be held by an event of the type that the expression is true of. */
export function needlesOf(expression: Expression, type: EventType, constants: Constants): Needle[] {
  if (expression.kind === "and") return expression.of.flatMap((part) => needlesOf(part, type, constants));
  if (expression.kind !== "compare") return [];
  const { operator, left, right } = expression;
  if (left.kind !== "name" || right.kind !== "literal" || typeof right.value !== "string") return [];
  if (!["==", "contains", "starts_with", "ends_with"].includes(operator)) return [];
  if (left.path[0] === "any") return needle(right.value, "json");
  // What is said by another event than this one is not in its bytes.
  if (left.path[0] === "memory_state") return [];
  const meaning = meaningOf(left, type, constants);
  if (meaning?.state !== "read" || meaning.linked) return [];
  return needle(right.value, meaning.text === null ? "json" : "text");
}

export function holdsAll(bytes: Uint8Array, needles: readonly Needle[]): boolean {
  for (const { bytes: wanted, rarest, within } of needles) {
    if (!holds(bytes, wanted, rarest) && (within === "text" || !holds(bytes, ESCAPE, 1))) return false;
  }
  return true;
}

/** Whether some text of the event, also within JSON, contains this. Digests are no text. */
export function anyContains(text: string): (view: EventView, around: Surroundings) => boolean {
  const needles = needle(text, "json");
  return (view, around) => holdsAll(view.bytes, needles) && anyText(around.whole(view), text);
}

/** `\u` */
const ESCAPE = Uint8Array.of(0x5c, 0x75);

function needle(text: string, within: "text" | "json"): Needle[] {
  const certain = within === "text" ? text : longestPlain(text);
  if (certain === "" || !certain.isWellFormed()) return [];
  const bytes = new TextEncoder().encode(certain);
  return [{ bytes, rarest: rarestOf(bytes), within }];
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

/** The place in the text of the byte that is least often met in English, JSON and code. */
function rarestOf(bytes: Uint8Array): number {
  let best = 0;
  for (let at = 1; at < bytes.length; at++) if (rank(bytes[at]!) < rank(bytes[best]!)) best = at;
  return best;
}

function rank(byte: number): number {
  const found = COMMON.indexOf(String.fromCharCode(byte));
  return found < 0 ? 0 : COMMON.length - found;
}

/** The most common first. */
const COMMON = ' eatinrosld"c,u:mp_hgfb10.2y-vw3456789{}kAESTRINC/xDLOPMHBjqzFUGW[]';

function holds(bytes: Uint8Array, wanted: Uint8Array, rarest: number): boolean {
  const byte = wanted[rarest]!;
  const last = bytes.length - wanted.length + rarest;
  for (let at = bytes.indexOf(byte, rarest); at >= 0 && at <= last; at = bytes.indexOf(byte, at + 1)) {
    let same = 0;
    while (same < wanted.length && bytes[at - rarest + same] === wanted[same]) same++;
    if (same === wanted.length) return true;
  }
  return false;
}

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
