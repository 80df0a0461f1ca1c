import { sealTrajectory } from "#trace/node/files.ts";
import { type Command, examples, note, onStopSignal, printJson } from "../../program.ts";
import { byteCount, plainLine } from "../../terminal.ts";

type Options = { output?: string; json?: boolean };

export function define(command: Command): void {
  command
    .argument("<file>", "the trajectory")
    .option("-o, --output <file>", "where the trace goes (default: beside it, with .trace for .traj)")
    .action(run);
  examples(command, [
    ["what an executor left behind when its host went down", "dsec trace seal task.traj"],
    ["the whole part of a damaged file", "dsec trace seal damaged.trace -o kept.trace"],
  ]);
  command.addHelpText(
    "after",
    "\nThe trace has the same events, byte for byte, and the same chain. What was not whole is left out and told.",
  );
}

async function run(file: string, options: Options): Promise<void> {
  onStopSignal();
  const output = options.output ?? `${file.replace(/\.traj$/, "")}.trace`;
  const sealed = await sealTrajectory(file, output);
  const { damage } = sealed;
  if (damage !== null) {
    note(`left out: all from offset ${damage.offset} on, for ${plainLine(damage.reason)}`);
  }
  if (options.json) return printJson({ file: output, ...sealed });
  process.stdout.write(
    `${plainLine(output)}: ${sealed.count} events, ${byteCount(sealed.size)}, ${sealed.digest}, chain ${sealed.chain_head}\n`,
  );
}
