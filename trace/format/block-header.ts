import type { Digest } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { decodeMessage, encodeMessage } from "#trace/events/codec.ts";
import { SECTIONS, type Section } from "#trace/events/event.ts";
import { corruptAt, type Place, placed, unsupportedAt } from "./frames.ts";

/** What header and index say of a block. */
export type BlockFacts = {
  section: Section;
  first_seq: number;
  last_seq: number;
  events: number;
  /** The smallest of its events, and the largest. */
  first_t_us: number;
  last_t_us: number;
};

/** BlockHeader of proto/trace.proto, its lists turned into one entry for each block of the frame. */
export type BlockHeader = {
  blocks: BlockFacts[];
  compressed_bytes: number;
  uncompressed_bytes: number;
  frame_digest: Digest;
  chain_digest: Digest | null;
  chain_seq: number | null;
};

export function encodeBlockHeader({ blocks, ...members }: BlockHeader): Uint8Array {
  return encodeMessage("BlockHeader", { ...members, ...listsOf(blocks) });
}

/** The facts as messages have them: parallel lists. */
export function listsOf(blocks: readonly BlockFacts[]): Lists {
  return {
    sections: blocks.map(({ section }) => sectionNumber(section)),
    first_seqs: blocks.map(({ first_seq }) => first_seq),
    last_seqs: blocks.map(({ last_seq }) => last_seq),
    event_counts: blocks.map(({ events }) => events),
    first_t_us: blocks.map(({ first_t_us }) => first_t_us),
    last_t_us: blocks.map(({ last_t_us }) => last_t_us),
  };
}

/** @throws TRACE_CORRUPT, also for bounds that the header itself says are passed; TRACE_UNSUPPORTED */
export function decodeBlockHeader(payload: Uint8Array, place: Place): BlockHeader {
  let message: Omit<BlockHeader, "blocks"> & Lists;
  try {
    message = decodeMessage("BlockHeader", payload, "block header") as typeof message;
  } catch (cause) {
    throw placed(cause, place);
  }
  const { sections, first_seqs, last_seqs, event_counts, first_t_us, last_t_us, ...members } = message;
  const { uncompressed_bytes, compressed_bytes, chain_seq, chain_digest } = members;
  if (uncompressed_bytes > LIMITS.traceBlockBytes || compressed_bytes > LIMITS.traceBlockBytes) {
    throw corruptAt(
      place,
      `the frame has ${compressed_bytes} bytes that unpack to ${uncompressed_bytes}; at most ${LIMITS.traceBlockBytes} are read`,
    );
  }
  if ((chain_seq === null) !== (chain_digest === null)) {
    throw corruptAt(place, "the block header has half of a chain mark");
  }
  const lists = [first_seqs, last_seqs, event_counts, first_t_us, last_t_us];
  if (sections.length === 0 || lists.some(({ length }) => length !== sections.length)) {
    throw corruptAt(place, "the block header's lists are empty or of different lengths");
  }
  const blocks = sections.map((number, at): BlockFacts => {
    const section = sectionOfNumber(number, place);
    if (at > 0 && number <= sections[at - 1]!) {
      throw corruptAt(
        place,
        `the frame has section ${section} after section ${SECTIONS[sections[at - 1]! - 1]}`,
      );
    }
    const [first_seq, last_seq, events] = [first_seqs[at]!, last_seqs[at]!, event_counts[at]!];
    if (events > LIMITS.traceBlockEvents) {
      throw corruptAt(place, `the block has ${events} events; at most ${LIMITS.traceBlockEvents} are read`);
    }
    if (first_seq < 1 || events < 1 || last_seq - first_seq < events - 1) {
      throw corruptAt(place, `the block says it holds ${events} events from ${first_seq} to ${last_seq}`);
    }
    return { section, first_seq, last_seq, events, first_t_us: first_t_us[at]!, last_t_us: last_t_us[at]! };
  });
  return { ...members, blocks };
}

export function sectionNumber(section: Section): number {
  return SECTIONS.indexOf(section) + 1;
}

export function sectionOfNumber(number: number, place: Place): Section {
  const section = SECTIONS[number - 1];
  if (section === undefined) throw unsupportedAt(place, `section ${number} is not known to this version`);
  return section;
}

type Lists = {
  sections: number[];
  first_seqs: number[];
  last_seqs: number[];
  event_counts: number[];
  first_t_us: number[];
  last_t_us: number[];
};
