import { DsecError } from "#core/errors.ts";
import { type DiffCall, type DiffData, diff } from "#trace/analysis/diff.ts";
import { MEASURE_DEFAULTS } from "#trace/analysis/metrics.ts";
import { METRICS } from "#trace/analysis/report-data.ts";
import type { TraceFile } from "#trace/format/reader.ts";
import { DIVERGENCE_THRESHOLD } from "#trace/metrics/logit-divergence.ts";
import { openTraceFile } from "#trace/node/files.ts";
import { type Command, EXIT, examples, note, Option, usageError } from "../../program.ts";
import { paintFor, plainLine, table } from "../../terminal.ts";
import { heading, numberText, right, short } from "../../trace-report-text.ts";
import { LinePrinter, recordedJson } from "../../trace-segments.ts";

type Options = { threshold: number; stateChanging?: string; json?: boolean };

export function define(command: Command): void {
  command
    .argument("<a>", "a trace or trajectory")
    .argument("<b>", "another one")
    .addOption(
      new Option("--threshold <nats>", "count tokens whose candidates diverge by more")
        .default(DIVERGENCE_THRESHOLD)
        .argParser(nats),
    )
    .option("--state-changing <tools>", "tools that change state, joined by commas, for tool_call_accuracy")
    .action(run);
  examples(command, [
    ["where two attempts part", "dsec trace diff first.trace second.trace"],
    ["for a program", "dsec trace diff first.trace second.trace --json"],
  ]);
  command.addHelpText(
    "after",
    `
Calls are the same if they are of the same tool with the same arguments, whatever the order of their members. They are aligned
one by one as long as they are the same, then by the longest common subsequence. Of a file of several recordings the first
is compared. Tokens are compared while both traces have the same context; with five candidates a token it is a lower bound.`,
  );
}

function nats(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && value >= 0 && Number.isFinite(value)) return value;
  throw usageError(`--threshold must be a number of nats from 0, not ${JSON.stringify(text)}`);
}

async function run(a: string, b: string, options: Options): Promise<void> {
  const files: TraceFile[] = [];
  try {
    const [one, other] = [await firstOf(a, files), await firstOf(b, files)];
    const stateChanging = options.stateChanging?.split(",").map((tool) => tool.trim());
    const data = await diff(one, other, {
      ...MEASURE_DEFAULTS,
      stateChanging: stateChanging === undefined ? null : new Set(stateChanging),
      threshold: options.threshold,
    });
    await new LinePrinter().print(options.json ? recordedJson(data, 2) : diffText(data));
  } finally {
    for (const file of files) await file.close();
  }
}

async function firstOf(path: string, files: TraceFile[]) {
  const file = await openTraceFile(path);
  files.push(file);
  if (file.damage !== null) {
    note(`${plainLine(path)} is damaged from offset ${file.damage.offset} on; what comes before is compared`);
    process.exitCode = EXIT.failed;
  }
  const segment = file.segments[0];
  if (segment === undefined) throw new DsecError("TRACE_CORRUPT", `${path}: nothing in it can be read`);
  return { segment, file: path };
}

const paint = paintFor(process.stdout);

function diffText(data: DiffData): string {
  const { a, b, calls, first_divergence, changed_answers, only_in_a, only_in_b, memory, rewards } = data;
  const parts = [
    plainLine(`A ${a.file}: ${a.trace_id}, ${a.outcome}, ${calls.a} calls`),
    plainLine(`B ${b.file}: ${b.trace_id}, ${b.outcome}, ${calls.b} calls`),
    `${calls.same} calls are the same in both`,
    heading("First divergence"),
    first_divergence === null
      ? "none: both make the same calls"
      : `at call ${first_divergence.position}:\n  A ${callText(first_divergence.a)}\n  B ${callText(first_divergence.b)}`,
  ];
  if (changed_answers.length > 0) {
    parts.push(heading(`Same call, another answer (${changed_answers.length})`));
    for (const { a: one, b: other } of changed_answers.slice(0, MOST))
      parts.push(`  ${callText(one)}`, `    A → ${short(one.answer)}`, `    B → ${short(other.answer)}`);
  }
  for (const [side, only] of [
    ["A", only_in_a],
    ["B", only_in_b],
  ] as const) {
    if (only.length === 0) continue;
    parts.push(
      heading(`Only in ${side} (${only.length})`),
      ...only.slice(0, MOST).map((call) => `  ${callText(call)}`),
    );
    if (only.length > MOST) parts.push(`  and ${only.length - MOST} more; --json has all`);
  }
  if (data.unaligned)
    parts.push("what follows on the divergence is too long to be aligned, and stands on both sides");
  if (memory.length > 0) {
    const rows = memory.map(({ key, a: one, b: other }) => [
      plainLine(key),
      short(one ?? "–"),
      short(other ?? "–"),
    ]);
    parts.push(heading("Memory at the end"), table([{ title: "KEY" }, { title: "A" }, { title: "B" }], rows));
  }
  parts.push(
    heading("Rewards and metrics"),
    table(
      [{ title: "" }, ...right("A", "B")],
      [
        ...rewards.map(({ name, a: one, b: other }) => [plainLine(name), numberText(one), numberText(other)]),
        ...METRICS.filter((metric) => metric !== "reward").map((metric) => [
          metric,
          numberText(a.metrics[metric]),
          numberText(b.metrics[metric]),
        ]),
      ],
    ),
  );
  const tokens = data.logit_divergence;
  if (tokens !== null) {
    parts.push(
      heading("Tokens"),
      `${tokens.tokens} compared: divergence at least ${tokens.mean.toFixed(3)} on average and ${tokens.max.value.toFixed(3)} at token ` +
        `${tokens.max.at + 1} (tail mass ${tokens.max.tail.p.toFixed(3)} and ${tokens.max.tail.q.toFixed(3)}); ` +
        `${tokens.over_threshold} over the threshold`,
    );
  }
  return parts.join("\n");
}

const MOST = 20;

function callText(call: DiffCall | null): string {
  if (call === null) return paint("dim", "has ended");
  return `${paint("bold", plainLine(call.tool))} ${short(call.arguments)} (call ${call.call}, event ${call.seq})`;
}
