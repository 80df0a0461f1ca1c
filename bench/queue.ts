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
import { randomBytes } from "node:crypto";
import { EventEmitter } from "node:events";
import { Logger, makeWorkerUtils, run as runGraphile, type Task } from "graphile-worker";
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
const WORKERS = 2;
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
    const names = ["ours", "pgboss", "graphile"] as const;
    const cyclesPerS = { ours: [] as number[], pgboss: [] as number[], graphile: [] as number[] };
    for (const name of names) await contenders[name].cycle(cycles[name] / 5); // warm up
    for (let round = 1; round <= rounds; round++) {
      for (const name of names) {
        const perS = cycles[name] / (await contenders[name].cycle(cycles[name]));
        cyclesPerS[name].push(perS);
        say(`round ${round}: ${name} ${Math.round(perS)} cycles/s`);
      }
    }
    const drained = { ...contenders, graphile_kept: await graphile(server, { keep: true }) };
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
        const perS = jobs / (await drained[name].drain(jobs));
        if (round > 0) batchPerS[name].push(perS); // the first one warms up
        say(`batch round ${round}: ${name} ${Math.round(perS)} jobs/s claimed and completed`);
      }
    }
    for (const name of drains) {
      await drained[name].close().catch((e: unknown) => console.error(name, String(e)));
    }
    const [a, b, c] = names.map((name) => Math.round(median(cyclesPerS[name]))) as [number, number, number];
    const [d, e, f, g] = drains.map((name) => Math.round(median(batchPerS[name]))) as [
      number,
      number,
      number,
      number,
    ];
    return {
      ours: a,
      pgboss: b,
      graphile: c,
      ratio_pgboss: round2(a / b),
      ratio_graphile: round2(a / c),
      batch_ours: d,
      batch_pgboss: e,
      batch_graphile: f,
      batch_graphile_kept: g,
      batch_ratio_pgboss: round2(d / e),
      batch_ratio_graphile: round2(d / f),
      batch_ratio_graphile_kept: round2(d / g),
      unit: "cycles/s; batch_*: jobs/s claimed 500 at once and completed; medians",
      batch_ways: {
        ours: "acquireLeases(500), completeLease each with result and attestation",
        pgboss: "work, batchSize 500, localConcurrency 2, burstWhenBatchFull, perJobResults",
        graphile:
          "runner, concurrency 64, localQueue.size 500, completeJobBatchDelay 0; deletes jobs, keeps no results",
        graphile_kept: "the same, and its task inserts its result",
      },
      n: { rounds, callers: CALLERS, cycles, batch: BATCH, batches, workers: WORKERS },
    };
  } finally {
    await server.stop();
  }
}

const SPEC = TaskSpecSchema.parse({
  command: ["python3", "-c", "print('hello')"],
  priority: 3,
  retries: 2,
});
const RESULT = {
  ...endedWithoutResult("exited", ""),
  outcome: { reason: "exited", exit_code: 0, signal: null, message: null },
} as const;

async function ours(server: PostgresServer): Promise<Contender> {
  const sql = postgresSql(await server.emptyDatabase());
  await migrate(sql);
  const store = createStore({ sql, wake: createLocalWake() });
  const keyId = newId("key");
  const specDigest = await jsonDigest(SPEC);
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
    store.submitTask({
      id: newId("task"),
      keyId: keyId as KeyId,
      spec: SPEC,
      specDigest,
      idempotencyKey: null,
    });
  const complete = (executorId: ExecutorId, { lease_id, fence, task_id }: Lease) =>
    store.completeLease(executorId, { lease_id, fence }, RESULT, {
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
      return closedLoop(WORKERS, count / BATCH, async () => {
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
  const options = { priority: 3, retryLimit: 2 };
  return {
    cycle: (count) =>
      closedLoop(CALLERS, count, async () => {
        await boss.send("tasks", SPEC, options);
        const [job] = await boss.fetch("tasks");
        if (!job) throw new Error("nothing to claim");
        await boss.complete("tasks", job.id, RESULT);
      }),
    async fill(count) {
      for (let done = 0; done < count; done += 1_000) {
        await boss.insert(
          "tasks",
          Array.from({ length: Math.min(1_000, count - done) }, () => ({ data: SPEC, ...options })),
        );
      }
    },
    async drain(count) {
      let left = count;
      const lasts: string[] = [];
      const startMs = performance.now();
      await boss.work(
        "tasks",
        { batchSize: BATCH, localConcurrency: WORKERS, burstWhenBatchFull: true, perJobResults: true },
        async (jobs) => {
          left -= jobs.length;
          lasts.push(jobs.at(-1)!.id);
          return jobs.map(({ id }) => ({ id, status: "completed" as const, output: RESULT }));
        },
      );
      const completed = async (id: string) =>
        (await boss.findJobs("tasks", { id }))[0]?.state === "completed";
      await until(
        async () => left === 0 && (await Promise.all(lasts.slice(-WORKERS).map(completed))).every(Boolean),
      );
      const seconds = (performance.now() - startMs) / 1000;
      await boss.offWork("tasks", { wait: true });
      return seconds;
    },
    close: () => boss.stop({ graceful: false }),
  };
}

async function graphile(server: PostgresServer, { keep = false } = {}): Promise<Contender> {
  const connectionString = await server.emptyDatabase();
  const sql = postgresSql(connectionString, { connectionsMax: 1 });
  const logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  if (keep) await sql.query("create table results (job_id bigint primary key, result json not null)");
  const task: Task = keep
    ? async (_, { job, query }) => {
        await query("insert into results (job_id, result) values ($1, $2)", [job.id, JSON.stringify(RESULT)]);
      }
    : async () => {};
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
      taskList: { task },
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
        const job = await utils.addJob("task", SPEC, options);
        if (!early.delete(job.id)) await new Promise<void>((resolve) => waiting.set(job.id, resolve));
        waiting.delete(job.id);
      });
      await runner.stop();
      return seconds;
    },
    async fill(count) {
      const spec = { identifier: "task", payload: SPEC, ...options };
      for (let done = 0; done < count; done += 1_000) {
        await utils.addJobs(Array.from({ length: Math.min(1_000, count - done) }, () => spec));
      }
    },
    async drain() {
      const startMs = performance.now();
      const runner = await start(new EventEmitter(), {
        localQueue: { size: BATCH },
        completeJobBatchDelay: 0,
      });
      // Its `job:complete` comes before the job is completed in the database.
      await until(async () => (await sql.query("select 1 from graphile_worker.jobs limit 1")).length === 0);
      const seconds = (performance.now() - startMs) / 1000;
      await runner.stop();
      return seconds;
    },
    async close() {
      await sql.close();
      await utils.release();
    },
  };
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 2));
}

const round2 = (value: number) => Math.round(value * 100) / 100;
