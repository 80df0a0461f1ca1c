import { METRICS, type Metric } from "#trace/analysis/report-data.ts";
import { type Command, examples, Option, usageError } from "../../program.ts";
import { reportText } from "../../trace-report-text.ts";
import { type Format, formatOf, formatOption, outOption, reportOn, writePages } from "../../trace-reports.ts";
import { LinePrinter, recordedJson } from "../../trace-segments.ts";

type Options = {
  metric?: Metric[];
  clusterBy?: "memory_state";
  stateChanging?: string;
  successReward: number;
  output?: Format;
  out?: string;
  json?: boolean;
};

export function define(command: Command): void {
  command
    .argument("<file...>", "traces and trajectories, by path, folder or glob")
    .addOption(
      new Option(
        "--metric <name>",
        `metrics to show, of ${METRICS.join(", ")}; repeatable (default: all)`,
      ).argParser(metric),
    )
    .addOption(
      new Option("--cluster-by <what>", "group failed traces that are alike").choices(["memory_state"]),
    )
    .option(
      "--state-changing <tools>",
      "tools that change state, joined by commas, where neither traces nor labels say",
    )
    .addOption(
      new Option("--success-reward <n>", "the reward from which on a trace has succeeded")
        .default(1)
        .argParser(finite),
    )
    .addOption(formatOption())
    .addOption(outOption())
    .action(run);
  examples(command, [
    ["one trace: its calls, memory, rewards and errors", "dsec trace report run.trace"],
    [
      "many: what goes with the reward, and groups of failures",
      "dsec trace report traces/ --metric tool_call_accuracy --cluster-by memory_state",
    ],
    ["a page to look at, the traces in it", "dsec trace report traces/ --output html -o report.html"],
    ["an index and a page for each trace", "dsec trace report traces/ --output html -o report/"],
    ["for a program", "dsec trace report 'traces/*.trace' --json"],
  ]);
  command.addHelpText(
    "after",
    `
tool_call_accuracy needs what should have been done: expected_actions [{tool, args}] in the trace's labels, as imports of
evaluation episodes bring. Calls of tools that only read do not count, as --state-changing says, as one of the calls in
the traces declares, or as read_only_tools or state_changing_tools in the labels; where nobody says so, the tools count whose
answers told of what was changed or new, and the report names them. plan_step_f1 needs expected_steps ["name", …] in the labels.

Correlations are Spearman's with the reward, p by permutation and adjusted for the number of tests (Benjamini-Hochberg);
below 20 traces no p is given. What is said to be associated may well not be the cause.`,
  );
}

function metric(name: string, given: Metric[] | undefined): Metric[] {
  const known = METRICS.find((candidate) => candidate === name.replaceAll("-", "_"));
  if (known === undefined) throw usageError(`--metric must be one of ${METRICS.join(", ")}, not ${name}`);
  return [...(given ?? []), known];
}

function finite(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isFinite(value)) return value;
  throw usageError(`--success-reward must be a number, not ${JSON.stringify(text)}`);
}

async function run(words: string[], options: Options): Promise<void> {
  const format = formatOf(options);
  const stateChanging = options.stateChanging?.split(",").map((tool) => tool.trim());
  const reported = await reportOn(words, {
    clusterBy: options.clusterBy ?? null,
    pairs: format === "html",
    stateChanging: stateChanging === undefined ? null : new Set(stateChanging),
    successReward: options.successReward,
  });
  if (format === "html") return writePages(reported, options.out);
  const { report } = reported;
  const text =
    format === "json" ? recordedJson(report, 2) : reportText(report, options.metric ?? [...METRICS]);
  await new LinePrinter().print(text);
}
