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
 * The tasks that executors may write to, out of `input` rows `i` of what they say they hold; locked, each as `t` with
 * its lease `l`. It stands in every statement that writes for a lease. Locks are taken in the order of lease ids, so
 * that batches over the same leases cannot wait for each other. The shape leaves the planner no choice but the two
 * primary keys, row by row: while a table is young it has no statistics, and any other way reads the whole of it.
 */
export function heldRows(columns: string, input = "input"): string {
  return `
  select ${columns} from (select * from ${input} order by lease_id) i
  cross join lateral (
    select t.id, t.state from leases l join tasks t on t.id = l.task_id
    where l.id = i.lease_id and (
      t.lease_id = i.lease_id and t.fence = i.fence and t.executor_id = i.executor_id
      and t.lease_end is null and t.state in ('leased', 'running') and t.lease_expires_at > dsec_now()
    ) is true
    for update of t
  ) h`;
}

/** How the leases in `input` stand, whoever holds what now: for saying why a write was refused. */
export function standings(input: string, columns: string): string {
  return `
with ${input}
select i.place::int as place, s.* from input i
cross join lateral (
  select ${STANDING_COLUMNS}${columns} from leases l join tasks t on t.id = l.task_id where l.id = i.lease_id limit 1
) s`;
}

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
