/**
 * Text that arrives in pieces: a program's output, the tokens of an answer. What must go is found in the pieces together, for a
 * secret may well begin in one and end in another.
 */
import type { Finder, Found } from "./finder.ts";
import { MARK } from "./mark.ts";

/** What of the end of the text so far is looked at again with what follows; longer matches may be cut here. */
const OVERLAP_CHARS = 64 * 1024;

export class StreamScanner {
  readonly #finder: Finder;
  readonly #found: (found: Found) => void;
  #text = "";
  #offset = 0;

  /** @param found is told what must go, at its place in the stream, in order */
  constructor(finder: Finder, found: (found: Found) => void) {
    this.#finder = finder;
    this.#found = found;
  }

  add(text: string, offset: number): void {
    // nothing joins two pieces with something missing between them
    if (offset !== this.#offset + this.#text.length) {
      this.end();
      this.#offset = offset;
    }
    this.#text += text;
    if (this.#text.length >= 4 * OVERLAP_CHARS) this.#settle(this.#text.length - OVERLAP_CHARS);
  }

  end(): void {
    this.#settle(this.#text.length);
    this.#offset += this.#text.length;
    this.#text = "";
  }

  /** Tells what is found before `to`, and forgets the text up to there. */
  #settle(to: number): void {
    let cut = to;
    const found = this.#finder.find(this.#text);
    for (const { start, end } of found) if (start < cut && end > cut) cut = start;
    // one that is as long as all that is held is told as it is
    if (cut === 0) cut = this.#text.length;
    for (const one of found) {
      if (one.end > cut) break;
      this.#found({ start: one.start + this.#offset, end: one.end + this.#offset, why: one.why });
    }
    this.#text = this.#text.slice(cut);
    this.#offset += cut;
  }
}

/** What must go of one stream, in order. */
export class StreamCuts {
  readonly cuts: Found[] = [];
  /** The first cut that ends after the piece before. */
  #next = 0;
  /** By how much the offsets of what follows have moved. */
  #moved = 0;

  /**
   * The piece without what must go, and where it stands now.
   * @param join puts text and marks together, in whatever the stream consists of
   */
  apply<T extends { length: number }>(
    piece: T,
    offset: number,
    join: (parts: (T | typeof MARK)[]) => T,
    slice: (piece: T, from: number, to: number) => T,
  ): { piece: T; offset: number; cut: number } {
    const movedOffset = offset + this.#moved;
    const end = offset + piece.length;
    const parts: (T | typeof MARK)[] = [];
    let at = offset;
    let cut = 0;
    for (; this.#next < this.cuts.length; this.#next++) {
      const one = this.cuts[this.#next]!;
      if (one.start >= end) break;
      const from = Math.max(one.start, offset);
      if (from > at) parts.push(slice(piece, at - offset, from - offset));
      if (one.start >= offset) {
        parts.push(MARK);
        this.#moved += MARK.length;
        cut++;
      }
      at = Math.min(one.end, end);
      this.#moved -= at - from;
      if (one.end > end) break;
    }
    if (at < end) parts.push(slice(piece, at - offset, end - offset));
    const whole = parts.length === 1 && at === offset ? piece : join(parts);
    return { piece: whole, offset: movedOffset, cut };
  }
}
