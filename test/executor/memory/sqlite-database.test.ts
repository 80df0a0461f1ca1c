import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DsecError } from "#core/errors.ts";
import { SqliteDatabase } from "#executor/memory/sqlite-database.ts";
import { createSqliteMemoryStore } from "#executor/memory/sqlite-store.ts";
import type { PutOptions } from "#executor/memory/store.ts";

const OPTIONS: PutOptions = { expect: "anything", ttlMs: null, bounds: { keys: 1e6, bytes: 1e9 } };
let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "dsec-database-"));
  path = join(folder, "memory.db");
});
afterEach(() => rm(folder, { recursive: true }));

test("an operation that fails takes none of its batch with it, and counts stay right", async () => {
  const database = new SqliteDatabase(path);
  const store = createSqliteMemoryStore(database);
  const results = await Promise.allSettled([
    store.put("task", "a", "1", OPTIONS),
    database.run(() => {
      throw new Error("disk I/O error");
    }),
    database.run(() => {
      throw new DsecError("CHANNEL_FULL", "refused");
    }),
    store.put("task", "b", "2", OPTIONS),
  ]);
  expect(
    results.map((result) => (result.status === "rejected" ? result.reason.code : result.status)),
  ).toEqual(["fulfilled", "STORE_UNAVAILABLE", "CHANNEL_FULL", "fulfilled"]);
  expect(await store.stat("task")).toMatchObject({ keys: 2, bytes: 4, version: 2 });
  database.close();
});

test("a read sees every write that came before it, answered or not, and no other namespace's", async () => {
  const database = new SqliteDatabase(path);
  const store = createSqliteMemoryStore(database);
  const textOf = async (namespace: string) => (await store.get(namespace, "a")).entry?.text;
  await store.put("task", "a", "1", OPTIONS);
  expect([await textOf("task"), await textOf("other")]).toEqual(["1", undefined]);
  const came = [
    store.put("task", "a", "2", OPTIONS),
    textOf("task"),
    store.delete("task", "a", "anything"),
    textOf("task"),
  ];
  const [, second, , fourth] = await Promise.all(came);
  expect([second, fourth]).toEqual(["2", undefined]);
  await store.put("task", "a", "3", OPTIONS);
  await store.clear("task");
  expect(await textOf("task")).toBeUndefined();
  database.close();
  await expect(store.get("task", "a")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
});

test("on a full disk writes are refused, what is there stays readable, and deleting makes room", async () => {
  const database = new SqliteDatabase(path);
  const store = createSqliteMemoryStore(database);
  database.connection.exec("pragma max_page_count = 200");
  const text = `"${"x".repeat(10_000)}"`;
  let stored = 0;
  const fill = async () => {
    for (; ; stored++) await store.put("task", `key ${stored}`, text, OPTIONS);
  };
  await expect(fill()).rejects.toMatchObject({
    code: "STORE_UNAVAILABLE",
    message: expect.stringContaining("full"),
  });
  expect(stored).toBeGreaterThan(10);
  expect(await store.stat("task")).toMatchObject({ keys: stored, version: stored });
  const [refused, read] = await Promise.allSettled([
    store.put("task", "key 0", `"${"y".repeat(100_000)}"`, OPTIONS),
    store.get("task", "key 0"),
  ]);
  expect(refused.status).toBe("rejected");
  expect(read).toMatchObject({ value: { entry: { text, version: 1 } } });
  expect((await store.get("task", "key 0")).entry?.text).toBe(text);
  await store.clear("task");
  expect(await store.put("task", "key", text, OPTIONS)).toMatchObject({ state: "stored" });
  database.close();
});

test("what was answered survives kill -9 in the middle of writing", async () => {
  const script = join(folder, "writer.ts");
  const room = join(import.meta.dirname, "../../../executor/memory");
  await writeFile(
    script,
    `import { SqliteDatabase } from ${JSON.stringify(`${room}/sqlite-database.ts`)};
     import { createSqliteMemoryStore } from ${JSON.stringify(`${room}/sqlite-store.ts`)};
     const store = createSqliteMemoryStore(new SqliteDatabase(process.argv[2]));
     const options = { expect: "anything", ttlMs: null, bounds: { keys: 1e6, bytes: 1e9 } };
     for (let n = 1; ; n++) {
       await Promise.all(["a", "b"].map((key) => store.put("task", key, String(n), options)));
       console.log(n);
     }`,
  );
  const writer = spawn(process.execPath, [script, path], { stdio: ["ignore", "pipe", "inherit"] });
  let answered = 0;
  for await (const line of createInterface({ input: writer.stdout })) {
    answered = Number(line);
    if (answered === 200) writer.kill("SIGKILL");
  }
  if (writer.exitCode === null && writer.signalCode === null) await once(writer, "exit");
  expect(writer.signalCode).toBe("SIGKILL");
  expect(answered).toBeGreaterThanOrEqual(200);
  const database = new SqliteDatabase(path);
  const store = createSqliteMemoryStore(database);
  const [a, b] = await Promise.all(
    ["a", "b"].map(async (key) => Number((await store.get("task", key)).entry?.text)),
  );
  expect(a).toBeGreaterThanOrEqual(answered);
  // Both were written in one transaction.
  expect(b).toBe(a);
  expect(await store.stat("task")).toMatchObject({ keys: 2, version: 2 * a! });
  database.close();
});

test("what is no database of ours is left alone and named", async () => {
  await writeFile(path, "not a database, and long enough to be looked at ".repeat(50));
  expect(() => new SqliteDatabase(path)).toThrow(path);
  const newer = join(folder, "newer.db");
  const database = new SqliteDatabase(newer);
  database.connection.exec("pragma user_version = 99");
  database.close();
  expect(() => new SqliteDatabase(newer)).toThrow(/version 99, newer than this program knows/);
  expect(() => new SqliteDatabase(join(folder, "no/such/folder/memory.db"))).toThrow(/no\/such\/folder/);
});
