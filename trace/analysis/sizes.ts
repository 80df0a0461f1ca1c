/** What takes the room in traces: by section as it lies in the file, by type of event and by tool as it is unpacked. */
import { EVENT_TYPES, type EventType, SECTIONS, type Section } from "#trace/events/event.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import type { CallFacts } from "./facts.ts";
import { toolName } from "./tool-table.ts";

export type Sizes = {
  sections: { section: Section; blocks: number; events: number; file_bytes: number; event_bytes: number }[];
  types: { type: EventType; events: number; event_bytes: number; largest_bytes: number }[];
  /** Arguments and answers. */
  tools: { tool: string; calls: number; in_bytes: number; out_bytes: number }[];
};

export class SizeAnalysis {
  readonly #sections = new Map(
    SECTIONS.map((section) => [section, { blocks: 0, events: 0, file_bytes: 0, event_bytes: 0 }]),
  );
  readonly #types = new Map<EventType, { events: number; event_bytes: number; largest_bytes: number }>();
  readonly #tools = new Map<string, { calls: number; in_bytes: number; out_bytes: number }>();

  async add(segment: TraceSegment, calls: readonly CallFacts[]): Promise<void> {
    const unpacked = new Map<Section, number>();
    for (const section of SECTIONS) {
      let sectionBytes = 0;
      for await (const batch of segment.batches({ sections: [section] })) {
        for (const { type, bytes } of batch) {
          sectionBytes += bytes.length;
          this.#event(type, bytes.length);
        }
      }
      unpacked.set(section, sectionBytes);
      this.#sections.get(section)!.event_bytes += sectionBytes;
    }
    for (const blocks of Map.groupBy(segment.blocks, ({ offset }) => offset).values()) {
      // what small sections share is theirs by what they have unpacked
      const all = blocks.reduce((sum, { section }) => sum + unpacked.get(section)!, 0);
      for (const { section, events, bytes } of blocks) {
        const row = this.#sections.get(section)!;
        row.blocks++;
        row.events += events;
        row.file_bytes += Math.round((bytes * unpacked.get(section)!) / all);
      }
    }
    for (const call of calls) {
      const tool = toolName(call);
      const row = this.#tools.get(tool) ?? { calls: 0, in_bytes: 0, out_bytes: 0 };
      row.calls++;
      row.in_bytes += call.bytes_in;
      row.out_bytes += call.bytes_out;
      this.#tools.set(tool, row);
    }
  }

  result(): Sizes {
    return {
      sections: [...this.#sections]
        .map(([section, row]) => ({ section, ...row }))
        .filter(({ blocks }) => blocks > 0),
      types: EVENT_TYPES.flatMap((type) => {
        const row = this.#types.get(type);
        return row === undefined ? [] : [{ type, ...row }];
      }).sort((one, other) => other.event_bytes - one.event_bytes),
      tools: [...this.#tools]
        .map(([tool, row]) => ({ tool, ...row }))
        .sort((one, other) => other.in_bytes + other.out_bytes - one.in_bytes - one.out_bytes),
    };
  }

  #event(type: EventType, bytes: number): void {
    const row = this.#types.get(type) ?? { events: 0, event_bytes: 0, largest_bytes: 0 };
    row.events++;
    row.event_bytes += bytes;
    row.largest_bytes = Math.max(row.largest_bytes, bytes);
    this.#types.set(type, row);
  }
}
