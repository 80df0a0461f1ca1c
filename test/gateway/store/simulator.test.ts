import { expect, test } from "vitest";
import type { ExecutorId, KeyId, TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { isFinal } from "#core/task.ts";
import { toWire } from "#core/wire/common.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { Context } from "./support.ts";
import {
  attestationOf,
  begin,
  history,
  holdOf,
  LAUNCH_FAILED,
  newExecutor,
  newKey,
  onBothDatabases,
  resultOf,
  shiftClock,
  submit,
  vector,
} from "./support.ts";

/** `DSEC_SEED=n` repeats a run; each run prints its seed. */
const SEED = Number(process.env.DSEC_SEED ?? Math.floor(Math.random() * 2 ** 31));
const STEPS = Number(process.env.DSEC_STEPS ?? 400);

/** Errors that an executor may run into for what other parties did meanwhile. */
const EXPECTED = new Set(["LEASE_EXPIRED", "LEASE_FENCED", "TASK_ALREADY_FINISHED"]);

onBothDatabases((context, database) => {
  test(`random clients and executors cannot break a task's life (${database})`, async () => {
    console.log(`simulator on ${database}: DSEC_SEED=${SEED}`);
    const world = await newWorld(context, random(SEED));
    for (let step = 0; step < STEPS; step++) {
      // Several acts at once, so that their statements meet in the database.
      await Promise.all(Array.from({ length: 1 + world.pick(4) }, () => act(world)));
      if (step % 20 === 0) await checkCapacity(world);
    }
    await drain(world);
    await checkTasks(world);
  });
});

type Held = { executorId: ExecutorId; lease: Lease };
type World = Context & {
  pick(below: number): number;
  keys: KeyId[];
  executors: ExecutorId[];
  tasks: TaskId[];
  /** Every lease that was ever granted, current or not: executors keep using old ones. */
  leases: Held[];
  /** What the calls that succeeded said: the model that the database is held against. */
  ended: Map<string, string>;
  fences: Map<string, number>;
  clockMs: number;
  clockMoved: Promise<void>;
};

const CAPACITY = vector({ cpu_millis: 4_000, memory_mb: 4_096, pids: 2_048, disk_mb: 20_000 });

async function newWorld(context: Context, pick: World["pick"]): Promise<World> {
  const { store } = context;
  const keys = [await newKey(store), await newKey(store), await newKey(store)];
  const executors = [1, 2, 3].map(() => newExecutor(store, { capacity: CAPACITY }));
  return {
    ...context,
    pick,
    keys,
    executors: await Promise.all(executors),
    tasks: [],
    leases: [],
    ended: new Map(),
    fences: new Map(),
    clockMs: 0,
    clockMoved: Promise.resolve(),
  };
}

/** One random act of some party. */
async function act(world: World): Promise<void> {
  const { store, pick } = world;
  const held = world.leases[pick(world.leases.length || 1)];
  switch (pick(12)) {
    case 0:
    case 1:
    case 2: {
      const { task } = await submit(store, world.keys[pick(3)]!, {
        retries: pick(3),
        priority: pick(3) - 1,
        resources: { cpu_cores: 1 + pick(3), memory_mb: 256 * (1 + pick(4)) },
      });
      world.tasks.push(task.id as TaskId);
      return;
    }
    case 3:
    case 4:
    case 5:
      return acquire(world, world.executors[pick(3)]!);
    case 6:
      return void (held && (await attempt(() => begin(store, held.executorId, held.lease))));
    case 7:
    case 8:
      return void (held && (await complete(world, held)));
    case 9:
      if (!held) return;
      if (pick(2) === 0)
        return void (await attempt(() => store.releaseLease(held.executorId, holdOf(held.lease))));
      return void (await attempt(() =>
        store.failLease(held.executorId, holdOf(held.lease), LAUNCH_FAILED, attestationOf(held.lease)),
      ));
    case 10: {
      const id = world.tasks[pick(world.tasks.length || 1)];
      if (id && pick(3) === 0) await store.cancelTask(id, null);
      if (held) await store.renewLeases(held.executorId, [holdOf(held.lease)]);
      return;
    }
    default:
      await passTime(world, pick(15_000));
      await Promise.all([store.expireLeases(), ...world.executors.map((id) => beat(world, id))]);
  }
}

async function acquire(world: World, executorId: ExecutorId): Promise<void> {
  const { store, pick } = world;
  const leases = await store.acquireLeases(executorId, CAPACITY, 1 + pick(3));
  if (leases.length === 0) {
    const granted = await store.awaitLease(executorId, CAPACITY, (granted) => turns(pick(30), granted));
    if (granted !== null) leases.push(granted);
  }
  for (const lease of leases) {
    expect(lease.fence, "fences grow").toBeGreaterThan(world.fences.get(lease.task_id) ?? 0);
    expect(world.ended.has(lease.task_id), "a task that ended is not granted").toBe(false);
    expect(lease.attempt).toBeLessThanOrEqual(lease.spec.retries + 1);
    world.fences.set(lease.task_id, lease.fence);
    world.leases.push({ executorId, lease });
  }
}

/** So many turns of the event loop, or until the signal aborts. */
async function turns(count: number, signal: AbortSignal): Promise<void> {
  for (let i = 0; i < count && !signal.aborted; i++) await new Promise(setImmediate);
}

async function complete(world: World, { executorId, lease }: Held): Promise<void> {
  const exit_code = world.pick(2);
  const result = resultOf({ reason: "exited", exit_code, signal: null, message: `lease ${lease.lease_id}` });
  const task = await attempt(() =>
    world.store.completeLease(executorId, holdOf(lease), result, attestationOf(lease)),
  );
  if (!task) return;
  expect(lease.fence, "only the newest lease can write").toBe(world.fences.get(lease.task_id));
  const end = `${lease.lease_id} ${exit_code}`;
  expect(world.ended.get(lease.task_id) ?? end, "a task ends once").toBe(end);
  world.ended.set(lease.task_id, end);
}

async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (EXPECTED.has((error as { code: string }).code)) return undefined;
    throw error;
  }
}

/** One after another: PostgreSQL refuses to have a function replaced twice at once. */
function passTime(world: World, ms: number): Promise<void> {
  world.clockMoved = world.clockMoved.then(() => {
    world.clockMs += ms;
    return shiftClock(world.sql, world.clockMs);
  });
  return world.clockMoved;
}

async function beat({ store }: World, id: ExecutorId): Promise<void> {
  await store.heartbeat(id, { capacity: toWire(CAPACITY), free: toWire(CAPACITY), images: [], running: 0 });
}

/** Lets time pass and executors do their work until nothing is left. */
async function drain(world: World): Promise<void> {
  for (let round = 0; round < 200; round++) {
    const counts = await world.sql.query<{ open: number }>(
      "select count(*)::int as open from tasks where state = 'queued'",
    );
    if (counts[0]?.open === 0) return;
    await passTime(world, LIMITS.leaseTtlMs + LIMITS.retryBackoffMaxMs);
    await Promise.all([world.store.expireLeases(), ...world.executors.map((id) => beat(world, id))]);
    const before = world.leases.length;
    for (const id of world.executors) await acquire(world, id);
    await Promise.all(world.leases.slice(before).map((held) => complete(world, held)));
  }
  throw new Error("tasks were left over");
}

async function checkCapacity({ sql }: World): Promise<void> {
  const rows = await sql.query<{ fits: boolean; told: boolean }>(
    `with held as (
       select l.executor_id, u.axis, sum(u.amount) as amount
       from leases l join tasks t on t.id = l.task_id cross join unnest(t.resources) with ordinality u(amount, axis)
       group by 1, 2
     ), ledger as (
       select h.executor_id, u.axis, sum(u.amount) as amount
       from holdings h cross join unnest(h.amounts) with ordinality u(amount, axis) group by 1, 2
     )
     select x.capacity[a.axis] >= coalesce(h.amount, 0) as fits, coalesce(h.amount, 0) = coalesce(g.amount, 0) as told
     from executors x cross join generate_series(1, cardinality(x.capacity)) a(axis)
     left join held h on h.executor_id = x.id and h.axis = a.axis
     left join ledger g on g.executor_id = x.id and g.axis = a.axis`,
  );
  expect(
    rows.every(({ fits }) => fits),
    "what is held fits",
  ).toBe(true);
  expect(
    rows.every(({ told }) => told),
    "the ledger says what is held",
  ).toBe(true);
}

async function checkTasks(world: World): Promise<void> {
  for (const id of world.tasks) {
    const task = await world.store.getTask(id, null);
    expect(isFinal(task.state), `${id} ended`).toBe(true);
    expect(task.result).not.toBeNull();
    expect(task.attempts).toBeLessThanOrEqual(task.spec.retries + 1);
    expect(task.fence).toBe(world.fences.get(id) ?? 0);
    const states = await history(world.store, id);
    const finals = states.filter((state) => /^(succeeded|failed|cancelled|dead)/.test(state));
    expect(finals, `${id} ended once: ${states}`).toHaveLength(1);
    expect(states.at(-1)).toBe(finals[0]);
    expect(states.filter((state) => state === "leased")).toHaveLength(task.fence);
    const end = world.ended.get(id);
    if (end) expect(`${task.result?.outcome.message} ${task.result?.outcome.exit_code}`).toBe(`lease ${end}`);
    else expect(["cancelled", "dead"]).toContain(task.state);
    const attestations = await world.store.listAttestations(id, null);
    expect(new Set(attestations.map(({ fence }) => fence)).size).toBe(attestations.length);
    if (end) expect(attestations[0]?.id).toBe(task.attestation_id);
  }
  expect(world.tasks.length).toBeGreaterThan(STEPS / 10);
  expect(world.ended.size).toBeGreaterThan(0);
}

/** Mulberry32: small, seeded, good enough to choose acts. */
function random(seed: number): (below: number) => number {
  let state = seed | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}
