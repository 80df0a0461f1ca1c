/** What running attempts have sent of their trajectories. Parts are only inserted, each where the one before it ends. */
import { hexOf } from "#core/bytes.ts";
import { DsecError } from "#core/errors.ts";
import type { Digest, TaskId } from "#core/ids.ts";
import type { Store } from "#gateway/ports.ts";
import { heldRows } from "./judgement.ts";
import type { StoreContext } from "./store.ts";
import { taskNotFound } from "./tasks.ts";

type TrajectoryMethods = "appendTrajectory" | "listTrajectories" | "listTrajectoryParts";

/** @param findLease says why an executor's part was refused */
export function trajectoryStore(
  { sql, wake }: StoreContext,
  { findLease }: Pick<Store, "findLease">,
): Pick<Store, TrajectoryMethods> {
  return {
    async appendTrajectory(executorId, hold, { offset, size, digest, content }) {
      const [row] = await sql.query<{ task_id: TaskId; end_bytes: string; added: boolean }>(APPEND, [
        ...[executorId, hold.lease_id, hold.fence],
        ...[offset, size, digest, content === null ? null : hexOf(content)],
      ]);
      if (row === undefined) {
        await findLease(executorId, hold);
        throw new DsecError("LEASE_EXPIRED", `lease ${hold.lease_id} ended while its trajectory was sent`);
      }
      const end = Number(row.end_bytes);
      if (row.added) wake.notify(`trace:${row.task_id}`);
      else if (offset + size > end) {
        throw new DsecError(
          "TRACE_GAP",
          `the trajectory of lease ${hold.lease_id} is known up to byte ${end}; the part from ${offset} on cannot follow`,
          { details: { size: end } },
        );
      }
      return { size: row.added ? offset + size : end };
    },

    async listTrajectories(taskId, owner) {
      const rows = await sql.query<TrajectoryRow>(TRAJECTORIES, [taskId, owner]);
      if (rows.length === 0) throw taskNotFound(taskId);
      return rows.flatMap(({ fence, attempt, size, held }) =>
        fence === null ? [] : [{ fence: Number(fence), attempt: attempt!, size: Number(size), held }],
      );
    },

    async listTrajectoryParts(taskId, fence, offset, limit) {
      const rows = await sql.query<PartRow>(PARTS, [taskId, fence, offset, limit]);
      return rows.map(({ at_bytes, size_bytes: size, digest, content }) => ({
        ...{ offset: Number(at_bytes), size },
        ...(content === null
          ? { digest: digest!, content: null }
          : { digest: null, content: new Uint8Array(content) }),
      }));
    },
  };
}

type PartRow = { at_bytes: string; size_bytes: number; digest: Digest | null; content: Uint8Array | null };
type TrajectoryRow = { fence: string | null; attempt: number | null; size: string | null; held: boolean };

/** The lease's row is locked, so that parts of one attempt come one after another. */
const APPEND = `
with input as (select $1::text as executor_id, $2::text as lease_id, $3::bigint as fence),
held as materialized (${heldRows("h.id, h.task_id")}),
known as materialized (
  select held.task_id, l.attempt, coalesce((
    select p.at_bytes + p.size_bytes from trajectory_parts p
    where p.task_id = held.task_id and p.fence = $3 order by p.at_bytes desc limit 1
  ), 0) as end_bytes
  from held join leases l on l.id = held.id
),
added as (
  insert into trajectory_parts (task_id, fence, at_bytes, attempt, size_bytes, digest, content)
  select task_id, $3, $4::bigint, attempt, $5::int, $6, decode($7::text, 'hex') from known where end_bytes = $4::bigint
  returning 1
)
select task_id, end_bytes, exists (select from added) as added from known`;

/** Of a task, the newest first; the one that is held also where it has sent nothing yet. */
const TRAJECTORIES = `
select a.fence, a.attempt, a.size, coalesce(a.held, false) as held from tasks t left join lateral (
  select coalesce(p.fence, l.fence) as fence, coalesce(p.attempt, l.attempt) as attempt, coalesce(p.size, 0) as size,
         l.id is not null as held
  from (
    select fence, max(attempt) as attempt, max(at_bytes + size_bytes) as size from trajectory_parts
    where task_id = t.id group by fence
  ) p full join (select id, fence, attempt from leases where id = t.lease_id) l on l.fence = p.fence
) a on true
where t.id = $1 and ($2::text is null or t.key_id = $2) order by a.fence desc nulls last`;

/** Those that hold bytes from the offset on. */
const PARTS = `
select at_bytes, size_bytes, digest, content from trajectory_parts
where task_id = $1 and fence = $2 and at_bytes + size_bytes > $3::bigint order by at_bytes limit $4`;
