/** What running attempts have sent of their trajectories. Parts are only inserted, each where the one before it ends. */
import { hexOf } from "#core/bytes.ts";
import { DsecError } from "#core/errors.ts";
import type { Digest, TaskId } from "#core/ids.ts";
import type { Store } from "#gateway/ports.ts";
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
      const [row] = await sql.query<AppendedRow>(APPEND, [
        ...[executorId, hold.lease_id, hold.fence],
        ...[offset, size, digest, content === null ? null : hexOf(content)],
      ]);
      if (row!.task_id === null) {
        await findLease(executorId, hold);
        throw new DsecError("LEASE_EXPIRED", `lease ${hold.lease_id} ended while its trajectory was sent`);
      }
      const { task_id, end_bytes, added } = row!;
      const end = Number(end_bytes);
      if (added) wake.notify(`trace:${task_id}`);
      else if (offset + size > end) {
        throw new DsecError(
          "TRACE_GAP",
          `the trajectory of lease ${hold.lease_id} is known up to byte ${end}; the part from ${offset} on cannot follow`,
          { details: { size: end } },
        );
      }
      return { size: added ? offset + size : end };
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

/** `task_id` is null where the lease is not held. */
type AppendedRow = { task_id: TaskId; end_bytes: string; added: boolean } | { task_id: null };
type PartRow = { at_bytes: string; size_bytes: number; digest: Digest | null; content: Uint8Array | null };
type TrajectoryRow = { fence: string | null; attempt: number | null; size: string | null; held: boolean };

const APPEND = `
select task as task_id, end_bytes, added
from dsec_append_trajectory($1, $2, $3::bigint, $4::bigint, $5::int, $6, decode($7::text, 'hex'))`;

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
