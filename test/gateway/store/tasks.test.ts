import { beforeEach, expect, test } from "vitest";
import { type Digest, newId, type TaskId } from "#core/ids.ts";
import { TaskSpecSchema } from "#core/wire/tasks.ts";
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
  resultOf,
  submit,
  submitMany,
} from "./support.ts";

onBothDatabases((context) => {
  beforeEach(() => emptyQueue(context));

  test("a submitted task reads back as it was given", async () => {
    const { store } = context;
    const keyId = await newKey(store);
    const request = {
      command: ["sh", "-c", "echo 'ü€😀' \\u0000"],
      env: { A: "b\nc" },
      labels: { run: "1" },
      nonce: "12345678",
    };
    const { task, created } = await submit(store, keyId, request);
    expect(created).toBe(true);
    const read = await store.getTask(task.id as TaskId, keyId);
    expect(read).toEqual(task);
    expect(read.spec).toEqual(TaskSpecSchema.parse(request));
    expect(await history(store, task.id)).toEqual(["queued"]);
  });

  test("a key sees its own tasks only, and null sees all", async () => {
    const { store } = context;
    const [mine, other] = [await newKey(store), await newKey(store)];
    const { task } = await submit(store, mine);
    const id = task.id as TaskId;
    await expect(store.getTask(id, other)).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
    await expect(store.cancelTask(id, other)).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
    await expect(store.listAttestations(id, other)).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
    expect((await store.getTask(id, null)).id).toBe(id);
    expect((await store.listTasks({ keyId: other, limit: 10 })).items).toEqual([]);
  });

  test("the same idempotency key and spec is one task, even at the same moment; another spec is refused", async () => {
    const { store } = context;
    const [keyId, other] = [await newKey(store), await newKey(store)];
    const all = await Promise.all(Array.from({ length: 20 }, () => submit(store, keyId, {}, "once")));
    expect(new Set(all.map(({ task }) => task.id)).size).toBe(1);
    expect(all.filter(({ created }) => created)).toHaveLength(1);
    await expect(submit(store, keyId, { command: ["false"] }, "once")).rejects.toMatchObject({
      code: "IDEMPOTENCY_KEY_REUSED",
      details: { task_id: all[0]!.task.id },
    });
    expect((await submit(store, other, {}, "once")).created).toBe(true);
    expect((await store.listTasks({ keyId, limit: 10 })).items).toHaveLength(1);
  });

  test("lists run newest first and pages join without gap or overlap", async () => {
    const { store } = context;
    const keyId = await newKey(store);
    const ids = await submitMany(store, keyId, 25);
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await store.listTasks({ keyId, limit: 10, cursor });
      seen.push(...page.items.map((task) => task.id));
      cursor = page.next_cursor ?? undefined;
    } while (cursor);
    expect(seen).toEqual([...ids].sort().reverse());
  });

  test("a cursor that no list gave out is INVALID_CURSOR", async () => {
    const { store } = context;
    const foreign = (await store.listKeys({ limit: 1 })).next_cursor;
    expect(foreign).not.toBeNull();
    const mangled = `${foreign}A`;
    for (const cursor of ["", "x", "%00", "MTp0YXNrXw", foreign!, mangled, "a".repeat(500)]) {
      await expect(store.listTasks({ keyId: null, limit: 1, cursor })).rejects.toMatchObject({
        code: "INVALID_CURSOR",
      });
    }
  });

  test("tasks are found by label and state", async () => {
    const { store } = context;
    const keyId = await newKey(store);
    const { task } = await submit(store, keyId, { labels: { run: "a'\"\\", kind: "x" } });
    await submitMany(store, keyId, 3, { labels: { run: "b" } });
    await store.cancelTask(task.id as TaskId, keyId);
    const find = async (query: object) =>
      (await store.listTasks({ keyId, limit: 10, ...query })).items.map(({ id }) => id);
    expect(await find({ label: { name: "run", value: "a'\"\\" } })).toEqual([task.id]);
    expect(await find({ label: { name: "run", value: "b" }, state: "queued" })).toHaveLength(3);
    expect(await find({ label: { name: "run", value: "b" }, state: "cancelled" })).toEqual([]);
    expect(await find({ state: "cancelled" })).toEqual([task.id]);
  });

  test("a queued task is cancelled at once, a held one tells its holder, a final one stays", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const { task: queued } = await submit(store, keyId);
    const cancelled = await store.cancelTask(queued.id as TaskId, keyId);
    expect(cancelled).toMatchObject({ state: "cancelled", result: { outcome: { reason: "cancelled" } } });
    expect(cancelled.finished_at).not.toBeNull();
    expect(await history(store, queued.id)).toEqual(["queued", "cancelled: cancelled"]);

    await submit(store, keyId);
    const lease = await claim(store, executorId);
    await begin(store, executorId, lease);
    const held = await store.cancelTask(lease.task_id as TaskId, keyId);
    expect(held).toMatchObject({ state: "running", cancel_requested: true });
    expect(await store.listCancellations(executorId)).toEqual([holdOf(lease)]);
    const outcome = { reason: "cancelled", exit_code: null, signal: "SIGKILL", message: null } as const;
    await complete(store, executorId, lease, resultOf(outcome));
    expect(await store.listCancellations(executorId)).toEqual([]);
    const final = await store.cancelTask(lease.task_id as TaskId, keyId);
    expect(final.state).toBe("cancelled");
    expect(await store.cancelTask(lease.task_id as TaskId, keyId)).toEqual(final);
  });

  test("a cancelled task is not tried again when its attempt fails or is given back", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    await submit(store, keyId);
    const lease = await claim(store, executorId);
    await store.cancelTask(lease.task_id as TaskId, keyId);
    expect((await store.failLease(executorId, holdOf(lease), LAUNCH_FAILED, null)).state).toBe("cancelled");

    await submit(store, keyId);
    const released = await claim(store, executorId);
    await store.cancelTask(released.task_id as TaskId, keyId);
    const task = await store.releaseLease(executorId, holdOf(released));
    expect(task).toMatchObject({ state: "cancelled", result: { outcome: { reason: "cancelled" } } });
    expect(await history(store, task.id)).toEqual(["queued", "leased", "cancelled: cancelled"]);
  });

  test("payloads of any size are taken, and none rolls its neighbours back (B55)", async () => {
    const { store } = context;
    const keyId = await newKey(store);
    const sizes = [7_900, 7_999, 8_000, 5_000_000];
    const texts = sizes.flatMap((size) => ["x".repeat(size), "€".repeat(size)]);
    const tasks = await Promise.all([
      ...texts.map((stdin) => submit(store, keyId, { command: ["cat"] }).then(() => stdin)),
      ...texts.map(async (stdin) => {
        // Past the wire's own bound, so not through its schema.
        const spec = { ...TaskSpecSchema.parse({ command: ["cat"] }), stdin };
        const specDigest = `sha256:${"0".repeat(64)}` as Digest;
        const { task } = await store.submitTask({
          id: newId("task"),
          keyId,
          spec,
          specDigest,
          idempotencyKey: null,
        });
        expect((await store.getTask(task.id as TaskId, keyId)).spec.stdin === stdin).toBe(true);
        return stdin;
      }),
      ...Array.from({ length: 1_000 }, () => submit(store, keyId)),
    ]);
    expect(tasks).toHaveLength(1_016);
    const [row] = await context.sql.query<{ count: number }>(
      "select count(*)::int as count from tasks where key_id = $1",
      [keyId],
    );
    expect(row?.count).toBe(1_016);
  });

  test("one bad item fails alone in its batch (B55)", async () => {
    const { store } = context;
    const keyId = await newKey(store);
    const bad = async () => {
      const spec = { ...TaskSpecSchema.parse({ command: ["true"] }), priority: 1e9 };
      const specDigest = `sha256:${"0".repeat(64)}` as Digest;
      return store.submitTask({ id: newId("task"), keyId, spec, specDigest, idempotencyKey: null });
    };
    const results = await Promise.allSettled([submit(store, keyId), bad(), submit(store, keyId), bad()]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "rejected"]);
    expect((await store.listTasks({ keyId, limit: 10 })).items).toHaveLength(2);
  });

  test("a failure whose text holds U+0000 or a lone surrogate is stored, readable, and ends the attempt (B56)", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    await submit(store, keyId, { retries: 0 });
    const lease = await claim(store, executorId);
    const message = `died: \0\0 \ud800 and ${"long ".repeat(400_000)}`;
    const task = await store.failLease(executorId, holdOf(lease), { ...LAUNCH_FAILED, message }, null);
    expect(task.state).toBe("dead");
    expect(task.result?.outcome.message).toMatch(/^died: \\u0000\\u0000 \\ud800 and long /);
    expect(task.result?.outcome.message?.length).toBe(4096);
    const read = await store.getTask(task.id as TaskId, keyId);
    expect(read.result).toEqual(task.result);
  });

  test("counts by state are those of the table", async () => {
    const { store } = context;
    const before = await store.countTasks();
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    await submitMany(store, keyId, 3);
    await complete(store, executorId, await claim(store, executorId));
    const after = await store.countTasks();
    expect(after.queued - before.queued).toBe(2);
    expect(after.succeeded - before.succeeded).toBe(1);
    await store.ping();
  });

  test("what a key uploaded and what its tasks put out is known to it, and to nobody else", async () => {
    const { store } = context;
    const [keyId, other] = [await newKey(store), await newKey(store)];
    const executorId = await newExecutor(store);
    const digest = (digit: string) => `sha256:${digit.repeat(64)}` as Digest;
    const all = ["1", "2", "3", "4"].map(digest);
    await store.recordArtifact(keyId, digest("1"), 10);
    await store.recordArtifact(keyId, digest("1"), 10);
    await submit(store, keyId);
    const lease = await claim(store, executorId);
    await complete(store, executorId, lease, {
      ...resultOf(),
      outputs: [
        { path: "/work/a", digest: digest("2"), size: 5 },
        { path: "/work/b", digest: digest("2"), size: 5 },
      ],
      stdout: { digest: digest("3"), kept_bytes: 3, total_bytes: 3 },
    });
    expect(await store.unknownArtifacts(keyId, all)).toEqual([digest("4")]);
    expect(await store.unknownArtifacts(other, all)).toEqual(all);
    expect(await store.unknownArtifacts(keyId, [])).toEqual([]);
  });

  test("keys are found, paged and revoked once", async () => {
    const { store } = context;
    const id = newId("key");
    const secretHash = crypto.getRandomValues(new Uint8Array(32));
    const expiresAt = "2030-01-02T03:04:05.000Z";
    const key = await store.createKey({ id, name: "ci", scopes: ["tasks", "admin"], expiresAt, secretHash });
    expect(key).toMatchObject({
      id,
      name: "ci",
      scopes: ["tasks", "admin"],
      expires_at: expiresAt,
      revoked_at: null,
    });
    expect((await store.findKey(id))?.secret_hash).toEqual(secretHash);
    expect((await store.findKey(id))?.last_used_at).not.toBeNull();
    const revoked = await store.revokeKey(id);
    expect(revoked.revoked_at).not.toBeNull();
    expect((await store.revokeKey(id)).revoked_at).toBe(revoked.revoked_at);
    expect((await store.listKeys({ limit: 200 })).items.map((one) => one.id)).toContain(id);
    expect(await store.findKey(newId("key"))).toBeNull();
    await expect(store.revokeKey(newId("key"))).rejects.toMatchObject({ code: "KEY_NOT_FOUND" });
  });
});
