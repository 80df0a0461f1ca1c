import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { EventChain } from "#trace/events/chain.ts";
import { decodeEvent, rawDigest } from "#trace/events/codec.ts";
import type { TraceEvent } from "#trace/events/event.ts";
import { SECTIONS } from "#trace/events/event.ts";
import { blockIn, decodeBlock, OpenBlock, type RawEvent, unpack } from "./block.ts";
import { type BlockHeader, decodeBlockHeader } from "./block-header.ts";
import type { Engine } from "./engine.ts";
import type { BlockPlace, SeqIndex } from "./footer.ts";
import { BLOCK_FRAME, corruptAt, FRAME_HEAD_BYTES, type Place, uint32At } from "./frames.ts";
import type { TraceHeader } from "./header.ts";
import { type EventRange, merge } from "./merge.ts";
import { type Source, walk } from "./walk.ts";

/** What is known of a segment before any of its events is read. */
export type SegmentFacts = {
  source: Source;
  engine: Engine;
  /** Of its first byte, and after its last whole flush or its footer, in the file. */
  start: number;
  end: number;
  header: TraceHeader;
  /** Sealed: its footer is there. Open: it is being written, or was when its writer ended. */
  state: "sealed" | "open";
  /** Events; of an open one those up to its last whole flush. */
  count: number;
  chainHead: Digest;
  blocks: readonly BlockPlace[];
  /** By the footer; null where there is none. */
  index: { steps: SeqIndex; calls: SeqIndex } | null;
};

/** One recording in a file. All reading throws TRACE_CORRUPT or TRACE_UNSUPPORTED with file and offset. */
export class TraceSegment {
  readonly header: TraceHeader;
  readonly state: "sealed" | "open";
  readonly count: number;
  readonly chainHead: Digest;
  readonly blocks: readonly BlockPlace[];
  #facts: SegmentFacts;
  #index: { steps: SeqIndex; calls: SeqIndex } | null;
  /** The frame of several blocks that was unpacked last: the other sections' are likely to be asked for next. */
  #shared: { offset: number; header: BlockHeader; content: Uint8Array } | null = null;
  readonly #sharedBuffers = new WeakSet<ArrayBufferLike>();

  constructor(facts: SegmentFacts) {
    this.header = facts.header;
    this.state = facts.state;
    this.count = facts.count;
    this.chainHead = facts.chainHead;
    this.blocks = facts.blocks;
    this.#facts = facts;
    this.#index = facts.index;
  }

  /** Microseconds since 1970 when the recording began. */
  get startedWallUs(): number {
    return this.header.started_wall_us;
  }

  /** Events in the order of their numbers over all the sections asked for. */
  async *events(range: EventRange = {}): AsyncGenerator<TraceEvent> {
    for await (const batch of this.batches(range)) {
      for (const { bytes } of batch) yield decodeEvent(bytes, this.header.started_wall_us);
    }
  }

  /** The same, not decoded. */
  async *rawEvents(range: EventRange = {}): AsyncGenerator<RawEvent> {
    for await (const batch of this.batches(range)) yield* batch;
  }

  /** The same in lists as they come out of the blocks, for who reads millions: awaiting each event would cost more than it. */
  async *batches(range: EventRange = {}): AsyncGenerator<RawEvent[]> {
    const { fromSeq = 1, toSeq = this.count, sections = SECTIONS } = range;
    const whole = SECTIONS.every((section) => sections.includes(section));
    const lastSeq = Math.min(toSeq, this.count);
    let expected = Math.max(1, fromSeq);
    const wanted = { sections, fromSeq: expected, toSeq: lastSeq };
    const read = async (block: BlockPlace) => {
      const { content, place } = await this.#unpacked(block);
      const events = decodeBlock(content, block, place, wanted);
      this.#release(content);
      return events;
    };
    for await (const batch of merge(this.blocks, read, wanted)) {
      if (whole) {
        for (const { seq } of batch) {
          if (seq !== expected) throw this.#missing(expected);
          expected++;
        }
      }
      yield batch;
    }
    if (whole && expected <= lastSeq) throw this.#missing(expected);
  }

  /** The number of the event that begins the plan step; null where it isn't in this trace. */
  async step(step: number): Promise<number | null> {
    this.#index ??= await this.#makeIndex();
    return this.#index.steps.seqOf(step);
  }

  /** The number of the call's tool_call_start; null where it isn't in this trace. */
  async call(call: number): Promise<number | null> {
    this.#index ??= await this.#makeIndex();
    return this.#index.calls.seqOf(call);
  }

  /**
   * Reads everything: every header and frame, the chain of events, and that footer and chain marks say the same.
   * @param visit is shown each event once it was read
   * @throws TRACE_CORRUPT naming the first offset or event that is not as it was written
   */
  async verify(visit?: (event: RawEvent) => void): Promise<{ events: number; chain_head: Digest }> {
    const { source, engine, start, end } = this.#facts;
    const marks = new Map<number, Digest>();
    let blocks = 0;
    for await (const frame of walk(source, engine, { from: start, to: end })) {
      if (frame.kind !== "block") continue;
      const { chain_seq, chain_digest } = frame.header;
      if (chain_seq !== null) marks.set(chain_seq, chain_digest!);
      for (const { section } of frame.header.blocks) {
        const block = this.blocks[blocks++];
        if (block?.offset !== frame.offset - start || block.section !== section) {
          throw corruptAt({ name: source.name, offset: frame.offset }, "the index has no such block");
        }
      }
    }
    if (blocks !== this.blocks.length) {
      throw corruptAt(
        { name: source.name, offset: start },
        `the index has ${this.blocks.length} blocks, the file ${blocks}`,
      );
    }
    const chain = new EventChain(rawDigest(this.header.genesis_digest), engine.sha256);
    for await (const batch of this.batches()) {
      for (const event of batch) {
        const { seq, bytes } = event;
        visit?.(event);
        chain.add(bytes);
        const mark = marks.get(seq);
        if (mark !== undefined && mark !== digestOf(chain.head)) {
          throw corruptAt(
            { name: source.name, offset: start },
            `the chain breaks at event ${seq} or before it`,
          );
        }
      }
    }
    const head = digestOf(chain.head);
    if (head !== this.chainHead) {
      throw corruptAt(
        { name: source.name, offset: start },
        `the chain ends with ${head}, not with ${this.chainHead}`,
      );
    }
    return { events: this.count, chain_head: head };
  }

  /**
   * The block as it was written: what a search goes through without making a list of its events.
   * @param wanted judges its content; null where it isn't wanted
   * @return to be given back to `closeBlock` once nobody looks at it any more
   */
  async openBlock(
    block: BlockPlace,
    wanted: (content: Uint8Array) => boolean = () => true,
  ): Promise<OpenBlock | null> {
    const { content, place } = await this.#unpacked(block);
    if (wanted(content)) return new OpenBlock(content, block, place);
    this.#release(content);
    return null;
  }

  closeBlock({ reader }: OpenBlock): void {
    this.#release(reader.bytes);
  }

  /** A frame of several blocks stays: others of them may be looked at still. */
  #release(content: Uint8Array): void {
    if (!this.#sharedBuffers.has(content.buffer)) this.#facts.engine.release(content);
  }

  async #unpacked(block: BlockPlace): Promise<{ content: Uint8Array; place: Place }> {
    const place = { name: this.#facts.source.name, offset: this.#facts.start + block.offset };
    const { header, content } =
      this.#shared?.offset === place.offset ? this.#shared : await this.#unpackedFrame(block, place);
    const at = Math.max(
      0,
      header.blocks.findIndex(({ section }) => section === block.section),
    );
    const facts = header.blocks[at]!;
    for (const member of INDEXED) {
      if (facts[member] !== block[member]) {
        throw corruptAt(place, `${member} of the block is ${facts[member]}, the index says ${block[member]}`);
      }
    }
    return { content: blockIn(content, header, at, place), place };
  }

  async #unpackedFrame(
    { bytes: mostBytes }: BlockPlace,
    place: Place,
  ): Promise<{ header: BlockHeader; content: Uint8Array }> {
    const { source, engine, end } = this.#facts;
    const bytes = await source.read(place.offset, Math.min(mostBytes, end - place.offset, MAX_READ_BYTES));
    const length = bytes.length < FRAME_HEAD_BYTES ? 0 : uint32At(bytes, 4);
    const frameAt = FRAME_HEAD_BYTES + length;
    if (length === 0 || uint32At(bytes, 0) !== BLOCK_FRAME || frameAt > bytes.length) {
      throw corruptAt(place, "no block header is where the index says");
    }
    const header = decodeBlockHeader(bytes.subarray(FRAME_HEAD_BYTES, frameAt), place);
    const frame = bytes.subarray(frameAt, frameAt + header.compressed_bytes);
    checkFrame(frame, header, place, engine);
    const content = unpack(frame, header, place, engine);
    if (header.blocks.length > 1) {
      this.#shared = { offset: place.offset, header, content };
      this.#sharedBuffers.add(content.buffer);
    }
    return { header, content };
  }

  /** Where there is no footer, from the events themselves. */
  async #makeIndex(): Promise<{ steps: SeqIndex; calls: SeqIndex }> {
    const [steps, calls] = [new Map<number, number>(), new Map<number, number>()];
    for await (const batch of this.batches({ sections: ["plan_execution"] })) {
      for (const { seq, type, index } of batch) {
        const seqs = type === "plan_step" ? steps : calls;
        if (index > 0 && !seqs.has(index)) seqs.set(index, seq);
      }
    }
    return {
      steps: { seqOf: (step) => steps.get(step) ?? null },
      calls: { seqOf: (call) => calls.get(call) ?? null },
    };
  }

  #missing(seq: number): Error {
    const { source, start } = this.#facts;
    return corruptAt({ name: source.name, offset: start }, `event ${seq} of ${this.count} is missing`);
  }
}

/** That the frame is the one which its header was written for. */
export function checkFrame(
  frame: Uint8Array,
  header: { compressed_bytes: number; frame_digest: Digest },
  place: Place,
  engine: Engine,
): void {
  if (frame.length < header.compressed_bytes)
    throw corruptAt(place, "the file ends in the middle of a block");
  if (digestOf(engine.sha256(frame)) !== header.frame_digest) {
    throw corruptAt(place, "the block is not the one that was written: its SHA-256 differs");
  }
}

const MAX_READ_BYTES = FRAME_HEAD_BYTES + LIMITS.traceBlockHeaderBytes + LIMITS.traceBlockBytes;
const INDEXED = ["section", "first_seq", "last_seq", "first_t_us", "last_t_us", "events"] as const;
