/** Gateways that change the same thing at one moment: whoever waits for a lock then goes by what the other has made of it. */
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import type { ExecutorId, KeyId, TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Store } from "#gateway/ports.ts";
import { postgresSql } from "#gateway/store/postgres-driver.ts";
import type { Sql } from "#gateway/store/sql.ts";
import { createStore } from "#gateway/store/store.ts";
import { createLocalWake } from "#gateway/store/wake.ts";
import { type PostgresServer, startPostgres } from "#test/support/postgres.ts";
import { claim, complete, emptyQueue, holdOf, newExecutor, newKey, submit } from "./support.ts";

let server: PostgresServer;
let sql: Sql;
let gateways: [Store, Store];
let keyId: KeyId;
let executorId: ExecutorId;

beforeAll(async () => {
  server = await startPostgres();
  const url = await server.database();
  const gateway = () => createStore({ sql: postgresSql(url), wake: createLocalWake() });
  sql = postgresSql(url);
  gateways = [gateway(), gateway()];
  keyId = await newKey(gateways[0]);
});
afterAll(async () => {
  await Promise.all([...(gateways ?? []).map((gateway) => gateway.close()), sql?.close()]);
  await server?.stop();
});
beforeEach(async () => {
  await emptyQueue({ sql });
  executorId = await newExecutor(gateways[0]);
});

test("observations that come at once are numbered one after the other", async () => {
  const taskId = await newTask();
  const added = await whileLocked(taskRow(taskId), [
    () => observe(gateways[0], taskId, "a"),
    () => observe(gateways[1], taskId, "b"),
  ]);
  expect(added.map(({ observation }) => observation.seq)).toEqual([1, 2]);
});

test("an observation that is sent again while the first is on its way is made once", async () => {
  const taskId = await newTask();
  const [first, second] = await whileLocked(taskRow(taskId), [
    () => observe(gateways[0], taskId, "a", "once"),
    () => observe(gateways[1], taskId, "a", "once"),
  ]);
  expect(first).toMatchObject({ created: true, observation: { seq: 1 } });
  expect(second).toEqual({ created: false, observation: first!.observation });
});

test("a part of a trajectory that is sent again while the first is on its way changes nothing", async () => {
  await newTask();
  const hold = holdOf(await claim(gateways[0], executorId));
  const part = { offset: 0, size: 3, digest: null, content: new Uint8Array([1, 2, 3]) };
  const sent = await whileLocked(
    `select 1 from leases where id = '${hold.lease_id}' for update`,
    gateways.map((gateway) => () => gateway.appendTrajectory(executorId, hold, part)),
  );
  expect(sent).toEqual([{ size: 3 }, { size: 3 }]);
  const next = { ...part, offset: 3 };
  expect(await gateways[0].appendTrajectory(executorId, hold, next)).toEqual({ size: 6 });
});

test("secrets that are made at once do not pass the limit of their key together", async () => {
  const owner = await newKey(gateways[0]);
  const row = (name: string) => `'${owner}', ${name}, '[]', '', dsec_now(), dsec_now()`;
  await sql.query(`insert into secrets select ${row("n::text")} from generate_series(2, $1::int) n`, [
    LIMITS.secretsPerKey,
  ]);
  // Names that come and go in one transaction: who makes one of them waits for its end, and has counted before.
  const comeAndGo = `do $$ begin
    insert into secrets values (${row("'a'")}), (${row("'b'")});
    delete from secrets where key_id = '${owner}' and name in ('a', 'b');
  end $$`;
  const put = (gateway: Store, name: string) => () =>
    gateway.putSecret(owner, { name, hosts: [], sealed: "" }).catch((error: unknown) => error);
  const made = await whileLocked(comeAndGo, [put(gateways[0], "a"), put(gateways[1], "b")]);
  expect(made).toEqual([
    { created: true, secret: expect.objectContaining({ name: "a" }) },
    expect.objectContaining({ code: "INVALID_REQUEST" }),
  ]);
  expect(await gateways[0].listSecrets(owner)).toHaveLength(LIMITS.secretsPerKey);
  // One that is there can still be replaced.
  expect(await put(gateways[1], "a")()).toMatchObject({ created: false });
});

test("channels that are opened at once do not pass the limit of their job together", async () => {
  await newTask();
  const hold = holdOf(await claim(gateways[0], executorId));
  const declare = (gateway: Store, name: string) => () =>
    gateway
      .declareChannel(executorId, hold, { name, schema: null, capacity: 10, reads: false })
      .catch((error: unknown) => error);
  await declare(gateways[0], "first")();
  const [{ job }] = (await sql.query<{ job: string }>("select job from channels")) as [{ job: string }];
  const row = (name: string) => `'${keyId}', '${job}', ${name}, 10, 0, 0, 0, 0`;
  const columns = "channels (key_id, job, name, capacity, last_id, gone_id, messages, bytes)";
  await sql.query(`insert into ${columns} select ${row("n::text")} from generate_series(3, $1::int) n`, [
    LIMITS.channelsPerJob,
  ]);
  const comeAndGo = `do $$ begin
    insert into ${columns} values (${row("'a'")}), (${row("'b'")});
    delete from channels where name in ('a', 'b');
  end $$`;
  const opened = await whileLocked(comeAndGo, [declare(gateways[0], "a"), declare(gateways[1], "b")]);
  expect(opened).toEqual([undefined, expect.objectContaining({ code: "CHANNEL_FULL" })]);
  expect(await sql.query("select name from channels where job = $1", [job])).toHaveLength(
    LIMITS.channelsPerJob,
  );
});

test.each(["cancelled", "completed"])(
  "no observation waits for a task that is %s while it is added",
  async (how) => {
    const taskId = await newTask();
    const lease = how === "completed" ? await claim(gateways[1], executorId) : null;
    await whileLocked<unknown>(taskRow(taskId), [
      () => observe(gateways[0], taskId, "last words"),
      () =>
        lease === null ? gateways[1].cancelTask(taskId, keyId) : complete(gateways[1], executorId, lease),
    ]);
    const rows = await sql.query("select received_fence::int as fence from observations where task_id = $1", [
      taskId,
    ]);
    expect(rows).toEqual([{ fence: 0 }]);
  },
);

async function newTask(): Promise<TaskId> {
  return (await submit(gateways[0], keyId)).task.id as TaskId;
}

function observe(store: Store, taskId: TaskId, content: unknown, idempotencyKey: string | null = null) {
  return store.addObservation({ taskId, owner: keyId, keyId, content, idempotencyKey });
}

const taskRow = (id: TaskId) => `select 1 from tasks where id = '${id}' for update`;

/** Begins each when the one before it waits for what `lock` holds, and gives that free when all do. */
async function whileLocked<T>(lock: string, begin: (() => Promise<T>)[]): Promise<T[]> {
  const begun: Promise<T>[] = [];
  await sql.transaction(async (query) => {
    await query(lock);
    for (const one of begin) {
      const running = one();
      running.catch(() => {}); // is reported below
      begun.push(running);
      await vi.waitFor(async () => expect(await waiting()).toBe(begun.length), { timeout: 10_000 });
    }
  });
  return Promise.all(begun);
}

async function waiting(): Promise<number> {
  const [row] = await sql.query<{ count: number }>(
    `select count(*)::int as count from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return row!.count;
}
