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
