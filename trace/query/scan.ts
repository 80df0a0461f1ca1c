/** Goes through the events of some sections in the order of their numbers, a block at a time and without a list of them. */
import type { Section } from "#trace/events/event.ts";
import type { OpenBlock } from "#trace/format/block.ts";
import type { BlockPlace } from "#trace/format/footer.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { EventView } from "./event-view.ts";

type Range = { fromSeq?: number; toSeq?: number };

export class Scan {
  readonly #cursors: Cursor[];

  constructor(segment: TraceSegment, sections: readonly Section[], range: Range) {
    this.#cursors = sections.map((section) => new Cursor(segment, section, range));
  }

  /** Where the next event is; all of its events before `untilSeq` come before those of other sections. Null at the end. */
  next(): { cursor: Cursor; untilSeq: number } | null {
    let next: Cursor | null = null;
    let least = Number.POSITIVE_INFINITY;
    let others = Number.POSITIVE_INFINITY;
    for (const cursor of this.#cursors) {
      const { bound } = cursor;
      // Of equal bounds the loaded one's is its event's own number, which no other event has.
      if (bound < least || (bound === least && next?.loaded === false && cursor.loaded)) {
        others = Math.min(others, least);
        [next, least] = [cursor, bound];
      } else others = Math.min(others, bound);
    }
    return next === null ? null : { cursor: next, untilSeq: others };
  }
}

/** One section: the blocks that are left, and the event that comes next in the one that is loaded. */
export class Cursor {
  readonly section: Section;
  readonly view = new EventView();
  readonly #segment: TraceSegment;
  readonly #blocks: BlockPlace[];
  readonly #fromSeq: number;
  readonly #toSeq: number;
  #nextBlock = 0;
  #block: OpenBlock | null = null;
  /** Of the event in its block, and of the next one in its content. */
  #at = 0;
  #nextByte = 0;

  constructor(segment: TraceSegment, section: Section, { fromSeq = 1, toSeq = segment.count }: Range) {
    this.section = section;
    this.#segment = segment;
    this.#fromSeq = fromSeq;
    this.#toSeq = Math.min(toSeq, segment.count);
    this.#blocks = segment.blocks.filter(
      (block) => block.section === section && block.last_seq >= fromSeq && block.first_seq <= this.#toSeq,
    );
  }

  /** Whether `view` is an event. */
  get loaded(): boolean {
    return this.#block !== null;
  }

  /** No event that is left has a smaller number; infinite at the end. */
  get bound(): number {
    if (this.#block !== null) return this.view.seq;
    return this.#blocks[this.#nextBlock]?.first_seq ?? Number.POSITIVE_INFINITY;
  }

  /** Loads the next block, or passes over it where nobody wants its content. */
  async load(wanted: (content: Uint8Array) => boolean): Promise<void> {
    const block = await this.#segment.openBlock(this.#blocks[this.#nextBlock++]!, wanted);
    if (block === null) return;
    this.#block = block;
    this.#at = -1;
    this.#nextByte = block.reader.at;
    while (this.advance() && this.view.seq < this.#fromSeq);
  }

  /** Goes to the next event of the block. False where it has no more. */
  advance(): boolean {
    const block = this.#block!;
    const at = ++this.#at;
    const seq = block.seqs[at];
    if (seq === undefined || seq > this.#toSeq) {
      this.#block = null;
      this.#segment.closeBlock(block);
      return false;
    }
    const { reader } = block;
    reader.at = this.#nextByte;
    const end = block.next();
    this.#nextByte = end;
    this.view.load(reader, reader.at, end, seq, block.times[at]!, block.wallSkews?.[at] ?? 0);
    return true;
  }
}
