/** Imports into traces in memory, written and read by the real writer and reader. */
import { createReadStream } from "node:fs";
import { encodeEvent } from "#trace/events/codec.ts";
import type { EventBody, TraceEvent } from "#trace/events/event.ts";
import { type ExportFormat, exportTrace } from "#trace/exchange/export.ts";
import { importTraces } from "#trace/exchange/import.ts";
import type { ImportFormat } from "#trace/exchange/import-formats.ts";
import type { ImportedTrace, ImportOptions } from "#trace/exchange/imported.ts";
import { openTrace } from "#trace/format/reader.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { TrajectoryWriter } from "#trace/format/writer.ts";
import { nodeEngine } from "#trace/node/engine.ts";

export const OPTIONS: ImportOptions = { stateChanging: null, memoryFromAnswers: true };

/** @param input text, or the bytes of a file in the pieces in which they are read */
export async function importedFrom(
  input: string | AsyncIterable<Uint8Array>,
  format: ImportFormat,
  options: ImportOptions = OPTIONS,
): Promise<TraceSegment[]> {
  const traces: TraceSegment[] = [];
  for await (const trace of importTraces(chunksOf(input), "input", format, options)) {
    traces.push(await writtenTrace(trace));
  }
  return traces;
}

/** Episode by episode. */
/** @param stateChanging the tools that do, where the import is told */
export async function* airlineTraces(
  path: string,
  stateChanging: ReadonlySet<string> | null = null,
): AsyncGenerator<TraceSegment> {
  const options = { ...OPTIONS, stateChanging };
  for await (const trace of importTraces(createReadStream(path), "episodes.jsonl", "jsonl", options)) {
    yield await writtenTrace(trace);
  }
}

export async function exported(segment: TraceSegment, format: ExportFormat): Promise<string> {
  let text = "";
  for await (const piece of exportTrace(segment, format)) text += piece;
  return text;
}

export async function eventsIn(segment: TraceSegment): Promise<TraceEvent[]> {
  const events: TraceEvent[] = [];
  for await (const event of segment.events()) events.push(event);
  return events;
}

export async function writtenTrace({ header, events }: ImportedTrace): Promise<TraceSegment> {
  const pieces: Uint8Array[] = [];
  const writer = new TrajectoryWriter(header, nodeEngine, (bytes) => pieces.push(bytes.slice()));
  for await (const { t_us, wall_us, ...body } of events) {
    const place = { seq: writer.count + 1, t_us, wall_skew_us: wall_us - header.started_wall_us - t_us };
    writer.add(encodeEvent(body as EventBody, place), { ...place, type: body.type });
  }
  writer.seal();
  const bytes = Buffer.concat(pieces);
  const read = async (offset: number, length: number) => bytes.subarray(offset, offset + length);
  const { segments } = await openTrace({ name: header.trace_id, size: bytes.length, read }, nodeEngine);
  return segments[0]!;
}

async function* chunksOf(input: string | AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (typeof input === "string") yield new TextEncoder().encode(input);
  else yield* input;
}
