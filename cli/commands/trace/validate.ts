import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { DsecError, type ErrorCode } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import type { Damage } from "#trace/format/reader.ts";
import { type Validation, validate } from "#trace/format/validate.ts";
import { openTraceFile } from "#trace/node/files.ts";
import { type Command, EXIT, examples } from "../../program.ts";
import { byteCount, paintFor, plainLine } from "../../terminal.ts";
import { progress, traceFiles } from "../../trace-files.ts";

type Options = { json?: boolean };

type Checked =
  | {
      file: string;
      state: "valid" | "inconsistent" | "damaged";
      size: number;
      digest: Digest;
      segments: Validation[];
      damage: Damage | null;
    }
  | { file: string; state: "refused"; code: ErrorCode; message: string };

export function define(command: Command): void {
  command.argument("<file...>", "traces and trajectories, by path, folder or glob").action(run);
  examples(command, [
    ["one trace", "dsec trace validate task.trace"],
    ["every trace of a month, for a program", "dsec trace validate 'traces/2026-11-*/*.trace' --json"],
  ]);
  command.addHelpText(
    "after",
    `\nRead of each file is everything: the frames and their digests, the chain of events, that each event is written in
its one canonical form and stands in its section, that calls end once and steps nest. With --json each file is one line.
The exit code is 0 only if every file is whole and consistent. An open trajectory is valid up to its last whole flush.`,
  );
}

async function run(words: string[], options: Options): Promise<void> {
  const shown = progress("checking");
  let files = 0;
  let wrong = 0;
  for await (const file of traceFiles(words)) {
    shown.at(file, files);
    const checked = await check(file);
    files++;
    if (checked.state !== "valid") wrong++;
    shown.end();
    process.stdout.write(options.json ? `${JSON.stringify(checked)}\n` : report(checked));
  }
  if (!options.json && files > 1) process.stdout.write(`${files - wrong} of ${files} valid\n`);
  process.exitCode = wrong === 0 ? EXIT.done : EXIT.failed;
}

async function check(file: string): Promise<Checked> {
  try {
    const trace = await openTraceFile(file);
    try {
      const segments: Validation[] = [];
      for (const segment of trace.segments) segments.push(await validate(segment));
      const consistent = segments.every(({ problem_count }) => problem_count === 0);
      const state = trace.damage !== null ? "damaged" : consistent ? "valid" : "inconsistent";
      return { file, state, ...(await fingerprint(file)), segments, damage: trace.damage };
    } finally {
      await trace.close();
    }
  } catch (error) {
    if (!(error instanceof DsecError)) throw error;
    return { file, state: "refused", code: error.code, message: error.message };
  }
}

async function fingerprint(file: string): Promise<{ size: number; digest: Digest }> {
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of createReadStream(file)) {
    hash.update(chunk);
    size += chunk.length;
  }
  return { size, digest: digestOf(hash.digest()) };
}

function report(checked: Checked): string {
  const paint = paintFor(process.stdout);
  const name = plainLine(checked.file);
  if (checked.state === "refused") {
    return `${paint("red", "✗ refused")} ${name}\n    ${checked.code}: ${plainLine(checked.message)}\n`;
  }
  const mark = checked.state === "valid" ? paint("green", "✓ valid") : paint("red", `✗ ${checked.state}`);
  const lines = [`${mark} ${name}: ${byteCount(checked.size)}, ${checked.digest}`];
  for (const segment of checked.segments) {
    const { calls, steps } = segment;
    lines.push(
      `    ${plainLine(segment.trace_id)} (${plainLine(segment.source)}), ${segment.state}: ${segment.events} events, ` +
        `${calls.ended} of ${calls.started} calls ended, ${steps.ended} of ${steps.begun} steps ended, chain ${segment.chain_head}`,
      ...segment.problems.map(({ seq, what }) => `    event ${seq}: ${plainLine(what)}`),
    );
    const more = segment.problem_count - segment.problems.length;
    if (more > 0) lines.push(`    and ${more} more`);
  }
  if (checked.damage !== null) {
    lines.push(
      `    damaged from offset ${checked.damage.offset} on: ${plainLine(checked.damage.reason)}; ` +
        `keep what comes before with dsec trace seal`,
    );
  }
  return `${lines.join("\n")}\n`;
}
