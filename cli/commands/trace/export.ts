import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { DsecError } from "#core/errors.ts";
import { EXPORT_FORMATS, type ExportFormat, exportTrace } from "#trace/exchange/export.ts";
import { openTraceFile, publish } from "#trace/node/files.ts";
import { type Command, EXIT, examples, note, Option, onStopSignal, printJson } from "../../program.ts";
import { byteCount, plainLine } from "../../terminal.ts";
import { progress, traceFiles } from "../../trace-files.ts";

type Options = { format: ExportFormat; output?: string; json?: boolean };

const SUFFIX: Record<ExportFormat, string> = {
  atif: ".atif.json",
  otlp: ".otlp.json",
  chrome: ".chrome.json",
  jsonl: ".jsonl",
};

export function define(command: Command): void {
  command
    .argument("<file...>", "traces and trajectories, by path, folder or glob")
    .addOption(new Option("--format <format>", "what to write").choices(EXPORT_FORMATS).makeOptionMandatory())
    .option("-o, --output <dir|file>", "a file, or for several traces a folder (default: standard output)")
    .action(run);
  examples(command, [
    ["for Perfetto (ui.perfetto.dev)", "dsec trace export run.trace --format chrome -o run.chrome.json"],
    ["every trace of a folder for Harbor's tools", "dsec trace export traces/ --format atif -o atif/"],
    ["one event a line", "dsec trace export run.trace --format jsonl | jq -c 'select(.type == \"error\")'"],
  ]);
  command.addHelpText(
    "after",
    `\natif is ATIF v1.7, otlp is OTLP/JSON with GenAI conventions, chrome is the Trace Event Format, jsonl is one event a
line. All but chrome can be imported again without loss. Text goes out as it was recorded, control codes included.`,
  );
}

async function run(words: string[], options: Options): Promise<void> {
  onStopSignal();
  const files: string[] = [];
  for await (const file of traceFiles(words)) files.push(file);
  const shown = progress("exporting");
  const written: { file: string; output: string; size: number; segments: number }[] = [];
  const intoFolder = options.output !== undefined && (files.length > 1 || options.output.endsWith("/"));
  if (intoFolder) await mkdir(options.output!, { recursive: true });
  for (const [index, file] of files.entries()) {
    shown.at(file, index);
    if (options.output === undefined) {
      for await (const text of exported(file, options.format)) await print(text);
      continue;
    }
    const name = basename(file).replace(/\.(trace|traj)$/, "") + SUFFIX[options.format];
    const output = intoFolder ? join(options.output, name) : options.output;
    const made = await publish(output, async (sink) => {
      let segments = 0;
      for await (const text of exported(file, options.format, () => segments++)) {
        sink.write(new TextEncoder().encode(text));
      }
      return { segments };
    });
    written.push({ file, output, size: made.size, segments: made.segments });
  }
  shown.end();
  if (options.output === undefined) return;
  if (options.json) return printJson(written);
  for (const { output, size } of written) process.stdout.write(`${plainLine(output)}  ${byteCount(size)}\n`);
}

/** A file's recordings one after another, in pieces of about 64 KiB. */
async function* exported(file: string, format: ExportFormat, onSegment = () => {}): AsyncGenerator<string> {
  const trace = await openTraceFile(file);
  try {
    if (trace.damage !== null) {
      note(
        `${plainLine(file)} is damaged from offset ${trace.damage.offset} on; what comes before is exported`,
      );
    }
    if (format === "chrome" && trace.segments.length > 1) {
      throw new DsecError(
        "INVALID_REQUEST",
        `${file} holds ${trace.segments.length} recordings, and a Chrome trace is of one; use --format jsonl`,
      );
    }
    for (const segment of trace.segments) {
      onSegment();
      yield* joined(exportTrace(segment, format));
    }
  } finally {
    await trace.close();
  }
}

async function* joined(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let held: string[] = [];
  let length = 0;
  for await (const piece of pieces) {
    held.push(piece);
    length += piece.length;
    if (length < 64 * 1024) continue;
    yield held.join("");
    held = [];
    length = 0;
  }
  if (length > 0) yield held.join("");
}

/** Waits for a slow reader, so that a long trace is never in memory; one that leaves, such as `head`, ends the command. */
async function print(text: string): Promise<void> {
  if (process.stdout.write(text)) return;
  await once(process.stdout, "drain").catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(EXIT.done);
  });
}
