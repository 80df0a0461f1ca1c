import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { ArtifactCache } from "../artifact-cache.ts";
import type { AgentServices } from "../channel/services.ts";
import type { GatewayClient } from "../gateway-client.ts";
import { untilAnswered } from "../retry.ts";
import { mayHaveActed } from "./effects.ts";
import { checkContinuable, recordingUntil } from "./live-point.ts";
import { type Recording, readRecording } from "./recording.ts";
import { Replay } from "./replay.ts";
import { restoreMemory } from "./restore-memory.ts";

type Parts = {
  client: Pick<GatewayClient, "earlierTrace">;
  services: Pick<AgentServices, "memory">;
  artifacts: Pick<ArtifactCache, "acquire" | "release">;
};

/**
 * What an attempt is given before it goes on live, where the task asks for that: what an earlier attempt was given, or the
 * recording that the task goes on from. Its memory is made what it was when that began. Null where there is nothing that
 * must not be done twice.
 * @param directory the attempt's private folder
 * @throws NOT_REPLAYABLE where calls were made that cannot be given again; what the gateway refuses
 */
export async function givenFirst(
  lease: Lease,
  directory: string,
  parts: Parts,
  signal: AbortSignal,
): Promise<Replay | null> {
  const { fast_forward, continues } = lease.spec;
  if (!fast_forward) return null;
  const source = continues === null ? null : await continued(continues, parts.artifacts, signal);
  const earlier = lease.fence === 1 ? null : await farthest(lease, directory, parts.client, signal);
  if (source !== null) {
    // An attempt that came as far as the source did has all of it, with what was made live after it.
    const recording = earlier !== null && reachesBeyond(earlier, source) ? earlier : source;
    return replayOf(recording, "continue", lease, parts, source);
  }
  if (earlier === null || earlier.calls.length === 0) return null;
  const [obstacle] = earlier.obstacles;
  if (obstacle === undefined) return replayOf(earlier, "fast_forward", lease, parts, null);
  if (effectsOf(earlier) === 0) return null;
  throw new DsecError(
    "NOT_REPLAYABLE",
    `attempt ${earlier.header.attempt} made calls that must not be made twice, and its record cannot be given again: ${obstacle}`,
  );
}

/** @param source the recording whose observations were another task's */
async function replayOf(
  recording: Recording,
  mode: "continue" | "fast_forward",
  lease: Lease,
  { services }: Parts,
  source: Recording | null,
): Promise<Replay> {
  await restoreMemory(services.memory, recording, lease);
  return new Replay(recording, {
    ...{ mode, holdAt: null, realTime: false, onCall() {} },
    foreignObservations: Math.max(
      0,
      ...(source?.observations ?? []).map(({ observation }) => observation.seq),
    ),
    onHeld: () => Promise.resolve({ holdAt: null }),
  });
}

/** @throws NOT_REPLAYABLE */
async function continued(
  { trace, until_call }: NonNullable<Lease["spec"]["continues"]>,
  artifacts: Parts["artifacts"],
  signal: AbortSignal,
): Promise<Recording> {
  const digest = trace as Digest;
  const path = await artifacts.acquire(digest, signal);
  try {
    const recording = recordingUntil(await readRecording(path), until_call);
    checkContinuable(recording);
    return recording;
  } finally {
    artifacts.release(digest);
  }
}

/** Whether an attempt went on live: before that it does what the source has, call by call. */
function reachesBeyond(attempt: Recording, source: Recording): boolean {
  return attempt.calls.length >= source.calls.length && effectsOf(attempt) >= effectsOf(source);
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
    // One that left what it was given did nothing beyond it, and has answers that are none.
    const follows = recording.calls.every(({ end }) => end?.code !== "REPLAY_DIVERGED");
    if (follows && (found === null || effectsOf(recording) > effectsOf(found))) found = recording;
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
  return calls.filter(mayHaveActed).length;
}
