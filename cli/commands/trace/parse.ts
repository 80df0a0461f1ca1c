import { DsecError } from "#core/errors.ts";
import { MEASURE_DEFAULTS } from "#trace/analysis/metrics.ts";
import { decodeEvent } from "#trace/events/codec.ts";
import { SECTIONS, type Section, type TraceEvent } from "#trace/events/event.ts";
import { type Command, examples, Option, usageError, wholeNumber } from "../../program.ts";
import { paintFor, plainLine } from "../../terminal.ts";
import { type Format, formatOf, formatOption, outOption, reportOn, writePages } from "../../trace-reports.ts";
import {
  failedWithin,
  LinePrinter,
  type NamedSegment,
  readSegments,
  recordedJson,
} from "../../trace-segments.ts";
import { Timeline } from "../../trace-timeline.ts";

type Options = {
  section?: Section[];
  step?: number;
  call?: number;
  from?: number;
  to?: number;
  limit?: number;
  output?: Format;
  out?: string;
  json?: boolean;
};

const MOST = Number.MAX_SAFE_INTEGER;

export function define(command: Command): void {
  command
    .argument("<file>", "a trace or trajectory")
    .addOption(
      new Option("--section <name>", `only events of it, of ${SECTIONS.join(", ")}; repeatable`).argParser(
        section,
      ),
    )
    .option("--step <n>", "begin where plan step N begins", wholeNumber("--step", 1, MOST))
    .option("--call <n>", "begin where tool call N begins", wholeNumber("--call", 1, MOST))
    .option("--from <seq>", "first event", wholeNumber("--from", 1, MOST))
    .option("--to <seq>", "last event", wholeNumber("--to", 1, MOST))
    .option("--limit <n>", "at most so many events", wholeNumber("--limit", 1, MOST))
    .addOption(formatOption())
    .addOption(outOption())
    .action(run);
  examples(command, [
    ["what happened, in order", "dsec trace parse run.trace"],
    ["the first twenty events of plan step 3", "dsec trace parse run.trace --step 3 --limit 20"],
    ["a page to look at, with all calls", "dsec trace parse run.trace --output html -o run.html"],
    ["rewards alone, for a program", "dsec trace parse run.trace --section reward_signal --json"],
  ]);
  command.addHelpText(
    "after",
    `
With --json the result is {file, segments: [{header, state, count, chain_head, events: […]}]}; bytes are base64, and members
whose name ends in _json hold JSON as the text that was recorded; a failure half-way is a last member error. dsec trace
export --format jsonl gives one event a line.`,
  );
}

function section(name: string, given: Section[] | undefined): Section[] {
  const known = SECTIONS.find((candidate) => candidate === name);
  if (known === undefined) throw usageError(`--section must be one of ${SECTIONS.join(", ")}, not ${name}`);
  return [...(given ?? []), known];
}

async function run(file: string, options: Options): Promise<void> {
  const format = formatOf(options);
  if (format === "html") {
    const measured = { ...MEASURE_DEFAULTS, clusterBy: null, pairs: true };
    return writePages(await reportOn([file], measured), options.out);
  }
  const printer = new LinePrinter();
  if (format === "json") return printJson(file, options, printer);
  await readOne(file, (named) => printTimeline(named, options, printer));
}

/** Rejects with what `read` rejects with: of one file alone that is the command's failure, and not one that others outlive. */
async function readOne(
  file: string,
  read: (named: NamedSegment) => Promise<"next" | "enough">,
): Promise<void> {
  let failure: unknown = null;
  await readSegments([file], "reading", async (named) => {
    try {
      return await read(named);
    } catch (error) {
      failure = error;
      return "enough";
    }
  });
  if (failure !== null) throw failure;
}

/** The event to begin with. @throws NOT_FOUND for a plan step or a call that there is not */
async function firstSeq({ file, segment }: NamedSegment, options: Options): Promise<number> {
  let fromSeq = options.from ?? 1;
  for (const [what, number, seq] of [
    ["plan step", options.step, options.step === undefined ? 1 : await segment.step(options.step)],
    ["call", options.call, options.call === undefined ? 1 : await segment.call(options.call)],
  ] as const) {
    if (seq === null)
      throw new DsecError("NOT_FOUND", `${file} has no ${what} ${number}; see dsec trace parse ${file}`);
    fromSeq = Math.max(fromSeq, seq);
  }
  return fromSeq;
}

async function* chosen(
  { segment }: NamedSegment,
  fromSeq: number,
  options: Options,
): AsyncGenerator<TraceEvent> {
  const toSeq = options.to ?? segment.count;
  const sections = options.section ?? SECTIONS;
  let left = options.limit ?? Number.POSITIVE_INFINITY;
  for await (const batch of segment.batches({ sections, fromSeq, toSeq })) {
    for (const { bytes } of batch) {
      if (left-- <= 0) return;
      yield decodeEvent(bytes, segment.startedWallUs);
    }
  }
}

/** Nothing is printed before there is a recording to print of, and a failure after that is a member `error`. */
async function printJson(file: string, options: Options, printer: LinePrinter): Promise<void> {
  let before = `{"file":${JSON.stringify(file)},"segments":[`;
  let end = "]}";
  try {
    await readOne(file, async (named) => {
      const { header, state, count, chainHead } = named.segment;
      const fromSeq = await firstSeq(named, options);
      const head = recordedJson({ header, state, count, chain_head: chainHead }).slice(0, -1);
      await printer.print(`${before}${head},"events":[`);
      [before, end] = ["", "]}]}"];
      for await (const event of chosen(named, fromSeq, options)) {
        if (!(await printer.print(`${before}${recordedJson(event)}`))) return "enough";
        before = ",";
      }
      await printer.print("]}");
      [before, end] = [",", "]}"];
      return "next";
    });
  } catch (error) {
    if (before.startsWith("{")) throw error;
    await printer.print(`${end.slice(0, -1)},"error":${failedWithin(error)}}`);
    return;
  }
  await printer.print(before.startsWith("{") ? `${before}]}` : "]}");
}

async function printTimeline(
  named: NamedSegment,
  options: Options,
  printer: LinePrinter,
): Promise<"next" | "enough"> {
  const { header, state, count } = named.segment;
  const fromSeq = await firstSeq(named, options);
  const started = new Date(header.started_wall_us / 1000).toISOString();
  const of = header.task_id === null ? "" : `, task ${header.task_id} attempt ${header.attempt}`;
  const { replayed_from_digest: from, replayed_until_call: until } = header;
  const after = from === null ? "" : `, after ${from} before call ${until}`;
  await printer.print(
    plainLine(
      `${named.file}: ${header.trace_id} (${header.source})${of}${after}, ${state}, ${count} events, started ${started}`,
    ),
  );
  const timeline = new Timeline(paintFor(process.stdout));
  for await (const event of chosen(named, fromSeq, options))
    if (!(await printer.print(timeline.line(event)))) return "enough";
  return "next";
}
