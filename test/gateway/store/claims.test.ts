/** What a claim hands out, and what its executor then holds. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ExecutorId, TaskId } from "#core/ids.ts";
import { jsonDigest } from "#core/json.ts";
import type { TaskRequest } from "#core/wire/tasks.ts";
import {
  type Context,
  claim,
  complete,
  emptyQueue,
  holdOf,
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

  test("a claim of hundreds hands out each task with its own spec, in the order of the queue", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const requests = Array.from({ length: 200 }, (_, i): Partial<TaskRequest> => {
      return { command: ["echo", `${i}`], priority: i % 3, retries: i % 4 };
    });
    const tasks: Awaited<ReturnType<typeof submit>>[] = [];
    // One after another: of two that are submitted at once, either may come first.
    for (const request of requests) tasks.push(await submit(store, keyId, request));
    const leases = await store.acquireLeases(executorId, ROOMY, 200);
    const byPriority = [...tasks].sort((a, b) => b.task.spec.priority - a.task.spec.priority);
    expect(leases.map(({ task_id }) => task_id)).toEqual(byPriority.map(({ task }) => task.id));
    for (const [i, lease] of leases.entries()) {
      const { task } = byPriority[i]!;
      expect(lease).toMatchObject({ key_id: keyId, fence: 1, attempt: 1, spec: task.spec });
      expect(lease.spec_digest).toBe(await jsonDigest(lease.spec));
    }
  });

  test("a spec of any length is handed out whole, the first time and again", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const lengths = [0, 900, 1_000, 3_000, 40_000];
    for (const length of lengths) await submit(store, keyId, { env: { TEXT: "ü\n".repeat(length) } });
    for (let fence = 1; fence <= 2; fence++) {
      const leases = await store.acquireLeases(executorId, ROOMY, 10);
      expect(leases.map(({ spec }) => spec.env.TEXT)).toEqual(lengths.map((length) => "ü\n".repeat(length)));
      expect(leases.map((lease) => lease.fence)).toEqual(lengths.map(() => fence));
      for (const lease of leases) await store.releaseLease(executorId, holdOf(lease));
    }
  });

  test("two executors that ask at once each hold what they were given", async () => {
    const { store } = context;
    const keyId = await newKey(store);
    const [first, second] = [await newExecutor(store), await newExecutor(store)];
    for (const cpu_cores of [2, 2, 1, 3]) await submit(store, keyId, { resources: { cpu_cores } });
    const [ones, others] = await Promise.all([
      store.acquireLeases(first, { ...ROOMY, cpu_millis: 3_000 }, 10),
      store.acquireLeases(second, { ...ROOMY, cpu_millis: 5_000 }, 10),
    ]);
    const cores = (leases: typeof ones) => leases.map(({ spec }) => spec.resources.cpu_cores);
    expect([cores(ones), cores(others)]).toEqual([
      [2, 1],
      [2, 3],
    ]);
    expect([await heldMillis(context, first), await heldMillis(context, second)]).toEqual([3_000, 5_000]);
    for (const lease of ones) expect((await complete(store, first, lease)).executor_id).toBe(first);
    for (const lease of others) await store.releaseLease(second, holdOf(lease));
    expect([await heldMillis(context, first), await heldMillis(context, second)]).toEqual([0, 0]);
  });

  test("the ledger of an executor that claims for ever stays short, and its room exact", async () => {
    const { store, sql } = context;
    const capacity = { ...ROOMY, cpu_millis: 3_000 };
    const [keyId, executorId] = [await newKey(store), await newExecutor(store, { capacity })];
    await submitMany(store, keyId, 83);
    const kept = await store.acquireLeases(executorId, ROOMY, 2);
    for (let i = 0; i < 80; i++) await complete(store, executorId, await claim(store, executorId));
    expect(await store.acquireLeases(executorId, ROOMY, 2)).toHaveLength(1);
    expect(kept).toHaveLength(2);
    const rows = await sql.query("select 1 from holdings where executor_id = $1", [executorId]);
    expect(rows.length).toBeLessThan(40);
    expect(await heldMillis(context, executorId)).toBe(3_000);
  });

  test("an observation waits for its task's next attempt, and for nobody once the task has ended", async () => {
    const { store, sql } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const { task } = await submit(store, keyId);
    const taskId = task.id as TaskId;
    const observed = { taskId, owner: keyId, keyId, content: { hint: 1 }, idempotencyKey: null };
    await store.addObservation(observed);
    const given = await claim(store, executorId);
    expect(await store.waitingObservations(executorId)).toMatchObject([{ lease_id: given.lease_id }]);
    await store.releaseLease(executorId, holdOf(given));
    expect(await store.waitingObservations(executorId)).toEqual([]);
    const lease = await claim(store, executorId);
    expect(await store.waitingObservations(executorId)).toMatchObject([
      { lease_id: lease.lease_id, fence: 2 },
    ]);
    await complete(store, executorId, lease);
    const rows = await sql.query("select received_fence::int as by from observations where task_id = $1", [
      taskId,
    ]);
    expect(rows).toEqual([{ by: 0 }]);

    const { task: cancelled } = await submit(store, keyId);
    await store.addObservation({ ...observed, taskId: cancelled.id as TaskId });
    await store.cancelTask(cancelled.id as TaskId, keyId);
    expect(await sql.query("select 1 from observations where received_fence is null")).toEqual([]);
  });

  test("an observation that is sent again is the first one, also when its task has ended, and says the same", async () => {
    const { store } = context;
    const [keyId, other] = [await newKey(store), await newKey(store)];
    const taskId = (await submit(store, keyId)).task.id as TaskId;
    const given = { taskId, owner: null, keyId, content: { hint: 1, more: [] }, idempotencyKey: "once" };
    const first = await store.addObservation(given);
    expect(first.created).toBe(true);
    await store.cancelTask(taskId, keyId);
    const again = await store.addObservation({ ...given, content: { more: [], hint: 1 } });
    expect(again).toEqual({ observation: first.observation, created: false });
    for (const another of [{ content: { hint: 2, more: [] } }, { keyId: other }]) {
      await expect(store.addObservation({ ...given, ...another })).rejects.toMatchObject({
        ...{ code: "IDEMPOTENCY_KEY_REUSED", details: { seq: 1 } },
      });
    }
    await expect(store.addObservation({ ...given, idempotencyKey: "new" })).rejects.toMatchObject({
      code: "TASK_ALREADY_FINISHED",
    });
  });
});

/** What the ledger says that the executor holds of the first axis. */
async function heldMillis({ sql }: Context, executorId: ExecutorId): Promise<number> {
  const [row] = await sql.query<{ sum: number }>(
    "select coalesce(sum(amounts[1]), 0)::int as sum from holdings where executor_id = $1",
    [executorId],
  );
  return row!.sum;
}
