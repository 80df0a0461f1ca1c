/**
 * What the sandbox's socket costs: `dsec-tool memory set` and `get` as programs that are started for one operation each,
 * in turn with starts that do nothing, and memory writes, which cost more than reads, over kept connections. Every
 * operation is recorded in the event log and the memory service's database, as always.
 */
import { rm } from "node:fs/promises";
import { median, percentile } from "#bench/support/figures.ts";
import { buildLoad } from "#bench/support/load.ts";
import { createClient } from "#sdk/client.ts";
import { startSystem } from "#test/flow/system.ts";

const TOOL = "/dsec/bin/dsec-tool";
const COMMANDS = {
  set: [TOOL, "memory", "set", "key", '"value"'],
  get: [TOOL, "memory", "get", "key"],
  help: [TOOL, "--help"],
  true: ["/bin/true"],
};
type Name = keyof typeof COMMANDS;
const NAMES = Object.keys(COMMANDS) as Name[];

const STARTS = 500;
const CONNECTIONS = 16;
const OPERATIONS = 30_000;
const ROUNDS = 3;

export async function run(say: (line: string) => void): Promise<Record<string, unknown>> {
  const system = await startSystem();
  try {
    const load = await buildLoad(createClient({ gateway: system.url, apiKey: system.adminKey }));
    const words = NAMES.flatMap((name) => ["---", ...COMMANDS[name]]).slice(1);
    const { us } = await load.inSandbox(["exec", String(STARTS), ...words]);
    const of = (name: Name) => us.filter((_, at) => NAMES[at % NAMES.length] === name);
    for (const name of NAMES) {
      say(`${name.padEnd(5)} p50 ${ms(of(name), 0.5)} ms  p99 ${ms(of(name), 0.99)} ms  n ${STARTS}`);
    }
    const rates: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const put = ["PUT", "/v1/memory/key", '"value"'];
      const done = await load.inSandbox(["http", "$SOCKET", `${CONNECTIONS}`, `${OPERATIONS}`, "0", ...put]);
      rates.push(Math.round(done.us.length / done.seconds));
      say(`writes over ${CONNECTIONS} kept connections: ${rates.at(-1)}/s`);
    }
    return {
      p50_ms: ms(of("set"), 0.5),
      p99_ms: ms(of("set"), 0.99),
      get_p50_ms: ms(of("get"), 0.5),
      start_p50_ms: ms(of("help"), 0.5),
      memory_ops_per_s: median(rates),
      n: STARTS,
    };
  } finally {
    await system.stop();
    await rm(system.folder, { recursive: true });
  }
}

function ms(us: number[], fraction: number): number {
  return Math.round(percentile(us, fraction) / 10) / 100;
}
