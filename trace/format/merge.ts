import { SECTIONS, type Section } from "#trace/events/event.ts";
import type { RawEvent } from "./block.ts";
import type { BlockPlace } from "./footer.ts";

/** Which events are asked for; both numbers are included. */
export type EventRange = { sections?: readonly Section[]; fromSeq?: number; toSeq?: number };

/**
 * Events in the order of their numbers, from blocks that hold each a section's. At most one block of each section is
 * unpacked, and only once its events may be the next: a seek reads one block, not five.
 */
export async function* merge(
  blocks: readonly BlockPlace[],
  read: (block: BlockPlace) => Promise<RawEvent[]>,
  { sections = SECTIONS, fromSeq = 1, toSeq = Number.POSITIVE_INFINITY }: EventRange,
): AsyncGenerator<RawEvent[]> {
  const bySection = new Map<Section, BlockPlace[]>(sections.map((section) => [section, []]));
  for (const block of blocks) {
    if (block.last_seq >= fromSeq && block.first_seq <= toSeq) bySection.get(block.section)?.push(block);
  }
  const cursors = [...bySection.values()].map((blocks) => new Cursor(blocks, fromSeq, toSeq));
  let batch: RawEvent[] = [];
  for (;;) {
    const [next, others] = smallest(cursors);
    if (next === null) break;
    if (next.events === null) {
      if (batch.length > 0) yield batch;
      batch = [];
      next.load(await read(next.blocks[next.block]!));
      continue;
    }
    next.takeBefore(others, batch);
  }
  if (batch.length > 0) yield batch;
}

/** A section's blocks, the first that is not done with unpacked or not. */
class Cursor {
  readonly blocks: readonly BlockPlace[];
  block = 0;
  events: RawEvent[] | null = null;
  #at = 0;
  #fromSeq: number;
  #toSeq: number;

  constructor(blocks: readonly BlockPlace[], fromSeq: number, toSeq: number) {
    this.blocks = blocks;
    this.#fromSeq = fromSeq;
    this.#toSeq = toSeq;
  }

  /** No event that is left has a smaller number. */
  get bound(): number {
    if (this.events !== null) return this.events[this.#at]!.seq;
    const block = this.blocks[this.block];
    return block === undefined ? Number.POSITIVE_INFINITY : Math.max(block.first_seq, this.#fromSeq);
  }

  load(events: RawEvent[]): void {
    this.events = events;
    this.#at = events.findIndex(({ seq }) => seq >= this.#fromSeq);
    if (this.#at < 0 || events[this.#at]!.seq > this.#toSeq) this.#nextBlock();
  }

  takeBefore(seq: number, batch: RawEvent[]): void {
    const events = this.events!;
    const end = Math.min(seq, this.#toSeq + 1);
    do batch.push(events[this.#at++]!);
    while (this.#at < events.length && events[this.#at]!.seq < end);
    if (this.#at === events.length || events[this.#at]!.seq > this.#toSeq) this.#nextBlock();
  }

  #nextBlock(): void {
    this.block++;
    this.events = null;
  }
}

/** The cursor whose next event is the first, and the smallest number that another may have. */
function smallest(cursors: readonly Cursor[]): [next: Cursor | null, others: number] {
  let next: Cursor | null = null;
  let least = Number.POSITIVE_INFINITY;
  let others = Number.POSITIVE_INFINITY;
  for (const cursor of cursors) {
    const { bound } = cursor;
    // of equal ones the unpacked: its number is a fact, and no other event has it
    if (bound < least || (bound === least && next?.events === null && cursor.events !== null)) {
      others = Math.min(others, least);
      [next, least] = [cursor, bound];
    } else others = Math.min(others, bound);
  }
  return [next, others];
}
