import { expect, test } from "vitest";
import type { TaskId } from "#core/ids.ts";
import type { TaskEvent } from "#core/wire/tasks.ts";
import { EventFeed } from "#gateway/routes/event-feed.ts";
import { createLocalWake } from "#gateway/store/wake.ts";

const TASK = "task_1" as TaskId;
const never = new AbortController().signal;
const event = (seq: number): TaskEvent => ({
  ...{ seq, at: "2026-01-01T00:00:00.000Z", fence: 1 },
  ...{ type: "stdout", offset: seq, data: "" },
});
const seqs = (events: TaskEvent[] | null) => events?.map(({ seq }) => seq) ?? "look";

function feed() {
  const wake = createLocalWake({ pollMs: 60_000 });
  const followed = new EventFeed(wake, TASK);
  return { wake, feed: followed, tell: (...seqs: number[]) => wake.notify(`task:${TASK}`, seqs.map(event)) };
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
  for (let seq = 8; seq < 100; seq++) tell(seq); // more than is kept for a client that does not read
  expect(seqs(followed.take(7))).toBe("look");
  expect(seqs(followed.take(99))).toEqual([]);
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
