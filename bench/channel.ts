/**
 * What the sandbox's socket costs: `dsec-tool memory set` and `get` as programs that are started for one operation each,
 * in turn with starts that do nothing; then memory writes, reads, and one of each in turn, which is what an operation
 * is, over kept connections with a key each. Every operation is recorded in the event log and the memory service's
 * database, as always.
 */
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Options } from "#bench/main.ts";
import { median, percentile } from "#bench/support/figures.ts";
import { buildLoad } from "#bench/support/load.ts";
import { benchSystem } from "#bench/support/system.ts";
import { createClient } from "#sdk/client.ts";

const TOOL = "/dsec/bin/dsec-tool";
const COMMANDS = {
  set: [TOOL, "memory", "set", "key", '"value"'],
  get: [TOOL, "memory", "get", "key"],
  help: [TOOL, "--help"],
  true: ["/bin/true"],
};
type Name = keyof typeof COMMANDS;
const NAMES = Object.keys(COMMANDS) as Name[];

const WRITE = ["PUT", "/v1/memory/key#", '"value"'];
const READ = ["GET", "/v1/memory/key#", ""];
/** A write before, where there would be nothing to read. */
const LOADS = { writes: WRITE, reads: [...WRITE, "---", ...READ], operations: [...WRITE, ...READ] };
type Kind = keyof typeof LOADS;
const KINDS = Object.keys(LOADS) as Kind[];

const STARTS = 500;
const CONNECTIONS = 16;
const OPERATIONS = 30_000;
const ROUNDS = 3;

export async function run(
  say: (line: string) => void,
  { quick, signal }: Options,
): Promise<Record<string, unknown>> {
  const [starts, operations] = quick ? [STARTS / 5, OPERATIONS / 5] : [STARTS, OPERATIONS];
  await using folder = await mkdtempDisposable(join(tmpdir(), "dsec-bench-channel-"));
  await using system = await benchSystem();
  const load = await buildLoad(
    createClient({ gateway: system.url, apiKey: system.adminKey }),
    folder.path,
    signal,
  );
  const words = NAMES.flatMap((name) => ["---", ...COMMANDS[name]]).slice(1);
  const { us } = await load.inSandbox(["exec", String(starts), ...words]);
  const of = (name: Name) => us.filter((_, at) => NAMES[at % NAMES.length] === name);
  for (const name of NAMES) {
    say(`${name.padEnd(5)} p50 ${ms(of(name), 0.5)} ms  p99 ${ms(of(name), 0.99)} ms  n ${starts}`);
  }
  const rates: Record<Kind, number[]> = { writes: [], reads: [], operations: [] };
  for (let round = 0; round < ROUNDS; round++) {
    for (const kind of KINDS) {
      const shape = [`${CONNECTIONS}`, `${operations}`, "0", ...LOADS[kind]];
      const done = await load.inSandbox(["http", "$SOCKET", ...shape]);
      rates[kind].push(Math.round(done.us.length / done.seconds));
      say(`memory ${kind} over ${CONNECTIONS} kept connections: ${rates[kind].at(-1)}/s`);
    }
  }
  return {
    p50_ms: ms(of("set"), 0.5),
    p99_ms: ms(of("set"), 0.99),
    get_p50_ms: ms(of("get"), 0.5),
    start_p50_ms: ms(of("help"), 0.5),
    memory_ops_per_s: median(rates.operations),
    memory_writes_per_s: median(rates.writes),
    memory_reads_per_s: median(rates.reads),
    n: starts,
  };
}

function ms(us: number[], fraction: number): number {
  return Math.round(percentile(us, fraction) / 10) / 100;
}
