import { lstat, readFile } from "node:fs/promises";
import { LIMITS } from "#core/limits.ts";
import { redactFile } from "#trace/node/redact-file.ts";
import { BUILT_IN_PATTERNS, patternLines, patternOf } from "#trace/redaction/patterns.ts";
import { type Command, examples, note, onStopSignal, printJson, usageError } from "../../program.ts";
import { byteCount, paintFor, plainLine, printTable } from "../../terminal.ts";
import { progress } from "../../trace-files.ts";

type Options = { output: string; piiFields?: string; patterns?: string[]; report?: boolean; json?: boolean };

export function define(command: Command): void {
  command
    .argument("<file>", "the trace or trajectory")
    .requiredOption("-o, --output <file>", "where the redacted trace goes")
    .option("--pii-fields <names>", "members, parameters, headers and keys whose values go, with commas")
    .option(
      "--patterns <pattern...>",
      `built-in names (${BUILT_IN_PATTERNS.join(", ")}), files with one a line, or RE2 expressions`,
    )
    .option("--report", "say what was taken out and how often; never the values")
    .action(run);
  examples(command, [
    [
      "names, mail addresses and keys",
      "dsec trace redact run.trace -o public.trace --pii-fields first_name,last_name,authorization --patterns email api_key --report",
    ],
    ["ticket numbers of your own", "dsec trace redact run.trace -o public.trace --patterns 'TICKET-[0-9]+'"],
  ]);
  command.addHelpText(
    "after",
    `\nWhat a field or a pattern gives is taken out wherever else it stands: in text, in JSON within strings, in base64,
hexadecimal, percent and backslash escapes, in keys, and where it is cut over strings, output or tokens. Values of fewer than
four characters go only where their field stands. The new trace is valid and chained anew, and names the digest of the old;
digests of what went are made anew or dropped. What the old file said of itself in compressed data, images or other
languages' encodings is not seen: look at what you publish.`,
  );
}

async function run(file: string, options: Options): Promise<void> {
  onStopSignal();
  const fields = (options.piiFields ?? "").split(",").map((name) => name.trim());
  const given = await patternsOf(options.patterns ?? []);
  const named = fields.filter((name) => name !== "");
  if (named.length + given.length === 0)
    throw usageError("say what is to go, with --pii-fields or --patterns");
  if (given.length > LIMITS.redactionPatterns) {
    throw usageError(`${given.length} patterns are given; at most ${LIMITS.redactionPatterns} are taken`);
  }
  const patterns = given.map((text, index) => patternOf(text, index + 1));
  const shown = progress("redacting");
  const onEvent = (reading: string, seq: number) => shown.at(`${file}, ${reading}`, seq - 1);
  const redacted = await redactFile(file, options.output, { fields: named, patterns, onEvent });
  shown.end();
  const { damage } = redacted;
  if (damage !== null) {
    note(`left out: all from offset ${damage.offset} on, for ${plainLine(damage.reason)}`);
  }
  if (options.json) return printJson({ file: options.output, ...redacted });
  const counts = Object.entries(redacted.counts);
  if (options.report && counts.length > 0) {
    const rows = counts.map(([why, count]) => [plainLine(why), String(count)]);
    printTable([{ title: "WHY" }, { title: "TIMES", align: "right" }], rows);
  }
  const times = counts.reduce((sum, [, count]) => sum + count, 0);
  const paint = paintFor(process.stderr);
  note(
    times === 0 ? paint("yellow", "nothing was found; the events are the same") : `taken out ${times} times`,
  );
  process.stdout.write(
    `${plainLine(options.output)}: ${redacted.count} events, ${byteCount(redacted.size)}, ${redacted.digest}\n`,
  );
}

/** A word that is a file's path stands for the patterns in it. */
async function patternsOf(words: string[]): Promise<string[]> {
  const patterns: string[] = [];
  for (const word of words) {
    const isFile =
      !BUILT_IN_PATTERNS.includes(word) && (await lstat(word).catch(() => null))?.isFile() === true;
    if (isFile) patterns.push(...patternLines(await readFile(word, "utf8")));
    else patterns.push(word);
  }
  return patterns;
}
