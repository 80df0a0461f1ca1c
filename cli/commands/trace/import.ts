import { createReadStream } from "node:fs";
import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { DsecError } from "#core/errors.ts";
import { importTraces } from "#trace/exchange/import.ts";
import { IMPORT_FORMATS, type ImportFormat } from "#trace/exchange/import-formats.ts";
import type { ImportNote } from "#trace/exchange/import-notes.ts";
import type { ImportOptions } from "#trace/exchange/imported.ts";
import { SeenIds, traceFileName } from "#trace/exchange/trace-names.ts";
import { checkTrace, refuseTaken, type SealedTrace, writeTrace } from "#trace/node/files.ts";
import { type Command, examples, note, Option, onStopSignal, printJson } from "../../program.ts";
import { byteCount, plainLine } from "../../terminal.ts";
import { progress } from "../../trace-files.ts";

type Options = {
  format: ImportFormat;
  output: string;
  stateChanging?: string;
  memory: boolean;
  json?: boolean;
};

type Imported = { file: string; trace_id: string; line: number; notes: ImportNote[] } & SealedTrace;

export function define(command: Command): void {
  command
    .argument("<input>", "the file to import")
    .addOption(
      new Option("--format <format>", "what the file is").choices(IMPORT_FORMATS).makeOptionMandatory(),
    )
    .requiredOption(
      "-o, --output <dir|file>",
      "a folder for the traces, or for a single one a file ending in .trace",
    )
    .option("--state-changing <tools>", "tools that change state, with commas; all others only read")
    .option("--no-memory", "do not make memory_state of answers that are JSON objects")
    .action(run);
  examples(command, [
    [
      "recorded episodes, a trace each",
      "dsec trace import --format jsonl episodes.jsonl -o traces/ --state-changing book_reservation,cancel_reservation",
    ],
    ["chat completions with tool calls", "dsec trace import --format openai-messages chats.jsonl -o traces/"],
    ["one ATIF trajectory", "dsec trace import --format atif trajectory.json -o run.trace"],
  ]);
  command.addHelpText(
    "after",
    `\nThe whole input is read before anything is written: a record that is damaged, or has the id of another, is named with
its line, and nothing is imported. What cannot be read as what it is, such as items of types that are not known, is kept as it
stands, and told. Files that exist are not replaced. docs/trace-exchange.md has the formats.`,
  );
}

async function run(input: string, options: Options): Promise<void> {
  onStopSignal();
  const single = options.output.endsWith(".trace");
  const fileOf = async (traceId: string) =>
    single ? options.output : join(options.output, await traceFileName(traceId));
  const count = await check(input, options, fileOf);
  if (single && count !== 1) {
    throw new DsecError(
      "INVALID_REQUEST",
      `${input} holds ${count} traces; give a folder with -o, not a file`,
    );
  }
  if (!single) await mkdir(options.output, { recursive: true });
  const shown = progress("importing");
  const imported: Imported[] = [];
  for await (const { header, events, line, notes = [] } of read(input, options)) {
    const file = await fileOf(header.trace_id);
    shown.at(header.trace_id, imported.length);
    const sealed = await writeTrace(file, header, events);
    imported.push({ file, trace_id: header.trace_id, line, notes, ...sealed });
  }
  shown.end();
  if (options.json) return printJson(imported);
  const size = imported.reduce((sum, trace) => sum + trace.size, 0);
  const events = imported.reduce((sum, trace) => sum + trace.count, 0);
  note(`${imported.length} of ${count} records imported: ${events} events, ${byteCount(size)}`);
  for (const line of notedIn(imported, input)) note(line);
  for (const { file } of imported) process.stdout.write(`${plainLine(file)}\n`);
}

const NOTES_SHOWN = 20;

/** What could not be taken as what it is, once for all records, with the first place of each. */
function notedIn(imported: Imported[], input: string): string[] {
  const all = new Map<string, { count: number; place: string }>();
  for (const { notes, line } of imported) {
    for (const { what, count, first } of notes) {
      const noted = all.get(what);
      if (noted === undefined) all.set(what, { count, place: `${input}:${line}, ${first}` });
      else noted.count += count;
    }
  }
  const lines = [...all].map(([what, { count, place }]) =>
    plainLine(`${place}: ${what}${count === 1 ? "" : ` (${count} in all)`}`),
  );
  const more = lines.length - NOTES_SHOWN;
  return more <= 0 ? lines : [...lines.slice(0, NOTES_SHOWN), `and ${more} more; --json has all`];
}

/** Goes through the whole input once, up to what would be written, so that nothing is written of one that is refused. */
async function check(
  input: string,
  options: Options,
  fileOf: (traceId: string) => Promise<string>,
): Promise<number> {
  const seen = new SeenIds();
  const shown = progress("reading");
  let count = 0;
  for await (const { header, events, line } of read(input, options)) {
    shown.at(`${input}:${line}`, count++);
    seen.add(header.trace_id, `${input}:${line}`);
    refuseTaken(await fileOf(header.trace_id));
    await checkTrace(header, events).catch((cause: unknown) => {
      if (!(cause instanceof DsecError) || cause.message.startsWith(`${input}:`)) throw cause;
      throw new DsecError(cause.code, `${input}:${line}: ${cause.message}`, { cause });
    });
  }
  shown.end();
  return count;
}

async function* read(input: string, { format, stateChanging, memory }: Options) {
  const stats = await stat(input).catch((cause: Error) => {
    throw new DsecError("NOT_FOUND", `${input} cannot be read: ${cause.message}`, { cause });
  });
  // it is read twice, which a pipe cannot be
  if (!stats.isFile()) throw new DsecError("INVALID_REQUEST", `${input} is no regular file`);
  const options: ImportOptions = {
    stateChanging:
      stateChanging === undefined ? null : new Set(stateChanging.split(",").map((name) => name.trim())),
    memoryFromAnswers: memory,
  };
  yield* importTraces(createReadStream(input), input, format, options);
}
