/** What the store knows of why a task waits: the order of claims, and what executors hold. */
import { beforeEach, expect, test } from "vitest";
import type { KeyId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Resources } from "#core/resources.ts";
import {
  begin,
  claim,
  complete,
  emptyQueue,
  LAUNCH_FAILED,
  newExecutor,
  newKey,
  onBothDatabases,
  resultOf,
  submit,
  submitMany,
  vector,
} from "./support.ts";

onBothDatabases((context) => {
  let key: KeyId;
  beforeEach(async () => {
    await emptyQueue(context);
    await context.sql.query("update executors set last_seen_at = dsec_now() - interval '1 day'");
    key = await newKey(context.store);
  });
  const CAPACITY = vector({ cpu_millis: 3_000, memory_mb: 4_096, pids: 1_000, disk_mb: 10_000 });

  test("a task is told how many are claimed before it, by priority and by turn", async () => {
    const { store } = context;
    const first = await submitMany(store, key, 3);
    const [urgent] = await submitMany(store, key, 1, { priority: 5 });
    const [last] = await submitMany(store, key, 1);
    const ahead = async (id: string) => (await store.taskWait(id as never, key)).wait?.ahead;
    expect(await ahead(urgent!)).toBe(0);
    expect(await Promise.all(first.map(ahead))).toEqual(expect.arrayContaining([1, 2, 3]));
    expect(await ahead(last!)).toBe(4);
    expect((await store.taskWait(last!, key)).wait).toMatchObject({ reason: "no_executor", executors: 0 });
    const executor = await newExecutor(store, { capacity: CAPACITY });
    const order: string[] = [];
    for (let n = 0; n < 5; n++) order.push((await claimAny(executor)).task_id);
    expect(order[0]).toBe(urgent);
    expect(order[4]).toBe(last);
  });

  const claimAny = async (executor: Awaited<ReturnType<typeof newExecutor>>) => {
    const lease = await claim(context.store, executor);
    await complete(context.store, executor, lease);
    return lease;
  };

  test("what leases hold is not free, whatever the executor said last; what it says that it lacks is not free either", async () => {
    const { store } = context;
    const executor = await newExecutor(store, { capacity: CAPACITY });
    const held = await submit(store, key, { resources: { cpu_cores: 2 } });
    const lease = await claim(store, executor);
    expect(lease.task_id).toBe(held.task.id);
    expect(await store.taskWait(held.task.id as never, key)).toEqual({
      ...{ task_id: held.task.id, state: "leased", wait: null },
    });
    const { task } = await submit(store, key, { resources: { cpu_cores: 1.5 } });
    const wait = async () => (await store.taskWait(task.id as never, key)).wait;
    expect(await wait()).toMatchObject({
      ...{ reason: "no_room", axis: "cpu_cores", ahead: 0, executors: 1 },
      message: "it asks for 1.5 cpu_cores; the most that an executor has free is 1",
    });
    await begin(store, executor, lease);
    await complete(store, executor, lease);
    expect(await wait()).toMatchObject({ reason: "about_to_start", axis: null });
    await store.heartbeat(executor, {
      ...{ capacity: wire(CAPACITY), free: { ...wire(CAPACITY), disk_mb: 100 }, images: [], running: 0 },
    });
    expect(await wait()).toMatchObject({ reason: "no_room", axis: "disk_mb" });
    await store.drainExecutor(executor);
    expect(await wait()).toMatchObject({ reason: "all_draining" });
  });

  test("a retry is told when it begins, and is before nobody until then", async () => {
    const { store } = context;
    const executor = await newExecutor(store, { capacity: CAPACITY });
    const { task } = await submit(store, key);
    const lease = await claim(store, executor);
    await complete(store, executor, lease, resultOf(LAUNCH_FAILED));
    const { wait } = await store.taskWait(task.id as never, key);
    expect(wait).toMatchObject({ reason: "retry_later" });
    const other = await submit(store, key);
    expect((await store.taskWait(other.task.id as never, key)).wait).toMatchObject({ ahead: 0 });
  });

  test("no more tasks are counted than the bound says, and another key's task is not found", async () => {
    const { store, sql } = context;
    const { task } = await submit(store, key, { priority: -1 });
    const { task: model } = await submit(store, key);
    await sql.query(
      `insert into queue select (jsonb_populate_record(q, jsonb_build_object('task_id', 'task_' || n))).*
       from queue q, generate_series(1, $2::int) n where q.task_id = $1`,
      [model.id, LIMITS.waitCounted + 5],
    );
    await newExecutor(store, { capacity: CAPACITY });
    expect((await store.taskWait(task.id as never, key)).wait).toMatchObject({
      ...{
        reason: "others_first",
        ahead: LIMITS.waitCounted,
        message: expect.stringMatching(/more than 1000 tasks/),
      },
    });
    await expect(store.taskWait(task.id as never, await newKey(store))).rejects.toMatchObject({
      code: "TASK_NOT_FOUND",
    });
  });
});

const wire = (resources: Resources) => {
  const { cpu_millis, ...rest } = resources;
  return { cpu_cores: cpu_millis / 1000, ...rest };
};
