import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, expect, test, vi } from "vitest";
import type { KeyId, TaskId } from "#core/ids.ts";
import type { Task, TaskEvent } from "#core/wire/tasks.ts";
import { EventFeed, FreshFeeds } from "#gateway/routes/event-feed.ts";
import { createLocalWake } from "#gateway/store/wake.ts";

const TASK = "task_1" as TaskId;
const never = new AbortController().signal;
const KEY = "key_1" as KeyId;
const event = (seq: number, data = ""): TaskEvent => ({
  ...{ seq, at: "2026-01-01T00:00:00.000Z", fence: 1 },
  ...{ type: "stdout", offset: seq, data },
});
const CHUNK = "x".repeat(64 * 1024);
const seqs = (events: TaskEvent[] | null) => events?.map(({ seq }) => seq) ?? "look";

function feed() {
  const wake = createLocalWake({ pollMs: 60_000 });
  const followed = new EventFeed(wake, TASK);
  return {
    wake,
    feed: followed,
    tell: (...seqs: number[]) =>
      wake.notify(
        `task:${TASK}`,
        seqs.map((seq) => event(seq)),
      ),
  };
}

test("what was told follows on what was read, without asking the store", () => {
  const { feed: followed, tell } = feed();
  expect(seqs(followed.take(0))).toBe("look"); // nobody knows what was before
  expect(seqs(followed.take(2))).toEqual([]);
  tell(3);
  tell(4, 5);
  expect(seqs(followed.take(2))).toEqual([3, 4, 5]);
  expect(seqs(followed.take(5))).toEqual([]);
});

test("what was told while the store was read, and was read too, is not repeated", () => {
  const { feed: followed, tell } = feed();
  followed.take(0);
  tell(2, 3, 4);
  expect(seqs(followed.take(3))).toEqual([4]);
});

test("a gap is never skipped: what was stored elsewhere, or told out of order, is looked for", () => {
  const { wake, feed: followed, tell } = feed();
  followed.take(0);
  tell(4);
  expect(seqs(followed.take(2))).toBe("look");
  tell(3); // late, and read meanwhile
  expect(seqs(followed.take(4))).toEqual([]);
  tell(6);
  tell(5);
  expect(seqs(followed.take(4))).toEqual([5, 6]);
  tell(7);
  wake.notify(`task:${TASK}`); // another instance's
  expect(seqs(followed.take(6))).toBe("look");
  // more than is kept for a client that does not read
  for (let seq = 8; seq < 20; seq++) wake.notify(`task:${TASK}`, [event(seq, CHUNK)]);
  expect(seqs(followed.take(7))).toBe("look");
  expect(seqs(followed.take(19))).toEqual([]);
});

test("a wait ends with news, and where none comes in time it is time to look", async () => {
  const { feed: followed, tell } = feed();
  followed.take(0);
  const waited = followed.wait(60_000, never);
  tell(1);
  await waited;
  await followed.wait(60_000, never); // not taken yet
  expect(seqs(followed.take(0))).toEqual([1]);
  await followed.wait(0, never);
  expect(seqs(followed.take(1))).toBe("look");
});

test("who has left hears nothing more", () => {
  const { wake, feed: followed, tell } = feed();
  followed.take(0);
  followed.close();
  tell(1);
  wake.notify(`task:${TASK}`);
  expect(seqs(followed.take(0))).toEqual([]);
});

afterEach(() => vi.useRealTimers());

const created = { created_at: "2026-01-01T00:00:00.000Z" } as Task;

/** Feeds of tasks that are stored here, and how many of them listen. */
function fresh(closing?: AbortSignal) {
  const wake = createLocalWake({ pollMs: 60_000 });
  let listening = 0;
  const feeds = new FreshFeeds(
    {
      ...wake,
      follow(topic, onWake) {
        listening++;
        const unfollow = wake.follow(topic, onWake);
        return () => {
          listening--;
          unfollow();
        };
      },
    },
    closing,
  );
  const submit = (id: TaskId, meanwhile: () => void = () => {}) =>
    feeds.over(id, KEY, async () => {
      meanwhile();
      return { task: created, created: true };
    });
  return { wake, feeds, submit, listening: () => listening };
}

test("a stream of what was submitted here begins with what was told while it was stored", async () => {
  const { wake, feeds, submit } = fresh();
  await submit(TASK, () => wake.notify(`task:${TASK}`, [event(2)]));
  expect(feeds.take(TASK, "key_2" as KeyId)).toBeNull();
  expect(seqs(feeds.take(TASK, KEY)!.take(0))).toEqual([1, 2]);
  expect(feeds.take(TASK, KEY)).toBeNull();
});

test("what another instance did while the task was stored is looked for", async () => {
  const { wake, feeds, submit } = fresh();
  await submit(TASK, () => wake.notify(`task:${TASK}`));
  expect(seqs(feeds.take(TASK, KEY)!.take(0))).toBe("look");
});

test("of tasks that nobody follows a few first events are kept, and those not for long", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const closing = new AbortController();
  const { wake, feeds, submit, listening } = fresh(closing.signal);
  const ids = [1, 2, 3].map((n) => `task_${n}` as TaskId);
  await submit(ids[0]!);
  wake.notify(`task:${ids[0]!}`, [event(2, CHUNK)]);
  expect(seqs(feeds.take(ids[0]!, KEY)!.take(0)), "too large to be kept").toBe("look");

  await submit(ids[0]!);
  await vi.advanceTimersByTimeAsync(6_000);
  await submit(ids[1]!);
  expect(listening()).toBe(3); // one is followed
  await vi.advanceTimersByTimeAsync(6_000);
  expect([listening(), feeds.take(ids[0]!, KEY)]).toEqual([2, null]);
  await vi.advanceTimersByTimeAsync(6_000);
  expect([listening(), vi.getTimerCount()]).toEqual([1, 0]);
  await submit(ids[2]!);
  closing.abort();
  expect([listening(), vi.getTimerCount()]).toEqual([1, 0]);
});

test("what a feed cannot keep it lets go of at once", async () => {
  const { wake, feed: followed } = feed();
  followed.take(0);
  const kept = Array.from({ length: 20 }, (_, i) => new WeakRef(event(i + 1, CHUNK)));
  for (const one of kept) wake.notify(`task:${TASK}`, [one.deref()!]);
  await new Promise((resolve) => setImmediate(resolve)); // a WeakRef holds on for one turn
  collectGarbage();
  expect(kept.filter((one) => one.deref() !== undefined)).toEqual([]);
  expect(seqs(followed.take(0))).toBe("look");
});

function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}
