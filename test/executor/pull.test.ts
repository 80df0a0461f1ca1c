/** What an executor offers, and when, by a clock of the test's own: against a model of a gateway with every delay and loss. */
import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { newId } from "#core/ids.ts";
import { axisThatDoesNotFit, NO_RESOURCES, type Resources, subtract } from "#core/resources.ts";
import { fromWire } from "#core/wire/common.ts";
import type { AcquireRequest, Lease } from "#core/wire/leases.ts";
import { Ledger } from "#executor/ledger.ts";
import { Puller } from "#executor/pull.ts";

// What the puller waits by, on the clock that vitest fakes.
vi.mock("node:timers/promises", async (original) => ({
  ...(await original<typeof import("node:timers/promises")>()),
  setTimeout: (ms: number, _value: unknown, { signal }: { signal: AbortSignal }) =>
    new Promise<void>((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      setTimeout(resolve, ms);
    }),
  setImmediate: () => new Promise<void>((resolve) => setImmediate(resolve)),
}));

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const passes = (ms: number) => vi.advanceTimersByTimeAsync(ms);

const CAPACITY: Resources = {
  ...NO_RESOURCES,
  ...{ cpu_millis: 1_900, memory_mb: 2_048, pids: 1_000, disk_mb: 1_024, disk_iops: 1_000 },
};
type Task = { asked: Resources; durationMs: number };
const task = (asked: Partial<Resources>, durationMs: number): Task => ({
  asked: { ...NO_RESOURCES, cpu_millis: 10, memory_mb: 4, pids: 2, ...asked },
  durationMs,
});

type Standing = { free: Resources; max: number; answer: (granted: Task[]) => void };
/** How late the model's gateway hears and is heard, and whether it hears that a poll is to end. */
type Line = { upMs: () => number; downMs: () => number; losesEnd: () => boolean };

/** One executor and its gateway: a queue, polls that stand, and what the executor has taken. */
class Model {
  room = { memory_mb: CAPACITY.memory_mb, disk_mb: CAPACITY.disk_mb };
  readonly queue: Task[] = [];
  readonly ledger = new Ledger(CAPACITY, () => this.room);
  readonly failures: unknown[] = [];
  polls = 0;
  readonly puller: Puller;
  readonly #line: Line;
  readonly #standing = new Set<Standing>();
  readonly #granted = new Map<string, Task>();
  /** Since when what is free has been enough for a task that waits. */
  readonly #fitsSinceMs = new Map<Task, number>();
  longestWaitMs = 0;

  constructor(line: Partial<Line> = {}) {
    this.#line = { upMs: () => 1, downMs: () => 1, losesEnd: () => false, ...line };
    this.puller = new Puller({
      client: {
        acquire: (request: AcquireRequest) => this.#acquire(request),
        endPoll: () => this.#endPoll(),
      },
      ledger: this.ledger,
      hasRoom: () => true,
      onLease: (lease) => this.#run(this.#granted.get(lease.lease_id)!),
      onUnsupported: ({ error }) => this.failures.push(error),
      onFailure: (error) => this.failures.push(error),
    });
    this.puller.offer();
  }

  submit(submitted: Task): void {
    this.queue.push(submitted);
    for (const poll of [...this.#standing]) this.#grant(poll);
    this.look();
  }

  /** Notes which of the tasks that wait have fitted what is free since the last look, and for how long. */
  look(): void {
    const nowMs = performance.now();
    for (const waiting of this.queue) {
      if (axisThatDoesNotFit(waiting.asked, this.ledger.free()) !== undefined) {
        this.#fitsSinceMs.delete(waiting);
        continue;
      }
      const sinceMs = this.#fitsSinceMs.get(waiting) ?? nowMs;
      this.#fitsSinceMs.set(waiting, sinceMs);
      this.longestWaitMs = Math.max(this.longestWaitMs, nowMs - sinceMs);
    }
  }

  async #acquire({ free, max_leases, wait_ms }: AcquireRequest) {
    this.polls++;
    await elapsed(this.#line.upMs());
    const granted = await new Promise<Task[]>((resolve) => {
      const poll: Standing = {
        ...{ free: fromWire(free), max: max_leases },
        answer: (tasks) => {
          if (this.#standing.delete(poll)) resolve(tasks);
        },
      };
      this.#standing.add(poll);
      setTimeout(() => poll.answer([]), wait_ms);
      this.#grant(poll);
    });
    await elapsed(this.#line.downMs());
    const leases = granted.map((one) => {
      const lease = { lease_id: newId("lease"), fence: 1 } as unknown as Lease;
      this.#granted.set(lease.lease_id, one);
      return lease;
    });
    return { leases, unsupported: [] };
  }

  async #endPoll(): Promise<void> {
    await elapsed(this.#line.upMs());
    if (!this.#line.losesEnd()) for (const poll of [...this.#standing]) poll.answer([]);
    await elapsed(this.#line.downMs());
  }

  /** In the order of the queue, whatever fits beside what was granted before it. */
  #grant(poll: Standing): void {
    let { free } = poll;
    const granted: Task[] = [];
    for (const one of [...this.queue]) {
      if (granted.length === poll.max) break;
      if (axisThatDoesNotFit(one.asked, free) !== undefined) continue;
      free = subtract(free, one.asked);
      granted.push(one);
      this.queue.splice(this.queue.indexOf(one), 1);
    }
    if (granted.length > 0) poll.answer(granted);
  }

  #run(one: Task): void {
    const can = this.ledger.take(one.asked);
    if (can !== "taken") {
      // The host has less than was offered: the lease is given back.
      expect(can).toBe("short");
      this.queue.unshift(one);
      void this.puller.rest();
      return;
    }
    this.look();
    setTimeout(() => {
      this.ledger.give(one.asked);
      this.look();
      this.puller.offer();
    }, one.durationMs);
  }
}

async function elapsed(ms: number): Promise<void> {
  await new Promise<void>((resolve) => void setTimeout(resolve, ms));
}

const asked = fc.record({
  cpu_millis: fc.constantFrom(10, 100, 250, 500, 900, 1_000, 1_500, 1_900),
  memory_mb: fc.constantFrom(4, 64, 256, 512, 1_024, 2_048),
  pids: fc.constantFrom(2, 64, 500),
  disk_mb: fc.constantFrom(0, 64, 512, 1_024),
});
const DELAY_MS_MAX = 40;
const delays = fc.infiniteStream(fc.integer({ min: 0, max: DELAY_MS_MAX }));
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      act: fc.constant("submit" as const),
      asked,
      durationMs: fc.oneof(fc.integer({ min: 1, max: 400 }), fc.integer({ min: 400, max: 8_000 })),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      act: fc.constant("host" as const),
      memory_mb: fc.constantFrom(256, 1_024, 2_048),
      disk_mb: fc.constantFrom(64, 512, 1_024),
    }),
  },
);
const steps = fc.array(fc.record({ afterMs: fc.integer({ min: 0, max: 1_500 }), step }), {
  minLength: 1,
  maxLength: 40,
});

test.each([
  ["at once where the gateway hears that a poll is to end", (): boolean => false, 10 * DELAY_MS_MAX],
  ["within a second where it never does", (): boolean => true, 1_000 + 10 * DELAY_MS_MAX],
] as const)(
  "a task that fits what is free is granted %s, whatever came before",
  async (_when, losesEnd, boundMs) => {
    await fc.assert(
      fc.asyncProperty(steps, delays, async (script, delay) => {
        const nextDelay = () => delay.next().value as number;
        const model = new Model({ upMs: nextDelay, downMs: nextDelay, losesEnd });
        let hostChanges = 0;
        for (const { afterMs, step } of script) {
          for (let ms = 0; ms < afterMs; ms += 20) {
            await passes(Math.min(20, afterMs - ms));
            model.look();
          }
          if (step.act === "submit") model.submit(task(step.asked, step.durationMs));
          else {
            hostChanges++;
            model.room = { memory_mb: step.memory_mb, disk_mb: step.disk_mb };
          }
        }
        model.room = { memory_mb: CAPACITY.memory_mb, disk_mb: CAPACITY.disk_mb };
        // Each is alone in the end: what was submitted last waits for all before it.
        for (let ms = 0; model.queue.length > 0 && ms < 40 * 10_000; ms += 50) {
          await passes(50);
          model.look();
        }
        expect(model.queue).toEqual([]);
        // Nobody says that the host has more: the executor looks every second.
        expect(model.longestWaitMs).toBeLessThanOrEqual(boundMs + (hostChanges > 0 ? 1_000 : 0) + 50);
        const stopped = model.puller.stop();
        await passes(60_000);
        await stopped;
        expect(model.failures).toEqual([]);
      }),
      { numRuns: 150 },
    );
  },
);
