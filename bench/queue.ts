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
 * A batch is 500 jobs of a queue that was filled and vacuumed before, claimed at once and completed, one batch after
 * another, as each documents it for throughput:
 * - ours: `acquireLeases(…, 500)`, then `completeLease` for each, every one with its own result and attestation;
 * - pg-boss: `fetch` with `batchSize: 500`, then one `complete` with the 500 ids;
 * - graphile-worker: its runner at concurrency 64 with `localQueue: { size: 500 }` and `completeJobBatchDelay: 0`, timed
 *   from its start to its last `job:complete`, over as many jobs as the others take.
 */
import { randomBytes } from "node:crypto";
import { EventEmitter } from "node:events";
import { Logger, makeWorkerUtils, run as runGraphile } from "graphile-worker";
import { PgBoss } from "pg-boss";
import { closedLoop, median } from "#bench/support/figures.ts";
import { type ExecutorId, type KeyId, newId } from "#core/ids.ts";
import { jsonDigest } from "#core/json.ts";
import type { Resources } from "#core/resources.ts";
import { toWire } from "#core/wire/common.ts";
import type { Lease } from "#core/wire/leases.ts";
import { TaskSpecSchema } from "#core/wire/tasks.ts";
import { endedWithoutResult } from "#gateway/store/ends.ts";
import { migrate } from "#gateway/store/migrate.ts";
import { postgresSql } from "#gateway/store/postgres-driver.ts";
import { createStore } from "#gateway/store/store.ts";
import { createLocalWake } from "#gateway/store/wake.ts";
import { type PostgresServer, startPostgres } from "#test/support/postgres.ts";

const CALLERS = 64;
const BATCH = 500;
const FULL = { rounds: 5, cycles: { ours: 8_000, pgboss: 1_200, graphile: 1_600 }, batches: 10 };
const QUICK = { rounds: 3, cycles: { ours: 3_000, pgboss: 500, graphile: 700 }, batches: 4 };

type Contender = {
  /** Seconds that `count` cycles took. */
  cycle(count: number): Promise<number>;
  /** Queues this many jobs. */
  fill(count: number): Promise<void>;
  /** Seconds that it took to claim and complete all that was filled in, BATCH at once. */
  drain(count: number): Promise<number>;
  close(): Promise<void>;
};

export async function run(
  say: (line: string) => void,
  { quick = false }: { quick?: boolean } = {},
): Promise<Record<string, unknown>> {
  const { rounds, cycles, batches } = quick ? QUICK : FULL;
  const server = await startPostgres({
    durable: true,
    settings: { shared_buffers: "256MB", max_wal_size: "2GB" },
  });
  try {
    const contenders = {
      ours: await ours(server),
      pgboss: await pgBoss(server),
      graphile: await graphile(server),
    };
    const names = Object.keys(contenders) as (keyof typeof contenders)[];
    const cyclesPerS = { ours: [] as number[], pgboss: [] as number[], graphile: [] as number[] };
    const batchPerS = { ours: [] as number[], pgboss: [] as number[], graphile: [] as number[] };
    for (const name of names) await contenders[name].cycle(cycles[name] / 5); // warm up
    for (let round = 1; round <= rounds; round++) {
      for (const name of names) {
        const perS = cycles[name] / (await contenders[name].cycle(cycles[name]));
        cyclesPerS[name].push(perS);
        say(`round ${round}: ${name} ${Math.round(perS)} cycles/s`);
      }
    }
    const jobs = BATCH * batches;
    for (let round = 0; round <= rounds; round++) {
      for (const name of names) await contenders[name].fill(jobs);
      await server.settle();
      for (const name of names) {
        const perS = jobs / (await contenders[name].drain(jobs));
        if (round > 0) batchPerS[name].push(perS); // the first one warms up
        say(`batch round ${round}: ${name} ${Math.round(perS)} jobs/s claimed and completed`);
      }
    }
    for (const name of names) {
      await contenders[name].close().catch((e: unknown) => console.error(name, String(e)));
    }
    const [a, b, c] = names.map((name) => Math.round(median(cyclesPerS[name]))) as [number, number, number];
    const [d, e, f] = names.map((name) => Math.round(median(batchPerS[name]))) as [number, number, number];
    return {
      ours: a,
      pgboss: b,
      graphile: c,
      ratio_pgboss: round2(a / b),
      ratio_graphile: round2(a / c),
      batch_ours: d,
      batch_pgboss: e,
      batch_graphile: f,
      batch_ratio_pgboss: round2(d / e),
      batch_ratio_graphile: round2(d / f),
      unit: "cycles/s; batch_*: jobs/s claimed 500 at once and completed; medians",
      batch_ways: {
        ours: "acquireLeases(500), completeLease each",
        pgboss: "fetch(batchSize 500), complete(ids)",
        graphile: "runner, concurrency 64, localQueue.size 500, completeJobBatchDelay 0",
      },
      n: { rounds, callers: CALLERS, cycles, batch: BATCH, batches },
    };
  } finally {
    await server.stop();
  }
}

async function ours(server: PostgresServer): Promise<Contender> {
  const sql = postgresSql(await server.emptyDatabase());
  await migrate(sql);
  const store = createStore({ sql, wake: createLocalWake() });
  const keyId = newId("key");
  const spec = TaskSpecSchema.parse({
    command: ["python3", "-c", "print('hello')"],
    priority: 3,
    retries: 2,
  });
  const specDigest = await jsonDigest(spec);
  const capacity: Resources = {
    cpu_millis: 100_000_000,
    memory_mb: 1_000_000_000,
    gpu_memory_mb: 0,
    disk_iops: 0,
    network_mbps: 0,
    pids: 100_000_000,
    disk_mb: 1_000_000_000,
  };
  const enrol = () =>
    store.enrolExecutor(newId("executor"), {
      public_key: { kty: "OKP", crv: "Ed25519", x: randomBytes(32).toString("base64url") },
      capacity: toWire(capacity),
      images: [],
      build: "bench",
      host: { hostname: "bench", kernel: "bench", cgroup: "v1", arch: "bench" },
    });
  const submit = () =>
    store.submitTask({ id: newId("task"), keyId: keyId as KeyId, spec, specDigest, idempotencyKey: null });
  const result = {
    ...endedWithoutResult("exited", ""),
    outcome: { reason: "exited", exit_code: 0, signal: null, message: null },
  } as const;
  const complete = (executorId: ExecutorId, { lease_id, fence, task_id }: Lease) =>
    store.completeLease(executorId, { lease_id, fence }, result, {
      id: newId("attestation"),
      task_id,
      fence,
      jwt: "not.a.token",
      evidence: "not.a.token",
      issued_at: new Date().toISOString(),
    });
  return {
    async cycle(count) {
      const executorId = await enrol();
      return closedLoop(CALLERS, count, async () => {
        await submit();
        const [lease] = await store.acquireLeases(executorId, capacity, 1);
        if (!lease) throw new Error("nothing to claim");
        await complete(executorId, lease);
      });
    },
    async fill(count) {
      await closedLoop(2_000, count, async () => void (await submit()));
    },
    async drain(count) {
      const executorId = await enrol();
      return closedLoop(1, count / BATCH, async () => {
        const leases = await store.acquireLeases(executorId, capacity, BATCH);
        if (leases.length !== BATCH) throw new Error(`ours claimed ${leases.length} of ${BATCH}`);
        await Promise.all(leases.map((lease) => complete(executorId, lease)));
      });
    },
    close: () => store.close(),
  };
}

async function pgBoss(server: PostgresServer): Promise<Contender> {
  const boss = new PgBoss(await server.emptyDatabase());
  boss.on("error", (error) => {
    throw error;
  });
  await boss.start();
  await boss.createQueue("tasks");
  const data = { command: ["python3", "-c", "print('hello')"] };
  const options = { priority: 3, retryLimit: 2 };
  return {
    cycle: (count) =>
      closedLoop(CALLERS, count, async () => {
        await boss.send("tasks", data, options);
        const [job] = await boss.fetch("tasks");
        if (!job) throw new Error("nothing to claim");
        await boss.complete("tasks", job.id, { exit_code: 0 });
      }),
    async fill(count) {
      for (let done = 0; done < count; done += 1_000) {
        await boss.insert(
          "tasks",
          Array.from({ length: Math.min(1_000, count - done) }, () => ({ data, ...options })),
        );
      }
    },
    drain: (count) =>
      closedLoop(1, count / BATCH, async () => {
        const jobs = await boss.fetch("tasks", { batchSize: BATCH });
        if (jobs.length !== BATCH) throw new Error(`pg-boss claimed ${jobs.length} of ${BATCH}`);
        await boss.complete(
          "tasks",
          jobs.map((job) => job.id),
          { exit_code: 0 },
        );
      }),
    close: () => boss.stop({ graceful: false }),
  };
}

async function graphile(server: PostgresServer): Promise<Contender> {
  const connectionString = await server.emptyDatabase();
  const logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  const payload = { command: ["python3", "-c", "print('hello')"] };
  const options = { priority: 3, maxAttempts: 3 };
  const start = (
    events: EventEmitter,
    worker: { localQueue?: { size: number }; completeJobBatchDelay?: number },
  ) =>
    runGraphile({
      connectionString,
      logger,
      concurrency: CALLERS,
      noHandleSignals: true,
      events,
      taskList: { task: async () => {} },
      preset: { worker },
    });
  return {
    async cycle(count) {
      const events = new EventEmitter();
      const waiting = new Map<string, () => void>();
      const early = new Set<string>();
      events.on("job:complete", ({ job }: { job: { id: string } }) => {
        const resolve = waiting.get(job.id);
        if (resolve) resolve();
        else early.add(job.id);
      });
      const runner = await start(events, {});
      const seconds = await closedLoop(CALLERS, count, async () => {
        const job = await utils.addJob("task", payload, options);
        if (!early.delete(job.id)) await new Promise<void>((resolve) => waiting.set(job.id, resolve));
        waiting.delete(job.id);
      });
      await runner.stop();
      return seconds;
    },
    async fill(count) {
      const spec = { identifier: "task", payload, ...options };
      for (let done = 0; done < count; done += 1_000) {
        await utils.addJobs(Array.from({ length: Math.min(1_000, count - done) }, () => spec));
      }
    },
    async drain(count) {
      const events = new EventEmitter();
      let left = count;
      let startMs: number | undefined;
      events.on("job:start", () => {
        startMs ??= performance.now();
      });
      const last = new Promise<number>((resolve) => {
        events.on("job:complete", () => {
          if (--left === 0) resolve(performance.now());
        });
      });
      const runner = await start(events, { localQueue: { size: BATCH }, completeJobBatchDelay: 0 });
      const endMs = await last;
      await runner.stop();
      return (endMs - startMs!) / 1000;
    },
    close: async () => void (await utils.release()),
  };
}

const round2 = (value: number) => Math.round(value * 100) / 100;
