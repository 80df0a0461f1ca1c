/** From a file of another format to the traces in it. */
import { importAtif } from "./atif-import.ts";
import { importEpisode, isEpisode } from "./episodes.ts";
import { isEventLine, parseLine } from "./event-lines.ts";
import type { ImportedTrace, ImportOptions, TimedEvent } from "./imported.ts";
import { JsonDocument } from "./json-tree.ts";
import { importMessages } from "./openai-messages.ts";
import { importOtlp } from "./otlp-import.ts";
import { type JsonRecord, readRecords } from "./records.ts";

export const IMPORT_FORMATS = ["openai-messages", "atif", "jsonl", "otlp"] as const;
export type ImportFormat = (typeof IMPORT_FORMATS)[number];

/** `line` is where the trace begins in the file. */
export type FoundTrace = ImportedTrace & { line: number };

/**
 * The traces of a file in order. The events of one must have been read before the next is asked for: those of a long export are
 * never in memory all at once.
 * @param name of the file, for errors
 */
export async function* importTraces(
  chunks: AsyncIterable<Uint8Array>,
  name: string,
  format: ImportFormat,
  options: ImportOptions,
): AsyncGenerator<FoundTrace> {
  const records = readRecords(chunks, name);
  switch (format) {
    case "openai-messages":
      for await (const record of records)
        yield { line: record.line, ...(await importMessages(record, name, options)) };
      return;
    case "atif":
      for await (const record of records)
        yield { line: record.line, ...(await importAtif(record, name, options)) };
      return;
    case "otlp": {
      const all: JsonRecord[] = [];
      for await (const record of records) all.push(record);
      for (const trace of await importOtlp(all, name, options)) yield { line: 1, ...trace };
      return;
    }
    case "jsonl":
      yield* importLines(records, name, options);
  }
}

/** Episodes, and event lines: a header, then the events up to the next header or episode. */
async function* importLines(
  records: AsyncIterator<JsonRecord>,
  name: string,
  options: ImportOptions,
): AsyncGenerator<FoundTrace> {
  const documentOf = (record: JsonRecord) => new JsonDocument(record.text, `${name}:${record.line}`);
  let next = await records.next();
  while (!next.done) {
    const record = next.value;
    const document = documentOf(record);
    if (isEpisode(document.root)) {
      yield { line: record.line, ...(await importEpisode(document, record, options)) };
      next = await records.next();
      continue;
    }
    if (!isEventLine(document.root)) {
      throw document.refused("it is neither an episode (with steps) nor an event (with a type)");
    }
    const parsed = parseLine(document);
    if (parsed.kind !== "header")
      throw document.refused("an event comes before the line of its trace (type trace)");
    async function* events(): AsyncGenerator<TimedEvent> {
      for (let seq = 1; ; seq++) {
        next = await records.next();
        if (next.done) return;
        const line = documentOf(next.value);
        if (isEpisode(line.root)) return;
        const event = parseLine(line);
        if (event.kind === "header") return;
        if (event.seq !== seq) throw line.refused(`event ${event.seq} stands where event ${seq} must`);
        yield event.event;
      }
    }
    yield { line: record.line, header: parsed.header, events: events() };
  }
}
