import { DsecError } from "#core/errors.ts";
import type { EventType } from "./event.ts";
import { isOfPlace } from "./place.ts";
import { PLANS } from "./plans.ts";
import { WireReader } from "./wire.ts";

/** What the container needs to know of an event beside its place. */
export type Peeked = {
  type: EventType;
  /** Of a tool_call_start its call, of a plan_step that begins its step: what the index goes by. 0 for all others. */
  index: number;
};

/**
 * Reads what stands at the beginning of an event's bytes after its place, at a small part of what decoding costs. What it
 * has after that is looked at no further than that it says nothing else of its place or type.
 * @param reader over bytes that hold it from where the reader is to `end`
 * @param seq named in errors
 * @throws TRACE_CORRUPT, or TRACE_UNSUPPORTED where this version does not know its type
 */
export function peekBody(reader: WireReader, end: number, seq: number): Peeked {
  if (reader.at >= end) throw corrupt(`event ${seq} has no type`);
  const tag = reader.varint();
  if (isOfPlace(tag)) throw corrupt(`event ${seq} says a second time where it stands`);
  const kind = PLANS.Event.byNumber[tag >>> 3];
  if (kind === undefined || tag !== kind.tag) {
    throw new DsecError(
      "TRACE_UNSUPPORTED",
      `event ${seq} is of a type that this version does not know; read it with a newer dsec`,
    );
  }
  const type = kind.name as EventType;
  const bodyEnd = reader.delimited();
  if (bodyEnd > end) throw corrupt(`event ${seq} holds a length that leads past its end`);
  const index = INDEXED[type]?.(new WireReader(reader.bytes, reader.at, bodyEnd)) ?? 0;
  reader.at = bodyEnd;
  while (reader.at < end) {
    const other = reader.varint();
    if (isOfPlace(other)) throw corrupt(`event ${seq} says a second time where it stands`);
    reader.skip(other & 7);
  }
  if (reader.at !== end) throw corrupt(`event ${seq} holds a length that leads past its end`);
  return { type, index };
}

const INDEXED: { [T in EventType]?: (reader: WireReader) => number } = {
  tool_call_start: (reader) => fieldOf(reader, 1),
  plan_step(reader) {
    const { bytes } = reader;
    let begun = false;
    while (reader.at < reader.end) {
      const tag = reader.varint();
      if (tag === 0x0a) {
        const end = reader.delimited();
        begun = end - reader.at === 5 && BEGUN.every((byte, at) => bytes[reader.at + at] === byte);
        reader.at = end;
      } else if (tag === 0x10) return begun ? reader.varint() : 0;
      else reader.skip(tag & 7);
    }
    return 0;
  },
};

const BEGUN = [...new TextEncoder().encode("begun")];

function fieldOf(reader: WireReader, field: number): number {
  while (reader.at < reader.end) {
    const tag = reader.varint();
    if (tag === field << 3) return reader.varint();
    reader.skip(tag & 7);
  }
  return 0;
}

function corrupt(what: string): DsecError {
  return new DsecError("TRACE_CORRUPT", what);
}
