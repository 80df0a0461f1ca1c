import { LIMITS } from "#core/limits.ts";
import type { ObservationForLease, ObservationsPoll } from "#core/wire/observations.ts";
import type { Channels } from "./channel/channels.ts";
import type { GatewayClient } from "./gateway-client.ts";
import { backoffMs, isPassing, pause } from "./retry.ts";

/** The gateway names an observation until it was received; while its sandbox is not there, not again for so long. */
const REPEAT_MS = 200;

/** Long-polls for observations and puts each into its sandbox, until the signal aborts. */
export async function watchObservations(options: {
  client: Pick<GatewayClient, "observations">;
  channels: Pick<Channels, "inject">;
  signal: AbortSignal;
  onFailure: (error: unknown) => void;
}): Promise<void> {
  const { client, channels, signal } = options;
  let received: NonNullable<ObservationsPoll["received"]> = [];
  let failures = 0;
  while (!signal.aborted) {
    try {
      const waiting = await client.observations(LIMITS.longPollMs, received, signal);
      failures = 0;
      received = lastOfEach(waiting.filter((one) => channels.inject(one)));
      if (waiting.length > 0 && received.length === 0) await pause(REPEAT_MS, signal);
    } catch (error) {
      if (signal.aborted) return;
      options.onFailure(error);
      const wait = backoffMs(++failures, isPassing(error) ? error : undefined);
      await pause(wait, signal).catch(() => {});
    }
  }
}

/** They come in order: whoever has one has those before it. */
function lastOfEach(injected: ObservationForLease[]): NonNullable<ObservationsPoll["received"]> {
  const last = new Map(
    injected.map(({ lease_id, fence, observation }) => [
      `${lease_id} ${fence}`,
      { lease_id, fence, through: observation.seq },
    ]),
  );
  return [...last.values()];
}
