/** `npm run bench -- NAME [--json] [--quick]`: runs bench/NAME.ts. The last line of the output is one JSON object. */
import { readdirSync } from "node:fs";
import { interruptible } from "#bench/support/interrupt.ts";
import { machine } from "#bench/support/machine.ts";

/** What a benchmark module exports. Figures are rates and milliseconds, named with their unit. */
export type Benchmark = {
  /**
   * Says on `say` what it does and how it goes; the figures it returns become the JSON line.
   * @param options quick: fewer rounds where the benchmark can do with them, for trying a change; signal: aborts on Ctrl-C,
   * upon which it rejects at its next checkpoint, and has left nothing behind
   */
  run(say: (line: string) => void, options: Options): Promise<Record<string, unknown>>;
};
export type Options = { quick: boolean; signal: AbortSignal };

const [name, ...flags] = process.argv.slice(2);
const names = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith(".ts") && file !== "main.ts")
  .map((file) => file.slice(0, -3));

const usage = `usage: npm run bench -- ${names.join(" | ")} [--json] [--quick]`;

if (name === "--help") {
  console.log(usage);
  process.exit();
}
if (
  name === undefined ||
  !names.includes(name) ||
  flags.some((flag) => !["--json", "--quick"].includes(flag))
) {
  console.error(usage);
  process.exit(2);
}

const quiet = flags.includes("--json");
const benchmark = (await import(`./${name}.ts`)) as Benchmark;
const quick = flags.includes("--quick");
const figures = await interruptible((signal) =>
  benchmark.run((line) => quiet || console.log(line), { quick, signal }),
);
console.log(JSON.stringify({ ...figures, machine: machine() }));
