import { DsecError } from "#core/errors.ts";
import type { Hold } from "#core/wire/leases.ts";
import type { AttemptFolder } from "./attempt-folder.ts";
import { deliver, failLease } from "./deliver.ts";
import { wireText } from "./evidence.ts";
import { type GatewayClient, isLeaseLost } from "./gateway-client.ts";
import type { Leases } from "./leases.ts";
import { commandEnd } from "./outcome.ts";
import { renewals } from "./renew.ts";
import { untilAnswered } from "./retry.ts";
import type { Collector } from "./trace/collector.ts";
import { sendTrajectory } from "./trace/live.ts";
import { isOf } from "./trace/paths.ts";

/**
 * Answers for what an earlier life of this executor left in its attempt folders, after the launcher has removed the
 * sandboxes: a finished attempt is delivered, as long as its lease holds; of any other the gateway is told that it
 * is lost, so that its task need not wait for the lease to expire. Each folder is removed once that is done. What was
 * recorded is kept.
 * @param options.leases where each hold stands until it is answered for, so that it is renewed with the others
 */
export async function recoverAttempts(options: {
  folders: AttemptFolder[];
  /** What was being recorded. */
  trajectories: string[];
  collector: Pick<Collector, "sealLeft">;
  leases: Leases;
  client: Pick<GatewayClient, "renew" | "putBlob" | "complete" | "fail" | "sendTrajectory">;
  signal: AbortSignal;
  onFailure: (error: unknown) => void;
}): Promise<void> {
  const { folders, trajectories, signal, onFailure } = options;
  const ofFolder = (folder: AttemptFolder) =>
    trajectories.find((path) => folder.hold !== null && isOf(path, folder.hold));
  const unfinished = new Set(folders.map(ofFolder));
  const seal = (path: string) => options.collector.sealLeft(path).catch(onFailure);
  // First: what was held before the crash is about to expire.
  const lost = await takeUp(
    folders.flatMap(({ hold }) => hold ?? []),
    options,
  );
  for (const path of trajectories) if (!unfinished.has(path)) await seal(path);
  for (const folder of folders) {
    const trajectory = ofFolder(folder);
    try {
      // Without a hold it is nothing of ours, or answered for and on its way out.
      if (folder.hold !== null && !lost.has(folder.hold.lease_id)) {
        await recoverAttempt(folder, folder.hold, trajectory, options);
      }
      if (trajectory !== undefined) await seal(trajectory);
      // Last: as long as it is there, the next life answers for the attempt.
      await folder.remove();
    } catch (error) {
      if (signal.aborted) return; // the next life tries again
      onFailure(error);
    } finally {
      if (folder.hold !== null) options.leases.remove(folder.hold.lease_id);
    }
  }
}

/** Renews the holds, which from then on are renewed until they are removed. Returns the leases that are held no more. */
async function takeUp(
  holds: Hold[],
  { leases, client, signal, onFailure }: Parameters<typeof recoverAttempts>[0],
): Promise<Set<string>> {
  const lost = new Set<string>();
  const fences = new Map(holds.map(({ lease_id, fence }) => [lease_id, fence]));
  const renew = async () => {
    for await (const { lease, askedAtMs } of renewals(client, holds, signal)) {
      const { lease_id } = lease;
      if (lease.state === "lost") lost.add(lease_id);
      else leases.addRecovered({ lease_id, fence: fences.get(lease_id)! }, lease.ttl_ms, askedAtMs);
    }
  };
  try {
    await untilAnswered(renew, { signal, onFailure });
  } catch (error) {
    // Each is then answered for as long as it holds.
    if (!signal.aborted) onFailure(error);
  }
  return lost;
}

async function recoverAttempt(
  folder: AttemptFolder,
  hold: Hold,
  trajectory: string | undefined,
  options: Parameters<typeof recoverAttempts>[0],
): Promise<void> {
  const { client, signal } = options;
  const finish = await folder.readFinish();
  if (finish === "unreadable") {
    const message = `INTERNAL: what ${hold.lease_id} left when its command had ended cannot be read`;
    await failLease(hold, { message, evidence: null, ended: { exit_code: null, signal: null } }, options);
    return;
  }
  if (finish !== null) {
    try {
      await deliver(finish, folder, { ...options, flushed: Promise.resolve() });
    } catch (error) {
      if (signal.aborted || error instanceof DsecError) throw error;
      // A file of it was removed meanwhile, as old traces are: no later life will find it either.
      options.onFailure(error);
      const why = (error as Error).message;
      const message = wireText(`INTERNAL: what ${hold.lease_id} left cannot be read: ${why}`);
      const ended = commandEnd(finish.complete.result.outcome);
      await failLease(hold, { message, evidence: null, ended }, options);
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
  await failLease(hold, { message, evidence: null, ended: null }, options);
}
