import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { toWire } from "#core/wire/common.ts";
import type { GatewayClient } from "./gateway-client.ts";
import type { ImageStore } from "./images/store.ts";
import type { Leases } from "./leases.ts";
import type { Ledger } from "./ledger.ts";
import { pause } from "./retry.ts";

/**
 * Says every `heartbeatEveryMs` that this executor lives, with its capacity, what is free and its images, until the
 * signal aborts. `onDraining` hears whether an administrator wants it drained; `enrolAgain` is called where the
 * gateway does not know this executor, as after its database was replaced.
 */
export async function sendHeartbeats(options: {
  client: Pick<GatewayClient, "heartbeat">;
  ledger: Ledger;
  leases: Leases;
  images: ImageStore;
  /** Without it there is no disk free for tasks, whatever they hold of it. */
  hasRoom: () => boolean;
  signal: AbortSignal;
  onDraining: (draining: boolean) => void;
  enrolAgain: () => Promise<unknown>;
  onFailure: (error: unknown) => void;
}): Promise<void> {
  const { client, ledger, leases, images, signal } = options;
  while (!signal.aborted) {
    try {
      const beat = {
        capacity: toWire(ledger.capacity),
        free: toWire(options.hasRoom() ? ledger.free() : { ...ledger.free(), disk_mb: 0 }),
        images: await imageNames(images),
        running: leases.size,
      };
      options.onDraining((await client.heartbeat(beat, signal)).draining);
    } catch (error) {
      if (signal.aborted) return;
      options.onFailure(error);
      if (isUnknown(error)) await options.enrolAgain().catch(options.onFailure);
    }
    await pause(LIMITS.heartbeatEveryMs, signal).catch(() => {});
  }
}

/** Names and digests of the images that can be run, besides `host`; at most what the wire takes. */
export async function imageNames(images: ImageStore): Promise<string[]> {
  const stored = await images.list();
  return stored.flatMap((image) => [...image.names, image.digest]).slice(0, 1000);
}

function isUnknown(error: unknown): boolean {
  return (
    error instanceof DsecError && (error.code === "EXECUTOR_NOT_FOUND" || error.code === "UNAUTHENTICATED")
  );
}
