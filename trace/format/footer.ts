import { LIMITS } from "#core/limits.ts";
import { encodeMessage } from "#trace/events/codec.ts";
import { SECTIONS } from "#trace/events/event.ts";
import { PLANS } from "#trace/events/plans.ts";
import { unzigzag, WireReader } from "#trace/events/wire.ts";
import { type BlockFacts, listsOf } from "./block-header.ts";
import type { Engine } from "./engine.ts";
import {
  concatBytes,
  corruptAt,
  FOOTER_MAGIC,
  type Place,
  placed,
  sameBytes,
  startsWith,
  TRAILER_BYTES,
  uint32At,
  unsupportedAt,
} from "./frames.ts";

/** Where a block is, and what is in it. */
export type BlockPlace = BlockFacts & {
  /** From the segment's first byte to the block header's frame, which small blocks of a flush share. */
  offset: number;
  /** From there to the next block header or the segment's end. */
  bytes: number;
};

/** Footer of proto/trace.proto, its lists turned into one entry for each block. */
export type Footer = {
  segment_bytes: number;
  ended_t_us: number;
  /** Of all blocks. */
  events: number;
  blocks: BlockPlace[];
  steps: SeqIndex;
  calls: SeqIndex;
};

/** By step or call the number of the event that begins it. */
export interface SeqIndex {
  /** Null where there is none. */
  seqOf(number: number): number | null;
}

/** SHA-256 of the payloads of the file header's frame and of the last block header's; without blocks the former twice. */
export type Ends = { header: Uint8Array; last: Uint8Array };

export type NewFooter = Pick<Footer, "segment_bytes" | "ended_t_us"> & {
  blocks: Omit<BlockPlace, "bytes">[];
  step_seqs: number[];
  call_seqs: number[];
};

/** The payload of a sealed segment's last frame. */
export function encodeFooter(footer: NewFooter, ends: Ends, engine: Engine): Uint8Array {
  const { blocks, step_seqs, call_seqs, ...members } = footer;
  const message = encodeMessage("Footer", {
    ...members,
    ...listsOf(blocks),
    offset_deltas: blocks.map(({ offset }, at) => offset - (blocks[at - 1]?.offset ?? 0)),
    step_seq_steps: stepsOf(step_seqs),
    call_seq_steps: stepsOf(call_seqs),
  });
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, message.length, true);
  return concatBytes([message, digestOfFooter(message, ends, engine), length, FOOTER_MAGIC]);
}

/** Whether the footer is as it was written, for the segment that has these ends. */
export function isFooterOf(payload: Uint8Array, ends: Ends, engine: Engine): boolean {
  const length = payload.length - TRAILER_BYTES;
  const digest = digestOfFooter(payload.subarray(0, length), ends, engine);
  return sameBytes(digest, payload.subarray(length, length + 32));
}

function digestOfFooter(message: Uint8Array, { header, last }: Ends, engine: Engine): Uint8Array {
  return engine.sha256(concatBytes([header, last, message]));
}

/** The length of the footer's frame payload, from the trailer that ends it; null where this is no trailer. */
export function footerPayloadBytes(trailer: Uint8Array): number | null {
  const magicAt = trailer.length - FOOTER_MAGIC.length;
  if (!startsWith(trailer.subarray(magicAt), FOOTER_MAGIC)) return null;
  return uint32At(trailer, magicAt - 4) + TRAILER_BYTES;
}

/**
 * Believes nothing that the lists say before they agree with each other: blocks lie one after another within the segment,
 * and those of a section have growing numbers. `isFooterOf` says whether it was written for a segment.
 * @throws TRACE_CORRUPT, TRACE_UNSUPPORTED
 */
export function decodeFooter(payload: Uint8Array, place: Place): Footer {
  const length = payload.length - TRAILER_BYTES;
  if (length < 0 || footerPayloadBytes(payload) !== payload.length) {
    throw corruptAt(place, "the footer's length is not that of its frame");
  }
  try {
    const raw = readFooter(payload.subarray(0, length));
    const blocks = blocksOf(raw, place);
    return {
      ...{ segment_bytes: raw.segment_bytes, ended_t_us: raw.ended_t_us, blocks },
      events: raw.event_counts.reduce((sum, events) => sum + events, 0),
      steps: new PackedIndex(raw.step_seq_steps),
      calls: new PackedIndex(raw.call_seq_steps),
    };
  } catch (cause) {
    throw placed(cause, place);
  }
}

/** A packed list that is read when it is asked: there may be a million entries, and one is wanted. */
class PackedIndex implements SeqIndex {
  #packed: Uint8Array;

  constructor(packed: Uint8Array) {
    this.#packed = packed;
  }

  seqOf(number: number): number | null {
    const reader = new WireReader(this.#packed);
    let seq = 0;
    for (let at = 1; at <= number && reader.at < reader.end; at++) {
      const step = unzigzag(reader.varint());
      seq += step;
      if (at === number && step !== 0) return seq;
    }
    return null;
  }
}

/** Of a number that no event begins the step is 0. */
function stepsOf(seqs: readonly number[]): number[] {
  let last = 0;
  return seqs.map((seq) => {
    if (seq === 0) return 0;
    const step = seq - last;
    last = seq;
    return step;
  });
}

type Raw = {
  segment_bytes: number;
  ended_t_us: number;
  sections: number[];
  offset_deltas: number[];
  first_seqs: number[];
  last_seqs: number[];
  first_t_us: number[];
  last_t_us: number[];
  event_counts: number[];
  step_seq_steps: Uint8Array;
  call_seq_steps: Uint8Array;
};

const NONE = new Uint8Array(0);

function readFooter(message: Uint8Array): Raw {
  const reader = new WireReader(message);
  const raw: Raw = {
    ...{ segment_bytes: 0, ended_t_us: 0, step_seq_steps: NONE, call_seq_steps: NONE },
    ...{ sections: [], offset_deltas: [], first_seqs: [], last_seqs: [], first_t_us: [], last_t_us: [] },
    event_counts: [],
  };
  while (reader.at < reader.end) {
    const tag = reader.varint();
    const name = MEMBERS.get(tag);
    if (name === undefined) reader.skip(tag & 7);
    else if ((tag & 7) === 0) (raw as Record<string, unknown>)[name] = reader.varint();
    else {
      const end = reader.delimited();
      const bytes = message.subarray(reader.at, end);
      reader.at = end;
      (raw as Record<string, unknown>)[name] = Array.isArray(raw[name]) ? integersOf(bytes) : bytes;
    }
  }
  return raw;
}

const MEMBERS = new Map(PLANS.Footer.fields.map(({ tag, name }) => [tag, name as keyof Raw]));

function integersOf(packed: Uint8Array): number[] {
  const reader = new WireReader(packed);
  const integers: number[] = [];
  while (reader.at < reader.end) {
    const low = packed[reader.at]!;
    const high = packed[reader.at + 1]!;
    // most have two bytes, and there may be millions of them
    if (low >= 0x80 && high < 0x80) {
      integers.push((low & 0x7f) | (high << 7));
      reader.at += 2;
    } else integers.push(reader.varint());
  }
  return integers;
}

function blocksOf(raw: Raw, place: Place): BlockPlace[] {
  const { sections, offset_deltas, first_seqs, last_seqs, first_t_us, last_t_us, event_counts } = raw;
  const lists = [offset_deltas, first_seqs, last_seqs, first_t_us, last_t_us, event_counts];
  if (lists.some(({ length }) => length !== sections.length)) {
    throw corruptAt(place, "the footer's lists are of different lengths");
  }
  const blocks: BlockPlace[] = [];
  const lastSeqs = SECTIONS.map(() => 0);
  let offset = 0;
  let events = 0;
  /** The first block of the frame that the last one is in. */
  let first = 0;
  // there may be a million, each time that a file is opened
  for (let at = 0; at < sections.length; at++) {
    const section = SECTIONS[sections[at]! - 1];
    if (section === undefined)
      throw unsupportedAt(place, `section ${sections[at]} is not known to this version`);
    const delta = offset_deltas[at]!;
    const shares = delta === 0 && at > 0 && sections[at]! > sections[at - 1]!;
    const first_seq = first_seqs[at]!;
    const last_seq = last_seqs[at]!;
    const count = event_counts[at]!;
    offset += delta;
    events += count;
    if (
      (delta === 0 && !shares) ||
      offset >= raw.segment_bytes ||
      first_seq <= lastSeqs[sections[at]! - 1]! ||
      count < 1 ||
      last_seq - first_seq < count - 1
    ) {
      throw corruptAt(place, `the footer's entry of block ${at + 1} contradicts the others`);
    }
    lastSeqs[sections[at]! - 1] = last_seq;
    if (!shares) {
      for (; first < at; first++) blocks[first]!.bytes = delta;
    }
    blocks.push({
      section,
      offset,
      bytes: raw.segment_bytes - offset,
      first_seq,
      last_seq,
      first_t_us: first_t_us[at]!,
      last_t_us: last_t_us[at]!,
      events: count,
    });
  }
  const last = Math.max(...lastSeqs);
  if (last !== events)
    throw corruptAt(place, `the footer has ${events} events, of which the last is ${last}`);
  return blocks;
}

/** Kept while a trace is written; the first event of a number counts. False where the index has no room for the number. */
export function noteIndex(seqs: number[], number: number, seq: number): boolean {
  if (number > LIMITS.traceIndexNumber) return false;
  while (seqs.length < number) seqs.push(0);
  if (seqs[number - 1] === 0) seqs[number - 1] = seq;
  return true;
}
