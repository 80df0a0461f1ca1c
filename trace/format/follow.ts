import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { EventChain } from "#trace/events/chain.ts";
import { decodeEvent, rawDigest } from "#trace/events/codec.ts";
import type { TraceEvent } from "#trace/events/event.ts";
import { blockIn, decodeBlock, type RawEvent, unpack } from "./block.ts";
import { decodeBlockHeader } from "./block-header.ts";
import type { Engine } from "./engine.ts";
import {
  BLOCK_FRAME,
  concatBytes,
  corruptAt,
  FRAME_HEAD_BYTES,
  HEADER_FRAME,
  isSkippable,
  type Place,
  uint32At,
} from "./frames.ts";
import { decodeHeader, type TraceHeader } from "./header.ts";
import { checkFrame } from "./segment.ts";

export type Followed = { kind: "header"; header: TraceHeader } | { kind: "events"; events: TraceEvent[] };

/**
 * Reads a trajectory as its bytes come, without a file to go back in: its header, and after each whole flush that flush's
 * events in order, checked against the chain. What is cut off at the end is not told.
 * @param name names it in errors
 * @throws TRACE_CORRUPT, TRACE_UNSUPPORTED
 */
export async function* followTrajectory(
  parts: AsyncIterable<Uint8Array>,
  engine: Engine,
  name: string,
): AsyncGenerator<Followed> {
  const input = new Input(parts);
  let header: TraceHeader | null = null;
  let chain: EventChain | null = null;
  let flush: RawEvent[] = [];
  for (;;) {
    const place: Place = { name, offset: input.at };
    const head = await input.take(FRAME_HEAD_BYTES);
    if (head === null) return;
    const magic = uint32At(head, 0);
    const length = uint32At(head, 4);
    if (!isSkippable(magic)) throw corruptAt(place, "no frame begins here");
    if (length > LIMITS.traceFooterBytes) {
      throw corruptAt(place, `the frame has ${length} bytes; at most ${LIMITS.traceFooterBytes} are read`);
    }
    const payload = await input.take(length);
    if (payload === null) return;
    if (magic === HEADER_FRAME) {
      header = decodeHeader(payload, place, engine);
      chain = new EventChain(rawDigest(header.genesis_digest), engine.sha256);
      flush = [];
      yield { kind: "header", header };
    } else if (magic === BLOCK_FRAME) {
      if (header === null || chain === null) throw corruptAt(place, "no file header is before the block");
      const blocks = decodeBlockHeader(payload, place);
      const frame = await input.take(blocks.compressed_bytes);
      if (frame === null) return;
      checkFrame(frame, blocks, place, engine);
      const all = { fromSeq: 1, toSeq: Number.MAX_SAFE_INTEGER };
      const content = unpack(frame, blocks, place, engine);
      for (const [at, facts] of blocks.blocks.entries()) {
        for (const event of decodeBlock(blockIn(content, blocks, at, place), facts, place, all))
          flush.push(event);
      }
      engine.release(content);
      if (blocks.chain_digest === null) continue;
      flush.sort((a, b) => a.seq - b.seq);
      for (const { bytes } of flush) chain.add(bytes);
      if (digestOf(chain.head) !== blocks.chain_digest) {
        throw corruptAt(place, `the chain breaks at event ${blocks.chain_seq} or before it`);
      }
      const { started_wall_us } = header;
      yield { kind: "events", events: flush.map(({ bytes }) => decodeEvent(bytes, started_wall_us)) };
      flush = [];
    }
  }
}

/** Bytes in pieces of any size, taken in pieces of another. */
class Input {
  readonly #parts: AsyncIterator<Uint8Array>;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  at = 0;

  constructor(parts: AsyncIterable<Uint8Array>) {
    this.#parts = parts[Symbol.asyncIterator]();
  }

  /** Null where they end before so many have come. */
  async take(length: number): Promise<Uint8Array | null> {
    while (this.#waitingBytes < length) {
      const { done, value } = await this.#parts.next();
      if (done) return null;
      this.#waiting.push(value);
      this.#waitingBytes += value.length;
    }
    const bytes = this.#waiting.length === 1 ? this.#waiting[0]! : concatBytes(this.#waiting);
    this.#waiting = [bytes.subarray(length)];
    this.#waitingBytes -= length;
    this.at += length;
    return bytes.subarray(0, length);
  }
}
