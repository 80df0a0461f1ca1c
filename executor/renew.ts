import { LIMITS } from "#core/limits.ts";
import type { Hold, RenewResponse } from "#core/wire/leases.ts";
import type { GatewayClient } from "./gateway-client.ts";
import { type Leases, stopOf } from "./leases.ts";
import { pause } from "./retry.ts";

/** A lease is renewed once no more than this is left of it, which outlasts a renewal that is not answered. */
const RENEW_AT_LEFT_MS = LIMITS.leaseTtlMs - LIMITS.leaseRenewEveryMs;
/** Renewals keep this apart, also while there is no gateway: a lease is worth the effort. */
const RENEW_APART_MS = 1_000;
/** Leases are looked at so often, for one that comes meanwhile may be due before what is waited for. */
const LOOK_EVERY_MS = 1_000;
/** A lease that comes with less than this may be over before it was looked at and its renewal answered. */
export const LEAST_LEFT_MS = LOOK_EVERY_MS + 1_000;

/**
 * Keeps all held leases until the signal aborts. One of which little is left is renewed, and the others with it. A lease
 * that the gateway calls lost is stopped; so is one whose time ran out with no renewal, for its task may already run
 * elsewhere. Nothing waits for a renewal that is not answered but the next one.
 */
export async function renewLeases(options: {
  client: Pick<GatewayClient, "renew">;
  leases: Leases;
  signal: AbortSignal;
  onFailure: (error: unknown) => void;
}): Promise<void> {
  await Promise.all([renewInTime(options), stopExpired(options)]);
}

type Renewed = { lease: RenewResponse["leases"][number]; askedAtMs: number };

/** Renews the holds in batches. What the gateway says of each is counted from before it was asked. */
export async function* renewals(
  client: Pick<GatewayClient, "renew">,
  holds: Hold[],
  signal: AbortSignal,
): AsyncGenerator<Renewed> {
  for (let at = 0; at < holds.length; at += LIMITS.renewBatch) {
    const askedAtMs = performance.now();
    const answer = await client.renew(holds.slice(at, at + LIMITS.renewBatch), signal);
    for (const lease of answer.leases) yield { lease, askedAtMs };
  }
}

async function renewInTime({ client, leases, signal, onFailure }: Parameters<typeof renewLeases>[0]) {
  let endedAtMs = performance.now();
  const nextAtMs = () => {
    const dueAtMs = firstEndMs(leases) - RENEW_AT_LEFT_MS;
    // What was stopped is renewed on the beat too, until it has been cleared away.
    return Math.max(endedAtMs + RENEW_APART_MS, Math.min(endedAtMs + LIMITS.leaseRenewEveryMs, dueAtMs));
  };
  while (!signal.aborted) {
    await pauseUntil(nextAtMs(), signal);
    if (signal.aborted || performance.now() < nextAtMs()) continue;
    try {
      const holds = leases.all().map(({ hold }) => hold);
      for await (const { lease, askedAtMs } of renewals(client, holds, signal)) {
        if (lease.state === "lost") leases.stop(lease.lease_id, "lost");
        else {
          leases.renewed(lease.lease_id, lease.ttl_ms, askedAtMs);
          if (lease.cancel_requested) leases.stop(lease.lease_id, "cancelled");
        }
      }
    } catch (error) {
      if (!signal.aborted) onFailure(error);
    }
    endedAtMs = performance.now();
  }
}

async function stopExpired({ leases, signal }: Parameters<typeof renewLeases>[0]) {
  while (!signal.aborted) {
    await pauseUntil(firstEndMs(leases), signal);
    const nowMs = performance.now();
    for (const { hold, heldUntilMs } of leases.all()) {
      if (nowMs >= heldUntilMs) leases.stop(hold.lease_id, "lost");
    }
  }
}

/** When the first of the leases that are still held ends. */
function firstEndMs(leases: Leases): number {
  const nowMs = performance.now();
  const held = leases.all().filter((one) => stopOf(one) !== "lost" && nowMs < one.heldUntilMs);
  return Math.min(...held.map(({ heldUntilMs }) => heldUntilMs));
}

async function pauseUntil(timeMs: number, signal: AbortSignal): Promise<void> {
  const ms = Math.min(LOOK_EVERY_MS, Math.max(1, timeMs - performance.now()));
  await pause(ms, signal).catch(() => {});
}
