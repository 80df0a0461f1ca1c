/** The queues that `bench/queue.ts` compares, each behind the same calls. */
import { randomBytes } from "node:crypto";
import { EventEmitter } from "node:events";
import { Logger, makeWorkerUtils, run as runGraphile, type Task, type TaskList } from "graphile-worker";
import { PgBoss } from "pg-boss";
import { closedLoop } from "#bench/support/figures.ts";
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
import type { PostgresServer } from "#test/support/postgres.ts";

/** Concurrent callers of the single-job API. */
export const CALLERS = 64;
export const BATCH = 500;
/** Workers that claim and complete batches. */
export const WORKERS = 2;

export type Contender = {
  /** Seconds that `count` cycles took. */
  cycle(count: number): Promise<number>;
  /** Queues this many jobs. */
  fill(count: number): Promise<void>;
  /** Seconds that it took to claim and complete all that was filled in, BATCH at once. */
  drain(count: number): Promise<number>;
  /** Seconds that one claim of BATCH took, with nothing completed. */
  claim(): Promise<number>;
  /** Forgets all that was filled in, claimed or not. */
  clear(): Promise<void>;
  close(): Promise<void>;
};

const SPEC = TaskSpecSchema.parse({
  command: ["python3", "-c", "print('hello')"],
  priority: 3,
  retries: 2,
});
const RESULT = {
  ...endedWithoutResult("exited", ""),
  outcome: { reason: "exited", exit_code: 0, signal: null, message: null },
} as const;

export async function ours(server: PostgresServer): Promise<Contender> {
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
    async claim() {
      // Each claim is for another executor: none of them holds thousands of leases.
      const executorId = await enrol();
      const startMs = performance.now();
      const leases = await store.acquireLeases(executorId, capacity, BATCH);
      return secondsOf(startMs, leases.length);
    },
    async clear() {
      await sql.query("truncate tasks, queue, leases, holdings, task_events, attestations");
    },
    close: () => store.close(),
  };
}

export async function pgBoss(server: PostgresServer): Promise<Contender> {
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
    async claim() {
      const startMs = performance.now();
      const jobs = await boss.fetch("tasks", { batchSize: BATCH });
      return secondsOf(startMs, jobs.length);
    },
    async clear() {
      await boss.deleteAllJobs("tasks");
    },
    close: () => boss.stop({ graceful: false }),
  };
}

export async function graphile(server: PostgresServer, { keep = false } = {}): Promise<Contender> {
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
  const claims = await graphileClaims(connectionString, { task });
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
    async claim() {
      const startMs = performance.now();
      const jobs = await claims.getJobs();
      return secondsOf(startMs, jobs.length);
    },
    async clear() {
      await sql.query("truncate graphile_worker._private_jobs");
    },
    async close() {
      await claims.close();
      await sql.close();
      await utils.release();
    },
  };
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 2));
}

/**
 * What graphile-worker's local queue calls for its next jobs (`_fetch` in its localQueue.js), on a pool as it makes
 * one. It is not exported: a runner's own fetches would be timed together with its handing the jobs of the fetch
 * before to its workers.
 */
async function graphileClaims(connectionString: string, tasks: TaskList) {
  const own = (file: string) => import(new URL(file, import.meta.resolve("graphile-worker")).href);
  const [{ batchGetJobs }, lib, { makeWithPgClientFromPool }] = await Promise.all([
    own("./sql/getJobs.js"),
    own("./lib.js"),
    own("./helpers.js"),
  ]);
  const options = lib.processSharedOptions({ connectionString, logger: new Logger(() => () => {}) });
  const releasers: (() => Promise<void> | void)[] = [];
  const pool = await lib.assertPool(options, releasers);
  const withPgClient = lib.makeEnhancedWithPgClient(makeWithPgClientFromPool(pool));
  return {
    getJobs: (): Promise<unknown[]> => batchGetJobs(options, withPgClient, tasks, "claimer", null, BATCH),
    async close() {
      for (const release of releasers) await release();
    },
  };
}

function secondsOf(startMs: number, claimed: number): number {
  const endMs = performance.now();
  if (claimed !== BATCH) throw new Error(`claimed ${claimed} of ${BATCH}`);
  return (endMs - startMs) / 1000;
}
