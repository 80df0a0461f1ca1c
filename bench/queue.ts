/**
 * Our queue against pg-boss and graphile-worker, on one PostgreSQL with a production server's durability (fsync and
 * synchronous_commit on), in interleaved rounds of one run. Each has a database of its own and ten connections.
 *
 * A cycle is submit → claim → complete of one job, by 64 concurrent callers of the single-job API:
 * - ours: `submitTask`, `acquireLeases(…, 1)`, `completeLease`, with retries, priority, seven resource axes that must
 *   fit, fences and leases, an event for each state, and every row kept;
 * - pg-boss: `send`, `fetch`, `complete` with its default queue, rows kept for its default seven days;
 * - graphile-worker: `addJob`, then its own runner at concurrency 64 (it has no public call that claims one job);
 *   a cycle ends with its `job:complete`; it deletes completed jobs.
 *
 * A batch claim takes 500 of many queued jobs in one call: ours `acquireLeases(…, 500)`, pg-boss `fetch` with
 * `batchSize: 500`, graphile-worker the function behind its local queue of size 500. All three databases have been
 * vacuumed and analyzed before, as autovacuum would have done.
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
import { TaskSpecSchema } from "#core/wire/tasks.ts";
import { endedWithoutResult } from "#gateway/store/ends.ts";
import { migrate } from "#gateway/store/migrate.ts";
import { postgresSql } from "#gateway/store/postgres-driver.ts";
import { createStore } from "#gateway/store/store.ts";
import { createLocalWake } from "#gateway/store/wake.ts";
import { type PostgresServer, startPostgres } from "#test/support/postgres.ts";

const CALLERS = 64;
const ROUNDS = 5;
const BATCH = 500;
const BATCHES = 8;
const CYCLES = { ours: 6_000, pgboss: 600, graphile: 1_200 };

type Contender = {
  /** Seconds that `count` cycles took. */
  cycle(count: number): Promise<number>;
  /** Queues this many jobs without counting the time. */
  fill(count: number): Promise<void>;
  /** Whatever has to happen before a round of batch claims. */
  ready?(): Promise<void>;
  /** Claims up to BATCH of them in one call; returns how many it got. */
  claimBatch(): Promise<number>;
  close(): Promise<void>;
};

export async function run(say: (line: string) => void): Promise<Record<string, unknown>> {
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
    const cycles = { ours: [] as number[], pgboss: [] as number[], graphile: [] as number[] };
    const batches = { ours: [] as number[], pgboss: [] as number[], graphile: [] as number[] };
    for (const name of names) await contenders[name].cycle(CYCLES[name] / 10); // warm up
    for (let round = 1; round <= ROUNDS; round++) {
      for (const name of names) {
        const perS = CYCLES[name] / (await contenders[name].cycle(CYCLES[name]));
        cycles[name].push(perS);
        say(`round ${round}: ${name} ${Math.round(perS)} cycles/s`);
      }
    }
    for (const name of names) await contenders[name].fill(BATCH * BATCHES * (ROUNDS + 1));
    await server.settle();
    for (let round = 0; round <= ROUNDS; round++) {
      for (const name of names) {
        await contenders[name].ready?.();
        const startMs = performance.now();
        let claimed = 0;
        for (let i = 0; i < BATCHES; i++) claimed += await contenders[name].claimBatch();
        if (claimed !== BATCH * BATCHES) throw new Error(`${name} claimed ${claimed} of ${BATCH * BATCHES}`);
        const perS = claimed / ((performance.now() - startMs) / 1000);
        if (round > 0) batches[name].push(perS); // the first one warms up
        say(`batch round ${round}: ${name} ${Math.round(perS)} claims/s`);
      }
    }
    for (const name of names) {
      await contenders[name].close().catch((e: unknown) => console.error(name, String(e)));
    }
    const [a, b, c] = names.map((name) => Math.round(median(cycles[name]))) as [number, number, number];
    const [d, e, f] = names.map((name) => Math.round(median(batches[name]))) as [number, number, number];
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
      unit: "cycles/s, batch_* claims/s; medians",
      n: { rounds: ROUNDS, callers: CALLERS, cycles: CYCLES, batch: BATCH, batches: BATCHES },
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
  let executorId = await enrol();
  let fresh: ExecutorId[] = [];
  const submit = () =>
    store.submitTask({ id: newId("task"), keyId: keyId as KeyId, spec, specDigest, idempotencyKey: null });
  const result = {
    ...endedWithoutResult("exited", ""),
    outcome: { reason: "exited", exit_code: 0, signal: null, message: null },
  } as const;
  return {
    async cycle(count) {
      executorId = await enrol();
      return closedLoop(CALLERS, count, async () => {
        await submit();
        const [lease] = await store.acquireLeases(executorId, capacity, 1);
        if (!lease) throw new Error("nothing to claim");
        await store.completeLease(executorId, { lease_id: lease.lease_id, fence: lease.fence }, result, {
          id: newId("attestation"),
          task_id: lease.task_id,
          fence: lease.fence,
          jwt: "not.a.token",
          evidence: "not.a.token",
          issued_at: new Date().toISOString(),
        });
      });
    },
    async fill(count) {
      await closedLoop(2_000, count, async () => void (await submit()));
    },
    async ready() {
      // A host of its own for each batch: none holds thousands of sandboxes.
      fresh = await Promise.all(Array.from({ length: BATCHES }, enrol));
    },
    async claimBatch() {
      return (await store.acquireLeases(fresh.pop()!, capacity, BATCH)).length;
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
    claimBatch: async () => (await boss.fetch("tasks", { batchSize: BATCH })).length,
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
  const pool = await graphileInternals(connectionString, logger);
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
      const runner = await runGraphile({
        connectionString,
        logger,
        concurrency: CALLERS,
        noHandleSignals: true,
        events,
        taskList: { task: async () => {} },
      });
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
    claimBatch: () => pool.claim(BATCH),
    async close() {
      await pool.release();
      await utils.release();
    },
  };
}

/** graphile-worker claims batches for its runner only; this calls the same function with the same settings. */
async function graphileInternals(connectionString: string, logger: Logger) {
  const file = (path: string) =>
    new URL(`../node_modules/graphile-worker/dist/${path}`, import.meta.url).href;
  const lib = await import(file("lib.js"));
  const { batchGetJobs } = await import(file("sql/getJobs.js"));
  const taskList = { task: async () => {} };
  const [compiled, release] = await lib.getUtilsAndReleasersFromOptions({
    connectionString,
    logger,
    taskList,
  });
  return {
    async claim(size: number): Promise<number> {
      return (await batchGetJobs(compiled, compiled.withPgClient, taskList, "bench", null, size)).length;
    },
    release: () => release() as Promise<void>,
  };
}

const round2 = (value: number) => Math.round(value * 100) / 100;
