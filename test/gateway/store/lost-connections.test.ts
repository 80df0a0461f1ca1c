/** What the way to PostgreSQL can do to connections without a word of the server's. */
import { connect, createServer, type Server, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { databaseSocket } from "#gateway/node/database-socket.ts";
import { listenWake } from "#gateway/node/listen.ts";
import { openPostgres } from "#gateway/node/postgres.ts";
import { postgresSql } from "#gateway/store/postgres-driver.ts";
import { createStore } from "#gateway/store/store.ts";
import { selfSigned } from "#test/support/certificate.ts";
import { leastMs } from "#test/support/least-ms.ts";
import { type PostgresServer, startPostgres } from "#test/support/postgres.ts";
import { claim, holdOf, newExecutor, newKey, ROOMY, submit } from "./support.ts";

let server: PostgresServer;
let url: string;
const certificate = selfSigned("127.0.0.1");
const cleanUps: (() => unknown)[] = [];

beforeAll(async () => {
  server = await startPostgres();
  url = await server.database();
});
afterAll(() => server?.stop());
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** The database behind something that accepts connections and does this with each. */
async function behind(accept: (socket: Socket) => void): Promise<string> {
  const proxy: Server = createServer((socket) => accept(socket.on("error", () => {})));
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  cleanUps.push(() => proxy.close());
  const through = new URL(url);
  through.port = String((proxy.address() as { port: number }).port);
  return through.href;
}

test("connections that fall silent are left for new ones, and nobody waits for them without end (B54)", async () => {
  const forget: (() => void)[] = [];
  const through = await behind((client) => {
    const database = connect(Number(new URL(url).port), "127.0.0.1").on("error", () => {});
    client.pipe(database).pipe(client);
    forget.push(() => {
      client.unpipe(database).resume();
      database.unpipe(client).resume();
    });
    cleanUps.push(() => [client, database].map((socket) => socket.destroy()));
  });
  const { sql, wake } = await openPostgres(through, { answerMsMax: 3_000 });
  cleanUps.push(() => wake.close());
  const store = createStore({ sql, wake });
  cleanUps.push(() => store.close());
  const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
  await submit(store, keyId);
  const lease = await claim(store, executorId);

  for (const silence of forget.splice(0)) silence();
  const all = await Promise.allSettled([
    ...Array.from({ length: 5 }, () => submit(store, keyId)),
    store.acquireLeases(executorId, ROOMY, 1),
    store.renewLeases(executorId, [holdOf(lease)]),
    store.ping(),
  ]);
  const reasons = all.flatMap((one) => (one.status === "rejected" ? [one.reason.code] : []));
  expect(new Set(reasons)).toEqual(new Set(["STORE_UNAVAILABLE"]));

  await store.ping();
  const { task } = await submit(store, keyId);
  expect((await store.getTask(task.id as never, keyId)).id).toBe(task.id);
});

test("a listener that waits for an answer closes without it", async () => {
  const tookMs = await leastMs(2_000, async () => {
    const asked = Promise.withResolvers<void>();
    const through = await behind((socket) => {
      socket.once("data", () => asked.resolve());
      cleanUps.push(() => socket.destroy());
    });
    const wake = listenWake(through);
    await asked.promise;
    const startMs = performance.now();
    await wake.close();
    return performance.now() - startMs;
  });
  expect(tookMs).toBeLessThan(2_000);
});

test("an answer that came while this process itself stood still is no missing one", async () => {
  const sql = postgresSql(url, { connectionsMax: 1, answerMsMax: 2_000 });
  cleanUps.push(() => sql.close());
  await sql.query("select 1");
  const answer = sql.query("select 1 as one from pg_sleep(0.1)");
  await new Promise((resolve) => setTimeout(resolve, 50)); // it is on its way
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
  expect(await answer).toEqual([{ one: 1 }]);
});

test("the server ends a statement that waits too long, and one of a migration it does not", async () => {
  const [holder, sql] = [postgresSql(url), postgresSql(url, { connectionsMax: 1, answerMsMax: 2_000 })];
  cleanUps.push(
    () => holder.close(),
    () => sql.close(),
  );
  const [before] = await sql.query<{ pid: number }>("select pg_backend_pid() as pid");
  await holder.transaction(async (query) => {
    await query("lock table keys in access exclusive mode");
    await expect(sql.query("select count(*) from keys")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  });
  expect(await sql.query("select pg_backend_pid() as pid")).toEqual([before]);
  const slept = sql.transaction((query) => query("select 1 as one from pg_sleep(3)"), { unhurried: true });
  expect(await slept).toEqual([{ one: 1 }]);
});

/** Takes TLS up as a server of PostgreSQL does where it is asked to. */
function secured(socket: Socket, then: (tls: TLSSocket) => void): void {
  socket.once("data", () => {
    socket.write("S");
    then(new TLSSocket(socket, { isServer: true, ...certificate }).on("error", () => {}));
  });
}

test.each<[string, string, (socket: Socket) => void]>([
  ["at once", "disable", (socket) => socket.once("data", () => socket.end())],
  ["before TLS", "require", (socket) => socket.once("data", () => socket.end())],
  ["after TLS", "require", (socket) => secured(socket, (tls) => tls.once("secure", () => tls.end()))],
  [
    "when TLS has brought a word",
    "require",
    (socket) => secured(socket, (tls) => tls.once("data", () => tls.end())),
  ],
])(
  "what accepts connections and closes them %s is no database, and is not asked without a pause (sslmode %s)",
  async (_, sslmode, close) => {
    let connections = 0;
    const through = await behind((socket) => {
      connections++;
      close(socket);
    });
    const to = `${through}?sslmode=${sslmode}`;
    const sql = postgresSql(to, { socket: databaseSocket, connectionsMax: 1 });
    cleanUps.push(() => sql.close());
    for (let i = 1; i <= 3; i++) {
      await expect(sql.query("select 1")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
      expect(connections).toBe(i);
    }
    const log: string[] = [];
    const wake = listenWake(to, { log: ({ message }) => log.push(message) });
    cleanUps.push(() => wake.close());
    await vi.waitFor(() => expect(log.length).toBeGreaterThanOrEqual(3), { timeout: 10_000 });
    expect(log[0]).toMatch(/LISTEN failed/);
    expect(connections).toBeLessThanOrEqual(3 + log.length + 1);
  },
  20_000,
);
