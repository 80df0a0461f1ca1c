import type { ErrorCode } from "../errors.ts";
import type { PolicyBudgets } from "../wire/policy.ts";

/** What a task has used up. Plain JSON, so that a store can keep it; `NOTHING_USED` at first. */
export type Usage = { calls: number; bytes_up: number; bytes_down: number };

/** The token bucket of one host. A host that was never called has none (null), which is as good as a full one. */
export type Bucket = { tokens: number; at_ms: number };

export const NOTHING_USED: Usage = { calls: 0, bytes_up: 0, bytes_down: 0 };

export type Refused = {
  allowed: false;
  code: ErrorCode;
  message: string;
  /** How long until the same call would pass; null: never. */
  retryAfterMs: number | null;
};

/**
 * Takes one call to one host out of the budgets. A refused call takes nothing.
 * @param nowMs any clock of the caller's; where it runs backwards no tokens are earned
 */
export function takeCall(
  budgets: PolicyBudgets,
  usage: Usage,
  bucket: Bucket | null,
  nowMs: number,
): { allowed: true; usage: Usage; bucket: Bucket | null } | Refused {
  if (budgets.calls !== undefined && usage.calls >= budgets.calls) {
    return exhausted(`all ${budgets.calls} calls of the task's budget are made`);
  }
  for (const direction of ["bytes_up", "bytes_down"] as const) {
    const budget = budgets[direction];
    if (budget !== undefined && usage[direction] > budget) return exhausted(overdrawn(direction, budget));
  }
  const used = { ...usage, calls: usage.calls + 1 };
  const rate = budgets.per_host_calls_per_s;
  if (rate === undefined) return { allowed: true, usage: used, bucket };
  const now = refilled(rate, bucket, nowMs);
  if (now.tokens < 1) {
    const retryAfterMs = Math.ceil(((1 - now.tokens) / rate) * 1000);
    const message = `the host's rate of ${rate} calls a second is used up; the next is free in ${retryAfterMs} ms`;
    return { allowed: false, code: "CALL_RATE_LIMITED", message, retryAfterMs };
  }
  return { allowed: true, usage: used, bucket: { tokens: now.tokens - 1, at_ms: now.at_ms } };
}

/**
 * Takes bytes that have just moved, chunk by chunk while they stream. What moved is counted even where it is refused:
 * the bytes are spent, and the call must stop.
 */
export function takeBytes(
  budgets: PolicyBudgets,
  usage: Usage,
  direction: "bytes_up" | "bytes_down",
  bytes: number,
): { allowed: true; usage: Usage } | (Refused & { usage: Usage }) {
  const used = { ...usage, [direction]: usage[direction] + bytes };
  const budget = budgets[direction];
  if (budget === undefined || used[direction] <= budget) return { allowed: true, usage: used };
  return { ...exhausted(overdrawn(direction, budget)), usage: used };
}

/** A bucket that says nothing more than its absence would, and need not be kept. */
export function isFull(budgets: PolicyBudgets, bucket: Bucket, nowMs: number): boolean {
  const rate = budgets.per_host_calls_per_s;
  return rate === undefined || refilled(rate, bucket, nowMs).tokens >= capacityOf(rate);
}

/** One second's worth, and one call at least: a rate below 1/s must let the first call through. */
function capacityOf(ratePerS: number): number {
  return Math.max(1, ratePerS);
}

function refilled(ratePerS: number, bucket: Bucket | null, nowMs: number): Bucket {
  if (bucket === null) return { tokens: capacityOf(ratePerS), at_ms: nowMs };
  const elapsedMs = Math.max(0, nowMs - bucket.at_ms);
  const tokens = Math.min(capacityOf(ratePerS), bucket.tokens + (elapsedMs / 1000) * ratePerS);
  return { tokens, at_ms: Math.max(nowMs, bucket.at_ms) };
}

function overdrawn(direction: "bytes_up" | "bytes_down", budget: number): string {
  return `the task's budget of ${budget} bytes ${direction === "bytes_up" ? "sent" : "received"} is used up`;
}

function exhausted(message: string): Refused {
  return { allowed: false, code: "BUDGET_EXHAUSTED", message, retryAfterMs: null };
}
