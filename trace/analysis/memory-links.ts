/** Which calls wrote the memory that later calls read: how what was said once found its way on. */
import type { TraceEvent } from "#trace/events/event.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { ownNamespace } from "./facts.ts";

/** Reads of `key` by `reader` of what `writer` wrote, calls by their tools. */
export type MemoryLink = {
  key: string;
  writer: string;
  reader: string;
  reads: number;
  /** In the first trace where it was seen. */
  example: { file: string; written_seq: number; read_seq: number };
};

export type MemoryLinks = {
  links: MemoryLink[];
  /** Written and never read. */
  unread: { key: string; writer: string; writes: number }[];
};

const MOST_LINKS = 10_000;

export class MemoryLinkAnalysis {
  readonly #links = new Map<string, MemoryLink>();
  readonly #unread = new Map<string, { key: string; writer: string; writes: number }>();

  /** One trace: its events in order, then `end`. */
  begin(
    file: string,
    segment: Pick<TraceSegment, "header">,
  ): { onEvent(event: TraceEvent): void; end(): void } {
    const isOwn = ownNamespace(segment.header);
    const tools = new Map<number, string>();
    const written = new Map<string, { writer: string; seq: number; read: boolean }>();
    let under: number | null = null;
    const who = (call: number | null) => tools.get(call ?? under ?? -1) ?? "(agent)";
    const forget = (key: string) => {
      const last = written.get(key);
      if (last !== undefined && !last.read) this.#notRead(key, last.writer);
      written.delete(key);
    };
    return {
      onEvent: (event) => {
        if (event.type === "tool_call_start") {
          under = event.call;
          tools.set(event.call, event.tool ?? `(${event.kind})`);
        } else if (event.type === "tool_call_end") {
          if (under === event.call) under = null;
        } else if (event.type === "memory_write" && isOwn(event.namespace)) {
          if (event.op === "clear") for (const key of [...written.keys()]) forget(key);
          else forget(event.key);
          if (event.op === "put")
            written.set(event.key, { writer: who(event.call), seq: event.seq, read: false });
        } else if (event.type === "memory_read" && isOwn(event.namespace)) {
          const last = event.op === "get" ? written.get(event.key) : undefined;
          if (last === undefined) return;
          last.read = true;
          const { key, seq } = event;
          this.#link(key, last.writer, who(event.call), { file, written_seq: last.seq, read_seq: seq });
        }
      },
      end: () => {
        for (const key of [...written.keys()]) forget(key);
      },
    };
  }

  result(): MemoryLinks {
    return {
      links: [...this.#links.values()].sort((one, other) => other.reads - one.reads),
      unread: [...this.#unread.values()].sort((one, other) => other.writes - one.writes),
    };
  }

  #link(key: string, writer: string, reader: string, example: MemoryLink["example"]): void {
    const name = JSON.stringify([key, writer, reader]);
    const link = this.#links.get(name);
    if (link !== undefined) link.reads++;
    else if (this.#links.size < MOST_LINKS) this.#links.set(name, { key, writer, reader, reads: 1, example });
  }

  #notRead(key: string, writer: string): void {
    const name = JSON.stringify([key, writer]);
    const row = this.#unread.get(name);
    if (row !== undefined) row.writes++;
    else if (this.#unread.size < MOST_LINKS) this.#unread.set(name, { key, writer, writes: 1 });
  }
}
