import { type CleanUp, cleanUp } from "#trace/node/clean-up.ts";
import { type Command, EXIT, examples, note, printJson, usageError, wholeNumber } from "../../program.ts";
import { byteCount, plainLine } from "../../terminal.ts";
import { progress } from "../../trace-files.ts";

type Options = { olderThan?: number; keepLast?: number; dryRun?: boolean; json?: boolean };

export function define(command: Command): void {
  command
    .argument("<dir>", "the folder whose traces are cleaned up, with all folders below")
    .option("--older-than <time>", "only those last written longer ago than 90m, 12h, 7d or 4w", ageMs)
    .option("--keep-last <n>", "keep the newest n, whatever their age", wholeNumber("--keep-last", 0, 1e9))
    .option("--dry-run", "say what would be deleted, and delete nothing")
    .action(run);
  examples(command, [
    [
      "what a week's limit would delete",
      "dsec trace cleanup traces/ --older-than 7d --keep-last 100 --dry-run",
    ],
    ["all but the newest thousand", "dsec trace cleanup traces/ --keep-last 1000"],
  ]);
  command.addHelpText(
    "after",
    `\nDeleted are files that end in .trace or .traj, and nothing else. Never followed or deleted are links; never touched is
what has checkpoint, check-point, check_point or ckpt in its name, nor anything below such a folder; nor a .traj that was
written within the last hour. A folder that is itself a link, or is of a checkpoint, is refused.`,
  );
}

function run(folder: string, options: Options): void {
  if (options.olderThan === undefined && options.keepLast === undefined) {
    throw usageError("say what may go, with --older-than or --keep-last");
  }
  const nowMs = Date.now();
  const shown = progress("deleting");
  const rule = {
    beforeMs: options.olderThan === undefined ? null : nowMs - options.olderThan,
    keepLast: options.keepLast ?? 0,
    dryRun: options.dryRun === true,
  };
  const result = cleanUp(folder, rule, nowMs, (path, done) => shown.at(path, done));
  shown.end();
  const bytes = result.deleted.reduce((sum, { size }) => sum + size, 0);
  process.exitCode = result.failed.length === 0 ? EXIT.done : EXIT.failed;
  if (options.json) printJson({ dry_run: rule.dryRun, bytes, ...result });
  else report(result, bytes, rule.dryRun);
}

function report(result: CleanUp, bytes: number, dryRun: boolean): void {
  for (const { path } of result.deleted) process.stdout.write(`${plainLine(path)}\n`);
  for (const { path, why } of result.skipped) note(`left: ${plainLine(path)}: ${why}`);
  for (const { path, why } of result.failed) note(`not deleted: ${plainLine(path)}: ${plainLine(why)}`);
  const did = dryRun ? "would be deleted" : "deleted";
  note(`${result.deleted.length} ${did}, ${byteCount(bytes)}; ${result.kept} kept`);
}

const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000 } as const;

function ageMs(text: string): number {
  const parts = /^(\d{1,6})([smhdw])$/.exec(text);
  if (parts === null)
    throw usageError(`--older-than must be a time such as 90m, 12h, 7d or 4w, not ${JSON.stringify(text)}`);
  return Number(parts[1]) * UNIT_MS[parts[2] as keyof typeof UNIT_MS];
}
