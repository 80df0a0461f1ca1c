import type { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { decodeMessage, encodeMessage } from "#trace/events/codec.ts";
import { SECTIONS, type Section, sectionOf } from "#trace/events/event.ts";
import { type Peeked, peekEvent } from "#trace/events/peek.ts";
import { varintBytes, WireReader, writeVarint } from "#trace/events/wire.ts";
import type { Engine } from "./engine.ts";
import { corruptAt, type Place, placed, unsupportedAt } from "./frames.ts";

/** BlockHeader of proto/trace.proto. */
export type BlockHeader = {
  section: Section;
  first_seq: number;
  last_seq: number;
  events: number;
  first_t_us: number;
  last_t_us: number;
  compressed_bytes: number;
  uncompressed_bytes: number;
  frame_digest: Digest;
  previous_digest: Digest;
  chain_digest: Digest | null;
  chain_seq: number | null;
};

export type RawEvent = Peeked & { bytes: Uint8Array };

export function encodeBlockHeader(header: BlockHeader): Uint8Array {
  return encodeMessage("BlockHeader", { ...header, section: sectionNumber(header.section) });
}

/** @throws TRACE_CORRUPT, also for bounds that the header itself says are passed; TRACE_UNSUPPORTED */
export function decodeBlockHeader(payload: Uint8Array, place: Place): BlockHeader {
  let message: Omit<BlockHeader, "section"> & { section: number };
  try {
    message = decodeMessage("BlockHeader", payload, "block header") as typeof message;
  } catch (cause) {
    throw placed(cause, place);
  }
  const section = sectionOfNumber(message.section, place);
  const { first_seq, last_seq, events, uncompressed_bytes, compressed_bytes } = message;
  if (uncompressed_bytes > LIMITS.traceBlockBytes || compressed_bytes > LIMITS.traceBlockBytes) {
    throw corruptAt(
      place,
      `the block has ${compressed_bytes} bytes that unpack to ${uncompressed_bytes}; at most ${LIMITS.traceBlockBytes} are read`,
    );
  }
  if (events > LIMITS.traceBlockEvents) {
    throw corruptAt(place, `the block has ${events} events; at most ${LIMITS.traceBlockEvents} are read`);
  }
  if (first_seq < 1 || events < 1 || last_seq - first_seq < events - 1) {
    throw corruptAt(place, `the block says it holds ${events} events from ${first_seq} to ${last_seq}`);
  }
  if ((message.chain_seq === null) !== (message.chain_digest === null)) {
    throw corruptAt(place, "the block has half of a chain mark");
  }
  return { ...message, section };
}

/** The content of one zstd frame: Trace with one Block. */
export function encodeBlock(section: Section, events: readonly Uint8Array[]): Uint8Array {
  let inner = 2;
  for (const event of events) inner += 1 + varintBytes(event.length) + event.length;
  const bytes = new Uint8Array(1 + varintBytes(inner) + inner);
  bytes[0] = BLOCKS_TAG;
  let at = writeVarint(bytes, 1, inner);
  bytes[at++] = SECTION_TAG;
  bytes[at++] = sectionNumber(section);
  for (const event of events) {
    bytes[at++] = EVENTS_TAG;
    at = writeVarint(bytes, at, event.length);
    bytes.set(event, at);
    at += event.length;
  }
  return bytes;
}

/**
 * The block's events, each a view on its content. Of one that is asked for in part only these are judged: a seek should not
 * cost more for what it passes over.
 */
export function decodeBlock(
  content: Uint8Array,
  header: BlockHeader,
  place: Place,
  range: { fromSeq: number; toSeq: number },
): RawEvent[] {
  try {
    return readBlock(content, header, place, range);
  } catch (cause) {
    throw placed(cause, place);
  }
}

/** The zstd frame's content, no larger than its header said. */
export function unpack(frame: Uint8Array, header: BlockHeader, place: Place, engine: Engine): Uint8Array {
  let content: Uint8Array;
  try {
    content = engine.decompress(frame, header.uncompressed_bytes);
  } catch (cause) {
    throw corruptAt(place, `the block does not unpack: ${(cause as Error).message}`, cause);
  }
  if (content.length !== header.uncompressed_bytes) {
    throw corruptAt(
      place,
      `the block unpacks to ${content.length} bytes, its header says ${header.uncompressed_bytes}`,
    );
  }
  return content;
}

export function sectionNumber(section: Section): number {
  return SECTIONS.indexOf(section) + 1;
}

export function sectionOfNumber(number: number, place: Place): Section {
  const section = SECTIONS[number - 1];
  if (section === undefined) throw unsupportedAt(place, `section ${number} is not known to this version`);
  return section;
}

const BLOCKS_TAG = 0x0a;
const SECTION_TAG = 0x08;
const EVENTS_TAG = 0x12;

function readBlock(
  content: Uint8Array,
  header: BlockHeader,
  place: Place,
  { fromSeq, toSeq }: { fromSeq: number; toSeq: number },
): RawEvent[] {
  const reader = new WireReader(content);
  if (reader.varint() !== BLOCKS_TAG || reader.delimited() !== content.length) {
    throw corruptAt(place, "the frame's content is not one block");
  }
  if (reader.varint() !== SECTION_TAG || sectionOfNumber(reader.varint(), place) !== header.section) {
    throw corruptAt(place, `the block is not of section ${header.section}, as its header says`);
  }
  const events: RawEvent[] = [];
  let count = 0;
  let seq = 0;
  let [first_t_us, last_t_us] = [Number.POSITIVE_INFINITY, 0];
  while (reader.at < reader.end && count < header.events && seq < toSeq) {
    if (reader.varint() !== EVENTS_TAG) {
      throw unsupportedAt(place, "the block holds what this version does not know");
    }
    const end = reader.delimited();
    const peeked = fromSeq > header.first_seq ? seqAt(reader, end) : null;
    count++;
    if (peeked === null || peeked >= fromSeq) {
      const event = eventIn(content.subarray(reader.at, end), header, place);
      if (event.seq <= seq) throw corruptAt(place, `event ${event.seq} follows event ${seq}`);
      seq = event.seq;
      first_t_us = Math.min(first_t_us, event.t_us);
      last_t_us = Math.max(last_t_us, event.t_us);
      events.push(event);
    }
    reader.at = end;
  }
  const whole = events.length === header.events;
  if (fromSeq <= header.first_seq && toSeq >= header.last_seq && !whole) throw otherEvents(place);
  if (
    whole &&
    (reader.at < reader.end ||
      events[0]!.seq !== header.first_seq ||
      seq !== header.last_seq ||
      first_t_us !== header.first_t_us ||
      last_t_us !== header.last_t_us)
  ) {
    throw otherEvents(place);
  }
  return events;
}

/** The number of the event that begins at the reader, as every writer puts it first; null where it isn't. */
function seqAt({ bytes, at }: WireReader, end: number): number | null {
  return bytes[at] === SEQ_TAG ? new WireReader(bytes, at + 1, end).varint() : null;
}

function eventIn(bytes: Uint8Array, header: BlockHeader, place: Place): RawEvent {
  const { seq, t_us, type, index } = peekEvent(bytes);
  if (sectionOf(type) !== header.section) {
    throw corruptAt(place, `event ${seq}, a ${type}, stands in section ${header.section}`);
  }
  return { seq, t_us, type, index, bytes };
}

function otherEvents(place: Place): DsecError {
  return corruptAt(place, "the block's events are not those that its header names");
}

const SEQ_TAG = 0x08;
