import postgres from "postgres";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { type ListenWake, listenWake } from "#gateway/node/listen.ts";
import { openPostgres } from "#gateway/node/postgres.ts";
import { createStore } from "#gateway/store/store.ts";
import { type PostgresServer, startPostgres, startStandby } from "#test/support/postgres.ts";
import { claim, newExecutor, newKey, ROOMY, submit } from "./support.ts";

let server: PostgresServer;
let url: string;
const open: ListenWake[] = [];

beforeAll(async () => {
  server = await startPostgres();
  url = await server.database();
});
afterAll(() => server?.stop());
afterEach(async () => {
  await Promise.all(open.splice(0).map((wake) => wake.close()));
});

/** Listens, and polls so rarely that what wakes a waiter is a notification or a reconnection. */
async function instance(log: string[] = []): Promise<ListenWake> {
  const wake = listenWake(url, { pollMs: 600_000, log: ({ message }) => log.push(message) });
  open.push(wake);
  // Everybody is woken once it does.
  expect(await within(20_000, wake.wait("queue", 30_000))).toBe(true);
  return wake;
}

const within = (ms: number, promise: Promise<void>) =>
  Promise.race([promise.then(() => true), new Promise<false>((resolve) => setTimeout(resolve, ms, false))]);

async function listeners(): Promise<number[]> {
  const sql = postgres(url, { max: 1 });
  const rows = await sql<{ pid: number }[]>`
    select pid from pg_stat_activity where application_name = 'dsec-listen' and query ilike 'listen%'
      and datname = current_database()`;
  await sql.end();
  return rows.map(({ pid }) => pid);
}

async function terminateListeners(): Promise<number[]> {
  const pids = await listeners();
  const sql = postgres(url, { max: 1 });
  for (const pid of pids) await sql`select pg_terminate_backend(${pid})`;
  await sql.end();
  return pids;
}

test("a notification wakes the waiters of every instance, for that topic only", async () => {
  const [here, there] = [await instance(), await instance()];
  const waits = [here.wait("queue", 30_000), there.wait("queue", 30_000)];
  const other = there.wait("cancel:exec_x" as "queue", 30_000);
  here.notify("queue");
  expect(await Promise.all(waits.map((wait) => within(10_000, wait)))).toEqual([true, true]);
  expect(await within(100, other)).toBe(false);
});

test("a listener whose connection is terminated listens again and wakes everybody once it does (B54)", async () => {
  const log: string[] = [];
  const [here, there] = [await instance(), await instance(log)];
  const missed = [here, there].map((wake) => wake.wait("queue", 60_000));
  const pids = await terminateListeners();
  expect(pids).toHaveLength(2);
  // Whatever was notified in the gap is lost to it; the reconnection itself is the wake-up.
  expect(await Promise.all(missed.map((wait) => within(20_000, wait)))).toEqual([true, true]);
  const now = await listeners();
  expect(now).toHaveLength(2);
  expect(now.some((pid) => pids.includes(pid))).toBe(false);
  const again = there.wait("queue", 30_000);
  here.notify("queue");
  expect(await within(10_000, again)).toBe(true);
  expect(log.length).toBeLessThanOrEqual(4);
});

test("after a restart of PostgreSQL it listens again, with few words meanwhile (B54)", async () => {
  const log: string[] = [];
  const wake = await instance(log);
  const waiting = wake.wait("queue", 120_000);
  await server.halt();
  await vi.waitFor(() => expect(log.length).toBeGreaterThan(0), { timeout: 20_000 });
  const downMs = 4_000;
  await new Promise((resolve) => setTimeout(resolve, downMs));
  expect(log.length).toBeLessThanOrEqual(10);
  await server.resume();
  expect(await within(30_000, waiting)).toBe(true);
  expect(log.at(-1)).toBe("listening for wake-ups again");
});

test("a standby that refuses LISTEN is asked again with few words, and listened to once it is promoted (B54)", async () => {
  const standby = await startStandby(url);
  try {
    const refused: string[] = [];
    const log: string[] = [];
    const startMs = performance.now();
    const wake = listenWake(standby.url, {
      pollMs: 600_000,
      log: ({ message, reason }) => {
        log.push(message);
        if (typeof reason === "string") refused.push(reason);
      },
    });
    open.push(wake);
    await vi.waitFor(() => expect(refused.length).toBeGreaterThanOrEqual(4), { timeout: 20_000 });
    // pauses of 100, 200 and 400 ms lie between them
    expect(performance.now() - startMs).toBeGreaterThan(700);
    expect(new Set(refused)).toEqual(new Set(["cannot execute LISTEN during recovery"]));
    const polling = listenWake(standby.url, { pollMs: 50 });
    open.push(polling);
    expect(await within(20_000, polling.wait("queue", 60_000))).toBe(true);

    const waiting = wake.wait("queue", 60_000);
    await standby.promote();
    expect(await within(20_000, waiting)).toBe(true);
    expect(log.at(-1)).toBe("listening for wake-ups again");
    const told = wake.wait("queue", 60_000);
    const sql = postgres(standby.url, { max: 1 });
    await sql.notify("dsec", "another\nqueue");
    await sql.end();
    expect(await within(20_000, told)).toBe(true);
  } finally {
    await Promise.all(open.splice(0).map((wake) => wake.close()));
    await standby.stop();
  }
});

test("without any listener, polling finds the work (B54)", async () => {
  const dead = listenWake("postgres://nobody:x@127.0.0.1:1/none", { pollMs: 50 });
  open.push(dead);
  expect(await within(20_000, dead.wait("queue", 60_000))).toBe(true);
});

test("a store that lost its connections to a restart works on (B54)", async () => {
  const { sql, wake } = await openPostgres(url);
  const store = createStore({ sql, wake });
  try {
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    await server.halt();
    await expect(store.ping()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await expect(submit(store, keyId)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await server.resume();
    await vi.waitFor(() => store.ping(), { timeout: 20_000 });
    const { task } = await submit(store, keyId);
    expect((await claim(store, executorId, ROOMY)).task_id).toBe(task.id);
  } finally {
    await store.close();
    await wake.close();
  }
});
