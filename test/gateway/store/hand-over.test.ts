/** What a task is while it goes from the queue to a lease and on, where its state stands in one table or another. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { column } from "#gateway/store/columns.ts";
import {
  begin,
  claim,
  complete,
  emptyQueue,
  history,
  holdOf,
  LAUNCH_FAILED,
  newExecutor,
  newKey,
  onBothDatabases,
  ROOMY,
  shiftClock,
  submit,
  submitMany,
} from "./support.ts";

onBothDatabases((context) => {
  beforeEach(() => emptyQueue(context));
  afterEach(() => shiftClock(context.sql, 0));

  test("the events of several attempts read the same in pages of any size, while held and after", async () => {
    const { store, sql } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const { task } = await submit(store, keyId, { retries: 1 });
    const id = task.id as TaskId;
    const say = (lease: Awaited<ReturnType<typeof claim>>) =>
      store.appendEvents(executorId, [{ type: "stdout", ...holdOf(lease), offset: 0, data: "aGk=" }]);
    const expected = async (types: string[]) => {
      const whole = await store.listEvents(id, 0, 100);
      expect(whole.map((event) => (event.type === "state" ? event.state : event.type))).toEqual(types);
      expect(whole.map(({ seq }) => seq)).toEqual(types.map((_, i) => i + 1));
      for (const size of [1, 2, 3]) {
        const pages = [];
        for (let after = 0; ; ) {
          const page = await store.listEvents(id, after, size);
          if (page.length === 0) break;
          pages.push(...page);
          after = page.at(-1)!.seq;
        }
        expect(pages).toEqual(whole);
      }
      return whole;
    };

    const first = await claim(store, executorId);
    await say(first);
    await begin(store, executorId, first);
    await say(first);
    const attempt = ["queued", "leased", "stdout", "running", "stdout"];
    const held = await expected(attempt);
    await store.failLease(executorId, holdOf(first), LAUNCH_FAILED, null);
    const waiting = await expected([...attempt, "queued"]);
    expect(waiting.slice(0, held.length), "what was told stays as it was told").toEqual(held);

    await shiftClock(sql, LIMITS.retryBackoffBaseMs + 100);
    const second = await claim(store, executorId);
    await begin(store, executorId, second);
    await say(second);
    const again = await expected([...attempt, "queued", "leased", "running", "stdout"]);
    await complete(store, executorId, second);
    const done = await expected([...attempt, "queued", "leased", "running", "stdout", "succeeded"]);
    expect(done.slice(0, again.length)).toEqual(again);
    expect(done.map(({ fence }) => fence)).toEqual([0, 1, 1, 1, 1, 1, 2, 2, 2, 2]);
  });

  test("a cancellation finds a task that is claimed or given back at the same moment", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const ids = await submitMany(store, keyId, 40);
    const given = await store.acquireLeases(executorId, ROOMY, 20);
    const [leases] = await Promise.all([
      store.acquireLeases(executorId, ROOMY, 40),
      ...ids.map((id) => store.cancelTask(id, keyId)),
      ...given.map((lease) => store.releaseLease(executorId, holdOf(lease))),
    ]);
    const asked = new Set((await store.listCancellations(executorId)).map(({ lease_id }) => lease_id));
    expect(leases.every((lease) => asked.has(lease.lease_id))).toBe(true);
    for (const id of ids) {
      const task = await store.getTask(id, keyId);
      expect(task.cancel_requested).toBe(true);
      if (leases.some((lease) => lease.task_id === id)) expect(task.state).toBe("leased");
      else expect(task).toMatchObject({ state: "cancelled", result: { outcome: { reason: "cancelled" } } });
    }
    for (const lease of leases) {
      expect((await store.releaseLease(executorId, holdOf(lease))).state).toBe("cancelled");
    }
    expect(await store.acquireLeases(executorId, ROOMY, 40)).toEqual([]);
  });

  test("leases that ran out end once, however many take them back", async () => {
    const { store, sql } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    await submitMany(store, keyId, 30, { retries: 1 });
    const leases = await store.acquireLeases(executorId, ROOMY, 30);
    await shiftClock(sql, LIMITS.leaseTtlMs + 1_000);
    const counts = await Promise.all([1, 2, 3, 4].map(() => store.expireLeases()));
    expect(counts.reduce((sum, count) => sum + count)).toBe(30);
    for (const lease of leases) {
      expect(await history(store, lease.task_id)).toEqual(["queued", "leased", "queued: executor_lost"]);
    }
  });

  test("a claim that the machine lost is made again, and its first holder can do nothing", async () => {
    const { store, sql } = context;
    const [keyId, first, second] = [await newKey(store), await newExecutor(store), await newExecutor(store)];
    const { task } = await submit(store, keyId);
    await sql.query("create table saved as table queue");
    try {
      const lost = await claim(store, first);
      await begin(store, first, lost);
      // As after a recovery: a claim and what followed it are not waited for until they are on the disk.
      await sql.query("delete from leases");
      await sql.query("delete from holdings");
      await sql.query("insert into queue table saved");
      const again = await claim(store, second);
      expect(again).toEqual({ ...lost, expires_at: again.expires_at });
      const gone = { code: "LEASE_NOT_FOUND" };
      expect(await begin(store, first, lost)).toEqual({ lost: [lost.lease_id] });
      await expect(store.findLease(first, holdOf(lost))).rejects.toMatchObject(gone);
      await expect(complete(store, first, lost)).rejects.toMatchObject(gone);
      expect((await store.renewLeases(first, [holdOf(lost)])).leases[0]?.state).toBe("lost");
      await complete(store, second, again);
      expect(await history(store, task.id)).toEqual(["queued", "leased", "succeeded: exited"]);
    } finally {
      await sql.query("drop table saved");
    }
  });

  test("each end is counted in its state, whatever led to it", async () => {
    const { store } = context;
    const before = await store.countTasks();
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const [cancelled] = await submitMany(store, keyId, 1);
    await store.cancelTask(cancelled!, keyId);
    await submit(store, keyId, { retries: 0 });
    await store.failLease(executorId, holdOf(await claim(store, executorId)), LAUNCH_FAILED, null);
    await submitMany(store, keyId, 4);
    const leases = await store.acquireLeases(executorId, ROOMY, 3);
    await begin(store, executorId, leases[1]!);
    await complete(store, executorId, leases[2]!);
    const after = await store.countTasks();
    const grown = Object.entries(after).map(([state, count]) => [state, count - before[state as "queued"]]);
    expect(Object.fromEntries(grown)).toEqual({
      queued: 1,
      leased: 1,
      running: 1,
      succeeded: 1,
      failed: 0,
      cancelled: 1,
      dead: 1,
    });
  });

  test("the ends of a whole batch fit on the pages of their tasks, so that no index is written", async () => {
    const { store, sql } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const pages = async () =>
      sql.query<{ id: string; page: string }>(
        "select id, split_part(ctid::text, ',', 1) as page from tasks where key_id = $1 order by id",
        [keyId],
      );
    await submitMany(store, keyId, 500);
    const leases = await store.acquireLeases(executorId, ROOMY, 500);
    const before = await pages();
    await Promise.all(leases.map((lease) => complete(store, executorId, lease)));
    expect(before).toHaveLength(500);
    expect(await pages()).toEqual(before);
  });
});

test("a value with a line break is no column", () => {
  expect(column(["a", null, 1, ""])).toBe("a\n\n1\n");
  expect(() => column(["a\nb"])).toThrow("line break");
});
