/**
 * A trace as JSON lines: its header, then an event each, and at the end how many there were and the head of their chain; nothing lost. Members are those of proto/trace.proto; absent ones
 * are left out. Bytes are `{"text"}` where they are UTF-8 and `{"base64"}` otherwise, and the numbers that JSON lacks are
 * written as `"NaN"`, `"Infinity"` and `"-Infinity"`, as protobuf's JSON mapping does.
 */

import { bytesOfLatin1 } from "#core/bytes.ts";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { decodeEvent, encodeEvent } from "#trace/events/codec.ts";
import { EVENT_TYPES, type EventBody, type TraceEvent } from "#trace/events/event.ts";
import { DOUBLES } from "#trace/events/plans.ts";
import type { NewTraceHeader, TraceHeader } from "#trace/format/header.ts";
import type { TimedEvent } from "./imported.ts";
import { type JsonDocument, type JsonNode, memberOf, stringOf } from "./json-tree.ts";

export function headerLine(header: TraceHeader): string {
  return lineOf({ type: "trace", ...header });
}

export function eventLine(event: TraceEvent): string {
  return lineOf(event);
}

/** Without it a file that lost its last lines would be a shorter trace. */
export function endLine({ count, chainHead }: { count: number; chainHead: Digest }): string {
  return lineOf({ type: "end", events: count, chain_head: chainHead });
}

export type ParsedLine =
  /** Whole: an export wrote it, with `genesis_digest`, and the line that ends the trace must come too. */
  | { kind: "header"; header: NewTraceHeader; claims: "whole" | "nothing" }
  | { kind: "event"; seq: number; event: TimedEvent }
  | { kind: "end"; events: number; chain_head: string };

/** @throws INVALID_REQUEST naming the line and the member that is not as it must be */
export function parseLine(document: JsonDocument, node: JsonNode = document.root): ParsedLine {
  const { type, ...members } = memberValue(document, node, "the line") as Record<string, unknown>;
  if (type === "trace") {
    const claims = typeof members.genesis_digest === "string" ? "whole" : "nothing";
    return { kind: "header", header: headerOf(members, document), claims };
  }
  if (type === "end") {
    const { chain_head } = members;
    if (typeof chain_head !== "string") throw document.refused("a line of type end must have chain_head");
    return { kind: "end", events: wholeNumber(members.events, "events", document), chain_head };
  }
  if (typeof type !== "string" || !(EVENT_TYPES as string[]).includes(type)) {
    throw document.refused(
      `it has type ${JSON.stringify(type)?.slice(0, 80)}, which is neither "trace" nor "end" nor that of an event`,
    );
  }
  const { seq, t_us, wall_us, ...body } = members as { seq: unknown; t_us: unknown; wall_us: unknown };
  const event = { type, ...body } as EventBody;
  const place = {
    seq: wholeNumber(seq, "seq", document),
    t_us: wholeNumber(t_us, "t_us", document),
    wall_us: wholeNumber(wall_us, "wall_us", document),
  };
  const wrong = differenceFromRead(event);
  if (wrong !== null) throw document.refused(`event ${place.seq}, a ${type}: ${wrong}`);
  return { kind: "event", seq: place.seq, event: { ...event, t_us: place.t_us, wall_us: place.wall_us } };
}

/** What a reader would not find as it is given: a member that is unknown, missing or of another kind. */
export function differenceFromRead(event: EventBody): string | null {
  const { type, ...given } = event;
  let bytes: Uint8Array;
  try {
    bytes = encodeEvent(event, { seq: 1, t_us: 0, wall_skew_us: 0 });
  } catch (cause) {
    return (cause as Error).message;
  }
  const { seq, t_us, wall_us, type: read, ...members } = decodeEvent(bytes, 0);
  if (read !== type) return "its members are not those of its type";
  return difference(given, members, "");
}

function difference(given: unknown, read: unknown, path: string): string | null {
  if (isAbsent(given) && isAbsent(read)) return null;
  const at = path === "" ? "it" : path.slice(1);
  if (
    given instanceof Uint8Array ||
    read instanceof Uint8Array ||
    typeof read !== "object" ||
    read === null
  ) {
    if (isAbsent(read)) return `${at} is not known to this version`;
    if (isAbsent(given)) return `${at} is missing`;
    return sameValue(given, read) ? null : `${at} is not of the kind that it must be`;
  }
  if (typeof given !== "object" || given === null || Array.isArray(given) !== Array.isArray(read)) {
    return isAbsent(given) ? `${at} is missing` : `${at} is not of the kind that it must be`;
  }
  for (const name of new Set([...Object.keys(given), ...Object.keys(read)])) {
    const [one, other] = [given, read].map((value) => (value as Record<string, unknown>)[name]);
    const found = difference(one, other, `${path}.${name}`);
    if (found !== null) return found;
  }
  return null;
}

function isAbsent(value: unknown): boolean {
  return value === null || value === undefined || (Array.isArray(value) && value.length === 0);
}

function sameValue(one: unknown, other: unknown): boolean {
  if (one instanceof Uint8Array && other instanceof Uint8Array) {
    return one.length === other.length && one.every((byte, at) => byte === other[at]);
  }
  return Object.is(one, other);
}

/** Whether the record can be a line of such a file. */
export function isEventLine(root: JsonNode): boolean {
  return stringOf(memberOf(root, "type")) !== null;
}

/** JSON of a message's members: null and empty lists are left out, bytes and odd numbers as said above. */
export function jsonOf(value: unknown): string {
  if (typeof value === "number") {
    if (Object.is(value, -0)) return "-0.0";
    return Number.isFinite(value) ? String(value) : `"${value}"`;
  }
  if (value instanceof Uint8Array) return bytesJson(value);
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const parts: string[] = [];
    for (const [name, member] of Object.entries(value)) {
      if (member === null || member === undefined || (Array.isArray(member) && member.length === 0)) continue;
      parts.push(`${JSON.stringify(name)}:${jsonOf(member)}`);
    }
    return `{${parts.join(",")}}`;
  }
  return JSON.stringify(value);
}

/** What `jsonOf` wrote, with the number members of a message as numbers and its bytes as bytes. */
export function memberValue(document: JsonDocument, node: JsonNode, name: string): unknown {
  switch (node.kind) {
    case "number": {
      const value = Number(document.textOf(node));
      if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
        throw document.refused(`${name} is ${document.textOf(node)}, past 2^53 - 1, which no trace holds`);
      }
      return value;
    }
    case "string":
      return DOUBLES.has(name) && ODD.has(node.value) ? ODD.get(node.value) : node.value;
    case "literal":
      return node.value;
    case "array":
      return node.items.map((item) => memberValue(document, item, name));
    case "object": {
      if (BYTES.has(name)) return bytesOf(document, node, name);
      const members: Record<string, unknown> = {};
      for (const { name: member, value } of node.members) {
        if (member === "__proto__") throw document.refused("no message has a member __proto__");
        members[member] = memberValue(document, value, member);
      }
      return members;
    }
  }
}

const BYTES: ReadonlySet<string> = new Set(["body", "data"]);
const ODD = new Map([
  ["NaN", Number.NaN],
  ["Infinity", Number.POSITIVE_INFINITY],
  ["-Infinity", Number.NEGATIVE_INFINITY],
]);

function lineOf(members: object): string {
  return `${jsonOf(members)}\n`;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function bytesJson(bytes: Uint8Array): string {
  try {
    return `{"text":${JSON.stringify(utf8.decode(bytes))}}`;
  } catch {
    return `{"base64":"${base64Of(bytes)}"}`;
  }
}

function bytesOf(document: JsonDocument, node: JsonNode, name: string): Uint8Array {
  const text = stringOf(memberOf(node, "text"));
  if (text !== null) return new TextEncoder().encode(text);
  const bytes = fromBase64(stringOf(memberOf(node, "base64")) ?? "!");
  if (bytes === null) throw document.refused(`${name} has neither text nor base64`);
  return bytes;
}

/** RFC 4648 section 4. */
export function base64Of(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(binary);
}

export function fromBase64(text: string): Uint8Array | null {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    return null;
  }
  return bytesOfLatin1(binary);
}

function headerOf(members: Record<string, unknown>, document: JsonDocument): NewTraceHeader {
  const { version, genesis_digest, ...given } = members;
  if (version !== 1) {
    throw new DsecError(
      "TRACE_UNSUPPORTED",
      `${document.what}: the trace is of version ${JSON.stringify(version)}, known here is 1; import it with a newer dsec`,
    );
  }
  if (typeof given.trace_id !== "string" || typeof given.source !== "string") {
    throw document.refused("a line of type trace must have trace_id and source");
  }
  wholeNumber(given.started_wall_us, "started_wall_us", document);
  return given as NewTraceHeader;
}

function wholeNumber(value: unknown, name: string, document: JsonDocument): number {
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  throw document.refused(`${name} must be a whole number`);
}
