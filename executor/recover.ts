import { DsecError } from "#core/errors.ts";
import type { AttemptFolder } from "./attempt-folder.ts";
import { deliver, failLease } from "./deliver.ts";
import { wireText } from "./evidence.ts";
import { type GatewayClient, isLeaseLost } from "./gateway-client.ts";
import { untilAnswered } from "./retry.ts";
import type { Collector } from "./trace/collector.ts";
import { sendTrajectory } from "./trace/live.ts";
import { isOf } from "./trace/paths.ts";

/**
 * Answers for what an earlier life of this executor left in its attempt folders, after the launcher has removed the
 * sandboxes: a finished attempt is delivered, as long as its lease holds; of any other the gateway is told that it
 * is lost, so that its task need not wait for the lease to expire. Each folder is removed once that is done. What was
 * recorded is kept.
 */
export async function recoverAttempts(options: {
  folders: AttemptFolder[];
  /** What was being recorded. */
  trajectories: string[];
  collector: Pick<Collector, "sealLeft">;
  client: Pick<GatewayClient, "putBlob" | "complete" | "fail" | "sendTrajectory">;
  signal: AbortSignal;
  onFailure: (error: unknown) => void;
}): Promise<void> {
  const { folders, trajectories, signal, onFailure } = options;
  const ofFolder = (folder: AttemptFolder) =>
    trajectories.find((path) => folder.hold !== null && isOf(path, folder.hold));
  const unfinished = new Set(folders.map(ofFolder));
  const seal = (path: string) => options.collector.sealLeft(path).catch(onFailure);
  for (const path of trajectories) if (!unfinished.has(path)) await seal(path);
  for (const folder of folders) {
    const trajectory = ofFolder(folder);
    try {
      await recoverAttempt(folder, trajectory, options);
      if (trajectory !== undefined) await seal(trajectory);
      // Last: as long as it is there, the next life answers for the attempt.
      await folder.remove();
    } catch (error) {
      if (signal.aborted) return; // the next life tries again
      onFailure(error);
    }
  }
}

async function recoverAttempt(
  folder: AttemptFolder,
  trajectory: string | undefined,
  options: Parameters<typeof recoverAttempts>[0],
): Promise<void> {
  const { client, signal } = options;
  const { hold } = folder;
  if (hold === null) return; // nothing of ours, or answered for and on its way out
  const finish = await folder.readFinish();
  if (finish !== null) {
    try {
      await deliver(finish, folder, { ...options, flushed: Promise.resolve() });
    } catch (error) {
      if (signal.aborted || error instanceof DsecError) throw error;
      // A file of it was removed meanwhile, as old traces are: no later life will find it either.
      options.onFailure(error);
      const message = wireText(`what the attempt left cannot be read: ${(error as Error).message}`);
      await failLease(hold, { message, evidence: null }, options);
    }
    return;
  }
  if (trajectory !== undefined) {
    // The next attempt is to know all that this one did.
    await sendTrajectory(trajectory, 0, Number.POSITIVE_INFINITY, (offset, bytes) =>
      untilAnswered(() => client.sendTrajectory(hold, offset, bytes, signal), { signal }),
    ).catch((error: unknown) => {
      if (signal.aborted) throw error;
      if (!isLeaseLost(error)) options.onFailure(error);
    });
  }
  const message = "the executor ended while the attempt ran";
  await failLease(hold, { message, evidence: null }, options);
}
