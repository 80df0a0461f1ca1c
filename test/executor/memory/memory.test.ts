import { createHash } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { TaskId } from "#core/ids.ts";
import { type MemoryEvent, MemoryEventSchema } from "#core/wire/memory.ts";
import { createMemory, type Memory, type MemoryIdentity, sharedNamespace } from "#executor/memory/memory.ts";
import type { MemoryStore } from "#executor/memory/store.ts";
import { drivers } from "./drivers.ts";

let clockMs = 1_700_000_000_000;
const now = () => clockMs;
let tasks = 0;

/** A sandbox of a task that nothing was stored for yet. */
function sandbox(rest: Partial<MemoryIdentity> = {}): MemoryIdentity {
  tasks++;
  return {
    taskId: `task_${tasks}` as TaskId,
    sandboxId: `sandbox_${tasks}`,
    owner: "key_1",
    grants: [],
    ...rest,
  };
}

describe.for(Object.entries(drivers))("the memory service over %s", ([, driver]) => {
  let store: MemoryStore;
  let close: () => Promise<void>;
  let memory: Memory;
  let events: MemoryEvent[];

  beforeAll(async () => {
    ({ store, close } = await driver.open(now));
  });
  beforeEach(() => {
    events = [];
    memory = createMemory({ store, now, onEvent: (event) => events.push(MemoryEventSchema.parse(event)) });
  });
  afterAll(() => close());

  test("every read and write is an event with old and new value, source and version", async () => {
    const identity = sandbox();
    const view = memory.view(identity, null, "agent.py:7 append");
    await view.put("plan", "[1]");
    await view.put("plan", "[1, 2.0]");
    await view.get("plan");
    await view.get("nothing");
    await view.list({ prefix: "pl" });
    await view.delete("plan");
    const large = JSON.stringify("x".repeat(2000));
    await view.put("large", large);
    const value = (json: string) => ({ json });
    const digest = `sha256:${createHash("sha256").update(large).digest("hex")}`;
    expect(events.map(({ op, key, old, new: after, version }) => [op, key, old, after, version])).toEqual([
      ["put", "plan", null, value("[1]"), 1],
      ["put", "plan", value("[1]"), value("[1,2.0]"), 2],
      ["get", "plan", value("[1,2.0]"), value("[1,2.0]"), 2],
      ["get", "nothing", null, null, 0],
      ["list", "pl", value('{"plan":[1,2.0]}'), value('{"plan":[1,2.0]}'), 2],
      ["delete", "plan", value("[1,2.0]"), null, 3],
      ["put", "large", null, { digest, bytes: 2002 }, 4],
    ]);
    for (const [at, event] of events.entries()) {
      expect(event).toMatchObject({
        seq: at + 1,
        namespace: `task:${identity.taskId}`,
        source: { sandbox: identity.sandboxId, origin: "agent.py:7 append" },
        at: new Date(clockMs).toISOString(),
      });
    }
  });

  test("what expires is an event of the host's, before the one of whoever finds it gone", async () => {
    const view = memory.view(sandbox());
    await view.put("brief", "1", { ttlMs: 10 });
    await memory.state(view.namespace);
    clockMs += 10;
    await view.put("next", "2");
    expect(events.slice(1).map(({ op, key, version, source }) => [op, key, version, source.sandbox])).toEqual(
      [
        ["expire", "brief", 2, "host"],
        ["put", "next", 3, `sandbox_${tasks}`],
      ],
    );
    const { expected, actual } = await memory.audit(view.namespace);
    expect(actual).toBe(expected);
  });

  test("a snapshot says how long each key has left that does not stay", async () => {
    const view = memory.view(sandbox());
    await view.put("stays", "1");
    expect(await memory.snapshot(view.namespace, 1000)).toMatchObject({ lifetimesJson: null });
    await view.put('"brief"', "2", { ttlMs: 50 });
    clockMs += 10;
    expect(await memory.snapshot(view.namespace, 1000)).toMatchObject({
      lifetimesJson: '{"\\"brief\\"":40}',
    });
  });

  test("a lifetime is kept, renewed or ended as the writer says", async () => {
    const view = memory.view(sandbox());
    await view.put("key", "1", { ttlMs: 10 });
    expect((await view.put("key", "2", { ttlMs: "keep" })).entry.expiresAtMs).toBe(clockMs + 10);
    expect((await view.put("key", "3", { ttlMs: 50 })).entry.expiresAtMs).toBe(clockMs + 50);
    expect((await view.put("key", "4")).entry.expiresAtMs).toBeNull();
    expect((await view.put("key", "5", { ttlMs: "keep" })).entry.expiresAtMs).toBeNull();
    clockMs += 100;
    expect((await view.get("key"))?.text).toBe("5");
    for (const ttlMs of [0, -1, 1.5, Number.NaN, 2 ** 60]) {
      await expect(view.put("key", "6", { ttlMs })).rejects.toMatchObject({ code: "INVALID_REQUEST" });
    }
  });

  test('1, 1.0, "1", true and null stay five values', async () => {
    const view = memory.view(sandbox());
    const texts = ["1", "1.0", '"1"', "true", "null", "-0", "1e2", "0.1"];
    const digests = new Set<string>();
    for (const text of texts) {
      await view.put("value", text);
      expect((await view.get("value"))?.text).toBe(text);
      digests.add((await memory.state(view.namespace)).digest);
    }
    expect(digests.size).toBe(texts.length);
    // Space and escapes are not part of a value.
    await view.put("value", ' { "a\\u0062" : [ 1 , "\\/" ] }\n');
    expect((await view.get("value"))?.text).toBe('{"ab":[1,"/"]}');
  });

  test("a number that a reader would see rounded is refused, and kept as it is where that is asked for", async () => {
    const identity = sandbox();
    const exact = memory.view(identity);
    const lenient = createMemory({ store, now, strictness: "lenient" }).view(identity);
    const rounded = [
      "9007199254740992",
      "-9007199254740993",
      "18446744073709551615",
      "[1,12345678901234567890]",
      "1e-400",
    ];
    for (const text of rounded) {
      await expect(exact.put("n", text)).rejects.toMatchObject({ code: "MEMORY_VALUE_REFUSED" });
      await lenient.put("n", text);
      expect((await lenient.get("n"))?.text).toBe(text);
    }
    for (const view of [exact, lenient]) {
      await expect(view.put("n", "1e400")).rejects.toMatchObject({ code: "MEMORY_VALUE_REFUSED" });
      await expect(view.put("n", "-1e9999")).rejects.toMatchObject({ code: "MEMORY_VALUE_REFUSED" });
    }
    for (const text of [
      "9007199254740991",
      "-9007199254740991",
      "1e22",
      "5e-324",
      "0e5",
      "0.0e-999",
      '"9007199254740993"',
    ]) {
      await exact.put("n", text);
      expect((await exact.get("n"))?.text).toBe(text);
    }
  });

  test("what is not JSON, not a key or too large is refused by name and changes nothing", async () => {
    const view = memory.view(sandbox());
    const bad = [
      "",
      " ",
      "NaN",
      "Infinity",
      "'a'",
      "{a:1}",
      "[1,]",
      "01",
      "1.",
      ".5",
      "+1",
      "\uFEFF1",
      '"\ud800"',
      '"\\ud800"',
      '{"a":1,"a":2}',
      '{"a":1,"\\u0061":2}',
      '"\u0000"',
      "undefined",
      `${"[".repeat(65)}${"]".repeat(65)}`,
    ];
    for (const text of bad)
      await expect(view.put("key", text)).rejects.toMatchObject({ code: "MALFORMED_JSON" });
    for (const bytes of [
      [0x22, 0xff, 0x22],
      [0x22, 0xc0, 0x80, 0x22],
      [0x22, 0xed, 0xa0, 0x80, 0x22],
    ]) {
      await expect(view.put("key", Uint8Array.from(bytes))).rejects.toMatchObject({ code: "MALFORMED_JSON" });
    }
    for (const key of ["", ".", "..", "a\0b", "\ud800", "x".repeat(513), "€".repeat(171)]) {
      await expect(view.put(key, "1")).rejects.toMatchObject({ code: "INVALID_REQUEST" });
      await expect(view.get(key)).rejects.toMatchObject({ code: "INVALID_REQUEST" });
    }
    await expect(view.put("key", `"${"x".repeat(256 * 1024)}"`)).rejects.toMatchObject({
      code: "BODY_TOO_LARGE",
    });
    await expect(view.list({ cursor: "!!" })).rejects.toMatchObject({ code: "INVALID_CURSOR" });
    await expect(view.list({ cursor: "eHl6", prefix: "a" })).rejects.toMatchObject({
      code: "INVALID_CURSOR",
    });
    expect(await memory.state(view.namespace)).toMatchObject({ keys: 0, version: 0 });
    expect(events).toEqual([]);
    await view.put("\u{1F600}".repeat(128), '"\\u0000"');
    expect((await memory.state(view.namespace)).keys).toBe(1);
  });

  test("a task sees its own memory and what it was granted, and no other tenant's of the same name", async () => {
    const writer = sandbox({ grants: [{ name: "notes", access: "write" }] });
    const reader = sandbox({ grants: [{ name: "notes", access: "read" }] });
    const stranger = sandbox({ owner: "key_2", grants: [{ name: "notes", access: "write" }] });
    await memory.view(writer, "notes").put("a", "1");
    expect((await memory.view(reader, "notes").get("a"))?.text).toBe("1");
    expect(await memory.view(stranger, "notes").get("a")).toBeNull();
    expect(await memory.view(writer).get("a")).toBeNull();
    const readOnly = memory.view(reader, "notes");
    for (const act of [() => readOnly.put("a", "2"), () => readOnly.delete("a"), () => readOnly.clear()]) {
      await expect(act()).rejects.toMatchObject({ code: "FORBIDDEN" });
    }
    expect(() => memory.view(sandbox(), "notes")).toThrow(/was not granted/);
    expect(() => memory.view(writer, "Notes")).toThrow(/was not granted/);
    // No choice of names makes one tenant's namespace another's.
    expect(sharedNamespace("a:b", "c")).not.toBe(sharedNamespace("a", "b:c"));
  });

  test("a lost race says which version is there", async () => {
    const view = memory.view(sandbox());
    const { entry } = await view.put("key", "1");
    await view.put("key", "2", { expect: entry.version });
    await expect(view.put("key", "3", { expect: entry.version })).rejects.toMatchObject({
      code: "MEMORY_VERSION_CONFLICT",
      details: { version: entry.version + 1 },
    });
    await expect(view.delete("nothing")).rejects.toMatchObject({ code: "MEMORY_NOT_FOUND" });
    expect(events.map((event) => event.op)).toEqual(["put", "put"]);
  });

  test("the state digest is that of the entries, whatever led to them", async () => {
    const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
    console.log(`seed ${seed}`);
    const random = randomNumbers(seed);
    const view = memory.view(sandbox());
    const model = new Map<string, string>();
    expect((await memory.state(view.namespace)).digest).toBe(digestOf(model));
    for (let step = 0; step < 400; step++) {
      const key = `k${Math.floor(random() * 60)}`;
      const kind = random();
      if (kind < 0.6) {
        const text = String(Math.floor(random() * 4));
        await view.put(key, text);
        model.set(key, text);
      } else if (kind < 0.97) {
        if (model.delete(key)) await view.delete(key);
      } else if (kind < 0.98) {
        expect(await view.clear()).toBe(model.size);
        model.clear();
      }
      if (step % 7 === 0) expect((await memory.state(view.namespace)).digest).toBe(digestOf(model));
    }
    const { digest } = await memory.state(view.namespace);
    expect(digest).toBe(digestOf(model));
    // A service that saw none of it finds the same.
    expect((await createMemory({ store }).state(view.namespace)).digest).toBe(digest);
    expect(await memory.audit(view.namespace)).toMatchObject({ expected: digest, actual: digest });
  });

  test("a change that no recorded write explains is seen", async () => {
    const view = memory.view(sandbox());
    await view.put("key", '"recorded"');
    const before = await memory.state(view.namespace);
    await store.put(view.namespace, "key", '"smuggled"', {
      expect: "anything",
      ttlMs: null,
      bounds: { keys: 9, bytes: 999 },
    });
    await view.put("other", "1");
    const audit = await memory.audit(view.namespace);
    expect(audit.expected).toBe(
      digestOf(
        new Map([
          ["key", '"recorded"'],
          ["other", "1"],
        ]),
      ),
    );
    expect(audit.actual).toBe(
      digestOf(
        new Map([
          ["key", '"smuggled"'],
          ["other", "1"],
        ]),
      ),
    );
    expect((await memory.state(view.namespace)).digest).toBe(audit.actual);
    expect(before.digest).not.toBe(audit.actual);
  });

  test("events come in the order in which the store did it, however many callers there are", async () => {
    const view = memory.view(sandbox());
    await Promise.all(
      Array.from({ length: 8 }, async (_, caller) => {
        for (let n = 0; n < 25; n++) {
          await view.put(`k${caller % 3}`, String(n));
          await view.get(`k${n % 3}`);
        }
      }),
    );
    const writes = events.filter((event) => event.op === "put");
    expect(writes.map((event) => event.version)).toEqual(Array.from({ length: 200 }, (_, at) => at + 1));
    // Read as a journal, each event's old value is what the events before it left.
    const model = new Map<string, unknown>();
    for (const event of events) {
      expect(event.old).toEqual(model.get(event.key) ?? null);
      model.set(event.key, event.new ?? undefined);
    }
  });

  test("two executors that write one shared namespace agree on its digest", async () => {
    const second = createMemory({ store, now });
    const identity = sandbox({ grants: [{ name: "notes", access: "write" }] });
    const one = memory.view(identity, "notes");
    const two = second.view(identity, "notes");
    await one.clear();
    const model = new Map<string, string>();
    await second.state(one.namespace);
    for (let n = 0; n < 20; n++) {
      const key = `k${n % 7}`;
      await (n % 3 === 0 ? two : one).put(key, String(n));
      model.set(key, String(n));
      if (n % 2 === 0) expect((await memory.state(one.namespace)).digest).toBe(digestOf(model));
      if (n % 5 === 0) expect((await second.state(one.namespace)).digest).toBe(digestOf(model));
    }
  });

  test("clearing reports the digest of what was removed", async () => {
    const view = memory.view(sandbox());
    for (let at = 0; at < 50; at++) await view.put(`k${at}`, String(at));
    const { digest } = await memory.state(view.namespace);
    expect(await view.clear()).toBe(50);
    expect(events.at(-1)).toMatchObject({ op: "clear", key: "", old: { digest }, new: null, version: 51 });
    expect((await memory.state(view.namespace)).digest).toBe(digestOf(new Map()));
  });

  test("search pages through everything and examines no more than it may at once", async () => {
    const view = memory.view(sandbox());
    const count = 2500;
    await Promise.all(
      Array.from({ length: count }, (_, at) =>
        view.put(`k${at}`, `{"note":"${at % 500 === 0 ? "NEAR(" : "far"}"}`),
      ),
    );
    const found: string[] = [];
    let requests = 0;
    for (let cursor: string | undefined; ; ) {
      const page = await view.search({ text: "NEAR(", limit: 2, cursor });
      requests++;
      found.push(...page.entries.map((entry) => entry.key));
      if (page.nextCursor === null) break;
      cursor = page.nextCursor;
    }
    expect(found.sort()).toEqual(["k0", "k1000", "k1500", "k2000", "k500"]);
    expect(requests).toBeGreaterThan(2);
    const nobody = await view.search({ text: "nobody wrote this" });
    expect(nobody.entries).toEqual([]);
    expect(nobody.nextCursor).not.toBeNull();
    expect(
      (await view.search({ text: "nobody wrote this", cursor: nobody.nextCursor! })).nextCursor,
    ).toBeNull();
  });

  test("a number is found as it is written, whatever stands beside it", async () => {
    const view = memory.view(sandbox());
    await view.put("plain", '{"text":"one line","price":1.50,"far":1e5,"paid":true}');
    await view.put("escaped", '{"text":"two\\nlines","price":1.50,"far":1e5,"paid":true}');
    const found = async (text: string) => (await view.search({ text })).entries.map(({ key }) => key);
    for (const text of ["1.50", "1e5", "true", "price"])
      expect(await found(text)).toEqual(["escaped", "plain"]);
    for (const text of ["100000", "\\n", "1.50,"]) expect(await found(text)).toEqual([]);
    expect(await found("two\nlines")).toEqual(["escaped"]);
  });

  test("a full namespace refuses a new key and takes what makes it smaller", async () => {
    const small = createMemory({ store, now, bounds: { keys: 2 } });
    const view = small.view(sandbox());
    await view.put("a", "1");
    await view.put("b", "2");
    await expect(view.put("c", "3")).rejects.toMatchObject({
      code: "MEMORY_FULL",
      details: { axis: "keys", max: 2 },
    });
    await view.put("a", "10");
    await view.delete("b");
    await view.put("c", "3");
  });
});

/** The digest as docs/decisions/0011 defines it, written a second time and without any state. */
function digestOf(entries: Map<string, string>): string {
  const sha = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");
  const hashes = [...entries].map(([key, text]) => sha(`${JSON.stringify(key)}:${text}`)).sort();
  const node = (within: string[], depth: number): string => {
    if (within.length === 1) return within[0]!;
    const parts = [Buffer.of(1)];
    for (const digit of "0123456789abcdef") {
      const below = within.filter((hash) => hash[depth] === digit);
      if (below.length > 0)
        parts.push(Buffer.of(Number.parseInt(digit, 16)), Buffer.from(node(below, depth + 1), "hex"));
    }
    return sha(Buffer.concat(parts));
  };
  return `sha256:${hashes.length === 0 ? sha("") : node(hashes, 0)}`;
}

/** mulberry32: the same numbers for the same seed. */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
