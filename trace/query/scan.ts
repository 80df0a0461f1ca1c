/** Goes through the events of some sections in the order of their numbers, a block at a time and without a list of them. */
import { DsecError } from "#core/errors.ts";
import type { Section } from "#trace/events/event.ts";
import { WireReader } from "#trace/events/wire.ts";
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
  #block = 0;
  #reader: WireReader | null = null;
  #at = 0;

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
    return this.#reader !== null;
  }

  /** No event that is left has a smaller number; infinite at the end. */
  get bound(): number {
    if (this.#reader !== null) return this.view.seq;
    return this.#blocks[this.#block]?.first_seq ?? Number.POSITIVE_INFINITY;
  }

  /** Loads the next block, or passes over it where nobody wants its content. */
  async load(wanted: (content: Uint8Array) => boolean): Promise<void> {
    const block = this.#blocks[this.#block++]!;
    const content = await this.#segment.content(block);
    if (!wanted(content)) return;
    this.#reader = new WireReader(content);
    // Trace{blocks: Block{section, events}}; the block's header has been compared with the index.
    if (this.#reader.varint() !== BLOCKS_TAG) throw this.#corrupt();
    this.#reader.delimited();
    if (this.#reader.varint() !== SECTION_TAG) throw this.#corrupt();
    this.#reader.varint();
    this.#at = this.#reader.at;
    while (this.advance() && this.view.seq < this.#fromSeq);
  }

  /** Goes to the next event of the block. False where it has no more. */
  advance(): boolean {
    const reader = this.#reader!;
    if (this.#at < reader.end) {
      reader.at = this.#at;
      if (reader.varint() !== EVENTS_TAG) throw this.#corrupt();
      const to = reader.delimited();
      this.#at = to;
      this.view.load(reader, reader.at, to);
      if (this.view.seq <= this.#toSeq) return true;
    }
    this.#reader = null;
    return false;
  }

  #corrupt(): DsecError {
    return new DsecError("TRACE_CORRUPT", `a block of ${this.section} is no block; see dsec trace validate`);
  }
}

const BLOCKS_TAG = 0x0a;
const SECTION_TAG = 0x08;
const EVENTS_TAG = 0x12;
