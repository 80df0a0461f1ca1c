import type { Command, Define } from "../program.ts";
import { examples, nestedIn } from "../program.ts";

const SUBCOMMANDS: Record<string, { summary: string; load: () => Promise<{ define: Define }> }> = {
  validate: {
    summary: "check that traces are whole, unchanged and consistent",
    load: () => import("./trace/validate.ts"),
  },
  seal: {
    summary: "make the trace of a trajectory whose writer ended, or is not at hand",
    load: () => import("./trace/seal.ts"),
  },
  import: {
    summary: "make traces of conversations, episodes and other recordings",
    load: () => import("./trace/import.ts"),
  },
  export: {
    summary: "write traces as ATIF, OTLP, Chrome traces or JSON lines",
    load: () => import("./trace/export.ts"),
  },
  redact: {
    summary: "write a trace without what must not leave",
    load: () => import("./trace/redact.ts"),
  },
  archive: {
    summary: "pack traces into one .tar.zst with an index",
    load: () => import("./trace/archive.ts"),
  },
  extract: { summary: "unpack traces from a .tar.zst", load: () => import("./trace/extract.ts") },
  cleanup: { summary: "delete old traces", load: () => import("./trace/cleanup.ts") },
  parse: { summary: "show what happened, in order", load: () => import("./trace/parse.ts") },
  search: {
    summary: "find the events that a condition is true of",
    load: () => import("./trace/search.ts"),
  },
  report: {
    summary: "measure one trace or many, and what goes with failure",
    load: () => import("./trace/report.ts"),
  },
  analyze: {
    summary: "say where time, room and memory go",
    load: () => import("./trace/analyze.ts"),
  },
  tail: {
    summary: "show what a running task does, as it does it",
    load: () => import("./trace/tail.ts"),
  },
  diff: { summary: "compare two traces", load: () => import("./trace/diff.ts") },
  replay: {
    summary: "run a recorded agent again, answered from its trace",
    load: () => import("./trace/replay.ts"),
  },
};

export async function define(command: Command, words: string[]): Promise<void> {
  const add = nestedIn(command, "files");
  for (const [name, { summary, load }] of Object.entries(SUBCOMMANDS)) {
    const nested = add(name, summary);
    if (name === words[0]) await (await load()).define(nested, words.slice(1));
  }
  examples(command, [["that every trace in a folder is whole", "dsec trace validate traces/"]]);
  command.addHelpText(
    "after",
    "\nOptions may be written with hyphens or underscores: --older-than, --older_than.",
  );
}
