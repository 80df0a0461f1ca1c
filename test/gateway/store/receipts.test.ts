import { expect, test } from "vitest";
import type { Digest, LeaseId, TaskId } from "#core/ids.ts";
import { merkleRootOfHashes } from "#core/merkle.ts";
import type { Sql } from "#gateway/store/sql.ts";
import { createStore } from "#gateway/store/store.ts";
import { begin, claim, holdOf, newExecutor, newKey, onBothDatabases, submit } from "./support.ts";

const leaf: Digest = `sha256:${"ab".repeat(32)}`;

onBothDatabases((context) => {
  test("a call whose receipt comes while calls are summed up is open or among them, and never neither", async () => {
    const { store, sql, wake } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    await submit(store, keyId);
    const lease = await claim(store, executorId);
    await begin(store, executorId, lease);
    const { task_id, lease_id, fence } = lease;
    const [taskId, leaseId] = [task_id as TaskId, lease_id as LeaseId];
    await store.recordCall(executorId, holdOf(lease), { seq: 1, digest: leaf, deadlineInMs: 60_000 }, "made");

    let statements = 0;
    const receiptAfterFirst: Sql = {
      ...sql,
      async query(text, parameters) {
        const rows = await sql.query<never>(text, parameters);
        if (++statements === 1) {
          const spent = { calls: 1, bytes_up: 0, bytes_down: 0 };
          await store.recordReceipt({ taskId, leaseId, fence, seq: 1, jwt: "jwt", leaf, spent });
        }
        return rows;
      },
    };
    const { count, open } = await createStore({ sql: receiptAfterFirst, wake }).summarizeCalls(taskId, fence);
    expect(count + open).toBe(1);
    expect(await store.summarizeCalls(taskId, fence)).toEqual({
      count: 1,
      open: 0,
      receipts_root: await merkleRootOfHashes([new Uint8Array(32).fill(0xab)]),
    });
  });
});
