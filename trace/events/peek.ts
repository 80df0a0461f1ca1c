import { DsecError } from "#core/errors.ts";
import type { EventType } from "./event.ts";
import { PLANS } from "./plans.ts";
import { VARINT, WireReader } from "./wire.ts";

/** What the container needs to know of an event. */
export type Peeked = {
  seq: number;
  t_us: number;
  type: EventType;
  /** Of a tool_call_start its call, of a plan_step that begins its step: what the index goes by. 0 for all others. */
  index: number;
};

/**
 * Reads what stands at an event's beginning, at a small part of what decoding it costs.
 * @throws TRACE_CORRUPT, or TRACE_UNSUPPORTED where this version does not know its type
 */
export function peekEvent(bytes: Uint8Array): Peeked {
  const reader = new WireReader(bytes);
  let seq = 0;
  let t_us = 0;
  while (reader.at < reader.end) {
    const tag = reader.varint();
    const field = tag >>> 3;
    const wireType = tag & 7;
    if (field === 1 && wireType === VARINT) seq = reader.varint();
    else if (field === 2 && wireType === VARINT) t_us = reader.varint();
    else if (field === 3) reader.skip(wireType);
    else {
      const kind = PLANS.Event.byNumber[field];
      if (kind === undefined || tag !== kind.tag) throw unknownType(seq);
      const type = kind.name as EventType;
      const end = reader.delimited();
      return { seq, t_us, type, index: INDEXED[type]?.(new WireReader(bytes, reader.at, end)) ?? 0 };
    }
  }
  throw unknownType(seq);
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

function unknownType(seq: number): DsecError {
  return new DsecError(
    "TRACE_UNSUPPORTED",
    `event ${seq} is of a type that this version does not know; read it with a newer dsec`,
  );
}
