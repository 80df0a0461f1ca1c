import type { Hold, Lease } from "#core/wire/leases.ts";

/** Why an attempt is ended from outside: its client, the loss of its lease, or this executor's own shutdown. */
export type Stop = "cancelled" | "lost" | "released";

/** A hold of this executor, with the time it is sure of. */
export type Held = {
  hold: Hold;
  /** on the monotonic clock; counted from before the gateway was asked, so it is early rather than late */
  heldUntilMs: number;
  /** aborts with the `Stop` as its reason */
  stopped: AbortController;
};

/** A lease whose attempt runs in this life. */
export type HeldLease = Held & { lease: Lease };

/**
 * The leases held by this executor. Whether one is still held is judged at the moment of asking on the monotonic
 * clock: a process that was suspended finds its leases gone before any timer of its own has run.
 */
export class Leases {
  readonly #held = new Map<string, Held>();

  /** @param askedAtMs monotonic time before the request that granted it was sent */
  add(lease: Lease, askedAtMs: number): HeldLease {
    const { lease_id, fence, ttl_ms: ttlMs } = lease;
    const held = { lease, ...heldSince({ lease_id, fence }, ttlMs, askedAtMs) };
    this.#held.set(lease_id, held);
    return held;
  }

  /** What an earlier life of this executor held and this one answers for. */
  addRecovered(hold: Hold, ttlMs: number, askedAtMs: number): void {
    this.#held.set(hold.lease_id, heldSince(hold, ttlMs, askedAtMs));
  }

  /** True while writes for the lease may be made. The gateway judges again by the database's clock. */
  mayWrite(leaseId: string): boolean {
    const held = this.#held.get(leaseId);
    return held !== undefined && stopOf(held) !== "lost" && performance.now() < held.heldUntilMs;
  }

  renewed(leaseId: string, ttlMs: number, askedAtMs: number): void {
    const held = this.#held.get(leaseId);
    if (held !== undefined) held.heldUntilMs = Math.max(held.heldUntilMs, askedAtMs + ttlMs);
  }

  /** Ends the attempt of a lease; the first reason stands. No-op for a lease that is gone. */
  stop(leaseId: string, why: Stop): void {
    this.#held.get(leaseId)?.stopped.abort(why);
  }

  stopAll(why: Stop): void {
    for (const held of this.#held.values()) held.stopped.abort(why);
  }

  remove(leaseId: string): void {
    this.#held.delete(leaseId);
  }

  get(leaseId: string): Held | undefined {
    return this.#held.get(leaseId);
  }

  all(): Held[] {
    return [...this.#held.values()];
  }

  get size(): number {
    return this.#held.size;
  }
}

function heldSince(hold: Hold, ttlMs: number, askedAtMs: number): Held {
  return { hold, heldUntilMs: askedAtMs + ttlMs, stopped: new AbortController() };
}

export function stopOf(held: Held): Stop | null {
  return held.stopped.signal.aborted ? (held.stopped.signal.reason as Stop) : null;
}
