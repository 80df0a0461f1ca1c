/** The formats that imports read, and what a file of each is, for whoever gave another. */
export const IMPORT_FORMATS = ["openai-messages", "atif", "jsonl", "otlp"] as const;
export type ImportFormat = (typeof IMPORT_FORMATS)[number];

export const EXPECTED: Readonly<Record<ImportFormat, string>> = {
  "openai-messages":
    "expected conversations, as {messages}, {input, output}, {items}, {choices}, lines of a batch's output, or an array of messages",
  atif: "expected ATIF trajectories, v1.0 to v1.7",
  jsonl: "expected episodes, as {id, steps}, or lines of dsec trace export --format jsonl",
  otlp: "expected OTLP/JSON traces, as an OpenTelemetry exporter or a collector's file exporter writes them",
};
