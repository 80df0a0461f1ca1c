/** What the store's tests share: both databases, tasks and executors to put in them, and the database's clock. */
import { afterAll, beforeAll, describe } from "vitest";
import type { ExecutorId, KeyId, TaskId } from "#core/ids.ts";
import { newId } from "#core/ids.ts";
import { jsonDigest } from "#core/json.ts";
import { NO_RESOURCES, type Resources } from "#core/resources.ts";
import type { Outcome } from "#core/task.ts";
import type { Attestation } from "#core/wire/attestations.ts";
import { toWire } from "#core/wire/common.ts";
import type { Hold, Lease } from "#core/wire/leases.ts";
import { type Result, type TaskRequest, TaskSpecSchema } from "#core/wire/tasks.ts";
import { openPglite } from "#gateway/node/pglite.ts";
import type { Store } from "#gateway/ports.ts";
import { endedWithoutResult } from "#gateway/store/ends.ts";
import { migrate } from "#gateway/store/migrate.ts";
import { postgresSql } from "#gateway/store/postgres-driver.ts";
import type { Sql } from "#gateway/store/sql.ts";
import { createStore } from "#gateway/store/store.ts";
import { createLocalWake } from "#gateway/store/wake.ts";
import type { Wake } from "#gateway/wake-port.ts";
import { type PostgresServer, startPostgres } from "#test/support/postgres.ts";

export type Context = { store: Store; sql: Sql; wake: Wake };

/** Runs the same promises on PGlite and on a real PostgreSQL, each with a store of its own for the whole block. */
export function onBothDatabases(
  promises: (context: Context, database: "PGlite" | "PostgreSQL") => void,
): void {
  describe("on PGlite", () => {
    const context = {} as Context;
    beforeAll(async () => {
      const { sql } = await openPglite(null);
      const wake = createLocalWake();
      Object.assign(context, { sql, wake, store: createStore({ sql, wake }) });
    });
    afterAll(() => context.store?.close());
    promises(context, "PGlite");
  });
  describe("on PostgreSQL", () => {
    const context = {} as Context;
    let server: PostgresServer | undefined;
    beforeAll(async () => {
      server = await startPostgres();
      const sql = postgresSql(await server.emptyDatabase());
      await migrate(sql);
      const wake = createLocalWake();
      Object.assign(context, { sql, wake, store: createStore({ sql, wake }) });
    });
    afterAll(async () => {
      await context.store?.close();
      await server?.stop();
    });
    promises(context, "PostgreSQL");
  });
}

/** Moves the database's clock to so much after the real one, for every connection. */
export async function shiftClock(sql: Sql, ms: number): Promise<void> {
  await sql.query(
    `create or replace function dsec_now() returns timestamptz language sql volatile parallel safe
     as $$ select clock_timestamp() + interval '${ms} ms' $$`,
  );
}

/** Stops the database's clock at this Unix time, for every connection and until it is shifted or stopped anew. */
export async function stopClock(sql: Sql, nowMs: number): Promise<void> {
  await sql.query(
    `create or replace function dsec_now() returns timestamptz language sql volatile parallel safe
     as $$ select timestamptz 'epoch' + interval '${nowMs} ms' $$`,
  );
}

export const ROOMY: Resources = {
  cpu_millis: 1_000_000,
  memory_mb: 1_000_000,
  gpu_memory_mb: 0,
  disk_iops: 1_000_000,
  network_mbps: 0,
  pids: 1_000_000,
  disk_mb: 100_000_000,
};

export const vector = (part: Partial<Resources>): Resources => ({ ...NO_RESOURCES, ...part });

export async function newKey(store: Store): Promise<KeyId> {
  const secretHash = crypto.getRandomValues(new Uint8Array(32));
  const id = newId("key");
  await store.createKey({ id, name: "test", scopes: ["tasks"], expiresAt: null, secretHash });
  return id;
}

export async function newExecutor(
  store: Store,
  { capacity = ROOMY, images = [] }: { capacity?: Resources; images?: string[] } = {},
): Promise<ExecutorId> {
  const x = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url");
  return store.enrolExecutor(newId("executor"), {
    public_key: { kty: "OKP", crv: "Ed25519", x },
    capacity: toWire(capacity),
    images,
    build: "test",
    host: { hostname: "test", kernel: "6", cgroup: "v1", arch: "x64" },
  });
}

export async function submit(
  store: Store,
  keyId: KeyId,
  request: Partial<TaskRequest> = {},
  idempotencyKey: string | null = null,
) {
  const spec = TaskSpecSchema.parse({ command: ["true"], ...request });
  const specDigest = await jsonDigest(spec);
  return store.submitTask({ id: newId("task"), keyId, spec, specDigest, idempotencyKey });
}

export async function submitMany(
  store: Store,
  keyId: KeyId,
  count: number,
  request: Partial<TaskRequest> = {},
): Promise<TaskId[]> {
  const all = await Promise.all(Array.from({ length: count }, () => submit(store, keyId, request)));
  return all.map(({ task }) => task.id as TaskId);
}

/** Claims one task, which has to be there. */
export async function claim(store: Store, executorId: ExecutorId, free = ROOMY): Promise<Lease> {
  const [lease] = await store.acquireLeases(executorId, free, 1);
  if (!lease) throw new Error("there was nothing to claim");
  return lease;
}

/** Forgets what earlier tests left unfinished. */
export async function emptyQueue({ sql }: Pick<Context, "sql">): Promise<void> {
  await sql.query(
    `with waiting as (delete from queue), held as (delete from leases), sums as (delete from holdings)
     update tasks set state = 'cancelled' where state = 'queued'`,
  );
}

/** Says that the command of a lease runs. */
export const begin = (store: Store, executorId: ExecutorId, lease: Lease) =>
  store.appendEvents(executorId, [{ type: "running", ...holdOf(lease) }]);

export const holdOf = ({ lease_id, fence }: Lease): Hold => ({ lease_id, fence });

export const EXITED: Outcome = { reason: "exited", exit_code: 0, signal: null, message: null };
export const LAUNCH_FAILED: Outcome = {
  reason: "launch_failed",
  exit_code: null,
  signal: null,
  message: "no room on /",
};

export function resultOf(outcome: Outcome = EXITED, part: Partial<Result> = {}): Result {
  return { ...endedWithoutResult(outcome.reason, ""), outcome, ...part };
}

export function attestationOf(lease: Lease): Attestation {
  const { task_id, fence } = lease;
  return {
    id: newId("attestation"),
    task_id,
    fence,
    jwt: "jwt",
    evidence: "evidence",
    issued_at: "2026-01-02T03:04:05.678Z",
  };
}

export const complete = (store: Store, executorId: ExecutorId, lease: Lease, result = resultOf()) =>
  store.completeLease(executorId, holdOf(lease), result, attestationOf(lease));

/** States of a task's state events, with their reasons where they have one. */
export async function history(store: Store, taskId: string): Promise<string[]> {
  const events = await store.listEvents(taskId as TaskId, 0, 1000);
  events.forEach((event, i) => {
    if (event.seq !== i + 1) throw new Error(`event ${i + 1} of ${taskId} has seq ${event.seq}`);
  });
  return events.flatMap((event) =>
    event.type === "state" ? [event.reason ? `${event.state}: ${event.reason}` : event.state] : [],
  );
}
