import { LIMITS } from "#core/limits.ts";
import type { GatewayClient } from "./gateway-client.ts";
import { type Leases, stopOf } from "./leases.ts";
import { backoffMs, isPassing, pause } from "./retry.ts";

/** The gateway names a cancelled lease until it has ended; that long it is not asked again for nothing new. */
const REPEAT_MS = 200;

/** Long-polls for cancellations and stops their attempts, until the signal aborts. */
export async function watchCancellations(options: {
  client: Pick<GatewayClient, "cancellations">;
  leases: Leases;
  signal: AbortSignal;
  onFailure: (error: unknown) => void;
}): Promise<void> {
  const { client, leases, signal } = options;
  let failures = 0;
  while (!signal.aborted) {
    try {
      const holds = await client.cancellations(LIMITS.longPollMs, signal);
      failures = 0;
      const news = holds.filter((hold) => {
        const held = leases.get(hold.lease_id);
        return held !== undefined && held.hold.fence === hold.fence && stopOf(held) === null;
      });
      for (const hold of news) leases.stop(hold.lease_id, "cancelled");
      if (holds.length > 0 && news.length === 0) await pause(REPEAT_MS, signal);
    } catch (error) {
      if (signal.aborted) return;
      options.onFailure(error);
      const wait = backoffMs(++failures, isPassing(error) ? error : undefined);
      await pause(wait, signal).catch(() => {});
    }
  }
}
