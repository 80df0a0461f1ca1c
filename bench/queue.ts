/**
 * Our queue against pg-boss and graphile-worker, on one PostgreSQL with a production server's durability (fsync and
 * synchronous_commit on), in interleaved rounds of one run. Each has a database of its own and ten connections.
 *
 * A cycle is submit → claim → complete of one job, by 64 concurrent callers of the single-job API:
 * - ours: `submitTask`, `acquireLeases(…, 1)`, `completeLease`, with retries, priority, seven resource axes that must
 *   fit, fences and leases, an event for each state, a result and an attestation, and every row kept;
 * - pg-boss: `send`, `fetch`, `complete` with its default queue, rows kept for its default seven days;
 * - graphile-worker: `addJob`, then its own runner at concurrency 64 (it has no public call that claims one job);
 *   a cycle ends with its `job:complete`; it deletes completed jobs.
 *
 * A claim of ours does not wait until it is on the disk, which its design allows (docs/decisions/0003); theirs do.
 *
 * A claim is one call that claims 500 jobs of a queue that was filled and vacuumed before, by one claimer, with nothing
 * completed meanwhile, in turns of one claim each; the figure is that of the median claim:
 * - ours: `acquireLeases(…, 500)`, each for another executor;
 * - pg-boss: `fetch` with `batchSize: 500`;
 * - graphile-worker: what its local queue of that size calls for its jobs.
 *
 * A batch is 500 jobs of a queue that was filled and vacuumed before, claimed at once and completed with a result each,
 * by two workers, one batch after another each, as each documents it for throughput:
 * - ours: `acquireLeases(…, 500)`, then `completeLease` for each, with an attestation besides;
 * - pg-boss: `work` with `batchSize: 500`, `localConcurrency: 2`, `burstWhenBatchFull` and `perJobResults`;
 * - graphile-worker: its runner, which claims while it completes, at concurrency 64 with `localQueue: { size: 500 }` and `completeJobBatchDelay: 0`. It
 *   deletes completed jobs and has no results: `graphile_kept` is the same with a task that inserts its result into a
 *   table, which is what it leaves to its users.
 * It ends when the database says that all are completed.
 *
 * All have the same payload (a task's spec) and the same result.
 */
import type { Options } from "#bench/main.ts";
import { median } from "#bench/support/figures.ts";
import { checkpoint } from "#bench/support/interrupt.ts";
import { BATCH, CALLERS, type Contender, graphile, ours, pgBoss, WORKERS } from "#bench/support/queues.ts";
import { startPostgres } from "#test/support/postgres.ts";

const FULL = { rounds: 5, cycles: { ours: 8_000, pgboss: 1_200, graphile: 1_600 }, batches: 10, claims: 20 };
const QUICK = { rounds: 3, cycles: { ours: 3_000, pgboss: 500, graphile: 700 }, batches: 4, claims: 12 };

export async function run(
  say: (line: string) => void,
  { quick, signal }: Options,
): Promise<Record<string, unknown>> {
  const { rounds, cycles, batches, claims } = quick ? QUICK : FULL;
  await using opened = new AsyncDisposableStack();
  const server = await startPostgres({
    durable: true,
    settings: { shared_buffers: "256MB", max_wal_size: "2GB" },
  });
  opened.defer(() => server.stop());
  const open = async (contender: Promise<Contender>) =>
    opened.adopt(await contender, ({ close }) => close().catch((e: unknown) => console.error(String(e))));
  const contenders = {
    ours: await open(ours(server)),
    pgboss: await open(pgBoss(server)),
    graphile: await open(graphile(server)),
  };
  const names = ["ours", "pgboss", "graphile"] as const;
  const cyclesPerS = { ours: [] as number[], pgboss: [] as number[], graphile: [] as number[] };
  for (const name of names) await contenders[name].cycle(cycles[name] / 5); // warm up
  for (let round = 1; round <= rounds; round++) {
    for (const name of names) {
      await checkpoint(signal);
      const perS = cycles[name] / (await contenders[name].cycle(cycles[name]));
      cyclesPerS[name].push(perS);
      say(`round ${round}: ${name} ${Math.round(perS)} cycles/s`);
    }
  }
  const drained = { ...contenders, graphile_kept: await open(graphile(server, { keep: true })) };
  const drains = ["ours", "pgboss", "graphile", "graphile_kept"] as const;
  const batchPerS = {
    ours: [] as number[],
    pgboss: [] as number[],
    graphile: [] as number[],
    graphile_kept: [] as number[],
  };
  const jobs = BATCH * batches;
  for (let round = 0; round <= rounds; round++) {
    for (const name of drains) await drained[name].fill(jobs);
    await server.settle();
    for (const name of drains) {
      await checkpoint(signal);
      const perS = jobs / (await drained[name].drain(jobs));
      if (round > 0) batchPerS[name].push(perS); // the first one warms up
      say(`batch round ${round}: ${name} ${Math.round(perS)} jobs/s claimed and completed`);
    }
  }
  const claimS = { ours: [] as number[], pgboss: [] as number[], graphile: [] as number[] };
  for (let round = 0; round <= rounds; round++) {
    for (const name of names) await contenders[name].fill(BATCH * claims);
    await server.settle();
    const roundS = { ours: [] as number[], pgboss: [] as number[], graphile: [] as number[] };
    for (let claim = 0; claim < claims; claim++) {
      await checkpoint(signal);
      for (const name of names) roundS[name].push(await contenders[name].claim());
    }
    for (const name of names) {
      if (round > 0) claimS[name].push(...roundS[name]); // the first one warms up
      say(`claim round ${round}: ${name} ${Math.round(BATCH / median(roundS[name]))} jobs/s claimed`);
      await contenders[name].clear();
    }
  }
  const [a, b, c] = names.map((name) => Math.round(median(cyclesPerS[name]))) as [number, number, number];
  const [d, e, f, g] = drains.map((name) => Math.round(median(batchPerS[name]))) as [
    number,
    number,
    number,
    number,
  ];
  const [h, i, j] = names.map((name) => Math.round(BATCH / median(claimS[name]))) as [number, number, number];
  return {
    ours: a,
    pgboss: b,
    graphile: c,
    ratio_pgboss: round2(a / b),
    ratio_graphile: round2(a / c),
    claim_ours: h,
    claim_pgboss: i,
    claim_graphile: j,
    claim_ratio_pgboss: round2(h / i),
    claim_ratio_graphile: round2(h / j),
    batch_ours: d,
    batch_pgboss: e,
    batch_graphile: f,
    batch_graphile_kept: g,
    batch_ratio_pgboss: round2(d / e),
    batch_ratio_graphile: round2(d / f),
    batch_ratio_graphile_kept: round2(d / g),
    unit: "cycles/s; claim_*: jobs/s claimed 500 at once; batch_*: jobs/s claimed 500 at once and completed; medians",
    batch_ways: {
      ours: "acquireLeases(500), completeLease each with result and attestation",
      pgboss: "work, batchSize 500, localConcurrency 2, burstWhenBatchFull, perJobResults",
      graphile:
        "runner, concurrency 64, localQueue.size 500, completeJobBatchDelay 0; deletes jobs, keeps no results",
      graphile_kept: "the same, and its task inserts its result",
    },
    n: { rounds, callers: CALLERS, cycles, batch: BATCH, batches, claims, workers: WORKERS },
  };
}

const round2 = (value: number) => Math.round(value * 100) / 100;
