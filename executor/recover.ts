import type { AttemptFolder } from "./attempt-folder.ts";
import { deliver, failLease } from "./deliver.ts";
import type { GatewayClient } from "./gateway-client.ts";
import type { Collector } from "./trace/collector.ts";

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
  client: Pick<GatewayClient, "putBlob" | "complete" | "fail">;
  signal: AbortSignal;
  onFailure: (error: unknown) => void;
}): Promise<void> {
  for (const trajectory of options.trajectories) {
    // Up to its last whole flush: that much is known of what happened, and stays on this host.
    await options.collector.sealLeft(trajectory).catch(options.onFailure);
  }
  for (const folder of options.folders) {
    try {
      await recoverAttempt(folder, options);
      await folder.remove();
    } catch (error) {
      if (options.signal.aborted) return; // the next life tries again
      options.onFailure(error);
    }
  }
}

async function recoverAttempt(
  folder: AttemptFolder,
  options: Omit<Parameters<typeof recoverAttempts>[0], "folders" | "trajectories" | "collector">,
): Promise<void> {
  const finish = await folder.readFinish();
  if (finish !== null) {
    await deliver(finish, folder, { ...options, flushed: Promise.resolve() });
    return;
  }
  const { hold } = folder;
  if (hold === null) return; // nothing of ours
  const message = "the executor ended while the attempt ran";
  await failLease(hold, { message, evidence: null }, options);
}
