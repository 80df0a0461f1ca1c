/**
 * What the sandbox's socket costs: `dsec-tool memory set` and `get` as programs that are started for one operation each,
 * and memory operations over kept connections. Every operation is recorded in the event log and the memory service's
 * database, as always.
 */
import { rm } from "node:fs/promises";
import { percentile } from "#bench/support/figures.ts";
import { buildLoad } from "#bench/support/load.ts";
import { createClient } from "#sdk/client.ts";
import { startSystem } from "#test/flow/system.ts";

const STARTS = 400;
const OPERATIONS = 20_000;
const CONNECTIONS = 16;

export async function run(say: (line: string) => void): Promise<Record<string, unknown>> {
  const system = await startSystem();
  try {
    const load = await buildLoad(createClient({ gateway: system.url, apiKey: system.adminKey }));
    const starts: Record<"set" | "get" | "floor", number[]> = { set: [], get: [], floor: [] };
    // interleaved, so that a drift of the machine's speed meets all three
    for (let round = 0; round < 4; round++) {
      const of = async (command: string[]) =>
        (await load.inSandbox(["exec", String(STARTS / 4), ...command])).us;
      starts.floor.push(...(await of(["/bin/true"])));
      starts.set.push(...(await of(["/dsec/bin/dsec-tool", "memory", "set", "key", '"value"'])));
      starts.get.push(...(await of(["/bin/sh", "-c", "exec /dsec/bin/dsec-tool memory list >/dev/null"])));
    }
    for (const [name, us] of Object.entries(starts)) {
      say(`${name.padEnd(6)} p50 ${ms(us, 0.5)} ms  p99 ${ms(us, 0.99)} ms  n ${us.length}`);
    }
    const http = (method: string, body: string) =>
      ["http", "$SOCKET", CONNECTIONS, OPERATIONS, 0, method, "/v1/memory/key", body].map(String);
    const puts = await load.inSandbox(http("PUT", '"value"'));
    say(`put over ${CONNECTIONS} kept connections: ${rate(puts)}/s`);
    return {
      p50_ms: ms(starts.set, 0.5),
      p99_ms: ms(starts.set, 0.99),
      process_start_p50_ms: ms(starts.floor, 0.5),
      memory_ops_per_s: rate(puts),
      n: starts.set.length,
    };
  } finally {
    await system.stop();
    await rm(system.folder, { recursive: true });
  }
}

function rate({ seconds, us }: { seconds: number; us: number[] }): number {
  return Math.round(us.length / seconds);
}

function ms(us: number[], fraction: number): number {
  return Math.round(percentile(us, fraction) / 10) / 100;
}
