/** Executors that wait: what comes alone is theirs as it is stored, and never more than they have room for. */
import { beforeEach, expect, test, vi } from "vitest";
import { DsecError } from "#core/errors.ts";
import type { ExecutorId, KeyId, TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Resources } from "#core/resources.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { Sql } from "#gateway/store/sql.ts";
import { createStore } from "#gateway/store/store.ts";
import {
  type Context,
  claim,
  complete,
  emptyQueue,
  history,
  holdOf,
  newExecutor,
  newKey,
  onBothDatabases,
  ROOMY,
  submit,
  submitMany,
  vector,
} from "./support.ts";

/** One task of the default size. */
const ONE = vector({ cpu_millis: 1_000, memory_mb: 512, pids: 256, disk_mb: 1_024 });

onBothDatabases((context) => {
  let keyId: KeyId;
  beforeEach(async () => {
    await emptyQueue(context);
    keyId = await newKey(context.store);
  });

  test("a task that comes alone is granted to who waits, like a claim of it", async () => {
    const { store } = context;
    const executorId = await newExecutor(store);
    const waiting = wait(context, executorId);
    const { task } = await submit(store, keyId, { retries: 2, labels: { a: "b" } });
    const lease = (await waiting.lease)!;
    expect(lease).toMatchObject({
      ...{ task_id: task.id, key_id: keyId, fence: 1, attempt: 1, ttl_ms: LIMITS.leaseTtlMs },
      ...{ spec: task.spec, spec_digest: task.spec_digest },
    });
    expect(await store.getTask(task.id as TaskId, keyId)).toMatchObject({
      ...{ state: "leased", fence: 1, attempts: 1, executor_id: executorId },
    });
    const inMs = Date.parse(lease.expires_at) - Date.parse(task.created_at);
    expect(inMs).toBe(LIMITS.leaseTtlMs);
    expect(await store.acquireLeases(await newExecutor(store), ROOMY, 10), "nobody else gets it").toEqual([]);

    const { leases } = await store.renewLeases(executorId, [holdOf(lease)]);
    expect(leases[0]).toMatchObject({ state: "held" });
    await complete(store, executorId, lease);
    expect(await history(store, task.id as TaskId)).toEqual(["queued", "leased", "succeeded: exited"]);
    expect(await held(context, executorId)).toEqual([0, 0, 0, 0, 0, 0, 0]);
  });

  test("one that was released or has expired is granted anew, with the next fence", async () => {
    const { store } = context;
    const executorId = await newExecutor(store);
    const waiting = wait(context, executorId);
    const { task } = await submit(store, keyId, { retries: 1 });
    await store.releaseLease(executorId, holdOf((await waiting.lease)!));
    expect(await claim(store, executorId)).toMatchObject({ task_id: task.id, fence: 2, attempt: 1 });
  });

  test.each<[string, (given: Given) => Promise<{ offer?: Partial<Resources>; image?: string }>]>([
    ["does not fit in what it offers", async () => ({ offer: { memory_mb: 256 } })],
    ["names an image that it lacks", async () => ({ image: "python" })],
    [
      "does not fit beside what it holds",
      async ({ store, executorId }) => {
        await submit(store, keyId);
        await claim(store, executorId);
        return {};
      },
    ],
    [
      "comes when another waits in the queue",
      async ({ store }) => {
        await submit(store, keyId, { resources: { memory_mb: 4_096 } });
        return {};
      },
    ],
    [
      "comes while the executor drains",
      async ({ store, executorId }) => {
        await store.drainExecutor(executorId);
        return {};
      },
    ],
    [
      "comes when the executor is lost",
      async ({ sql, executorId }) => {
        const ms = LIMITS.executorLostAfterMs + 1;
        await sql.query(
          `update executors set last_seen_at = dsec_now() - $1::int * interval '1 ms' where id = $2`,
          [ms, executorId],
        );
        return {};
      },
    ],
  ])("a task that %s is queued, and whoever waits looks for it", async (_, arrange) => {
    const { store, wake } = context;
    const executorId = await newExecutor(store, { capacity: ONE });
    const { offer = {}, image = "host" } = await arrange({ ...context, executorId });
    let woken = false;
    const unfollow = wake.follow("queue", () => {
      woken = true;
    });
    const waiting = wait(context, executorId, { ...ONE, ...offer });
    const { task } = await submit(store, keyId, { image });
    unfollow();
    waiting.end();
    expect(await waiting.lease).toBeNull();
    expect(await store.getTask(task.id as TaskId, keyId)).toMatchObject({ state: "queued", fence: 0 });
    expect(woken).toBe(true);
    const able = await newExecutor(store, { images: ["python"] });
    const claimed = await store.acquireLeases(able, ROOMY, 10);
    expect(claimed.map(({ task_id }) => task_id)).toContain(task.id);
  });

  test("an offer that was not taken up goes on standing", async () => {
    const { store } = context;
    const executorId = await newExecutor(store);
    const waiting = wait(context, executorId);
    await submit(store, keyId, { image: "python" });
    await store.acquireLeases(await newExecutor(store, { images: ["python"] }), ROOMY, 1);
    const { task } = await submit(store, keyId);
    expect(await waiting.lease).toMatchObject({ task_id: task.id });
  });

  test("of tasks that come together or one after the other an offer is granted one", async () => {
    const { store } = context;
    const executorId = await newExecutor(store);
    const waiting = [wait(context, executorId), wait(context, executorId)];
    const together = submitMany(store, keyId, 2);
    const first = submit(store, keyId);
    const [, { task }] = await Promise.all([together, first]);
    const more = await submit(store, keyId);
    for (const { end } of waiting) end();
    const granted = (await Promise.all(waiting.map(({ lease }) => lease))).filter((lease) => lease !== null);
    const claimed = await store.acquireLeases(executorId, ROOMY, 10);
    const ids = [...granted, ...claimed].map(({ task_id }) => task_id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(new Set(ids)).toEqual(new Set([...(await together), task.id, more.task.id]));
  });

  test("who stops waiting while a task is being stored for it still gets that task", async () => {
    const { sql, wake } = context;
    const executorId = await newExecutor(context.store);
    let stop = () => {};
    const query: Sql["query"] = (text, parameters) => {
      if (text.includes("dsec_submit_to")) stop();
      return sql.query(text, parameters);
    };
    const store = createStore({ sql: { ...sql, query }, wake });
    const waiting = wait({ store }, executorId);
    stop = waiting.end;
    const { task } = await submit(store, keyId);
    expect(await waiting.lease).toMatchObject({ task_id: task.id });
  });

  test.each<[string, (sql: Sql) => Sql["query"]]>([
    [
      "on its way",
      (sql) => async (text, parameters) => {
        const rows = await sql.query(text, parameters);
        if (text.includes("dsec_submit_to")) throw lost();
        return rows as never[];
      },
    ],
    [
      "and the database stays away for a while",
      (sql) => {
        let failures = 2;
        return async (text, parameters) => {
          if (text.includes("dsec_end") && failures-- > 0) throw lost();
          const rows = await sql.query(text, parameters);
          if (text.includes("dsec_submit_to")) throw lost();
          return rows as never[];
        };
      },
    ],
    [
      "before the database had made the grant",
      (sql) => {
        let grant = async () => {};
        return async (text, parameters) => {
          if (text.includes("dsec_submit_to")) {
            grant = async () => void (await sql.query(text, parameters));
            throw lost();
          }
          const rows = await sql.query(text, parameters);
          // The last that is asked of a lease that nobody knows.
          if (text.includes("as same_result")) {
            await grant();
            grant = async () => {};
          }
          return rows as never[];
        };
      },
    ],
  ])("a grant whose answer is lost %s goes back, and costs no attempt", async (_, queryOver) => {
    const { sql, wake } = context;
    const executorId = await newExecutor(context.store);
    const store = createStore({ sql: { ...sql, query: queryOver(sql) as Sql["query"] }, wake });
    const waiting = wait({ store }, executorId);
    await expect(submit(store, keyId, { retries: 0 })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    waiting.end();
    expect(await waiting.lease).toBeNull();

    const again = await vi.waitFor(() => claim(context.store, executorId), { timeout: 20_000 });
    expect(again).toMatchObject({ fence: 2, attempt: 1 });
    await complete(context.store, executorId, again);
    expect(await history(context.store, again.task_id)).toEqual([
      ...["queued", "leased", "queued: released", "leased", "succeeded: exited"],
    ]);
    expect(await held(context, executorId)).toEqual([0, 0, 0, 0, 0, 0, 0]);
  });

  test("a repeated idempotency key grants nothing, and gives the first task", async () => {
    const { store } = context;
    const executorId = await newExecutor(store);
    const first = await submit(store, keyId, {}, "once");
    await claim(store, executorId);
    const waiting = wait(context, executorId);
    const again = await submit(store, keyId, {}, "once");
    expect(again).toMatchObject({ created: false, task: { id: first.task.id } });
    await expect(submit(store, keyId, { command: ["false"] }, "once")).rejects.toMatchObject({
      code: "IDEMPOTENCY_KEY_REUSED",
    });
    waiting.end();
    expect(await waiting.lease).toBeNull();
  });

  test("gateways that grant and claim for one executor at once never give it more than it has", async () => {
    const { store, sql, wake } = context;
    const capacity = vector({ cpu_millis: 6_000, memory_mb: 6 * 512, pids: 6 * 256, disk_mb: 6 * 1_024 });
    const executorId = await newExecutor(store, { capacity });
    const gateways = [store, createStore({ sql, wake }), createStore({ sql, wake })];
    const leases: Lease[] = [];
    await Promise.all(
      gateways.map(async (gateway) => {
        for (let i = 0; i < 6; i++) {
          const waiting = wait({ ...context, store: gateway }, executorId, capacity);
          await submit(gateway, keyId);
          waiting.end();
          const granted = await waiting.lease;
          leases.push(...(granted === null ? [] : [granted]));
          leases.push(...(await gateway.acquireLeases(executorId, capacity, 1)));
        }
      }),
    );
    expect(leases).toHaveLength(6);
    expect(await held(context, executorId)).toEqual([6_000, 6 * 512, 0, 0, 0, 6 * 256, 6 * 1_024]);
  });

  test("what a key was granted as it came counts for whose turn is next", async () => {
    const { store } = context;
    const executorId = await newExecutor(store);
    const other = await newKey(store);
    for (let i = 0; i < 5; i++) {
      const waiting = wait(context, executorId);
      await submit(store, keyId);
      expect(await waiting.lease).not.toBeNull();
    }
    const mine = await submitMany(store, keyId, 3);
    const theirs = await submitMany(store, other, 3);
    const next = (await store.acquireLeases(executorId, ROOMY, 4)).map(({ task_id }) => task_id as TaskId);
    expect(next.filter((id) => mine.includes(id))).toHaveLength(2);
    expect(next.filter((id) => theirs.includes(id))).toHaveLength(2);
  });
});

const lost = () => new DsecError("STORE_UNAVAILABLE", "the connection is gone");

type Given = Context & { executorId: ExecutorId };

/** Lets an offer stand until it is granted a lease or ended. */
function wait(
  { store }: Pick<Context, "store">,
  executorId: ExecutorId,
  free: Resources = ROOMY,
): { lease: Promise<Lease | null>; end: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const lease = store.awaitLease(executorId, free, (granted) => {
    granted.addEventListener("abort", () => resolve());
    return promise;
  });
  return { lease, end: resolve };
}

async function held({ sql }: Context, executorId: ExecutorId): Promise<number[]> {
  const [row] = await sql.query<{ amounts: string }>(
    `select array_to_string(array(
       select coalesce(sum(h.amounts[a]), 0) from generate_series(1, 7) a
       left join holdings h on h.executor_id = $1 group by a order by a), ' ') as amounts`,
    [executorId],
  );
  return row!.amounts.split(" ").map(Number);
}
