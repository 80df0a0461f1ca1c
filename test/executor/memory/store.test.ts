import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectRedisMemoryStore } from "#executor/memory/redis-store.ts";
import { SqliteDatabase } from "#executor/memory/sqlite-database.ts";
import { createSqliteMemoryStore } from "#executor/memory/sqlite-store.ts";
import type { MemoryStore, PutOptions } from "#executor/memory/store.ts";
import { drivers } from "./drivers.ts";
import { startRedis } from "./redis-server.ts";

const OPTIONS: PutOptions = { expect: "anything", ttlMs: null, bounds: { keys: 10_000, bytes: 1_000_000 } };
const ALL = { prefix: "", after: null, limit: 10_000, maxBytes: 1e9 };
let clockMs = 1_700_000_000_000;
const now = () => clockMs;

describe.for(Object.entries(drivers))("memory in %s", ([, driver]) => {
  let store: MemoryStore;
  let close: () => Promise<void>;

  beforeAll(async () => {
    ({ store, close } = await driver.open(now));
  });
  afterAll(() => close());

  const put = (namespace: string, key: string, text: string, options: Partial<PutOptions> = {}) =>
    store.put(namespace, key, text, { ...OPTIONS, ...options });
  const keysOf = async (namespace: string, prefix = "") =>
    (await store.list(namespace, { ...ALL, prefix })).entries.map((entry) => entry.key);

  test("a text comes back as it was written, whatever it holds", async () => {
    const texts = [
      "1",
      "1.0",
      '"1"',
      "true",
      "null",
      "-0",
      "9007199254740993",
      '"\\u0000"',
      '"a:b:c\\n"',
      '"€😀"',
    ];
    for (const [at, text] of texts.entries()) await put("exact", `key ${at}`, text);
    for (const [at, text] of texts.entries()) {
      expect((await store.get("exact", `key ${at}`)).entry?.text).toBe(text);
    }
    const dump = await store.dump("exact");
    expect(dump.entries.map(({ text }) => text).sort()).toEqual([...texts].sort());
  });

  test("keys are told apart byte by byte", async () => {
    const names = [
      "a",
      "A",
      "a ",
      "é",
      "e\u0301",
      "a/b",
      "a%2Fb",
      "a+b",
      "a'b",
      'a"b',
      "a\nb",
      "😀",
      "\u{10FFFF}",
      "__proto__",
    ];
    for (const name of names) await put("names", name, JSON.stringify(name));
    for (const name of names) expect((await store.get("names", name)).entry?.text).toBe(JSON.stringify(name));
    const order = [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(await keysOf("names")).toEqual(order);
  });

  test("a version is never given twice, not even after the key was deleted or the namespace cleared", async () => {
    const versions: number[] = [];
    const write = async () => {
      const result = await put("versions", "key", "1");
      if (result.state === "stored") versions.push(result.entry.version);
    };
    await write();
    await write();
    await store.delete("versions", "key", "anything");
    await write();
    await store.clear("versions");
    await write();
    expect(versions).toEqual([1, 2, 4, 6]);
  });

  test("of writers that expect the same version one wins", async () => {
    await put("race", "key", "0");
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, at) => put("race", "key", String(at + 1), { expect: 1 })),
    );
    const winners = results.filter((result) => result.state === "stored");
    expect(winners).toHaveLength(1);
    expect(results.filter((result) => result.state === "conflict" && result.current === 2)).toHaveLength(19);
  });

  test("an expectation that does not hold changes nothing", async () => {
    await put("expect", "here", "1");
    expect(await put("expect", "here", "2", { expect: "absent" })).toMatchObject({
      state: "conflict",
      current: 1,
    });
    expect(await put("expect", "gone", "2", { expect: "present" })).toMatchObject({
      state: "conflict",
      current: null,
    });
    expect(await put("expect", "gone", "2", { expect: 1 })).toMatchObject({
      state: "conflict",
      current: null,
    });
    expect(await store.delete("expect", "here", 7)).toMatchObject({ state: "conflict", current: 1 });
    expect(await store.delete("expect", "gone", "anything")).toMatchObject({ state: "absent" });
    expect(await store.dump("expect")).toMatchObject({ version: 1, entries: [{ key: "here", text: "1" }] });
  });

  test("an entry is gone once its time is over, and is reported once", async () => {
    await put("ttl", "short", '"s"', { ttlMs: 100 });
    await put("ttl", "long", '"l"', { ttlMs: 1000 });
    await put("ttl", "kept", '"k"', { ttlMs: 100 });
    await put("ttl", "kept", '"k"');
    clockMs += 99;
    expect((await store.get("ttl", "short")).entry?.text).toBe('"s"');
    clockMs += 1;
    const after = await store.get("ttl", "short");
    expect(after.entry).toBeNull();
    expect(after.expired.map(({ entry, version }) => [entry.key, entry.text, version])).toEqual([
      ["short", '"s"', 5],
    ]);
    const stat = await store.stat("ttl");
    expect(stat).toMatchObject({ keys: 2, version: 5, expired: [] });
    // An expired entry is absent for whoever expects that.
    clockMs += 1000;
    expect(await put("ttl", "long", "1", { expect: "absent" })).toMatchObject({ state: "stored", old: null });
    expect(await keysOf("ttl")).toEqual(["kept", "long"]);
  });

  test("bounds count keys and bytes, and deleting makes room", async () => {
    const bounds = { keys: 3, bytes: 40 };
    for (const key of ["a", "b", "c"]) await put("bounds", key, '"123456"', { bounds });
    expect(await put("bounds", "d", "1", { bounds })).toMatchObject({ state: "full", axis: "keys" });
    expect(await put("bounds", "a", `"${"x".repeat(30)}"`, { bounds })).toMatchObject({
      state: "full",
      axis: "bytes",
    });
    await store.delete("bounds", "b", "anything");
    expect(await put("bounds", "d", '"€"', { bounds })).toMatchObject({ state: "stored" });
    expect(await store.stat("bounds")).toMatchObject({ keys: 3, bytes: 9 + 9 + 1 + 5 });
  });

  // B79: characters that patterns know
  test("clearing a namespace empties it fully and no other, whatever its name", async () => {
    const names = ["x[ab]", "xa", "xb", "x*", "x?", "x\\", "x{a}", "x", "", "x\n"];
    const each = 2000;
    for (const name of names) {
      await Promise.all(Array.from({ length: each }, (_, at) => put(name, `${name}${at}`, String(at))));
    }
    for (const [at, name] of names.entries()) {
      // Written while it is cleared: before or after, but never in pieces.
      const [cleared] = await Promise.all([store.clear(name), put(name, "late", "1")]);
      expect(cleared.removedKeys).toBe(each);
      expect(await keysOf(name)).toEqual(["late"]);
      for (const other of names.slice(at + 1)) expect((await store.stat(other)).keys).toBe(each);
    }
  });

  test("a prefix is taken literally", async () => {
    const keys = ["a*", "a*b", "ab", "a?", "a[b]", "a[", "a\\", "a%", "a_", "ax", "aÿ", "aĀ", "a😀", "A*"];
    for (const key of keys) await put("prefix", key, "1");
    for (const key of keys) {
      const wanted = keys
        .filter((other) => other.startsWith(key))
        .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
      expect(await keysOf("prefix", key)).toEqual(wanted);
    }
    expect(await keysOf("prefix", "a")).toHaveLength(13);
  });

  test("pages hold every entry once, by number and by bytes", async () => {
    for (let at = 0; at < 25; at++) await put("pages", `p${at}`, `"${"x".repeat(at)}"`);
    await put("pages", "q", "1");
    for (const bound of [
      { limit: 7, maxBytes: 1e9 },
      { limit: 100, maxBytes: 50 },
      { limit: 1, maxBytes: 1 },
    ]) {
      const seen: string[] = [];
      for (let after: string | null = null; ; ) {
        const page = await store.list("pages", { prefix: "p", after, ...bound });
        expect(page.entries.length).toBeGreaterThan(0);
        seen.push(...page.entries.map(({ key }) => key));
        if (!page.more) break;
        after = seen.at(-1)!;
      }
      expect(seen).toEqual(Array.from({ length: 25 }, (_, at) => `p${at}`).sort());
    }
  });
});

test("a value survives the end of the process that wrote it", async () => {
  const folder = await mkdtemp(join(tmpdir(), "dsec-memory-"));
  const path = join(folder, "memory.db");
  const first = new SqliteDatabase(path);
  const written = createSqliteMemoryStore(first, now);
  await written.put("task", "plan", "[1.0]", OPTIONS);
  await written.put("task", "soon", "1", { ...OPTIONS, ttlMs: 10 });
  first.close();
  clockMs += 10;
  const second = new SqliteDatabase(path);
  const read = createSqliteMemoryStore(second, now);
  expect(await read.get("task", "plan")).toMatchObject({ entry: { text: "[1.0]", version: 1 }, version: 3 });
  expect(await read.stat("task")).toMatchObject({ keys: 1, bytes: 4 + 5 });
  second.close();
  await expect(read.get("task", "plan")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  await rm(folder, { recursive: true });
});

test("what was read is known to be the same until anybody writes, something waits to, or a time is over", async () => {
  const folder = await mkdtemp(join(tmpdir(), "dsec-memory-"));
  const database = new SqliteDatabase(join(folder, "memory.db"));
  const store = createSqliteMemoryStore(database, now);
  const isSameAfter = async (act: () => unknown) => {
    const { mark } = await store.dump("task");
    await act();
    return store.isSame("task", mark);
  };
  await store.put("task", "key", "1", OPTIONS);
  await store.put("task", "soon", "1", { ...OPTIONS, ttlMs: 10 });
  expect(await isSameAfter(() => store.get("task", "key"))).toBe(true);
  expect(await isSameAfter(() => store.list("task", ALL))).toBe(true);
  expect(await isSameAfter(() => (clockMs += 10))).toBe(false);
  await store.stat("task"); // what is over is gone
  expect(await isSameAfter(() => {})).toBe(true);
  expect(await isSameAfter(() => store.put("task", "key", "2", OPTIONS))).toBe(false);
  const past = createSqliteMemoryStore(database, now);
  expect(await isSameAfter(() => past.put("task", "key", "3", OPTIONS))).toBe(false);
  expect(await isSameAfter(() => database.connection.exec("update entry set value = '4'"))).toBe(false);
  const { mark } = await store.dump("task");
  const writing = store.put("task", "key", "5", OPTIONS);
  expect(store.isSame("task", mark)).toBe(false);
  await writing;
  database.close();
  await rm(folder, { recursive: true });
});

test("a second process is refused the database of the first", async () => {
  const folder = await mkdtemp(join(tmpdir(), "dsec-memory-"));
  const path = join(folder, "memory.db");
  const first = new SqliteDatabase(path);
  expect(() => new SqliteDatabase(path)).toThrow(/another process has it open/);
  first.close();
  new SqliteDatabase(path).close();
  await rm(folder, { recursive: true });
});

test("two executors on one Redis see each other's writes", async () => {
  const server = await startRedis();
  const one = await connectRedisMemoryStore({ url: server.url });
  const two = await connectRedisMemoryStore({ url: server.url });
  const results = await Promise.all(
    Array.from({ length: 100 }, (_, at) => (at % 2 ? one : two).put("shared", `key ${at}`, "1", OPTIONS)),
  );
  expect(results.map((result) => result.version).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 100 }, (_, at) => at + 1),
  );
  expect(await one.stat("shared")).toMatchObject({ keys: 100, version: 100 });
  // What is over is decided by Redis's own clock.
  const written = await two.put("shared", "brief", "1", { ...OPTIONS, ttlMs: 20 });
  const expiresAtMs = written.state === "stored" ? written.entry.expiresAtMs! : Number.NaN;
  const client = await createClient({ url: server.url }).connect();
  const redisNowMs = async () => {
    const [seconds, micros] = await client.sendCommand<string[]>(["TIME"]);
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  };
  while ((await redisNowMs()) < expiresAtMs) await new Promise((resolve) => setTimeout(resolve, 2));
  const stat = await one.stat("shared");
  expect(stat).toMatchObject({
    keys: 100,
    version: 102,
    expired: [{ entry: { key: "brief" }, version: 102 }],
  });
  await client.close();
  await one.close();
  await two.close();
  await server.stop();
});

test.each([
  ["redis://user:hidden@127.0.0.1:1", "STORE_UNAVAILABLE"],
  ["redis://user:hidden@127.0.0.1:1/first", "CONFIG_INVALID"],
  ["redis://user:hidden%zz@127.0.0.1:1", "CONFIG_INVALID"],
  ["http://user:hidden@127.0.0.1:1", "CONFIG_INVALID"],
  ["redis://user:hidden@[", "CONFIG_INVALID"],
])("the password in %s is in no error", async (url, code) => {
  const failed = await connectRedisMemoryStore({ url }).catch((error: unknown) => error);
  expect(failed).toMatchObject({ code });
  expect(inspect(failed, { depth: 10, showHidden: true })).not.toContain("hidden");
});

test("while Redis is away each operation is refused at once, and works again when it is back", async () => {
  await expect(connectRedisMemoryStore({ url: "redis://127.0.0.1:1" })).rejects.toMatchObject({
    code: "STORE_UNAVAILABLE",
  });
  const server = await startRedis();
  const failures: Error[] = [];
  const store = await connectRedisMemoryStore({
    url: server.url,
    onConnectionError: (error) => failures.push(error),
  });
  await server.stop();
  await expect(store.get("task", "key")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  await expect(store.put("task", "key", "1", OPTIONS)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect(failures).not.toEqual([]);
  const again = await startRedis(server.port);
  const until = async () => {
    for (;;) {
      try {
        return await store.put("task", "key", "1", OPTIONS);
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  };
  expect(await until()).toMatchObject({ state: "stored", version: 1 });
  await store.close();
  await again.stop();
});

test("a Redis that says nothing more is waited for no longer than is allowed, and used again when it answers", async () => {
  const server = await startRedis();
  const failures: Error[] = [];
  const store = await connectRedisMemoryStore({
    url: server.url,
    answerMs: 300,
    onConnectionError: (error) => failures.push(error),
  });
  const silence = async (ms: number) => {
    const other = await createClient({ url: server.url }).connect();
    await other.sendCommand(["CLIENT", "PAUSE", String(ms)]);
    other.destroy();
  };
  // Idle for longer than an answer may take, it is still the same connection.
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  expect([await store.put("task", "key", "1", OPTIONS), failures]).toMatchObject([{ state: "stored" }, []]);
  await silence(2_000);
  const refused = { code: "STORE_UNAVAILABLE", message: expect.stringContaining("no answer within 300 ms") };
  await expect(store.get("task", "key")).rejects.toMatchObject(refused);
  await expect(connectRedisMemoryStore({ url: server.url, answerMs: 300 })).rejects.toMatchObject(refused);
  await expect.poll(() => store.get("task", "key").catch(() => null)).toMatchObject({ entry: { text: "1" } });
  await silence(600_000);
  store.get("task", "key").catch(() => {});
  await store.close();
  await server.stop();
});
