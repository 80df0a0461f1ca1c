import fc from "fast-check";
import { expect, test } from "vitest";
import { type Bucket, isFull, NOTHING_USED, takeBytes, takeCall } from "#core/policy/budget.ts";

test("a task makes as many calls as its budget has, and no refused call counts", () => {
  const budgets = { calls: 2 };
  let usage = NOTHING_USED;
  for (let i = 0; i < 2; i++) {
    const taken = takeCall(budgets, usage, null, 0);
    if (!taken.allowed) return expect.unreachable();
    usage = taken.usage;
  }
  expect(usage.calls).toBe(2);
  expect(takeCall(budgets, usage, null, 0)).toMatchObject({ code: "BUDGET_EXHAUSTED", retryAfterMs: null });
  expect(takeCall({ calls: 0 }, NOTHING_USED, null, 0)).toMatchObject({ code: "BUDGET_EXHAUSTED" });
  expect(takeCall({}, usage, null, 0).allowed).toBe(true);
});

test("bytes are counted as they move, the last too many included, and then no call is made", () => {
  const budgets = { bytes_down: 10 };
  const first = takeBytes(budgets, NOTHING_USED, "bytes_down", 10);
  expect(first).toEqual({ allowed: true, usage: { calls: 0, bytes_up: 0, bytes_down: 10 } });
  expect(takeCall(budgets, first.usage, null, 0).allowed).toBe(true);
  const second = takeBytes(budgets, first.usage, "bytes_down", 1);
  expect(second).toMatchObject({ allowed: false, code: "BUDGET_EXHAUSTED", usage: { bytes_down: 11 } });
  expect(takeCall(budgets, second.usage, null, 0)).toMatchObject({ code: "BUDGET_EXHAUSTED" });
  expect(takeBytes(budgets, second.usage, "bytes_up", 1e9).allowed).toBe(true);
});

test("a host gets its rate and no more, whenever the calls come", () => {
  const times = fc.array(fc.nat(3000), { minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(fc.constantFrom(0.5, 1, 3, 10), times, (rate, gapsMs) => {
      let bucket: Bucket | null = null;
      let nowMs = 1_700_000_000_000;
      const startMs = nowMs;
      let passed = 0;
      for (const gapMs of gapsMs) {
        nowMs += gapMs;
        const taken = takeCall({ per_host_calls_per_s: rate }, NOTHING_USED, bucket, nowMs);
        if (taken.allowed) {
          passed++;
          bucket = taken.bucket;
          continue;
        }
        expect(taken.code).toBe("CALL_RATE_LIMITED");
        // what a refusal says of when to come back is true
        expect(
          takeCall({ per_host_calls_per_s: rate }, NOTHING_USED, bucket, nowMs + taken.retryAfterMs!).allowed,
        ).toBe(true);
        expect(taken.retryAfterMs).toBeGreaterThan(0);
      }
      const elapsedS = (nowMs - startMs) / 1000;
      expect(passed).toBeLessThanOrEqual(Math.max(1, rate) + elapsedS * rate + 1e-6);
      expect(passed).toBeGreaterThanOrEqual(1);
    }),
  );
});

test("a clock that runs backwards earns nothing and loses nothing", () => {
  const budgets = { per_host_calls_per_s: 2 };
  let bucket: Bucket | null = null;
  const passes = (nowMs: number): boolean => {
    const taken = takeCall(budgets, NOTHING_USED, bucket, nowMs);
    if (taken.allowed) bucket = taken.bucket;
    return taken.allowed;
  };
  expect(passes(10_000)).toBe(true);
  expect(passes(5_000)).toBe(true);
  expect(passes(5_000)).toBe(false);
  expect(passes(10_000)).toBe(false);
  expect(passes(10_499)).toBe(false);
  expect(passes(10_500)).toBe(true);
});

test("a bucket that has filled up again need not be kept", () => {
  const budgets = { per_host_calls_per_s: 2 };
  const taken = takeCall(budgets, NOTHING_USED, null, 0);
  if (!taken.allowed || taken.bucket === null) return expect.unreachable();
  expect(isFull(budgets, taken.bucket, 499)).toBe(false);
  expect(isFull(budgets, taken.bucket, 500)).toBe(true);
  expect(isFull({}, taken.bucket, 0)).toBe(true);
});
