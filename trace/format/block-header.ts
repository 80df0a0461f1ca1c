import type { Digest } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { decodeMessage, encodeMessage } from "#trace/events/codec.ts";
import { SECTIONS, type Section } from "#trace/events/event.ts";
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

export function sectionNumber(section: Section): number {
  return SECTIONS.indexOf(section) + 1;
}

export function sectionOfNumber(number: number, place: Place): Section {
  const section = SECTIONS[number - 1];
  if (section === undefined) throw unsupportedAt(place, `section ${number} is not known to this version`);
  return section;
}
