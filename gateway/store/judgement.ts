/** Why a write for a lease was refused. Read after the refusal; the statement itself has already kept the promise. */
import { DsecError } from "#core/errors.ts";
import type { ExecutorId } from "#core/ids.ts";
import { isFinal } from "#core/task.ts";
import type { Hold } from "#core/wire/leases.ts";
import { TASK_COLUMNS, type TaskRow } from "./rows.ts";

/** A lease as it stands beside its task. */
export type LeaseStanding = TaskRow & {
  owner: ExecutorId;
  granted_fence: string;
  current_lease_id: string;
  lease_end: "completed" | "failed" | "released" | "expired" | null;
  over: boolean;
};

export const STANDING_COLUMNS = `${TASK_COLUMNS}, l.executor_id as owner, l.fence as granted_fence,
  t.lease_id as current_lease_id, t.lease_end, t.lease_expires_at <= dsec_now() as over`;

/**
 * The condition under which an executor may write: `i` is what it says, `l` its lease, `t` the task. It stands in
 * every statement that writes for a lease.
 */
export const HELD = `t.lease_id = i.lease_id and t.fence = i.fence and t.executor_id = i.executor_id
  and t.lease_end is null and t.state in ('leased', 'running') and t.lease_expires_at > dsec_now()`;

/** The refusal to give, or undefined where the lease is the task's latest and ended by `end`. */
export function refusal(executorId: ExecutorId, hold: Hold, standing: LeaseStanding | undefined): DsecError {
  const { lease_id: leaseId, fence } = hold;
  if (!standing || standing.owner !== executorId) {
    return new DsecError("LEASE_NOT_FOUND", `executor ${executorId} has no lease ${leaseId}`);
  }
  const { id, state, lease_end } = standing;
  const current = Number(standing.fence);
  if (Number(standing.granted_fence) !== fence || standing.current_lease_id !== leaseId) {
    return new DsecError(
      "LEASE_FENCED",
      `lease ${leaseId} of task ${id}: fence ${fence} was given, ${current} is current; kill the sandbox and write nothing more`,
      { details: { task_id: id, current_fence: current } },
    );
  }
  if (isFinal(state)) {
    return new DsecError("TASK_ALREADY_FINISHED", `task ${id} of lease ${leaseId} is ${state} already`);
  }
  if (standing.over || lease_end === "expired") {
    return new DsecError("LEASE_EXPIRED", `lease ${leaseId} of task ${id} ran out before it was renewed`);
  }
  if (lease_end !== null) {
    return new DsecError("LEASE_EXPIRED", `lease ${leaseId} of task ${id} was ${lease_end}`);
  }
  // Held after all: it changed between the statement and this look at it.
  return new DsecError("STORE_UNAVAILABLE", `lease ${leaseId} of task ${id} was changing; try again`);
}
