/**
 * Events and the messages around them, from what code sees to the bytes of proto/trace.proto and back. There is one
 * encoding of each: fields in the order of their numbers, numbers in as few bytes as they need, what is zero left out.
 */
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { EVENT_TYPES, type EventBody, type EventType, type TraceEvent } from "./event.ts";
import type { EventPlace } from "./place.ts";
import { type Field, PLANS, type Plan } from "./plans.ts";
import { unzigzag, WireReader, WireWriter, zigzag } from "./wire.ts";

/** The bytes that the chain is over. INVALID_REQUEST for text that UTF-8 cannot carry, which would read back as other text. */
export function encodeEvent(body: EventBody, { seq, t_us, wall_skew_us }: EventPlace): Uint8Array {
  return written(() => {
    writeField(SEQ, seq);
    writeField(T_US, t_us);
    writeField(WALL_SKEW_US, wall_skew_us);
    writeField(TYPES.get(body.type)!, body);
  });
}

/**
 * @param startedWallUs from the file's header, in microseconds since 1970
 * @throws TRACE_CORRUPT where the bytes are no event; TRACE_UNSUPPORTED where they are one that this version does not know
 */
export function decodeEvent(bytes: Uint8Array, startedWallUs: number): TraceEvent {
  const reader = new WireReader(bytes);
  let [seq, t_us, wall_skew_us] = [0, 0, 0];
  let event: Record<string, unknown> | null = null;
  let unknown = 0;
  while (reader.at < reader.end) {
    const tag = reader.varint();
    if (tag === SEQ.tag) seq = reader.varint();
    else if (tag === T_US.tag) t_us = reader.varint();
    else if (tag === WALL_SKEW_US.tag) wall_skew_us = unzigzag(reader.varint());
    else {
      const kind = EVENT.byNumber[tag >>> 3];
      if (kind === undefined || tag !== kind.tag || kind.message === null) {
        unknown++;
        reader.skip(tag & 7);
        continue;
      }
      if (event !== null) throw corrupt(`event ${seq} is of two types, ${event.type} and ${kind.name}`);
      const end = reader.delimited();
      event = { seq, t_us, wall_us: 0, type: kind.name, ...kind.message.blank };
      readMembers(kind.message, reader, end, event);
    }
  }
  if (event === null) {
    if (unknown === 0) throw corrupt(`event ${seq} has no type`);
    throw new DsecError(
      "TRACE_UNSUPPORTED",
      `event ${seq} is of a type that this version does not know; read it with a newer dsec`,
    );
  }
  event.seq = seq;
  event.t_us = t_us;
  event.wall_us = startedWallUs + t_us + wall_skew_us;
  return event as TraceEvent;
}

/** An event's body as it was written, for writing it anew with other members. */
export function bodyOf(event: TraceEvent): EventBody {
  const { seq, t_us, wall_us, ...body } = event;
  return body as EventBody;
}

/** The messages of the container around the events. */
type Wrapping = "FileHeader" | "BlockHeader" | "Footer";

/** Digests are given as `sha256:…`; what is null is left out. */
export function encodeMessage(type: Wrapping, message: object): Uint8Array {
  return written(() => writeMembers(PLANS[type], message as Record<string, unknown>));
}

/**
 * Every field of the message, absent ones as null, digests as `sha256:…`, 64-bit integers as numbers.
 * @param what named in errors
 * @throws TRACE_CORRUPT where the bytes are no such message, or hold an integer past 2^53 − 1, which no number can be
 */
export function decodeMessage(type: Wrapping, bytes: Uint8Array, what: string): Record<string, unknown> {
  const message = { ...PLANS[type].blank };
  try {
    readMembers(PLANS[type], new WireReader(bytes), bytes.length, message);
  } catch (cause) {
    throw corrupt(`${what}: ${(cause as Error).message}`, cause);
  }
  return message;
}

export function rawDigest(digest: string, what = "digest"): Uint8Array {
  const raw = new Uint8Array(32);
  let wrong = digest.length === 71 && digest.startsWith("sha256:") ? 0 : NO_DIGIT;
  for (let at = 0; at < 32; at++) {
    const high = DIGITS[digest.charCodeAt(7 + 2 * at)] ?? NO_DIGIT;
    const low = DIGITS[digest.charCodeAt(8 + 2 * at)] ?? NO_DIGIT;
    wrong |= high | low;
    raw[at] = (high << 4) | low;
  }
  if (wrong >= NO_DIGIT) throw new DsecError("INVALID_REQUEST", `${what} ${digest} is no sha256: digest`);
  return raw;
}

/** The values of lower-case hexadecimal digits by their character's code. */
const NO_DIGIT = 16;
const DIGITS = new Uint8Array(128).fill(NO_DIGIT);
for (let value = 0; value < 16; value++) DIGITS[value.toString(16).charCodeAt(0)] = value;

const EVENT = PLANS.Event;
const [SEQ, T_US, WALL_SKEW_US] = EVENT.fields as [Field, Field, Field];
const TYPES = new Map(
  EVENT_TYPES.map((type): [EventType, Field] => {
    const field = EVENT.fields.find(({ name }) => name === type);
    if (field === undefined) throw new Error(`proto/trace.proto has no event ${type}`);
    return [type, field];
  }),
);

const writer = new WireWriter();

function written(write: () => void): Uint8Array {
  try {
    write();
    return writer.finish();
  } catch (error) {
    writer.reset();
    throw error;
  }
}

function writeMembers({ fields }: Plan, message: Record<string, unknown>): void {
  for (const field of fields) {
    const value = message[field.name];
    if (value === null || value === undefined) {
      if (field.kind === "digest" && !field.optional) throw refused(field, "is missing");
    } else if (!field.repeated) writeField(field, value);
    else if (field.packed) writePacked(field, value as unknown[]);
    else {
      const { length } = value as unknown[];
      if (length > LIMITS.traceListItems) {
        throw refused(field, `has ${length} items; at most ${LIMITS.traceListItems} are kept in one event`);
      }
      for (const item of value as unknown[]) writeItem(field, item);
    }
  }
}

/** A value that is alone; nothing where it is zero and need not be told from absent. */
function writeField(field: Field, value: unknown): void {
  if (!field.optional && (value === 0 || value === "" || value === false) && !Object.is(value, -0)) return;
  if (!field.optional && field.kind === "bytes" && (value as Uint8Array).length === 0) return;
  writeItem(field, value);
}

function writeItem(field: Field, value: unknown): void {
  writer.varint(field.tag);
  writeValue(field, value);
}

function writePacked(field: Field, values: unknown[]): void {
  if (values.length === 0) return;
  writer.varint(field.tag);
  const start = writer.begin();
  for (const value of values) writeValue(field, value);
  writer.end(start);
}

function writeValue(field: Field, value: unknown): void {
  switch (field.kind) {
    case "uint32":
    case "uint64":
      writer.varint(unsigned(field, value));
      break;
    case "int64":
      if (signed(field, value) < 0) writer.negative(value as number);
      else writer.varint(value as number);
      break;
    case "sint64":
      writer.varint(zigzagged(field, signed(field, value)));
      break;
    case "bool":
      writer.varint(value === true ? 1 : 0);
      break;
    case "double":
      writer.double(value as number);
      break;
    case "string":
      if (!(value as string).isWellFormed()) {
        throw refused(field, "holds a lone surrogate, which no UTF-8 can carry");
      }
      writer.string(value as string);
      break;
    case "bytes":
      writer.delimited(value as Uint8Array);
      break;
    case "digest":
      writer.delimited(rawDigest(value as string, field.name));
      break;
    case "message": {
      const start = writer.begin();
      writeMembers(field.message!, value as Record<string, unknown>);
      writer.end(start);
    }
  }
}

function readMembers(plan: Plan, reader: WireReader, end: number, message: Record<string, unknown>): void {
  for (const name of plan.lists) message[name] = [];
  while (reader.at < end) {
    const tag = reader.varint();
    const field = plan.byNumber[tag >>> 3];
    if (field === undefined) reader.skip(tag & 7);
    else if (tag === field.tag && !field.packed) {
      const value = readValue(field, reader);
      if (field.repeated) {
        const list = message[field.name] as unknown[];
        if (list.length === LIMITS.traceListItems) {
          throw corrupt(`${field.name} has more than ${LIMITS.traceListItems} items`);
        }
        list.push(value);
      } else message[field.name] = value;
    } else if (field.packed) readPacked(field, tag, reader, message[field.name] as unknown[]);
    else reader.skip(tag & 7);
  }
  if (reader.at !== end) throw corrupt("the message holds a length that leads past its end");
  for (const name of plan.required) if (message[name] === null) throw corrupt(`${name} is missing`);
}

/** Lists of numbers may come packed or one by one, whatever the writer does (the encoding's own rule). */
function readPacked(field: Field, tag: number, reader: WireReader, values: unknown[]): void {
  if (tag === field.tag) {
    const end = reader.delimited();
    while (reader.at < end) values.push(readValue(field, reader));
    if (reader.at !== end) throw corrupt(`${field.name} holds a value that leads past its end`);
  } else if ((tag & 7) === field.wireType) values.push(readValue(field, reader));
  else reader.skip(tag & 7);
}

function readValue(field: Field, reader: WireReader): unknown {
  switch (field.kind) {
    case "uint32": {
      const value = reader.varint();
      if (value > 0xffff_ffff) throw corrupt(`${field.name} is ${value}, past 2^32 - 1`);
      return value;
    }
    case "uint64":
      return reader.varint();
    case "sint64":
      return unzigzag(reader.varint());
    case "int64":
      return reader.int64();
    case "bool":
      return reader.varint() !== 0;
    case "double":
      return reader.double();
    case "string":
      return reader.string();
    case "bytes":
      return reader.view();
    case "digest":
      return readDigest(field, reader);
    case "message": {
      const end = reader.delimited();
      const message = { ...field.message!.blank };
      readMembers(field.message!, reader, end, message);
      return message;
    }
  }
}

function readDigest({ name }: Field, reader: WireReader): string {
  const end = reader.delimited();
  if (end - reader.at !== 32) throw corrupt(`${name} has ${end - reader.at} bytes instead of 32`);
  for (let at = 0; at < 32; at++) {
    const byte = reader.bytes[reader.at++]!;
    DIGEST_CODES[7 + 2 * at] = HEX_CODES[byte >>> 4]!;
    DIGEST_CODES[8 + 2 * at] = HEX_CODES[byte & 15]!;
  }
  return String.fromCharCode.apply(null, DIGEST_CODES);
}

const HEX_CODES = [..."0123456789abcdef"].map((digit) => digit.charCodeAt(0));
/** Filled anew for each digest: a third of the time that joining the digits takes. */
const DIGEST_CODES = [..."sha256:", ..."0".repeat(64)].map((char) => char.charCodeAt(0));

/** The value of a lower-case hexadecimal digit. */
function unsigned(field: Field, value: unknown): number {
  const most = field.kind === "uint32" ? 0xffff_ffff : Number.MAX_SAFE_INTEGER;
  if (Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most) return value as number;
  throw refused(field, `is ${String(value)}, no integer from 0 to ${most}`);
}

function signed(field: Field, value: unknown): number {
  if (Number.isSafeInteger(value)) return value as number;
  throw refused(field, `is ${String(value)}, no integer within 2^53 - 1`);
}

function zigzagged(field: Field, value: number): number {
  const unsigned = zigzag(value);
  if (!Number.isSafeInteger(unsigned)) throw refused(field, `is ${value}, past 2^52`);
  return unsigned;
}

function refused({ name }: Field, why: string): DsecError {
  return new DsecError("INVALID_REQUEST", `${name} ${why}`);
}

function corrupt(what: string, cause?: unknown): DsecError {
  return new DsecError("TRACE_CORRUPT", what, { cause });
}
