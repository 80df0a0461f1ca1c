/** Why a write for a lease was refused. Read after the refusal; the statement itself has already kept the promise. */
import { DsecError } from "#core/errors.ts";
import type { ExecutorId } from "#core/ids.ts";
import { isFinal } from "#core/task.ts";
import type { Hold } from "#core/wire/leases.ts";
import { TASK_COLUMNS, type TaskRow } from "./rows.ts";

/** A lease as it stands beside its task: held, the latest one ended, or an earlier one. */
export type LeaseStanding = TaskRow & {
  /** Null for a lease that was never granted. */
  owner: ExecutorId | null;
  granted_fence: string;
  current_lease_id: string;
  lease_end: "completed" | "failed" | "released" | "expired" | null;
  over: boolean;
};

/** From STANDING_FROM. A lease with which its task was queued again is the current one until the next is granted. */
export const STANDING_COLUMNS = `${TASK_COLUMNS}, coalesce(e.executor_id, l.executor_id, t.executor_id) as owner,
  coalesce(e.fence, l.fence, t.fence) as granted_fence,
  case when e.fence = coalesce(l.fence, t.fence) then e.id else t.lease_id end as current_lease_id,
  coalesce(e.lease_end, t.lease_end) as lease_end, e.id is null and l.expires_at is not null and l.expires_at <= dsec_now() as over`;

/** The lease with this id, as `e` where its task was queued again after it, beside its task `t` and what `l` that holds now. */
export function standingFrom(leaseId: string): string {
  return `(select coalesce(
    (select past.task_id from past_leases past where past.id = ${leaseId}),
    (select task.id from tasks task where task.lease_id = ${leaseId})) as task_id) f
  join tasks t on t.id = f.task_id left join leases l on l.id = t.lease_id
  left join past_leases e on e.id = ${leaseId}`;
}

/**
 * The leases that executors may write for, out of `input` rows `i` of what they say they hold; locked, each as `h`.
 * It stands in every statement that writes for leases without ending them and reads nothing else that their locks protect:
 * the statement sees all other rows as they were before it waited. What follows names the leases by
 * `id = any(array(select …))`. Locks are taken in the order of lease ids, so that batches over the same leases cannot
 * wait for each other. The shape leaves the planner no choice but the primary key, row by row: while a table is young
 * it has no statistics, and any other way reads the whole of it.
 */
export function heldRows(columns: string, input = "input"): string {
  return `
  select ${columns} from (select * from ${input} order by lease_id) i
  cross join lateral (
    select l.id, l.task_id, l.cancel_requested, l.started_at from leases l
    where l.id = i.lease_id and l.fence = i.fence and l.executor_id = i.executor_id and l.expires_at > dsec_now()
    for update of l
  ) h`;
}

/** How the leases in `input` stand, whoever holds what now: for saying why a write was refused. */
export function standings(input: string, columns: string): string {
  return `
with ${input}
select i.place::int as place, s.* from input i
cross join lateral (
  select ${STANDING_COLUMNS}${columns} from ${standingFrom("i.lease_id")} limit 1
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
