import { DsecError } from "#core/errors.ts";
import { summaryOf } from "#trace/analysis/summary.ts";
import { decodeEvent } from "#trace/events/codec.ts";
import { nodeIndexOf } from "#trace/node/engine.ts";
import { readQuery } from "#trace/query/check.ts";
import { type Match, search } from "#trace/query/search.ts";
import { excerpt } from "#trace/query/tokens.ts";
import { type Command, examples, note, wholeNumber } from "../../program.ts";
import { paintFor, plainLine } from "../../terminal.ts";
import { LinePrinter, type NamedSegment, readSegments, recordedJson, seconds } from "../../trace-segments.ts";

type Options = { query: string; limit?: number; count?: boolean; filesOnly?: boolean; json?: boolean };

export function define(command: Command): void {
  command
    .argument("<file...>", "traces and trajectories, by path, folder or glob")
    .requiredOption("-q, --query <condition>", "what an event must be to be found")
    .option("--limit <n>", "stop after so many events", wholeNumber("--limit", 1, Number.MAX_SAFE_INTEGER))
    .option("--count", "print only how many events each trace has")
    .option("--files-only", "print only the names of traces with such an event")
    .action(run);
  examples(command, [
    [
      "calls that were made while the status was unknown",
      `dsec trace search traces/ --query 'memory_state.shipping_status == null and tool == "get_tracking"'`,
    ],
    [
      "refunds that failed, one JSON object a line",
      `dsec trace search run.trace -q 'tool == "refund" and is_error' --json`,
    ],
    [
      "any event that holds a text",
      `dsec trace search 'traces/*.trace' -q 'any contains "HAT136"' --limit 10`,
    ],
    [
      "which failed traces called a tool",
      `dsec trace search traces/ -q 'reward < 1 and tool == "refund"' --files-only`,
    ],
  ]);
  command.addHelpText(
    "after",
    `
A query compares names with values: == != < <= > >=, in ["a", "b"], not in, contains, starts_with, ends_with,
matches "get_*" (* any text, ? one character), joined by and, or, not and brackets; exists NAME; + - * /.

Names: every member of an event by its name in proto/trace.proto, type, section, seq, time (seconds), wall_us,
tool, step, call, arguments.x, answer.x, memory_state.KEY (after the event; ["any key"]), reward and reward.NAME
(the trace's last), labels.x, trace_id, task_id, and any contains "text" for text anywhere in the event.

What was not recorded is null, as is what is not there within arguments, answers and memory; exists tells a key that
holds null from one that is missing. A comparison with a member that events of the type do not have is false, != too.
Integers are exact however long; numbers with a fraction are doubles.`,
  );
}

async function run(words: string[], options: Options): Promise<void> {
  const query = queryOf(options.query);
  const printer = new LinePrinter();
  const limit = options.limit ?? Number.POSITIVE_INFINITY;
  let total = 0;
  await readSegments(words, "searching", async ({ file, segment }) => {
    let found = 0;
    for await (const match of search(segment, query, nodeIndexOf)) {
      found++;
      if (!options.count && !options.filesOnly) {
        if (!(await printer.print(lineOf(match, { file, segment }, options.json === true)))) return "enough";
      }
      if (options.filesOnly || total + found >= limit) break;
    }
    total += found;
    if (found > 0 && (options.count || options.filesOnly)) {
      const json = options.filesOnly ? { file } : { file, count: found };
      const text = options.filesOnly ? plainLine(file) : `${plainLine(file)}: ${found}`;
      if (!(await printer.print(options.json ? JSON.stringify(json) : text))) return "enough";
    }
    return total >= limit ? "enough" : "next";
  });
  if (options.count && !options.json) await printer.print(`${total} in all`);
}

/** A query is shown with a caret below the place that is meant. */
function queryOf(text: string) {
  try {
    return readQuery(text);
  } catch (error) {
    const column = error instanceof DsecError ? error.details?.column : undefined;
    if (typeof column === "number") for (const line of excerpt(text, column)) note(line);
    throw error;
  }
}

function lineOf(
  match: Match,
  { file, segment }: Pick<NamedSegment, "file" | "segment">,
  json: boolean,
): string {
  const { seq, t_us, type, step, call, tool, bytes } = match;
  const event = decodeEvent(bytes, segment.startedWallUs);
  const summary = summaryOf(event, tool);
  if (json) return recordedJson({ file, seq, time: t_us / 1e6, type, step, call, tool, summary, event });
  const paint = paintFor(process.stdout);
  const place = [step === null ? null : `step ${step}`, call === null ? null : `call ${call}`];
  return [
    `${paint("cyan", plainLine(file))}:${seq}`,
    paint("dim", seconds(t_us)),
    ...place.filter((part) => part !== null),
    `${paint("bold", type)} ${plainLine(summary)}`,
  ].join("  ");
}
