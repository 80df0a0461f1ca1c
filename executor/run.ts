import { z } from "zod";
import { DsecError } from "#core/errors.ts";
import { type Digest, isDigest } from "#core/ids.ts";
import type { Outcome } from "#core/task.ts";
import type { Result } from "#core/wire/tasks.ts";
import type { LaunchPlan } from "#native/index.ts";
import { signEvidence } from "#trace/attestation/evidence.ts";
import type { Finish } from "./attempt-folder.ts";
import type { ChannelRecord } from "./channel/channel.ts";
import { deliver, failLease } from "./deliver.ts";
import { buildEvidence, EMPTY_STREAM, type HostInfo, type Lived, wireText } from "./evidence.ts";
import { type GatewayClient, isLeaseLost } from "./gateway-client.ts";
import type { Identity } from "./identity.ts";
import type { ImageStore } from "./images/store.ts";
import { type HeldLease, type Leases, stopOf } from "./leases.ts";
import type { LiveEvents } from "./live-events.ts";
import { commandEnd, launchFailed, recordFailed } from "./outcome.ts";
import type { Place } from "./place.ts";
import type { Places } from "./places.ts";
import { untilAnswered } from "./retry.ts";
import { Interrupted, runInSandbox, type SandboxParts, withoutOutputs } from "./sandbox-run.ts";

/** What became of an attempt, told as it happens. */
export type AttemptEvent = { taskId: string; leaseId: string } & (
  | { type: "leased" | "running" | "delivered" | "lost" | "released" }
  | { type: "ended"; outcome: Outcome }
  | { type: "failed"; message: string }
);

export type RunParts = SandboxParts & {
  executorId: string;
  host: HostInfo;
  hostViewDigest: Digest;
  identity: Identity;
  client: GatewayClient;
  leases: Leases;
  images: ImageStore;
  live: LiveEvents;
  places: Places;
  onFailure: (error: unknown) => void;
  onEvent: (event: AttemptEvent) => void;
};

/**
 * Runs one attempt from its lease to the gateway's answer. It never rejects: whatever goes wrong is told to the
 * gateway while the lease is held, and nothing is told once it is lost. On return nothing of the attempt is left on
 * this host, except a result that could not be delivered before `closing`: its folder stays for the next life.
 * @param freed called when the attempt's resources are free again, which is before its delivery, and again at the end
 */
export async function runAttempt(held: HeldLease, parts: RunParts, freed: () => void): Promise<void> {
  const { lease, hold } = held;
  const tell = (event: Told) => parts.onEvent({ ...event, taskId: lease.task_id, leaseId: lease.lease_id });
  let place: Place | null = null;
  const onRunning = () => {
    parts.live.running(hold);
    tell({ type: "running" });
  };
  let destroyed: Promise<void> = Promise.resolve();
  let known: Known = { channel: null, ended: null };
  try {
    place = await parts.places.take(hold);
    const ended = await endOf(held, place, onRunning, parts);
    const { lived, channel, result } = ended;
    known = { channel, ended: lived && { lived, outcome: result.outcome } };
    destroyed = ended.destroyed.finally(freed);
    destroyed.catch(parts.onFailure);
    if (stopOf(held) === "lost") throw held.stopped.signal.reason;
    const finish = await signFinish(held, ended, parts);
    place.folder.writeFinish(finish);
    tell({ type: "ended", outcome: finish.complete.result.outcome });
    const flushed = parts.live.flushed(lease.lease_id);
    // What it said has been heard, and who waits for its end does not begin anything yet.
    void flushed.then(() => parts.places.prepare());
    tell({ type: await deliver(finish, place.folder, { ...parts, signal: parts.closing, flushed }) });
    await place.remove();
  } catch (error) {
    const [fault, left] = error instanceof Interrupted ? [error.cause, error] : [error, known];
    if (await giveUp(held, fault, left, parts, tell)) await place?.remove();
  } finally {
    // Of one that stays for the next life too.
    await place?.door.close();
    parts.live.drop(lease.lease_id);
    await destroyed.catch(() => {}); // told above
    freed();
  }
}

type Told =
  | { type: "running" | "delivered" | "lost" | "released" }
  | { type: "ended"; outcome: Outcome }
  | { type: "failed"; message: string };

/** What is known of an attempt that comes to no result. */
type Known = Pick<Interrupted, "channel" | "ended">;

/** How an attempt ended, with or without a sandbox. */
type Finished = {
  imageDigest: Digest;
  lived: Lived | null;
  channel: ChannelRecord | null;
  result: Result;
  destroyed: Promise<void>;
};

async function endOf(
  held: HeldLease,
  place: Place,
  onRunning: () => void,
  parts: RunParts,
): Promise<Finished> {
  const image = await findImage(held.lease.spec.image, parts);
  try {
    const { lived, channel, destroyed, ...result } = await runInSandbox(
      held,
      image.lower,
      place,
      onRunning,
      parts,
    );
    return { imageDigest: image.digest, lived, channel, result, destroyed };
  } catch (error) {
    if (stopOf(held) !== "cancelled") throw error;
    const outcome: Outcome = { reason: "cancelled", exit_code: null, signal: null, message: null };
    return {
      imageDigest: image.digest,
      lived: null,
      channel: error instanceof Interrupted ? error.channel : null,
      result: emptyResult(outcome),
      destroyed: Promise.resolve(),
    };
  }
}

async function findImage(
  name: string,
  parts: RunParts,
): Promise<{ digest: Digest; lower: LaunchPlan["image"] }> {
  if (name === "host") return { digest: parts.hostViewDigest, lower: { kind: "host" } };
  const { digest, path } = await parts.images.find(name);
  return { digest, lower: { kind: "erofs", path } };
}

async function signFinish(held: HeldLease, ended: Finished, parts: RunParts): Promise<Finish> {
  const { lease, hold } = held;
  const sign = async (result: Result): Promise<Finish> => {
    const { imageDigest, lived, channel } = ended;
    const facts = { ...parts, lease, imageDigest, lived, channel, result };
    const evidence = await signEvidence(buildEvidence(facts), parts.identity.sign);
    return { hold, complete: { fence: hold.fence, result, evidence }, trace: channel?.trace ?? null };
  };
  try {
    return await sign(ended.result);
  } catch (error) {
    if (!(error instanceof DsecError) || error.code !== "OUTPUT_TOO_LARGE") throw error;
    return sign({ ...ended.result, outputs: [], outcome: withoutOutputs(ended.result.outcome, error) });
  }
}

/**
 * Ends an attempt that has no result. Returns whether its folder may go: not where this executor ends before the
 * gateway has heard of it.
 */
async function giveUp(
  held: HeldLease,
  error: unknown,
  known: Known,
  parts: RunParts,
  tell: (event: Told) => void,
): Promise<boolean> {
  const { hold } = held;
  const stop = stopOf(held);
  const { closing: signal, onFailure } = parts;
  try {
    if (stop === "lost") {
      tell({ type: "lost" });
    } else if (stop === "released") {
      await untilAnswered(() => parts.client.release(hold, signal), { signal, onFailure });
      tell({ type: "released" });
    } else {
      if (signal.aborted) return false;
      const message = describeFailure(error, held);
      const ended = known.ended && commandEnd(known.ended.outcome);
      const outcome = ended === null ? launchFailed(message) : recordFailed(ended, message);
      const evidence = await failureEvidence(held, outcome, known, parts);
      const trace = known.channel?.trace ?? null;
      await failLease(hold, { message, evidence, ended, trace }, { ...parts, signal });
      tell({ type: "failed", message });
    }
  } catch (failure) {
    if (signal.aborted) return false;
    // The lease is gone, or it cannot be given back: either way it ends by its time.
    if (!isLeaseLost(failure)) onFailure(failure);
    tell({ type: "lost" });
  }
  return true;
}

/** Evidence that a fault of ours ended the attempt; null where not even the image is known. */
async function failureEvidence(
  held: HeldLease,
  outcome: Outcome,
  { channel, ended }: Known,
  parts: RunParts,
): Promise<string | null> {
  const { lease } = held;
  const name = lease.spec.image;
  const found = await findImage(name, parts).catch(() => null);
  const imageDigest = found?.digest ?? (isDigest(name) ? name : null);
  if (imageDigest === null) return null;
  const facts = {
    ...parts,
    lease,
    imageDigest,
    lived: ended?.lived ?? null,
    channel,
    result: emptyResult(outcome),
  };
  return signEvidence(buildEvidence(facts), parts.identity.sign);
}

export function emptyResult(outcome: Outcome): Result {
  return { outcome, outputs: [], stdout: EMPTY_STREAM, stderr: EMPTY_STREAM };
}

function describeFailure(error: unknown, { hold, lease }: HeldLease): string {
  if (error instanceof DsecError) return wireText(`${error.code}: ${error.message}`);
  const attempt = `${hold.lease_id} of ${lease.task_id}`;
  // Its message is JSON, of members that nobody outside knows.
  if (error instanceof z.ZodError) {
    const member = error.issues[0]?.path.join(".") ?? "";
    return `INTERNAL: ${attempt}: what was recorded is not of its own form${member && ` (${member})`}`;
  }
  return wireText(`INTERNAL: ${attempt}: ${error instanceof Error ? error.message : String(error)}`);
}
