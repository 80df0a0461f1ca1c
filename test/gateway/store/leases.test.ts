import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type LeaseId, newId, type TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { AXES, type Axis } from "#core/resources.ts";
import { toWire } from "#core/wire/common.ts";
import type { TaskEvent } from "#core/wire/tasks.ts";
import {
  attestationOf,
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
  resultOf,
  shiftClock,
  stopClock,
  submit,
  submitMany,
  vector,
} from "./support.ts";

const AFTER_LEASE_MS = LIMITS.leaseTtlMs + 1_000;
const AFTER_BACKOFF_MS = LIMITS.retryBackoffMaxMs;

onBothDatabases((context) => {
  beforeEach(() => emptyQueue(context));
  afterEach(() => shiftClock(context.sql, 0));

  test("a lease carries the task, and its life is told in order", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const { task } = await submit(store, keyId);
    const lease = await claim(store, executorId);
    expect(lease).toMatchObject({
      task_id: task.id,
      fence: 1,
      attempt: 1,
      ttl_ms: LIMITS.leaseTtlMs,
      spec: task.spec,
    });
    await begin(store, executorId, lease);
    const chunk = { type: "stdout" as const, ...holdOf(lease), offset: 0, data: "aGVsbG8=" };
    await store.appendEvents(executorId, [chunk, { type: "truncated", ...holdOf(lease), stream: "stdout" }]);
    const done = await complete(store, executorId, lease);
    expect(done).toMatchObject({ state: "succeeded", attempts: 1, fence: 1, executor_id: executorId });
    expect(await store.getTask(task.id as TaskId, keyId)).toEqual(done);
    expect(await history(store, task.id)).toEqual(["queued", "leased", "running", "succeeded: exited"]);
    const events = await store.listEvents(task.id as TaskId, 3, 2);
    expect(events).toMatchObject([
      { seq: 4, type: "stdout", fence: 1, offset: 0, data: "aGVsbG8=" },
      { seq: 5, type: "truncated", stream: "stdout" },
    ]);
    const [attestation] = await store.listAttestations(task.id as TaskId, keyId);
    expect(attestation).toMatchObject({ id: done.attestation_id, task_id: task.id, fence: 1, jwt: "jwt" });
  });

  test.each(AXES.map((axis) => [axis]))(
    "a task that asks for more %s than is free is not granted",
    async (axis: Axis) => {
      const { store } = context;
      const capacity = vector({ cpu_millis: 4000, memory_mb: 4096, pids: 1024, disk_mb: 8192, [axis]: 5000 });
      const [keyId, executorId] = [await newKey(store), await newExecutor(store, { capacity })];
      const asked = {
        ...toWire(vector({ cpu_millis: 1000, memory_mb: 64, pids: 16, disk_mb: 1, [axis]: 2000 })),
      };
      await submit(store, keyId, { resources: asked });
      expect(await store.acquireLeases(executorId, { ...capacity, [axis]: 1999 }, 1)).toEqual([]);
      expect(await store.acquireLeases(executorId, { ...capacity, [axis]: 2000 }, 1)).toHaveLength(1);
    },
  );

  test("a batch fits the free vector in sum, and smaller tasks fill what a larger one leaves", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    for (const cpu_cores of [3, 3, 1, 2]) await submit(store, keyId, { resources: { cpu_cores } });
    const free = { ...ROOMY, cpu_millis: 4000 };
    const leases = await store.acquireLeases(executorId, free, 10);
    expect(leases.map(({ spec }) => spec.resources.cpu_cores)).toEqual([3, 1]);
  });

  test("what an executor holds never outgrows its capacity, whatever it says is free", async () => {
    const { store } = context;
    const capacity = { ...ROOMY, cpu_millis: 4000 };
    const [keyId, executorId] = [await newKey(store), await newExecutor(store, { capacity })];
    await submitMany(store, keyId, 20);
    const all = await Promise.all(
      Array.from({ length: 12 }, () => store.acquireLeases(executorId, ROOMY, 3)),
    );
    expect(all.flat()).toHaveLength(4);
    await complete(store, executorId, all.flat()[0]!);
    expect(await store.acquireLeases(executorId, ROOMY, 3)).toHaveLength(1);
  });

  test("a named image goes only where it is; host and digests go anywhere", async () => {
    const { store } = context;
    const keyId = await newKey(store);
    const plain = await newExecutor(store);
    const python = await newExecutor(store, { images: ["node:24", "python:3.11"] });
    await submit(store, keyId, { image: "python:3.11" });
    expect(await store.acquireLeases(plain, ROOMY, 10)).toEqual([]);
    const [own] = await Promise.all([
      store.acquireLeases(python, ROOMY, 10),
      store.acquireLeases(plain, ROOMY, 10),
    ]);
    expect(own).toHaveLength(1);
    await submit(store, keyId, { image: `sha256:${"a".repeat(64)}` });
    await submit(store, keyId, { image: "host" });
    expect(await store.acquireLeases(plain, ROOMY, 10)).toHaveLength(2);
  });

  test("no task is granted twice, however many executors ask at once", async () => {
    const { store } = context;
    const keyId = await newKey(store);
    const executors = await Promise.all(Array.from({ length: 8 }, () => newExecutor(store)));
    const ids = await submitMany(store, keyId, 100);
    const leases = await Promise.all(
      Array.from({ length: 160 }, (_, i) => store.acquireLeases(executors[i % 8]!, ROOMY, 1)),
    );
    const granted = leases.flat().map((lease) => lease.task_id);
    expect(granted.sort()).toEqual(ids.sort());
    expect(new Set(leases.flat().map((lease) => lease.lease_id)).size).toBe(100);
  });

  test("higher priority goes first, then the order of submission", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const ids: string[] = [];
    for (const priority of [0, 5, -3, 5, 0]) ids.push((await submit(store, keyId, { priority })).task.id);
    const leases = await store.acquireLeases(executorId, ROOMY, 10);
    expect(leases.map(({ spec }) => spec.priority)).toEqual([5, 5, 0, 0, -3]);
    expect(leases.map(({ task_id }) => task_id)).toEqual([1, 3, 0, 4, 2].map((at) => ids[at]));
  });

  test("a key with ten thousand queued tasks does not hold up a key with one", async () => {
    const { store } = context;
    const [busy, late, later] = [await newKey(store), await newKey(store), await newKey(store)];
    const executorId = await newExecutor(store);
    await submitMany(store, busy, 10_000);
    for (let i = 0; i < 10; i++) await store.acquireLeases(executorId, { ...ROOMY, cpu_millis: 20_000 }, 20);
    const { task: one } = await submit(store, late);
    const others = await submitMany(store, later, 500);
    const next = (await store.acquireLeases(executorId, ROOMY, 6)).map(({ task_id }) => task_id);
    expect(next).toContain(one.id);
    expect(others.some((id) => next.includes(id))).toBe(true);
    // A key that was away does not collect turns: its 500 share with the 10,000 from now on.
    const shared = await store.acquireLeases(executorId, ROOMY, 100);
    const owners = await Promise.all(
      shared.map(async ({ task_id }) => (await store.getTask(task_id as TaskId, null)).key_id),
    );
    expect(owners.filter((owner) => owner === busy).length).toBeGreaterThanOrEqual(45);
    expect(owners.filter((owner) => owner === later).length).toBeGreaterThanOrEqual(45);
  });

  test("a draining or lost executor is given nothing, and counts for no capacity", async () => {
    const { store, sql } = context;
    const keyId = await newKey(store);
    const capacity = { ...ROOMY, cpu_millis: 777_000 };
    const executorId = await newExecutor(store, { capacity });
    const ready = async () => (await store.capacities()).some((one) => one.capacity.cpu_millis === 777_000);
    await submit(store, keyId);
    expect(await ready()).toBe(true);
    expect((await store.drainExecutor(executorId)).state).toBe("draining");
    expect(await store.acquireLeases(executorId, capacity, 1)).toEqual([]);
    expect((await store.renewLeases(executorId, [{ lease_id: newId("lease"), fence: 1 }])).draining).toBe(
      true,
    );
    expect(await ready()).toBe(false);

    const other = await newExecutor(store, { capacity });
    await shiftClock(sql, LIMITS.executorLostAfterMs + 1_000);
    expect((await store.findExecutor(other)).state).toBe("lost");
    expect(await store.acquireLeases(other, capacity, 1)).toEqual([]);
    expect(await ready()).toBe(false);
    const beat = { capacity: toWire(capacity), free: toWire(capacity), images: [], running: 0 };
    expect(await store.heartbeat(other, beat)).toEqual({ draining: false });
    expect(await store.acquireLeases(other, capacity, 1)).toHaveLength(1);
    await expect(store.heartbeat(newId("executor"), beat)).rejects.toMatchObject({
      code: "EXECUTOR_NOT_FOUND",
    });
  });

  test("enrolling again with the same key is the same executor", async () => {
    const { store } = context;
    const executorId = await newExecutor(store);
    const { public_key } = await store.findExecutor(executorId);
    const request = {
      public_key,
      capacity: toWire(ROOMY),
      images: ["a"],
      build: "2",
      host: { hostname: "h", kernel: "7", cgroup: "v2" as const, arch: "x64" },
    };
    await store.drainExecutor(executorId);
    const all = await Promise.all([1, 2, 3].map(() => store.enrolExecutor(newId("executor"), request)));
    expect(new Set(all)).toEqual(new Set([executorId]));
    expect(await store.findExecutor(executorId)).toMatchObject({ images: ["a"], build: "2", state: "ready" });
    expect((await store.listExecutors({ limit: 1 })).items).toHaveLength(1);
  });

  test("an executor cannot write after its lease was re-issued", async () => {
    const { store, sql } = context;
    const [keyId, first, second] = [await newKey(store), await newExecutor(store), await newExecutor(store)];
    const { task } = await submit(store, keyId);
    const stale = await claim(store, first);
    await begin(store, first, stale);
    await shiftClock(sql, AFTER_LEASE_MS);
    expect(await begin(store, first, stale)).toEqual({ lost: [stale.lease_id] });
    expect(await store.expireLeases()).toBe(1);
    await expect(complete(store, first, stale)).rejects.toMatchObject({ code: "LEASE_EXPIRED" });
    await shiftClock(sql, AFTER_LEASE_MS + 1_000);
    const current = await claim(store, second);
    expect(current).toMatchObject({ task_id: task.id, fence: 2, attempt: 2 });

    const hold = holdOf(stale);
    const event = { type: "stdout" as const, ...hold, offset: 0, data: "" };
    const fenced = { code: "LEASE_FENCED", details: { current_fence: 2 } };
    expect(await begin(store, first, stale)).toEqual({ lost: [hold.lease_id] });
    await expect(complete(store, first, stale)).rejects.toMatchObject(fenced);
    await expect(store.failLease(first, hold, LAUNCH_FAILED, null)).rejects.toMatchObject(fenced);
    await expect(store.releaseLease(first, hold)).rejects.toMatchObject(fenced);
    await expect(store.findLease(first, hold)).rejects.toMatchObject(fenced);
    expect((await store.renewLeases(first, [hold])).leases).toEqual([
      { state: "lost", lease_id: hold.lease_id },
    ]);
    expect(await store.appendEvents(first, [event])).toEqual({ lost: [hold.lease_id] });
    // The new holder's fence with the old lease, and the other way round, are no way in either.
    await expect(complete(store, first, { ...stale, fence: 2 })).rejects.toMatchObject({
      code: "LEASE_FENCED",
    });
    await expect(complete(store, second, { ...current, fence: 1 })).rejects.toMatchObject({
      code: "LEASE_FENCED",
    });
    expect(await history(store, task.id)).toEqual([
      "queued",
      "leased",
      "running",
      "queued: executor_lost",
      "leased",
    ]);

    expect((await complete(store, second, current)).state).toBe("succeeded");
    expect(await store.listAttestations(task.id as TaskId, null)).toHaveLength(1);
  });

  test("another executor's lease, and one that never was, are LEASE_NOT_FOUND", async () => {
    const { store } = context;
    const [keyId, holder, thief] = [await newKey(store), await newExecutor(store), await newExecutor(store)];
    await submit(store, keyId);
    const lease = await claim(store, holder);
    const gone = { code: "LEASE_NOT_FOUND" };
    await expect(complete(store, thief, lease)).rejects.toMatchObject(gone);
    await expect(store.findLease(thief, holdOf(lease))).rejects.toMatchObject(gone);
    expect(await begin(store, thief, lease)).toEqual({ lost: [lease.lease_id] });
    expect((await store.renewLeases(thief, [holdOf(lease)])).leases[0]?.state).toBe("lost");
    const unknown = { ...lease, lease_id: newId("lease") };
    await expect(complete(store, holder, unknown)).rejects.toMatchObject(gone);
    expect((await complete(store, holder, lease)).state).toBe("succeeded");
  });

  test("a renewed lease lives on; one that ran out is lost even before anybody took it back", async () => {
    const { store, sql } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    await submitMany(store, keyId, 2);
    const [kept, dropped] = await store.acquireLeases(executorId, ROOMY, 2);
    await shiftClock(sql, LIMITS.leaseTtlMs / 2);
    const renewed = await store.renewLeases(executorId, [holdOf(kept!)]);
    expect(renewed.leases).toEqual([
      { state: "held", lease_id: kept!.lease_id, ttl_ms: LIMITS.leaseTtlMs, cancel_requested: false },
    ]);
    await shiftClock(sql, AFTER_LEASE_MS);
    const both = await store.renewLeases(executorId, [holdOf(kept!), holdOf(dropped!)]);
    expect(both.leases.map(({ state }) => state)).toEqual(["held", "lost"]);
    expect((await complete(store, executorId, kept!)).state).toBe("succeeded");
  });

  test("completing twice with the same result is one completion; with another it is refused", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    await submit(store, keyId);
    const lease = await claim(store, executorId);
    const all = await Promise.all([1, 2, 3].map(() => complete(store, executorId, lease)));
    expect(new Set(all.map((task) => task.attestation_id)).size).toBe(1);
    expect(await complete(store, executorId, lease)).toEqual(all[0]);
    expect((await store.findLease(executorId, holdOf(lease))).taskId).toBe(lease.task_id);
    const other = resultOf({ reason: "exited", exit_code: 1, signal: null, message: null });
    const finished = { code: "TASK_ALREADY_FINISHED" };
    await expect(complete(store, executorId, lease, other)).rejects.toMatchObject(finished);
    await expect(store.failLease(executorId, holdOf(lease), LAUNCH_FAILED, null)).rejects.toMatchObject(
      finished,
    );
    await expect(store.releaseLease(executorId, holdOf(lease))).rejects.toMatchObject(finished);
    expect(await store.listAttestations(lease.task_id as TaskId, null)).toHaveLength(1);
    expect(await history(store, lease.task_id)).toEqual(["queued", "leased", "succeeded: exited"]);
  });

  test("starting twice is starting once", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    await submit(store, keyId);
    const lease = await claim(store, executorId);
    await Promise.all([1, 2, 3].map(() => begin(store, executorId, lease)));
    expect(await history(store, lease.task_id)).toEqual(["queued", "leased", "running"]);
  });

  test.each([
    [{ reason: "exited", exit_code: 3 }, "failed"],
    [{ reason: "signaled", exit_code: 137, signal: "SIGKILL" }, "failed"],
    [{ reason: "timed_out" }, "failed"],
    [{ reason: "oom_killed", exit_code: 137, signal: "SIGKILL" }, "failed"],
    [{ reason: "command_not_found", message: "no such file" }, "failed"],
    [{ reason: "command_not_executable", message: "permission denied" }, "failed"],
    [{ reason: "cancelled" }, "cancelled"],
  ] as const)("an attempt that ended as %j is %s and is not run again", async (part, state) => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    await submit(store, keyId);
    const lease = await claim(store, executorId);
    const outcome = { exit_code: null, signal: null, message: null, ...part };
    expect(await complete(store, executorId, lease, resultOf(outcome))).toMatchObject({
      state,
      result: { outcome },
    });
  });

  test("a failed launch is tried again after its back-off, then the task is dead with the reason", async () => {
    const { store, sql } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const { task } = await submit(store, keyId, { retries: 1 });
    const first = await claim(store, executorId);
    await stopClock(sql, Date.now());
    const again = await store.failLease(executorId, holdOf(first), LAUNCH_FAILED, attestationOf(first));
    expect(again).toMatchObject({
      state: "queued",
      attempts: 1,
      executor_id: null,
      result: null,
      attestation_id: null,
    });
    expect((await store.failLease(executorId, holdOf(first), LAUNCH_FAILED, null)).state).toBe("queued");
    expect(await store.acquireLeases(executorId, ROOMY, 1)).toEqual([]);
    await shiftClock(sql, LIMITS.retryBackoffBaseMs + 100);
    const second = await claim(store, executorId);
    expect(second).toMatchObject({ task_id: task.id, fence: 2, attempt: 2 });
    const dead = await store.failLease(executorId, holdOf(second), LAUNCH_FAILED, attestationOf(second));
    expect(dead).toMatchObject({ state: "dead", result: { outcome: LAUNCH_FAILED } });
    expect(await history(store, task.id)).toEqual([
      "queued",
      "leased",
      "queued: launch_failed",
      "leased",
      "dead: launch_failed",
    ]);
    const attestations = await store.listAttestations(task.id as TaskId, null);
    expect(attestations.map(({ fence }) => fence)).toEqual([2, 1]);
    expect(attestations[0]?.id).toBe(dead.attestation_id);
  });

  test("a task that takes its executor down each time is dead after its attempts (B57, B58)", async () => {
    const { store, sql } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const { task } = await submit(store, keyId, { retries: 2 });
    let clockMs = 0;
    for (let attempt = 1; attempt <= 3; attempt++) {
      await store.heartbeat(executorId, {
        capacity: toWire(ROOMY),
        free: toWire(ROOMY),
        images: [],
        running: 0,
      });
      const lease = await claim(store, executorId); // and the executor dies
      expect(lease.attempt).toBe(attempt);
      clockMs += AFTER_LEASE_MS;
      await shiftClock(sql, clockMs);
      await store.expireLeases();
      clockMs += AFTER_BACKOFF_MS;
      await shiftClock(sql, clockMs);
    }
    const dead = await store.getTask(task.id as TaskId, keyId);
    expect(dead).toMatchObject({
      state: "dead",
      attempts: 3,
      result: { outcome: { reason: "executor_lost" } },
    });
    await store.heartbeat(executorId, {
      capacity: toWire(ROOMY),
      free: toWire(ROOMY),
      images: [],
      running: 0,
    });
    expect(await store.acquireLeases(executorId, ROOMY, 1)).toEqual([]);
  });

  test("claims take back what ran out, with nobody else to do it (B58)", async () => {
    const { store, sql } = context;
    const [keyId, first, second] = [await newKey(store), await newExecutor(store), await newExecutor(store)];
    const { task } = await submit(store, keyId, { retries: 1 });
    await claim(store, first);
    await shiftClock(sql, AFTER_LEASE_MS);
    const lease = await vi.waitFor(() => claim(store, second), { timeout: 20_000, interval: 100 });
    expect(lease).toMatchObject({ task_id: task.id, attempt: 2 });
  });

  test("a lease that ran out on a cancelled task ends it as cancelled", async () => {
    const { store, sql } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    await submit(store, keyId, { retries: 5 });
    const lease = await claim(store, executorId);
    await store.cancelTask(lease.task_id as TaskId, keyId);
    await shiftClock(sql, AFTER_LEASE_MS);
    await store.expireLeases();
    const task = await store.getTask(lease.task_id as TaskId, keyId);
    expect(task).toMatchObject({ state: "cancelled", result: { outcome: { reason: "cancelled" } } });
  });

  test("twenty orderly shutdowns burn no attempt (B57)", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const { task } = await submit(store, keyId, { retries: 0 });
    for (let i = 1; i <= 20; i++) {
      const lease = await claim(store, executorId);
      expect(lease).toMatchObject({ attempt: 1, fence: i });
      await begin(store, executorId, lease);
      expect((await store.releaseLease(executorId, holdOf(lease))).attempts).toBe(0);
      expect((await store.releaseLease(executorId, holdOf(lease))).state).toBe("queued");
    }
    expect((await complete(store, executorId, await claim(store, executorId))).id).toBe(task.id);
  });

  test("no process's clock decides about a lease (B60)", async () => {
    const { store } = context;
    const [keyId, holder, other] = [await newKey(store), await newExecutor(store), await newExecutor(store)];
    const { task } = await submit(store, keyId);
    const lease = await claim(store, holder);
    const realNow = Date.now();
    const zone = process.env.TZ;
    try {
      for (const offMs of [10 * 60_000, -10 * 60_000, -3_600_000, 86_400_000]) {
        vi.useFakeTimers({ now: realNow + offMs, toFake: ["Date"] });
        process.env.TZ = offMs > 0 ? "Pacific/Kiritimati" : "America/St_Johns";
        expect(await store.expireLeases()).toBe(0);
        expect(await store.acquireLeases(other, ROOMY, 1)).toEqual([]);
        expect((await store.renewLeases(holder, [holdOf(lease)])).leases[0]?.state).toBe("held");
        const { task: fresh } = await submit(store, keyId);
        expect(Math.abs(Date.parse(fresh.created_at) - realNow)).toBeLessThan(60_000);
        expect((await store.acquireLeases(other, ROOMY, 5)).map(({ task_id }) => task_id)).toEqual([
          fresh.id,
        ]);
      }
    } finally {
      vi.useRealTimers();
      if (zone === undefined) delete process.env.TZ;
      else process.env.TZ = zone;
    }
    expect((await complete(store, holder, lease)).id).toBe(task.id);
  });

  test("what is told to followers is what is stored, with its numbers", async () => {
    const { store, wake } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    const ids = await submitMany(store, keyId, 2);
    const told = ids.map(() => [] as TaskEvent[]);
    const unfollow = ids.map((id, i) => wake.follow(`task:${id}`, (events) => void told[i]!.push(...events)));
    const leases = await store.acquireLeases(executorId, ROOMY, 2);
    const output = Array.from({ length: 10 }, (_, i) => {
      const hold = holdOf(leases[i % 2]!);
      return i < 8
        ? { type: "stdout" as const, ...hold, offset: i, data: btoa(`${i}`) }
        : { type: "truncated" as const, ...hold, stream: "stdout" as const };
    });
    await begin(store, executorId, leases[0]!);
    await begin(store, executorId, leases[0]!); // again: nothing new to tell
    // The other's command begins with what it puts out.
    const running = leases.map((lease) => ({ type: "running" as const, ...holdOf(lease) }));
    await Promise.all([
      store.appendEvents(executorId, [...running, ...output.slice(0, 4)]),
      store.appendEvents(executorId, output.slice(4)),
    ]);
    for (const lease of leases) await complete(store, executorId, lease);
    for (const stop of unfollow) stop();
    for (const [i, id] of ids.entries()) {
      expect(told[i]).toEqual(await store.listEvents(id, 1, 1000));
      expect(told[i]).toHaveLength(8);
    }
  });

  test("output of many leases in one call keeps each lease's order, and only the lost are refused", async () => {
    const { store } = context;
    const [keyId, executorId] = [await newKey(store), await newExecutor(store)];
    await submitMany(store, keyId, 3);
    const leases = await store.acquireLeases(executorId, ROOMY, 3);
    await complete(store, executorId, leases[2]!);
    const events = Array.from({ length: 300 }, (_, i) => {
      const lease = leases[i % 3]!;
      return { type: "stdout" as const, ...holdOf(lease), offset: Math.floor(i / 3), data: btoa(`${i}`) };
    });
    const [one, two] = await Promise.all([
      store.appendEvents(executorId, events.slice(0, 150)),
      store.appendEvents(executorId, events.slice(150)),
    ]);
    expect([one.lost, two.lost]).toEqual([[leases[2]!.lease_id], [leases[2]!.lease_id]] as LeaseId[][]);
    for (const lease of leases.slice(0, 2)) {
      const stored = (await store.listEvents(lease.task_id as TaskId, 0, 1000)).filter(
        ({ type }) => type === "stdout",
      );
      expect(stored.map((event) => "offset" in event && event.offset)).toEqual(
        Array.from({ length: 100 }, (_, i) => i),
      );
      await history(store, lease.task_id);
    }
  });
});
