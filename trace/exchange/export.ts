/** From a trace to other formats. */
import type { TraceEvent } from "#trace/events/event.ts";
import type { TraceHeader } from "#trace/format/header.ts";
import { exportAtif } from "./atif-export.ts";
import { exportChrome } from "./chrome-export.ts";
import { eventLine, headerLine } from "./event-lines.ts";
import { exportOtlp } from "./otlp-export.ts";

export const EXPORT_FORMATS = ["atif", "otlp", "chrome", "jsonl"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/** Pieces of the text that the trace becomes. @param events all of them, in order */
export function exportTrace(
  header: TraceHeader,
  events: AsyncIterable<TraceEvent>,
  format: ExportFormat,
): AsyncGenerator<string> {
  switch (format) {
    case "atif":
      return exportAtif(header, events);
    case "otlp":
      return exportOtlp(header, events);
    case "chrome":
      return exportChrome(header, events);
    case "jsonl":
      return exportLines(header, events);
  }
}

async function* exportLines(header: TraceHeader, events: AsyncIterable<TraceEvent>): AsyncGenerator<string> {
  yield headerLine(header);
  for await (const event of events) yield eventLine(event);
}
