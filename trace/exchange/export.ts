/** From a trace to other formats. */
import type { TraceSegment } from "#trace/format/segment.ts";
import { exportAtif } from "./atif-export.ts";
import { exportChrome } from "./chrome-export.ts";
import { endLine, eventLine, headerLine } from "./event-lines.ts";
import { exportOtlp } from "./otlp-export.ts";

export const EXPORT_FORMATS = ["atif", "otlp", "chrome", "jsonl"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/** Pieces of the text that the trace becomes. */
export function exportTrace(segment: TraceSegment, format: ExportFormat): AsyncGenerator<string> {
  switch (format) {
    case "atif":
      return exportAtif(segment.header, segment.events());
    case "otlp":
      return exportOtlp(segment.header, segment.events());
    case "chrome":
      return exportChrome(segment.header, segment.events());
    case "jsonl":
      return exportLines(segment);
  }
}

async function* exportLines(segment: TraceSegment): AsyncGenerator<string> {
  yield headerLine(segment.header);
  for await (const event of segment.events()) yield eventLine(event);
  yield endLine(segment);
}
