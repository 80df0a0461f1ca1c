/**
 * A token bucket for each caller, in this process: with several instances each allows the configured rate.
 * Buckets refill by elapsed time, so an idle one costs nothing and a full one can be forgotten.
 */
import { DsecError } from "#core/errors.ts";

const BUCKETS_MAX = 10_000;

export class RateLimiter {
  readonly #ratePerS: number;
  readonly #burst: number;
  readonly #now: () => number;
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();

  constructor(options: { ratePerS: number; burst: number; now: () => number }) {
    this.#ratePerS = options.ratePerS;
    this.#burst = Math.max(1, options.burst);
    this.#now = options.now;
  }

  /** Takes one token of the caller's, or throws RATE_LIMITED with `retry_after_ms` in its details. */
  take(caller: string): void {
    if (this.#ratePerS <= 0) return;
    const nowMs = this.#now();
    let bucket = this.#buckets.get(caller);
    if (bucket === undefined) {
      if (this.#buckets.size >= BUCKETS_MAX) this.#forget(nowMs);
      bucket = { tokens: this.#burst, atMs: nowMs };
      this.#buckets.set(caller, bucket);
    }
    bucket.tokens = this.#tokensAt(bucket, nowMs);
    bucket.atMs = nowMs;
    if (bucket.tokens >= 1) {
      bucket.tokens -= 1;
      return;
    }
    const retryAfterMs = Math.ceil(((1 - bucket.tokens) / this.#ratePerS) * 1000);
    throw new DsecError(
      "RATE_LIMITED",
      `${caller} makes more than ${this.#ratePerS} requests a second; try again in ${retryAfterMs} ms`,
      { details: { retry_after_ms: retryAfterMs } },
    );
  }

  #tokensAt(bucket: { tokens: number; atMs: number }, nowMs: number): number {
    // A clock that steps back must not take tokens away.
    const elapsedS = Math.max(0, nowMs - bucket.atMs) / 1000;
    return Math.min(this.#burst, bucket.tokens + elapsedS * this.#ratePerS);
  }

  /** Drops the buckets that are full again; where that is not enough, the oldest half. */
  #forget(nowMs: number): void {
    for (const [caller, bucket] of this.#buckets) {
      if (this.#tokensAt(bucket, nowMs) >= this.#burst) this.#buckets.delete(caller);
    }
    let surplus = this.#buckets.size - BUCKETS_MAX / 2;
    for (const caller of this.#buckets.keys()) {
      if (surplus-- <= 0) break;
      this.#buckets.delete(caller);
    }
  }
}
