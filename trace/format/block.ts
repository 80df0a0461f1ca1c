/** What a zstd frame holds: Trace with a Block of one section or of several, whose places stand in lists before the rest of its events. */
import { LIMITS } from "#core/limits.ts";
import { type Section, sectionOf } from "#trace/events/event.ts";
import { type Peeked, peekBody } from "#trace/events/peek.ts";
import { type EventPlace, placeBytes, writePlace } from "#trace/events/place.ts";
import { unzigzag, varintBytes, WireReader, writeVarint, zigzag } from "#trace/events/wire.ts";
import { type BlockFacts, type BlockHeader, sectionNumber, sectionOfNumber } from "./block-header.ts";
import type { Engine } from "./engine.ts";
import { corruptAt, type Place, placed, unsupportedAt } from "./frames.ts";

/** An event with its own encoding, which the chain is over. */
export type RawEvent = EventPlace & Peeked & { bytes: Uint8Array };

/** Events of one section: parallel lists. */
export type BlockEvents = {
  seqs: number[];
  times: number[];
  wallSkews: number[];
  /** Their bytes after their places. */
  bodies: Uint8Array[];
};

export function encodeBlock(section: Section, { seqs, times, wallSkews, bodies }: BlockEvents): Uint8Array {
  const seqSteps = packed(SEQ_STEPS_TAG, stepsOf(seqs));
  const timeSteps = packed(T_US_STEPS_TAG, stepsOf(times).map(zigzag));
  const skews = wallSkews.some((skew) => skew !== 0)
    ? packed(WALL_SKEWS_TAG, wallSkews.map(zigzag))
    : NOTHING;
  let inner = 2 + seqSteps.length + timeSteps.length + skews.length;
  for (const { length } of bodies) inner += 1 + varintBytes(length) + length;
  const bytes = new Uint8Array(1 + varintBytes(inner) + inner);
  bytes[0] = BLOCKS_TAG;
  let at = writeVarint(bytes, 1, inner);
  bytes[at++] = SECTION_TAG;
  bytes[at++] = sectionNumber(section);
  for (const list of [seqSteps, timeSteps, skews]) {
    bytes.set(list, at);
    at += list.length;
  }
  for (const body of bodies) {
    bytes[at++] = EVENTS_TAG;
    at = writeVarint(bytes, at, body.length);
    bytes.set(body, at);
    at += body.length;
  }
  return bytes;
}

/** A block whose places have been read and judged, and whose events are gone through one after another. */
export class OpenBlock {
  readonly seqs: readonly number[];
  readonly times: readonly number[];
  /** Null where all are zero. */
  readonly wallSkews: readonly number[] | null;
  /** After `next`, at the event's first byte. */
  readonly reader: WireReader;
  #place: Place;
  #left: number;

  /** @throws TRACE_CORRUPT where it isn't what its header says, TRACE_UNSUPPORTED */
  constructor(content: Uint8Array, facts: BlockFacts, place: Place) {
    const reader = new WireReader(content);
    this.reader = reader;
    this.#place = place;
    this.#left = facts.events;
    try {
      if (reader.varint() !== BLOCKS_TAG || reader.delimited() !== content.length) {
        throw corruptAt(place, "the content is not one block");
      }
      if (reader.varint() !== SECTION_TAG || sectionOfNumber(reader.varint(), place) !== facts.section) {
        throw corruptAt(place, `the block is not of section ${facts.section}, as its header says`);
      }
      this.seqs = this.#seqs(facts);
      this.times = this.#times(facts);
      this.wallSkews =
        content[reader.at] === WALL_SKEWS_TAG
          ? this.#list(WALL_SKEWS_TAG, "wall_skews_us", facts.events).map(unzigzag)
          : null;
    } catch (cause) {
      throw placed(cause, place);
    }
  }

  /** Goes to the next event, which must be there. @return the offset after it */
  next(): number {
    const { reader } = this;
    if (reader.at >= reader.end) throw this.#otherEvents();
    if (reader.varint() !== EVENTS_TAG) {
      throw unsupportedAt(this.#place, "the block holds what this version does not know");
    }
    const end = reader.delimited();
    if (--this.#left === 0 && end !== reader.end) throw this.#otherEvents();
    return end;
  }

  #seqs({ events, first_seq, last_seq }: BlockFacts): number[] {
    const seqs = this.#list(SEQ_STEPS_TAG, "seq_steps", events);
    let seq = 0;
    for (let at = 0; at < seqs.length; at++) {
      const step = seqs[at]!;
      if (step === 0) throw corruptAt(this.#place, `event ${seq} follows event ${seq}`);
      seq += step;
      seqs[at] = seq;
    }
    // sums only grow, so that this one bounds all
    if (seqs[0] !== first_seq || seq !== last_seq) throw this.#otherEvents();
    return seqs;
  }

  #times({ events, first_t_us, last_t_us }: BlockFacts): number[] {
    const times = this.#list(T_US_STEPS_TAG, "t_us_steps", events);
    let [t_us, first, last] = [0, Number.POSITIVE_INFINITY, 0];
    for (let at = 0; at < times.length; at++) {
      t_us += unzigzag(times[at]!);
      if (t_us < 0 || t_us > LIMITS.traceTimeUs) throw this.#otherEvents();
      if (t_us < first) first = t_us;
      if (t_us > last) last = t_us;
      times[at] = t_us;
    }
    if (first !== first_t_us || last !== last_t_us) throw this.#otherEvents();
    return times;
  }

  #list(tag: number, name: string, count: number): number[] {
    const { reader } = this;
    if (reader.varint() !== tag) {
      throw unsupportedAt(this.#place, `the block has no ${name} where this version puts them`);
    }
    const end = reader.delimited();
    const values: number[] = [];
    while (reader.at < end && values.length < count) values.push(reader.varint());
    if (values.length !== count || reader.at !== end) {
      throw corruptAt(this.#place, `the block's ${name} are not one for each of its ${count} events`);
    }
    return values;
  }

  #otherEvents(): Error {
    return corruptAt(this.#place, "the block's events are not those that its header names");
  }
}

/**
 * The block's events whose numbers are in the range, with their own encodings: views on one copy of them. The others are
 * not looked at: a seek should not cost more for what it passes over.
 */
export function decodeBlock(
  content: Uint8Array,
  facts: BlockFacts,
  place: Place,
  { fromSeq, toSeq }: { fromSeq: number; toSeq: number },
): RawEvent[] {
  const block = new OpenBlock(content, facts, place);
  const { seqs, times, wallSkews, reader } = block;
  try {
    const found: { at: number; start: number; end: number }[] = [];
    let size = 0;
    for (let at = 0; at < seqs.length && seqs[at]! <= toSeq; at++) {
      const end = block.next();
      if (seqs[at]! >= fromSeq) {
        found.push({ at, start: reader.at, end });
        size += placeBytes(seqs[at]!, times[at]!, wallSkews?.[at] ?? 0) + end - reader.at;
      }
      reader.at = end;
    }
    const bytes = new Uint8Array(size);
    let next = 0;
    return found.map(({ at, start, end }): RawEvent => {
      const [seq, t_us, wall_skew_us] = [seqs[at]!, times[at]!, wallSkews?.[at] ?? 0];
      reader.at = start;
      const { type, index } = peekBody(reader, end, seq);
      if (sectionOf(type) !== facts.section) {
        throw corruptAt(place, `event ${seq}, a ${type}, stands in section ${facts.section}`);
      }
      const first = next;
      next = writePlace(bytes, first, seq, t_us, wall_skew_us);
      bytes.set(content.subarray(start, end), next);
      next += end - start;
      return { seq, t_us, wall_skew_us, type, index, bytes: bytes.subarray(first, next) };
    });
  } catch (cause) {
    throw placed(cause, place);
  }
}

/** Of the frame's content that of the block at this place in its header's list. */
export function blockIn(
  content: Uint8Array,
  { blocks }: Pick<BlockHeader, "blocks">,
  at: number,
  place: Place,
): Uint8Array {
  if (blocks.length === 1) return content;
  const reader = new WireReader(content);
  let start = 0;
  try {
    for (let block = 0; block <= at; block++) {
      start = reader.at;
      if (start === content.length)
        throw corruptAt(place, "the frame has fewer blocks than its header names");
      if (reader.varint() !== BLOCKS_TAG) throw corruptAt(place, "the frame's content is not blocks");
      reader.at = reader.delimited();
    }
  } catch (cause) {
    throw placed(cause, place);
  }
  if (at === blocks.length - 1 && reader.at !== content.length) {
    throw corruptAt(place, "the frame has more blocks than its header names");
  }
  return content.subarray(start, reader.at);
}

/** The zstd frame's content, no larger than its header said. */
export function unpack(frame: Uint8Array, header: BlockHeader, place: Place, engine: Engine): Uint8Array {
  let content: Uint8Array;
  try {
    content = engine.decompress(frame, header.uncompressed_bytes);
  } catch (cause) {
    throw corruptAt(place, `the frame does not unpack: ${(cause as Error).message}`, cause);
  }
  if (content.length !== header.uncompressed_bytes) {
    throw corruptAt(
      place,
      `the frame unpacks to ${content.length} bytes, its header says ${header.uncompressed_bytes}`,
    );
  }
  return content;
}

const BLOCKS_TAG = 0x0a;
const SECTION_TAG = 0x08;
const SEQ_STEPS_TAG = 0x12;
const T_US_STEPS_TAG = 0x1a;
const WALL_SKEWS_TAG = 0x22;
const EVENTS_TAG = 0x2a;
const NOTHING = new Uint8Array(0);

function stepsOf(values: readonly number[]): number[] {
  return values.map((value, at) => value - (values[at - 1] ?? 0));
}

/** A field with a packed list of numbers. */
function packed(tag: number, values: readonly number[]): Uint8Array {
  const length = values.reduce((sum, value) => sum + varintBytes(value), 0);
  const bytes = new Uint8Array(1 + varintBytes(length) + length);
  bytes[0] = tag;
  let at = writeVarint(bytes, 1, length);
  for (const value of values) at = writeVarint(bytes, at, value);
  return bytes;
}
