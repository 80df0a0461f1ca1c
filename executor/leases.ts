import type { Hold, Lease } from "#core/wire/leases.ts";

/** Why an attempt is ended from outside: its client, the loss of its lease, or this executor's own shutdown. */
export type Stop = "cancelled" | "lost" | "released";

/** A lease that this executor holds, with the time it is sure of. */
export type HeldLease = {
  lease: Lease;
  hold: Hold;
  /** on the monotonic clock; counted from before the gateway was asked, so it is early rather than late */
  heldUntilMs: number;
  /** aborts with the `Stop` as its reason */
  stopped: AbortController;
};

/**
 * The leases held by this executor. Whether one is still held is judged at the moment of asking on the monotonic
 * clock: a process that was suspended finds its leases gone before any timer of its own has run.
 */
export class Leases {
  readonly #held = new Map<string, HeldLease>();

  /** @param askedAtMs monotonic time before the request that granted it was sent */
  add(lease: Lease, askedAtMs: number): HeldLease {
    const held: HeldLease = {
      lease,
      hold: { lease_id: lease.lease_id, fence: lease.fence },
      heldUntilMs: askedAtMs + lease.ttl_ms,
      stopped: new AbortController(),
    };
    this.#held.set(lease.lease_id, held);
    return held;
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

  get(leaseId: string): HeldLease | undefined {
    return this.#held.get(leaseId);
  }

  all(): HeldLease[] {
    return [...this.#held.values()];
  }

  get size(): number {
    return this.#held.size;
  }
}

export function stopOf(held: HeldLease): Stop | null {
  return held.stopped.signal.aborted ? (held.stopped.signal.reason as Stop) : null;
}
