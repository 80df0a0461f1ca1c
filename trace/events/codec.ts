/** Events and the messages around them, from what code sees to the bytes of proto/trace.proto and back. */
import { DsecError } from "#core/errors.ts";
import { isDigest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { dsec, type Message, type MessageType } from "#proto/trace.js";
import { EVENT_TYPES, type EventBody, type EventType, type TraceEvent } from "./event.ts";

const { Event } = dsec.trace.v1;

/** When an event was: its number, its monotonic time, and how far the wall clock was from where that puts it. */
export type Place = { seq: number; t_us: number; wall_skew_us: number };

/** The bytes that the chain is over. INVALID_REQUEST for text that UTF-8 cannot carry, which would read back as other text. */
export function encodeEvent(body: EventBody, { seq, t_us, wall_skew_us }: Place): Uint8Array {
  const { type, ...members } = body;
  return Event.encode({ seq, t_us, wall_skew_us, [type]: toWire(members) }).finish();
}

/**
 * @param startedWallUs from the file's header, in microseconds since 1970
 * @throws TRACE_CORRUPT where the bytes are no event; TRACE_UNSUPPORTED where they are one that this version does not know
 */
export function decodeEvent(bytes: Uint8Array, startedWallUs: number): TraceEvent {
  const message = decodeMessage(Event, bytes, "event");
  const { seq, t_us, wall_skew_us } = message as Place;
  let type: EventType | null = null;
  for (const known of EVENT_TYPES) {
    if (message[known] === null) continue;
    if (type !== null) throw corrupt(`event ${seq} is of two types, ${type} and ${known}`);
    type = known;
  }
  if (type === null) {
    throw new DsecError(
      "TRACE_UNSUPPORTED",
      `event ${seq} is of a type that this version does not know; read it with a newer dsec`,
    );
  }
  const wall_us = startedWallUs + t_us + wall_skew_us;
  return { seq, t_us, wall_us, type, ...(message[type] as object) } as TraceEvent;
}

/** An event's body and place as it was written, for writing it anew with other members. */
export function bodyOf(event: TraceEvent): EventBody {
  const { seq, t_us, wall_us, ...body } = event;
  return body as EventBody;
}

/** A message's own form of digests, from `sha256:…`; what is null is left out. */
export function encodeMessage(type: MessageType, message: object): Uint8Array {
  return type.encode(toWire(message) as object).finish();
}

/**
 * Every field of the message, absent ones as null, digests as `sha256:…`, 64-bit integers as numbers.
 * @param what named in errors
 * @throws TRACE_CORRUPT where the bytes are no such message, or hold an integer past 2^53 − 1, which no number can be
 */
export function decodeMessage(type: MessageType, bytes: Uint8Array, what: string): Record<string, unknown> {
  let message: Message;
  try {
    message = type.decode(bytes);
  } catch (cause) {
    throw corrupt(`${what}: ${(cause as Error).message}`, cause);
  }
  return fromWire(message, what) as Record<string, unknown>;
}

function toWire(value: unknown, name = ""): unknown {
  if (typeof value === "string") {
    if (name.endsWith("_digest")) return rawDigest(value, name);
    if (!value.isWellFormed()) {
      throw new DsecError("INVALID_REQUEST", `${name} holds a lone surrogate, which no UTF-8 can carry`);
    }
    return value;
  }
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  if (Array.isArray(value)) return value.map((item) => toWire(item, name));
  const message: Record<string, unknown> = {};
  for (const member in value) {
    const part = (value as Record<string, unknown>)[member];
    if (part !== null && part !== undefined) message[member] = toWire(part, member);
  }
  return message;
}

function fromWire(value: unknown, what: string, name = ""): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Uint8Array) {
    if (!name.endsWith("_digest")) return value;
    if (value.length !== 32) throw corrupt(`${what}: ${name} has ${value.length} bytes instead of 32`);
    return digestOf(value);
  }
  if (Array.isArray(value)) return value.map((item) => fromWire(item, what, name));
  if (isLong(value)) {
    const number = value.toNumber();
    if (!Number.isSafeInteger(number))
      throw corrupt(`${what}: ${name} is ${value.toString()}, past 2^53 - 1`);
    return number;
  }
  const members: Record<string, unknown> = {};
  for (const field of fieldsOf(value)) members[field] = fromWire((value as Message)[field], what, field);
  return members;
}

const fields = new WeakMap<object, string[]>();

/** All of its type: one that is absent stands on the prototype, with its default. */
function fieldsOf(message: object): string[] {
  const prototype = Object.getPrototypeOf(message) as object;
  const known = fields.get(prototype) ?? Object.keys(prototype);
  fields.set(prototype, known);
  return known;
}

type Long = { low: number; high: number; toNumber(): number };

function isLong(value: object): value is Long {
  return "low" in value && "high" in value && "unsigned" in value;
}

export function rawDigest(digest: string, what = "digest"): Uint8Array {
  if (!isDigest(digest)) throw new DsecError("INVALID_REQUEST", `${what} ${digest} is no sha256: digest`);
  const raw = new Uint8Array(32);
  for (let at = 0; at < 32; at++) raw[at] = Number.parseInt(digest.slice(7 + 2 * at, 9 + 2 * at), 16);
  return raw;
}

/** What this version does not know of a message or of what is in it; empty where it knows all. */
export function unknownFields(type: MessageType, bytes: Uint8Array): number {
  let count = 0;
  const visit = (value: unknown): void => {
    if (typeof value !== "object" || value === null || value instanceof Uint8Array) return;
    if (Object.hasOwn(value, "$unknowns")) count += (value as Message).$unknowns!.length;
    for (const member of Object.values(value)) visit(member);
  };
  visit(type.decode(bytes));
  return count;
}

function corrupt(what: string, cause?: unknown): DsecError {
  return new DsecError("TRACE_CORRUPT", what, { cause });
}
