import { LIMITS } from "#core/limits.ts";
import { type BlockHeader, decodeBlockHeader } from "./block-header.ts";
import type { Engine } from "./engine.ts";
import { decodeFooter, type Footer, isFooterOf } from "./footer.ts";
import {
  BLOCK_FRAME,
  corruptAt,
  FOOTER_FRAME,
  FRAME_HEAD_BYTES,
  HEADER_FRAME,
  isSkippable,
  type Place,
  uint32At,
  ZSTD_MAGIC,
  zstdLayout,
} from "./frames.ts";
import { decodeHeader, type TraceHeader } from "./header.ts";

/** The bytes of a file. */
export type Source = {
  /** Names it in errors. */
  name: string;
  size: number;
  /** Fewer bytes only where the file has become shorter. */
  read(offset: number, length: number): Promise<Uint8Array>;
  close?(): Promise<void>;
};

/** A frame of ours with its place in the file; `end` is where the next one begins. */
export type Frame =
  | { kind: "header"; offset: number; end: number; header: TraceHeader; digest: Uint8Array }
  | { kind: "block"; offset: number; end: number; header: BlockHeader; frameOffset: number }
  | { kind: "footer"; offset: number; end: number; footer: Footer };

/**
 * Goes through a file frame by frame without unpacking any, and checks that the footer is that of the segment which it ends.
 * @throws TRACE_CORRUPT at the first offset that makes no sense, TRACE_UNSUPPORTED
 */
export async function* walk(
  source: Source,
  engine: Engine,
  range: { from: number; to: number },
): AsyncGenerator<Frame> {
  const window = new Window(source, range.to);
  let segment: { start: number; header: Uint8Array; last: Uint8Array } | null = null;
  let at = range.from;
  while (at < range.to) {
    const place = { name: source.name, offset: at };
    const head = await window.read(at, FRAME_HEAD_BYTES, place);
    const magic = uint32At(head, 0);
    if (magic === ZSTD_MAGIC) {
      at += await emptyFrameBytes(window, at, place);
      continue;
    }
    if (!isSkippable(magic))
      throw corruptAt(
        place,
        at === 0 ? "the file begins with no frame: this is no trace" : "no frame begins here",
      );
    const payloadAt = at + FRAME_HEAD_BYTES;
    const length = uint32At(head, 4);
    const bound = BOUNDS.get(magic);
    if (payloadAt + length > range.to) throw corruptAt(place, "the file ends in the middle of a frame");
    if (bound === undefined) {
      at = payloadAt + length;
      continue;
    }
    if (length > bound) throw corruptAt(place, `the frame has ${length} bytes; at most ${bound} are read`);
    const payload = await window.read(payloadAt, length, place);
    const end = payloadAt + length;
    if (magic === HEADER_FRAME) {
      const digest = engine.sha256(payload);
      segment = { start: at, header: digest, last: digest };
      yield { kind: "header", offset: at, end, header: decodeHeader(payload, place, engine), digest };
      at = end;
    } else if (segment === null) {
      throw corruptAt(place, "the frame belongs to no segment: no file header is before it");
    } else if (magic === BLOCK_FRAME) {
      const header = decodeBlockHeader(payload, place);
      segment.last = engine.sha256(payload);
      if (end + header.compressed_bytes > range.to) {
        throw corruptAt(place, "the file ends in the middle of a block");
      }
      if (uint32At(await window.read(end, 4, place), 0) !== ZSTD_MAGIC) {
        throw corruptAt({ name: source.name, offset: end }, "no zstd frame follows the block header");
      }
      yield { kind: "block", offset: at, end: end + header.compressed_bytes, header, frameOffset: end };
      at = end + header.compressed_bytes;
    } else {
      const footer = decodeFooter(payload, place);
      if (footer.segment_bytes !== at - segment.start || !isFooterOf(payload, segment, engine)) {
        throw corruptAt(place, "the footer is not of the segment that it ends");
      }
      segment = null;
      yield { kind: "footer", offset: at, end, footer };
      at = end;
    }
  }
}

const BOUNDS = new Map([
  [HEADER_FRAME, LIMITS.traceHeaderBytes],
  [BLOCK_FRAME, LIMITS.traceBlockHeaderBytes],
  [FOOTER_FRAME, LIMITS.traceFooterBytes],
]);

const WINDOW_BYTES = 16 * 1024;

/** Small reads out of one larger: block headers lie close together where blocks are small. */
class Window {
  #source: Source;
  #to: number;
  #offset = 0;
  #bytes: Uint8Array = new Uint8Array(0);

  constructor(source: Source, to: number) {
    this.#source = source;
    this.#to = to;
  }

  async read(offset: number, length: number, place: Place): Promise<Uint8Array> {
    if (offset + length > this.#to) throw corruptAt(place, "the file ends in the middle of a frame");
    if (offset < this.#offset || offset + length > this.#offset + this.#bytes.length) {
      const wanted = Math.min(Math.max(length, WINDOW_BYTES), this.#to - offset);
      this.#bytes = await this.#source.read(offset, wanted);
      this.#offset = offset;
      if (this.#bytes.length < length) throw corruptAt(place, "the file became shorter while it was read");
    }
    return this.#bytes.subarray(offset - this.#offset, offset - this.#offset + length);
  }
}

/**
 * The length of a zstd frame without content (RFC 8878 section 3.1.1): it adds nothing to what `zstd -dc` gives, so it is
 * passed over. One with content is a block that nobody announced.
 */
async function emptyFrameBytes(window: Window, at: number, place: Place): Promise<number> {
  const { blocksAt, checksumBytes } = zstdLayout((await window.read(at + 4, 1, place))[0]!);
  const block = await window.read(at + blocksAt, 3, place);
  // last block, raw, no bytes
  if (block[0] !== 1 || block[1] !== 0 || block[2] !== 0) {
    throw corruptAt(place, "no block header announces this zstd frame");
  }
  return blocksAt + 3 + checksumBytes;
}
