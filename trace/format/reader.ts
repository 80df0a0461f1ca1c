import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Section } from "#trace/events/event.ts";
import { type BlockHeader, decodeBlockHeader } from "./block-header.ts";
import type { Engine } from "./engine.ts";
import { type BlockPlace, decodeFooter, footerPayloadBytes, isFooterOf } from "./footer.ts";
import {
  BLOCK_FRAME,
  corruptAt,
  FOOTER_FRAME,
  FRAME_HEAD_BYTES,
  type Place,
  TRAILER_BYTES,
  uint32At,
} from "./frames.ts";
import { checkFrame, type SegmentFacts, TraceSegment } from "./segment.ts";
import { type Frame, type Source, walk } from "./walk.ts";

/** What could not be read of a file, and from where on. */
export type Damage = { offset: number; reason: string };

export type TraceFile = {
  /** In file order; more than one where files were joined. */
  segments: TraceSegment[];
  /** Null where the file is whole. What lies before the damage is in the segments. */
  damage: Damage | null;
  close(): Promise<void>;
};

/**
 * Opens a file of one or more recordings, sealed or not. A sealed one costs four small reads, an open one is gone through.
 * @throws TRACE_CORRUPT where nothing can be read, TRACE_UNSUPPORTED
 */
export async function openTrace(source: Source, engine: Engine): Promise<TraceFile> {
  if (source.size === 0) throw corruptAt({ name: source.name, offset: 0 }, "the file is empty");
  const sealed: SegmentFacts[] = [];
  let end = source.size;
  while (end > 0) {
    const segment = await sealedSegmentBefore(source, engine, end);
    if (segment === null) break;
    sealed.unshift(segment);
    end = segment.start;
    boundSegments(sealed.length, source);
  }
  const { segments, damage } =
    end > 0 ? await walkSegments(source, engine, end) : { segments: [], damage: null };
  return {
    segments: [...segments, ...sealed].map((facts) => new TraceSegment(facts)),
    damage,
    close: async () => source.close?.(),
  };
}

/** By the footer that ends there; null where there is none, or one that cannot be believed: then the frames are asked. */
async function sealedSegmentBefore(
  source: Source,
  engine: Engine,
  end: number,
): Promise<SegmentFacts | null> {
  if (end < FRAME_HEAD_BYTES + TRAILER_BYTES) return null;
  const length = footerPayloadBytes(await source.read(end - TRAILER_BYTES, TRAILER_BYTES));
  if (length === null || length > LIMITS.traceFooterBytes || length > end - FRAME_HEAD_BYTES) return null;
  const offset = end - length - FRAME_HEAD_BYTES;
  const frame = await source.read(offset, length + FRAME_HEAD_BYTES);
  if (uint32At(frame, 0) !== FOOTER_FRAME || uint32At(frame, 4) !== length) return null;
  try {
    const payload = frame.subarray(FRAME_HEAD_BYTES);
    const footer = decodeFooter(payload, { name: source.name, offset });
    const start = offset - footer.segment_bytes;
    if (start < 0) return null;
    const first = await walk(source, engine, { from: start, to: end }).next();
    if (first.done || first.value.kind !== "header") return null;
    const { header, digest } = first.value;
    const last = await lastMark(source, engine, start, footer.blocks);
    if (!isFooterOf(payload, { header: digest, last: last?.payloadDigest ?? digest }, engine)) return null;
    if (last !== null && last.seq !== footer.events) return null;
    return {
      ...{ source, engine, start, end, header, state: "sealed", count: footer.events },
      ...{ chainHead: last?.digest ?? header.genesis_digest, blocks: footer.blocks, index: footer },
    };
  } catch (error) {
    if (error instanceof DsecError && error.code === "TRACE_CORRUPT") return null;
    throw error;
  }
}

/** What the last block header says of the chain, and the SHA-256 of its payload; null where there are no blocks. */
async function lastMark(
  source: Source,
  engine: Engine,
  start: number,
  blocks: readonly BlockPlace[],
): Promise<{ seq: number; digest: Digest; payloadDigest: Uint8Array } | null> {
  const last = blocks.at(-1);
  if (last === undefined) return null;
  const place: Place = { name: source.name, offset: start + last.offset };
  const mostBytes = Math.min(last.bytes, FRAME_HEAD_BYTES + LIMITS.traceBlockHeaderBytes);
  const bytes = await source.read(place.offset, mostBytes);
  const length = bytes.length < FRAME_HEAD_BYTES ? 0 : uint32At(bytes, 4);
  if (length === 0 || uint32At(bytes, 0) !== BLOCK_FRAME || FRAME_HEAD_BYTES + length > bytes.length) {
    throw corruptAt(place, "no block header is where the index says");
  }
  const payload = bytes.subarray(FRAME_HEAD_BYTES, FRAME_HEAD_BYTES + length);
  const { chain_seq: seq, chain_digest: digest } = decodeBlockHeader(payload, place);
  if (seq === null || digest === null) throw corruptAt(place, "the last block header has no chain mark");
  return { seq, digest, payloadDigest: engine.sha256(payload) };
}

/** Frame by frame from the file's beginning. */
async function walkSegments(
  source: Source,
  engine: Engine,
  to: number,
): Promise<{ segments: SegmentFacts[]; damage: Damage | null }> {
  const segments: SegmentFacts[] = [];
  let damage: Damage | null = null;
  let open: OpenSegment | null = null;
  const finish = async (fault: Damage | null) => {
    if (open === null) return;
    const found = await open.damage(fault);
    damage ??= found;
    segments.push(open.facts());
    open = null;
  };
  try {
    for await (const frame of walk(source, engine, { from: 0, to })) {
      if (frame.kind === "header") {
        await finish(null);
        boundSegments(segments.length + 1, source);
        open = new OpenSegment(source, engine, frame);
      } else if (frame.kind === "block") open!.add(frame);
      else {
        segments.push(open!.sealedBy(frame));
        open = null;
      }
    }
  } catch (error) {
    if (!(error instanceof DsecError) || (open === null && segments.length === 0)) throw error;
    const fault = error.details as Damage;
    await finish(fault);
    damage ??= fault;
  }
  await finish(null);
  return { segments, damage };
}

function boundSegments(count: number, { name }: Source): void {
  if (count > LIMITS.traceSegments) {
    throw corruptAt({ name, offset: 0 }, `the file has more than ${LIMITS.traceSegments} segments`);
  }
}

type Mark = { blocks: number; end: number; seq: number; digest: Digest };

/** A segment while its frames are gone through. */
class OpenSegment {
  #source: Source;
  #engine: Engine;
  #first: Frame & { kind: "header" };
  #blocks: BlockPlace[] = [];
  /** `block` is the number of blocks in frames before it. */
  #frames: (Pick<BlockHeader, "frame_digest" | "compressed_bytes"> & {
    offset: number;
    at: number;
    block: number;
  })[] = [];
  #lastSeqs = new Map<Section, number>();
  #events = 0;
  /** After each whole flush. */
  #marks: Mark[];

  constructor(source: Source, engine: Engine, first: Frame & { kind: "header" }) {
    this.#source = source;
    this.#engine = engine;
    this.#first = first;
    this.#marks = [{ blocks: 0, end: first.end, seq: 0, digest: first.header.genesis_digest }];
  }

  add({ offset, end, header, frameOffset }: Frame & { kind: "block" }): void {
    const place = { name: this.#source.name, offset };
    if (this.#blocks.length + header.blocks.length > LIMITS.traceBlocks) {
      throw corruptAt(place, `the segment has more than ${LIMITS.traceBlocks} blocks`);
    }
    const { frame_digest, compressed_bytes } = header;
    const frame = { frame_digest, compressed_bytes, offset, at: frameOffset, block: this.#blocks.length };
    for (const facts of header.blocks) {
      const { section, first_seq, last_seq, events } = facts;
      if (first_seq <= (this.#lastSeqs.get(section) ?? 0) || first_seq <= this.#marks.at(-1)!.seq) {
        throw corruptAt(place, `event ${first_seq} comes again`);
      }
      this.#lastSeqs.set(section, last_seq);
      this.#events += events;
      this.#blocks.push({ ...facts, offset: offset - this.#first.offset, bytes: end - offset });
    }
    this.#frames.push(frame);
    if (header.chain_seq === null) return;
    if (Math.max(...this.#lastSeqs.values()) !== header.chain_seq || this.#events !== header.chain_seq) {
      throw corruptAt(
        place,
        `the block says that ${header.chain_seq} events are whole; there are ${this.#events}`,
      );
    }
    this.#marks.push({
      ...{ blocks: this.#blocks.length, end, seq: header.chain_seq, digest: header.chain_digest! },
    });
  }

  sealedBy({ offset, end, footer }: Frame & { kind: "footer" }): SegmentFacts {
    const { seq, digest } = this.#marks.at(-1)!;
    if (seq !== footer.events) {
      const place = { name: this.#source.name, offset };
      throw corruptAt(place, `the footer has ${footer.events} events, the last chain mark is of ${seq}`);
    }
    return {
      ...this.#common(),
      ...{ end, state: "sealed", count: seq, chainHead: digest },
      ...{ blocks: footer.blocks, index: footer },
    };
  }

  /** Its events up to the last whole flush. */
  facts(): SegmentFacts {
    const { blocks, end, seq, digest } = this.#marks.at(-1)!;
    return {
      ...this.#common(),
      ...{ end, state: "open", count: seq, chainHead: digest },
      ...{ blocks: this.#blocks.slice(0, blocks), index: null },
    };
  }

  /**
   * Nobody vouches for what an open segment holds: its writer may have been stopped by a power cut that left holes. Gives up
   * what comes after the first frame that is not as it was written, and what no chain mark covers.
   * @param fault where its frames end before the file does
   */
  async damage(fault: Damage | null): Promise<Damage | null> {
    const start = this.#first.offset;
    for (const frame of this.#frames) {
      const place = { name: this.#source.name, offset: frame.offset };
      try {
        checkFrame(await this.#source.read(frame.at, frame.compressed_bytes), frame, place, this.#engine);
      } catch (error) {
        if (!(error instanceof DsecError)) throw error;
        while (this.#marks.at(-1)!.blocks > frame.block) this.#marks.pop();
        return error.details as Damage;
      }
    }
    const unmarked = this.#blocks[this.#marks.at(-1)!.blocks];
    if (unmarked === undefined) return fault;
    return { offset: start + unmarked.offset, reason: fault?.reason ?? "the last flush is not whole" };
  }

  #common(): Pick<SegmentFacts, "source" | "engine" | "start" | "header"> {
    const { offset: start, header } = this.#first;
    return { source: this.#source, engine: this.#engine, start, header };
  }
}
