/**
 * Cuts a stream of zstd frames at their borders, without unpacking any (RFC 8878 section 3.1). Node's decompressor ends with the
 * first frame of what it is given, and would drop all that follows without a word.
 */
import { DsecError } from "#core/errors.ts";
import { isSkippable, uint32At, ZSTD_MAGIC } from "#trace/format/frames.ts";

/** Bytes of a zstd frame, or its end. Skippable frames are passed over. */
export type FramePart = { kind: "bytes"; bytes: Uint8Array } | { kind: "end" };

type State = "magic" | "skip-size" | "skip" | "descriptor" | "header" | "block" | "content" | "checksum";

export class FrameCutter {
  readonly #name: string;
  #state: State = "magic";
  /** Bytes that the state still takes. */
  #left = 4;
  /** Gathered where they are to be understood. */
  #gathered: number[] = [];
  #hasChecksum = false;
  #isLast = false;

  /** @param name of the file, for errors */
  constructor(name: string) {
    this.#name = name;
  }

  /** @throws TRACE_CORRUPT for what is no frame */
  *push(chunk: Uint8Array): Generator<FramePart> {
    for (let at = 0; at < chunk.length; ) {
      const bytes = chunk.subarray(at, at + this.#left);
      const state = this.#state;
      at += bytes.length;
      this.#left -= bytes.length;
      if (state !== "skip" && state !== "content") this.#gathered.push(...bytes);
      if (state !== "magic" && state !== "skip-size" && state !== "skip") yield { kind: "bytes", bytes };
      if (this.#left > 0) return;
      const ended = this.#next();
      // it may have come in pieces, and is passed on whole
      if (this.#state === "descriptor") yield { kind: "bytes", bytes: MAGIC_BYTES };
      if (ended) yield { kind: "end" };
    }
  }

  /** @throws TRACE_CORRUPT where the stream ends within a frame */
  end(): void {
    if (this.#state !== "magic" || this.#gathered.length > 0) throw this.#corrupt("it ends within a frame");
  }

  /** The state is complete: what comes after it. True where that ends a frame. */
  #next(): boolean {
    const bytes = Uint8Array.from(this.#gathered);
    this.#gathered = [];
    switch (this.#state) {
      case "magic": {
        const magic = uint32At(bytes, 0);
        if (magic === ZSTD_MAGIC) return this.#enter("descriptor", 1);
        if (isSkippable(magic)) return this.#enter("skip-size", 4);
        throw this.#corrupt("it is no zstd archive, or something follows its frames");
      }
      case "skip-size":
        return this.#enter("skip", uint32At(bytes, 0));
      case "descriptor": {
        const descriptor = bytes[0]!;
        const isSingle = (descriptor & 0x20) !== 0;
        this.#hasChecksum = (descriptor & 0x04) !== 0;
        const window = isSingle ? 0 : 1;
        const dictionary = [0, 1, 2, 4][descriptor & 3]!;
        const contentSize = [isSingle ? 1 : 0, 2, 4, 8][descriptor >> 6]!;
        return this.#enter("header", window + dictionary + contentSize);
      }
      case "block": {
        const header = bytes[0]! | (bytes[1]! << 8) | (bytes[2]! << 16);
        this.#isLast = (header & 1) === 1;
        const type = (header >> 1) & 3;
        if (type === 3) throw this.#corrupt("a block is of a reserved type");
        // a repeated byte is written once
        return this.#enter("content", type === 1 ? 1 : header >> 3);
      }
      case "content":
        if (!this.#isLast) return this.#enter("block", 3);
        return this.#hasChecksum ? this.#enter("checksum", 4) : this.#ended();
      case "header":
        return this.#enter("block", 3);
      case "checksum":
        return this.#ended();
      case "skip":
        this.#ended();
        return false;
    }
  }

  /** A state that takes nothing is complete at once. */
  #enter(state: State, left: number): boolean {
    this.#state = state;
    this.#left = left;
    return left === 0 ? this.#next() : false;
  }

  #ended(): boolean {
    this.#state = "magic";
    this.#left = 4;
    return true;
  }

  #corrupt(why: string): DsecError {
    return new DsecError("TRACE_CORRUPT", `${this.#name}: ${why}; fetch it again`);
  }
}

const MAGIC_BYTES = Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd);
