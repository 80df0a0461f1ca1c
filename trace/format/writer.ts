import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { EventChain } from "#trace/events/chain.ts";
import { rawDigest } from "#trace/events/codec.ts";
import { type EventType, SECTIONS, type Section, sectionOf } from "#trace/events/event.ts";
import { peekBody } from "#trace/events/peek.ts";
import { splitEvent } from "#trace/events/place.ts";
import { WireReader } from "#trace/events/wire.ts";
import { type BlockEvents, encodeBlock } from "./block.ts";
import { type BlockFacts, encodeBlockHeader } from "./block-header.ts";
import type { Engine } from "./engine.ts";
import { encodeFooter, type NewFooter, noteIndex } from "./footer.ts";
import { BLOCK_FRAME, concatBytes, FOOTER_FRAME, HEADER_FRAME, skippableFrame } from "./frames.ts";
import { completeHeader, encodeHeader, type NewTraceHeader, type TraceHeader } from "./header.ts";

/** What is known of a segment once it is sealed. */
export type Sealed = { count: number; chain_head: Digest };

/**
 * Writes one segment: a live trajectory that is flushed now and then, or a whole trace. Events are held until a flush, which
 * writes the blocks of all sections in one call of `write`. Where that fails nothing is lost or half-counted: `write` must
 * have left the file as it was, and the flush can be tried again.
 */
export class TrajectoryWriter {
  readonly header: TraceHeader;
  /** Events in the file, after the last flush. */
  flushed = 0;
  #engine: Engine;
  #write: (bytes: Uint8Array) => void;
  #chain: EventChain;
  #count = 0;
  #held = new Map<Section, BlockEvents>();
  #heldBytes = 0;
  #state: "open" | "sealed" = "open";
  /** Of the file header's payload, and of the last block header's. */
  #headerDigest: Uint8Array;
  #lastDigest: Uint8Array;
  #bytes: number;
  #blocks: NewFooter["blocks"] = [];
  #stepSeqs: number[] = [];
  #callSeqs: number[] = [];
  #endedUs = 0;

  /** Writes the file header at once. */
  constructor(header: NewTraceHeader, engine: Engine, write: (bytes: Uint8Array) => void) {
    this.header = completeHeader(header, engine);
    this.#engine = engine;
    this.#write = write;
    this.#chain = new EventChain(rawDigest(this.header.genesis_digest), engine.sha256);
    const payload = encodeHeader(this.header, engine);
    this.#headerDigest = engine.sha256(payload);
    this.#lastDigest = this.#headerDigest;
    const frame = skippableFrame(HEADER_FRAME, payload);
    write(frame);
    this.#bytes = frame.length;
  }

  /** The chain after the last event that was added, flushed or not. */
  get head(): Uint8Array {
    return this.#chain.head;
  }

  /** Events that were added, flushed or not. */
  get count(): number {
    return this.#count;
  }

  /** Encoded bytes that a flush would write. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /**
   * Takes the next event; flushes first where too much is held, so that after a failure the event can be added again.
   * @param bytes from encodeEvent; they are kept, not copied
   * @param of what encodeEvent was given
   */
  add(bytes: Uint8Array, of: { seq: number; t_us: number; type: EventType }): void {
    if (this.#state === "sealed") throw new DsecError("INTERNAL", `trace ${this.header.trace_id} is sealed`);
    if (of.seq !== this.#count + 1) {
      throw new DsecError("INTERNAL", `event ${of.seq} was added as number ${this.#count + 1} of its trace`);
    }
    if (bytes.length > LIMITS.traceEventBytes) {
      throw new DsecError(
        "INVALID_REQUEST",
        `event ${of.seq}, a ${of.type}, has ${bytes.length} bytes; at most ${LIMITS.traceEventBytes} are kept`,
      );
    }
    if (of.t_us > LIMITS.traceTimeUs) {
      throw new DsecError(
        "INVALID_REQUEST",
        `event ${of.seq}, a ${of.type}, is at ${of.t_us} µs; at most ${LIMITS.traceTimeUs} can be`,
      );
    }
    if (this.#heldBytes > 0 && this.#heldBytes + bytes.length > LIMITS.traceHeldBytes) this.flush();
    const { place, body } = splitEvent(bytes);
    if (place.seq !== of.seq || place.t_us !== of.t_us) {
      throw new DsecError("INTERNAL", `event ${of.seq} was encoded as event ${place.seq}`);
    }
    if (of.type === "tool_call_start" || of.type === "plan_step") this.#index(body, of.type, of.seq);
    const section = sectionOf(of.type);
    const held = this.#held.get(section) ?? { seqs: [], times: [], wallSkews: [], bodies: [] };
    this.#held.set(section, held);
    held.seqs.push(of.seq);
    held.times.push(of.t_us);
    held.wallSkews.push(place.wall_skew_us);
    held.bodies.push(body);
    this.#heldBytes += bytes.length;
    this.#chain.add(bytes);
    this.#count++;
  }

  /**
   * Writes what is held. The last block header says where the chain stands.
   * @throws EVENT_LOG_FULL rather than to write blocks that a reader refuses, and all after them with them
   */
  flush(): void {
    if (this.#heldBytes === 0) return;
    const parts: Uint8Array[] = [];
    const blocks: NewFooter["blocks"] = [];
    let lastDigest = this.#lastDigest;
    let offset = this.#bytes;
    const frames = this.#packed();
    for (const [at, { facts, content, frame }] of frames.entries()) {
      const last = at === frames.length - 1;
      const payload = encodeBlockHeader({
        blocks: facts,
        compressed_bytes: frame.length,
        uncompressed_bytes: content.length,
        frame_digest: digestOf(this.#engine.sha256(frame)),
        chain_digest: last ? digestOf(this.head) : null,
        chain_seq: last ? this.#count : null,
      });
      if (last) lastDigest = this.#engine.sha256(payload);
      const header = skippableFrame(BLOCK_FRAME, payload);
      parts.push(header, frame);
      blocks.push(...facts.map((block) => ({ ...block, offset })));
      offset += header.length + frame.length;
    }
    if (this.#blocks.length + blocks.length > LIMITS.traceBlocks) {
      throw new DsecError(
        "EVENT_LOG_FULL",
        `trace ${this.header.trace_id} has ${this.#blocks.length} blocks; more than ${LIMITS.traceBlocks} nobody reads again: end it, and record what follows in another`,
      );
    }
    this.#write(concatBytes(parts));
    this.#lastDigest = lastDigest;
    this.#bytes = offset;
    for (const block of blocks) {
      this.#blocks.push(block);
      this.#endedUs = Math.max(this.#endedUs, block.last_t_us);
    }
    this.#held.clear();
    this.#heldBytes = 0;
    this.flushed = this.#count;
  }

  /** Writes what is held and the index; nothing can be added after. */
  seal(): Sealed {
    this.flush();
    const footer = encodeFooter(
      {
        ...{ segment_bytes: this.#bytes, ended_t_us: this.#endedUs, blocks: this.#blocks },
        ...{ step_seqs: this.#stepSeqs, call_seqs: this.#callSeqs },
      },
      { header: this.#headerDigest, last: this.#lastDigest },
      this.#engine,
    );
    if (footer.length > LIMITS.traceFooterBytes) {
      throw new DsecError(
        "INVALID_REQUEST",
        `the index of trace ${this.header.trace_id} has ${footer.length} bytes; at most ${LIMITS.traceFooterBytes} are kept`,
      );
    }
    this.#write(skippableFrame(FOOTER_FRAME, footer));
    this.#state = "sealed";
    return { count: this.#count, chain_head: digestOf(this.head) };
  }

  /**
   * What is small shares a frame, over which its sections' text is compressed together and which costs one header. What is
   * large is cut into blocks of about the same work to read: what hardly gets smaller goes into more of them.
   */
  #packed(): Packed[] {
    const frames: Packed[] = [];
    let small: Block[] = [];
    let smallBytes = 0;
    const packSmall = () => {
      if (small.length > 0) frames.push(this.#pack(small));
      [small, smallBytes] = [[], 0];
    };
    for (const section of SECTIONS) {
      const held = this.#held.get(section);
      if (held === undefined) continue;
      const bytes = held.bodies.reduce((sum, { length }) => sum + length, 0);
      if (smallBytes + bytes > LIMITS.traceSharedFrameBytes) packSmall();
      if (bytes <= LIMITS.traceSharedFrameBytes && held.seqs.length <= LIMITS.traceBlockEvents) {
        small.push({ section, events: held });
        smallBytes += bytes;
      } else frames.push(...this.#packedLarge(section, held));
    }
    packSmall();
    return frames;
  }

  #packedLarge(section: Section, held: BlockEvents): Packed[] {
    return piecesOf(held, LIMITS.traceBlockGoalBytes).flatMap((events) => {
      const whole = this.#pack([{ section, events }]);
      const count = Math.ceil(whole.frame.length / LIMITS.traceFrameGoalBytes);
      if (count === 1) return [whole];
      return piecesOf(events, whole.content.length / count).map((events) =>
        this.#pack([{ section, events }]),
      );
    });
  }

  #pack(blocks: Block[]): Packed {
    const contents = blocks.map(({ section, events }) => encodeBlock(section, events));
    const content = contents.length === 1 ? contents[0]! : concatBytes(contents);
    return { facts: blocks.map(factsOf), content, frame: this.#engine.compress(content) };
  }

  #index(body: Uint8Array, type: "tool_call_start" | "plan_step", seq: number): void {
    const { index } = peekBody(new WireReader(body), body.length, seq);
    if (index === 0) return;
    const what = type === "plan_step" ? "step" : "call";
    if (!noteIndex(type === "plan_step" ? this.#stepSeqs : this.#callSeqs, index, seq)) {
      throw new DsecError(
        "INVALID_REQUEST",
        `event ${seq} begins ${what} ${index}; the index goes to ${LIMITS.traceIndexNumber}`,
      );
    }
  }
}

type Block = { section: Section; events: BlockEvents };
type Packed = { facts: BlockFacts[]; content: Uint8Array; frame: Uint8Array };

function factsOf({ section, events: { seqs, times } }: Block): BlockFacts {
  return {
    ...{ section, events: seqs.length, first_seq: seqs[0]!, last_seq: seqs.at(-1)! },
    ...{ first_t_us: smallest(times), last_t_us: largest(times) },
  };
}

/** Each ends where it has so many bytes. */
function piecesOf(held: BlockEvents, goalBytes: number): BlockEvents[] {
  const pieces: BlockEvents[] = [];
  let from = 0;
  let bytes = 0;
  for (let to = 1; to <= held.bodies.length; to++) {
    bytes += held.bodies[to - 1]!.length;
    const full = bytes >= goalBytes || to - from === LIMITS.traceBlockEvents;
    if (!full && to < held.bodies.length) continue;
    pieces.push({
      seqs: held.seqs.slice(from, to),
      times: held.times.slice(from, to),
      wallSkews: held.wallSkews.slice(from, to),
      bodies: held.bodies.slice(from, to),
    });
    from = to;
    bytes = 0;
  }
  return pieces;
}

function smallest(times: readonly number[]): number {
  return times.reduce((one, other) => Math.min(one, other));
}

function largest(times: readonly number[]): number {
  return times.reduce((one, other) => Math.max(one, other));
}
