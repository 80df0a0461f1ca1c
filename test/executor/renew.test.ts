/** How the leases of an executor are kept, by a clock of the test's own. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DsecError } from "#core/errors.ts";
import { newId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Resources } from "#core/resources.ts";
import type { Hold, Lease, RenewResponse } from "#core/wire/leases.ts";
import { type HeldLease, Leases, stopOf } from "#executor/leases.ts";
import { Ledger } from "#executor/ledger.ts";
import { Puller } from "#executor/pull.ts";
import { renewLeases } from "#executor/renew.ts";
import { pause } from "#executor/retry.ts";

// What `pause` waits by, on the clock that vitest fakes.
vi.mock("node:timers/promises", async (original) => ({
  ...(await original<typeof import("node:timers/promises")>()),
  setTimeout: (ms: number, _value: unknown, { signal }: { signal: AbortSignal }) =>
    new Promise<void>((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      setTimeout(resolve, ms);
    }),
}));

const CAPACITY: Resources = {
  ...{ cpu_millis: 4_000, memory_mb: 4_096, gpu_memory_mb: 0, disk_iops: 1_000, network_mbps: 100 },
  ...{ pids: 1_000, disk_mb: 10_000 },
};

let leases: Leases;
let renewedAtMs: number[];
let answer: (holds: Hold[]) => Promise<RenewResponse>;
let failures: unknown[];
let closing: AbortController;
let renewing: Promise<void>;

beforeEach(() => {
  vi.useFakeTimers();
  leases = new Leases();
  renewedAtMs = [];
  answer = renewed;
  failures = [];
  closing = new AbortController();
  const client = {
    renew: (holds: Hold[]) => {
      if (holds.length > 0) renewedAtMs.push(performance.now());
      return answer(holds);
    },
  };
  const onFailure = (error: unknown) => void failures.push(error);
  renewing = renewLeases({ client, leases, signal: closing.signal, onFailure });
});
afterEach(async () => {
  closing.abort();
  await renewing;
  vi.useRealTimers();
});

const passes = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const renewed = async (holds: Hold[]): Promise<RenewResponse> => ({
  leases: holds.map(({ lease_id }) => ({
    ...{ state: "held", lease_id, ttl_ms: LIMITS.leaseTtlMs, cancel_requested: false },
  })),
  draining: false,
});
/** As a gateway that takes the call and never answers: the client gives it up. */
const hangs = async (): Promise<never> => {
  await pause(10_000, closing.signal);
  throw new DsecError("GATEWAY_UNREACHABLE", "no answer within 10 s");
};
const granted = () => ({ lease_id: newId("lease") as string, fence: 1, ttl_ms: LIMITS.leaseTtlMs }) as Lease;

test.each([0, 12_000, 19_500, 24_900])("a lease that a poll brings after %i ms is kept", async (waitMs) => {
  let polls = 0;
  const acquire = async () => {
    const isFirst = polls++ === 0;
    await new Promise((resolve) => setTimeout(resolve, isFirst ? waitMs : LIMITS.longPollMs));
    return { leases: isFirst ? [granted()] : [], unsupported: [] };
  };
  let held: HeldLease | null = null;
  const puller = new Puller({
    client: { acquire, endPoll: async () => {} },
    ...{
      ledger: new Ledger(CAPACITY, () => CAPACITY),
      hasRoom: () => true,
      onFailure: (error) => failures.push(error),
      onUnsupported: ({ error }) => failures.push(error),
    },
    onLease: (lease, askedAtMs) => {
      held = leases.add(lease, askedAtMs);
    },
  });
  puller.offer();
  await passes(waitMs + 60_000);
  expect(stopOf(held!)).toBe(null);
  expect(leases.mayWrite(held!.hold.lease_id)).toBe(true);
  const stopped = puller.stop();
  await passes(LIMITS.longPollMs);
  await stopped;
  expect(failures).toEqual([]);
});

test("leases that are kept are renewed together, on the beat", async () => {
  for (let n = 0; n < 20; n++) {
    leases.add(granted(), performance.now());
    await passes(500);
  }
  await passes(100_000 - 20 * 500);
  expect(renewedAtMs.length).toBeLessThanOrEqual(100_000 / LIMITS.leaseRenewEveryMs);
  expect(leases.all().map(stopOf)).toEqual(Array(20).fill(null));
});

test("a lease that ends while its renewal is not answered is stopped when it ends", async () => {
  answer = hangs;
  const held = leases.add(granted(), performance.now() - 5_000);
  const endsInMs = held.heldUntilMs - performance.now();
  let stoppedAtMs = 0;
  held.stopped.signal.addEventListener("abort", () => {
    stoppedAtMs = performance.now();
  });
  await passes(endsInMs - 1);
  expect(stopOf(held)).toBe(null);
  await passes(1);
  expect(stopOf(held)).toBe("lost");
  expect(stoppedAtMs).toBe(held.heldUntilMs);
});

test("a gateway that is away is asked again every second, and what ends meanwhile is stopped", async () => {
  answer = () => Promise.reject(new DsecError("GATEWAY_UNREACHABLE", "no route"));
  const held = leases.add(granted(), performance.now());
  await passes(25_000);
  expect(stopOf(held)).toBe(null);
  expect(renewedAtMs.length).toBeGreaterThanOrEqual(14);
  answer = renewed;
  await passes(20_000);
  expect(stopOf(held)).toBe(null);
  answer = hangs;
  await passes(LIMITS.leaseTtlMs);
  expect(stopOf(held)).toBe("lost");
});

test("what was stopped is not renewed more often than on the beat, however long it takes to clear it away", async () => {
  const [lost, cancelled] = [
    leases.add(granted(), performance.now()),
    leases.add(granted(), performance.now()),
  ];
  answer = async (holds) => ({
    leases: holds.map(({ lease_id }) => ({ state: "lost", lease_id })),
    draining: false,
  });
  leases.stop(cancelled.hold.lease_id, "cancelled");
  await passes(100_000);
  expect([stopOf(lost), stopOf(cancelled)]).toEqual(["lost", "cancelled"]);
  // Until a cancelled one is over it counts as held.
  expect(renewedAtMs.filter((atMs) => atMs > cancelled.heldUntilMs).length).toBeLessThanOrEqual(7);
});
