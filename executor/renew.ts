import { LIMITS } from "#core/limits.ts";
import type { GatewayClient } from "./gateway-client.ts";
import type { Leases } from "./leases.ts";
import { isPassing, pause } from "./retry.ts";

/** After a renewal that found no gateway the next is tried this soon: a lease is worth the effort. */
const RETRY_MS = 1_000;

/**
 * Renews all held leases in batches until the signal aborts. A lease that the gateway calls lost is stopped; so is
 * one whose time ran out with no renewal, for its task may already run elsewhere.
 */
export async function renewLeases(options: {
  client: Pick<GatewayClient, "renew">;
  leases: Leases;
  signal: AbortSignal;
  renewEveryMs?: number;
  onFailure: (error: unknown) => void;
}): Promise<void> {
  const { client, leases, signal } = options;
  const renewEveryMs = options.renewEveryMs ?? LIMITS.leaseRenewEveryMs;
  let nextAtMs = performance.now() + renewEveryMs;
  while (!signal.aborted) {
    await pauseUntil(Math.min(nextAtMs, nextExpiryMs(leases)), signal);
    stopExpired(leases);
    if (performance.now() < nextAtMs) continue;
    nextAtMs = performance.now() + renewEveryMs;
    try {
      await renewAll(client, leases, signal);
    } catch (error) {
      if (signal.aborted) return;
      options.onFailure(error);
      if (isPassing(error)) nextAtMs = performance.now() + Math.min(RETRY_MS, renewEveryMs);
    }
  }
}

async function renewAll(
  client: Pick<GatewayClient, "renew">,
  leases: Leases,
  signal: AbortSignal,
): Promise<void> {
  const holds = leases.all().map((held) => held.hold);
  for (let at = 0; at < holds.length; at += LIMITS.renewBatch) {
    const askedAtMs = performance.now();
    const answer = await client.renew(holds.slice(at, at + LIMITS.renewBatch), signal);
    for (const lease of answer.leases) {
      if (lease.state === "lost") leases.stop(lease.lease_id, "lost");
      else {
        leases.renewed(lease.lease_id, lease.ttl_ms, askedAtMs);
        if (lease.cancel_requested) leases.stop(lease.lease_id, "cancelled");
      }
    }
  }
}

function stopExpired(leases: Leases): void {
  const nowMs = performance.now();
  for (const held of leases.all()) {
    if (nowMs >= held.heldUntilMs) leases.stop(held.lease.lease_id, "lost");
  }
}

function nextExpiryMs(leases: Leases): number {
  const nowMs = performance.now();
  const times = leases.all().map((held) => held.heldUntilMs);
  return Math.min(...times.filter((time) => time > nowMs), Number.POSITIVE_INFINITY);
}

async function pauseUntil(timeMs: number, signal: AbortSignal): Promise<void> {
  // At most a second at a time: leases that come meanwhile may expire sooner than what is waited for.
  const ms = Math.min(1_000, Math.max(1, timeMs - performance.now()));
  await pause(ms, signal).catch(() => {});
}
