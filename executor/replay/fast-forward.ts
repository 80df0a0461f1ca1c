import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { DsecError } from "#core/errors.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { AgentServices } from "../channel/services.ts";
import type { GatewayClient } from "../gateway-client.ts";
import { untilAnswered } from "../retry.ts";
import { type Recording, readRecording } from "./recording.ts";
import { hasEffects, Replay } from "./replay.ts";
import { restoreMemory } from "./restore-memory.ts";

/**
 * What an attempt is given before it goes on live, where the task asks for that and an earlier attempt was begun: its memory
 * is set back to what it was at that attempt's start. Null where there is nothing that must not be done twice.
 * @param directory the attempt's private folder
 * @throws NOT_REPLAYABLE where calls were made that cannot be given again; what the gateway refuses
 */
export async function fastForward(
  lease: Lease,
  directory: string,
  parts: { client: Pick<GatewayClient, "earlierTrace">; services: Pick<AgentServices, "memory"> },
  signal: AbortSignal,
): Promise<Replay | null> {
  if (!lease.spec.fast_forward || lease.fence === 1) return null;
  const earlier = await farthest(lease, directory, parts.client, signal);
  if (earlier === null || earlier.calls.length === 0) return null;
  const [obstacle] = earlier.obstacles;
  if (obstacle !== undefined) {
    if (effectsOf(earlier) === 0) return null;
    throw new DsecError(
      "NOT_REPLAYABLE",
      `attempt ${earlier.header.attempt} made calls that must not be made twice, and its record cannot be given again: ${obstacle}`,
    );
  }
  await restoreMemory(parts.services.memory, earlier, lease);
  return new Replay(earlier, {
    ...{ mode: "fast_forward", holdAt: null, realTime: false, onCall() {} },
    onHeld: () => Promise.resolve({ holdAt: null }),
  });
}

/**
 * The record that reaches farthest. It need not be the newest: an attempt that was itself lost while it was given what came
 * before has told only of a part.
 */
async function farthest(
  lease: Lease,
  directory: string,
  client: Pick<GatewayClient, "earlierTrace">,
  signal: AbortSignal,
): Promise<Recording | null> {
  let found: Recording | null = null;
  for (let before = lease.fence; before > 1; ) {
    const file = join(directory, `before-${before}.traj`);
    if (!(await fetched(lease, before, file, client, signal))) break;
    const recording = await readRecording(file);
    if (found === null || effectsOf(recording) > effectsOf(found)) found = recording;
    const { fence } = recording.header;
    if (fence === null || fence >= before) break;
    before = fence;
  }
  return found;
}

/** False where nothing was recorded before. */
async function fetched(
  hold: Lease,
  before: number,
  file: string,
  client: Pick<GatewayClient, "earlierTrace">,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await untilAnswered(
      async () => {
        const content = await client.earlierTrace(hold, before, signal);
        await pipeline(content, createWriteStream(file, { mode: 0o600 }), { signal });
      },
      { signal },
    );
    return true;
  } catch (error) {
    if (error instanceof DsecError && error.code === "OUTPUT_NOT_FOUND") return false;
    throw error;
  }
}

function effectsOf({ calls }: Recording): number {
  return calls.filter(({ start }) => hasEffects(start)).length;
}
