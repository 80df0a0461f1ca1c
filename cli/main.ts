/** The `dsec` command. Only the subcommand that is called is loaded, so that `dsec --help` answers at once. */
import { Command, CommanderError } from "commander";
import { type Define, EXIT, examples, printJson, reportFailure, UsageError, watchOutput } from "./program.ts";

type Subcommand = { summary: string; load: () => Promise<{ define: Define }> };

const SUBCOMMANDS: Record<string, Subcommand> = {
  up: {
    summary: "run everything on this machine: a gateway on embedded defaults and one executor",
    load: () => import("./commands/up.ts"),
  },
  gateway: { summary: "run a gateway on PostgreSQL", load: () => import("./commands/gateway.ts") },
  executor: { summary: "run an executor for a gateway", load: () => import("./commands/executor.ts") },
  run: {
    summary: "run one command in a sandbox and end with its exit code",
    load: () => import("./commands/run.ts"),
  },
  task: {
    summary: "submit, get, list, cancel tasks, read their output and what they did",
    load: () => import("./commands/task.ts"),
  },
  key: { summary: "create, list and revoke API keys", load: () => import("./commands/key.ts") },
  secret: {
    summary: "keep secrets that the gateway puts into calls",
    load: () => import("./commands/secret.ts"),
  },
  "signing-key": {
    summary: "list and rotate the keys that sign attestations",
    load: () => import("./commands/signing-key.ts"),
  },
  image: { summary: "import, list and remove sandbox images", load: () => import("./commands/image.ts") },
  trace: {
    summary: "validate, search, compare and convert the recordings of attempts",
    load: () => import("./commands/trace.ts"),
  },
  verify: { summary: "verify attestations and outputs, offline", load: () => import("./commands/verify.ts") },
  doctor: { summary: "check this host and say how to mend it", load: () => import("./commands/doctor.ts") },
};

const EXIT_CODES = `
Exit codes:
  0    done
  1    an operation failed; standard error says "error CODE: message"
  2    wrong usage
  125  dsec run: dsec itself failed; otherwise it ends with the command's own code
       (124 timed out, 126 command not executable, 127 not found, 130 cancelled, 137 out of memory)
  141  whoever read standard output went away

dsec COMMAND --help says more of each, with examples.`;

await main(process.argv.slice(2));

async function main(given: string[]): Promise<void> {
  // `dsec help task` is `dsec task --help`
  const asked = given[0] === "help" ? [...given.slice(1), "--help"] : given;
  const words = asked[0] === "trace" ? asked.map(hyphenated) : asked;
  const name = words[0];
  watchOutput(name === "run" ? EXIT.runFailed : EXIT.failed);
  const program = new Command("dsec")
    .description("Sandboxes for language-model agents whose results anybody can verify.")
    .usage("COMMAND [options]")
    .helpCommand(false)
    .showHelpAfterError("(see --help)")
    .exitOverride();
  examples(program, [
    ["this machine, with eight example tasks", "dsec up --demo"],
    [
      "one command in a sandbox, and what its result proves",
      "dsec run --save result -- nproc && dsec verify result",
    ],
  ]);
  program.addHelpText("after", EXIT_CODES);

  for (const [word, { summary, load }] of Object.entries(SUBCOMMANDS)) {
    const command = program
      .command(word)
      .description(summary)
      .showHelpAfterError("(see --help)")
      .exitOverride();
    if (word === name) await (await load()).define(command, words.slice(1));
  }

  try {
    if (words.length === 0) program.outputHelp();
    else await program.parseAsync(withoutHelpOnNothing(program, words), { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) reportFailure(error, asksForJson(words));
    else if (error.exitCode === 0) return;
    // commander has told people by now
    else if (asksForJson(words)) {
      const message = error.message.replace(/^error: /, "");
      printJson({ error: { code: "CONFIG_INVALID", message } });
    }
    const wrongUsage = error instanceof CommanderError || error instanceof UsageError;
    process.exitCode = name === "run" ? EXIT.runFailed : wrongUsage ? EXIT.usage : EXIT.failed;
  }
}

/** There is no help on a command that does not exist: commander says so, and what was meant, where it is not asked for. */
function withoutHelpOnNothing(program: Command, words: string[]): string[] {
  const called = program.commands.find((command) => command.name() === words[0]);
  const [parent, name] = called === undefined ? [program, words[0]] : [called, words[1]];
  const isOption = name === undefined || name.startsWith("-");
  if (isOption || name === "help" || parent.commands.length === 0) return words;
  if (parent.commands.some((command) => command.name() === name)) return words;
  return words.filter((word) => word !== "--help" && word !== "-h");
}

/** `--older_than=7d` is `--older-than=7d`. */
function hyphenated(word: string): string {
  return word.replace(/^--\w[^=]*/, (option) => option.replaceAll("_", "-"));
}

/** Whether `--json` was given to dsec itself: what stands behind `--` belongs to the task. */
function asksForJson(words: string[]): boolean {
  const end = words.indexOf("--");
  return words.slice(0, end < 0 ? undefined : end).includes("--json");
}
