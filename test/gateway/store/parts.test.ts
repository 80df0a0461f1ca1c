import { expect, test } from "vitest";
import { payloadsOf } from "#gateway/node/listen.ts";
import { coalesce } from "#gateway/store/coalesce.ts";
import { storableJson, storableText } from "#gateway/store/text.ts";
import { createLocalWake } from "#gateway/store/wake.ts";

const tick = () => new Promise((resolve) => setImmediate(resolve));

test("calls made together leave in one batch; those made while two are in flight leave in the next", async () => {
  const batches: number[][] = [];
  const release: (() => void)[] = [];
  const double = coalesce<number, number>({
    async run(items) {
      batches.push(items);
      await new Promise<void>((resolve) => release.push(resolve));
      return items.map((item) => item * 2);
    },
  });
  const first = Promise.all([1, 2, 3].map(double));
  await tick();
  const second = double(4);
  await tick();
  const third = Promise.all([5, 6].map(double));
  await tick();
  expect(batches).toEqual([[1, 2, 3], [4]]);
  release.shift()!();
  expect(await first).toEqual([2, 4, 6]);
  await tick();
  expect(batches).toEqual([[1, 2, 3], [4], [5, 6]]);
  for (const each of release) each();
  expect([await second, await third]).toEqual([8, [10, 12]]);
});

test("a batch holds no more than its weight, and one item that is heavier goes alone", async () => {
  const batches: number[][] = [];
  const call = coalesce<number, number>({
    async run(items) {
      batches.push(items);
      return items;
    },
    weigh: (item) => item,
    weightMax: 10,
    inFlightMax: 1,
  });
  await Promise.all([4, 5, 6, 50, 1, 1].map(call));
  expect(batches).toEqual([[4, 5], [6], [50], [1, 1]]);
});

test("one item that fails its batch fails alone, and an Error among the results rejects one call", async () => {
  const call = coalesce<number, number>({
    async run(items) {
      if (items.includes(13)) throw Object.assign(new Error("unlucky"), { code: "22P02" });
      return items.map((item) => (item === 7 ? new Error("seven") : item));
    },
  });
  const results = await Promise.allSettled([1, 13, 7, 2].map(call));
  expect(
    results.map((result) => (result.status === "fulfilled" ? result.value : result.reason.message)),
  ).toEqual([1, "unlucky", "seven", 2]);
});

test("a failure that is nobody's fault is not tried again for each item", async () => {
  let runs = 0;
  const call = coalesce<number, number>({
    async run() {
      runs++;
      throw new Error("connection lost");
    },
  });
  const results = await Promise.allSettled([1, 2, 3].map(call));
  expect(results.every(({ status }) => status === "rejected")).toBe(true);
  expect(runs).toBe(1);
});

test.each([
  ["plain", "plain"],
  ["a\0b", "a\\u0000b"],
  ["\ud800", "\\ud800"],
  ["\udc00\ud800", "\\udc00\\ud800"],
  ["😀\u0001", "😀\u0001"],
])("%j is stored as %j", (given, stored) => {
  expect(storableText(given)).toBe(stored);
  expect(JSON.parse(storableJson({ [given]: [given, { a: given }] }))).toEqual({
    [stored]: [stored, { a: stored }],
  });
});

test("text that only looks like an escape stays as it is", () => {
  const value = { text: "\\u0000 \\ud800", "\\u0000": 1 };
  expect(JSON.parse(storableJson(value))).toEqual(value);
});

test("a wait ends at its wake-up, at its time, at the poll, or at the abort, whichever is first", async () => {
  const wake = createLocalWake({ pollMs: 60_000 });
  const woken: string[] = [];
  const wait = (name: string, ...rest: Parameters<typeof wake.wait>) =>
    wake.wait(...rest).then(() => woken.push(name));
  const abort = new AbortController();
  const all = Promise.all([
    wait("queue", "queue", 60_000),
    wait("other", "cancel:exec_1" as "queue", 60_000),
    wait("aborted", "queue", 60_000, abort.signal),
    wait("already aborted", "queue", 60_000, AbortSignal.abort()),
    wait("no time", "queue", 0),
  ]);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(woken.sort()).toEqual(["already aborted", "no time"]);
  abort.abort();
  await tick();
  expect(woken.at(-1)).toBe("aborted");
  wake.notify("queue");
  await tick();
  expect(woken.at(-1)).toBe("queue");
  wake.notifyAll();
  await all;
  await createLocalWake({ pollMs: 1 }).wait("queue", 60_000);
});

test("notifications stay below PostgreSQL's 8,000 bytes however many topics there are (B55)", () => {
  const topics = Array.from(
    { length: 1_000 },
    (_, i) => `task:task_${String(i).padStart(26, "0")}` as "queue",
  );
  const payloads = payloadsOf(crypto.randomUUID(), topics);
  expect(payloads.every((payload) => payload.length < 8_000)).toBe(true);
  expect(payloads.flatMap((payload) => payload.split("\n").slice(1))).toEqual(topics);
  expect(payloadsOf("me", [])).toEqual([]);
});
