/**
 * How long a client waits for the first byte: HTTP submit to the first stdout event on its event stream, one task
 * after another, on embedded defaults (PGlite, the executor in the gateway's process) and on PostgreSQL (the executor
 * over HTTP). The client is a process of its own. Beside it, in alternating rounds of the same run:
 * - the empty chain, once with our launcher and once with `crun run`: a client posts to an HTTP server of Node, which
 *   inserts a row into the same PostgreSQL and answers; a second process in a long poll gets the task, starts the command
 *   and posts its first byte, which is inserted and goes out on the event stream that the client opened
 *   (bench/support/empty): no fair queue, lease, attestation, record or socket in the sandbox;
 * - `crun run` alone, from spawn to its first byte.
 * crun has the same command in a static root with the same namespaces.
 */
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Options } from "#bench/main.ts";
import { percentile, recordOf } from "#bench/support/figures.ts";
import { openWays, WAYS } from "#bench/support/task-ways.ts";

/** In each round: its client has just started. */
const WARM_UP = 20;
const COUNT = 50;
const COMMAND = ["echo", "first byte"];

export async function run(
  say: (line: string) => void,
  { quick, signal }: Options,
): Promise<Record<string, unknown>> {
  const rounds = quick ? 1 : 4;
  await using folder = await mkdtempDisposable(join(tmpdir(), "dsec-bench-spine-"));
  await using ways = await openWays(folder.path, COMMAND, signal);
  say(`tasks one after another, each ${JSON.stringify(COMMAND)}`);
  const samples = recordOf(WAYS, (): number[] => []);
  for (let round = 1; round <= rounds; round++) {
    for (const way of WAYS) samples[way].push(...(await ways[way](WARM_UP, COUNT)));
    say(`round ${round} of ${rounds}`);
  }
  for (const way of WAYS)
    say(`${way.padEnd(10)} p50 ${ms(samples[way], 0.5)} ms  p99 ${ms(samples[way], 0.99)} ms`);
  return {
    p50_ms: ms(samples.embedded, 0.5),
    p99_ms: ms(samples.embedded, 0.99),
    n: rounds * COUNT,
    postgres_p50_ms: ms(samples.postgres, 0.5),
    postgres_p99_ms: ms(samples.postgres, 0.99),
    empty_p50_ms: ms(samples.empty, 0.5),
    empty_p99_ms: ms(samples.empty, 0.99),
    empty_crun_p50_ms: ms(samples.empty_crun, 0.5),
    empty_crun_p99_ms: ms(samples.empty_crun, 0.99),
    crun_p50_ms: ms(samples.crun, 0.5),
    crun_p99_ms: ms(samples.crun, 0.99),
    ratio_empty_p50: rounded(percentile(samples.postgres, 0.5) / percentile(samples.empty, 0.5)),
    ratio_empty_p99: rounded(percentile(samples.postgres, 0.99) / percentile(samples.empty, 0.99)),
  };
}

function ms(samples: number[], fraction: number): number {
  return rounded(percentile(samples, fraction));
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
