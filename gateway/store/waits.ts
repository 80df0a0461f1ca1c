import type { KeyId, TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { type Candidate, whyQueued } from "#core/placement.ts";
import { AXES, type Resources, WIRE_NAME } from "#core/resources.ts";
import type { TaskState } from "#core/task.ts";
import type { TaskWait } from "#core/wire/task-wait.ts";
import { footprint, type TaskSpec } from "#core/wire/tasks.ts";
import type { Store } from "#gateway/ports.ts";
import { EXECUTOR_LOST } from "./executors.ts";
import { resourcesOf, TASK_FROM, TASK_STATE } from "./rows.ts";
import type { StoreContext } from "./store.ts";
import { taskNotFound } from "./tasks.ts";

/** Why queued tasks wait. */
export function waitStore({ sql }: StoreContext): Pick<Store, "taskWait"> {
  async function candidates(): Promise<Candidate[]> {
    const rows = await sql.query<CandidateRow>(CANDIDATES, []);
    return rows.map((row) => {
      const capacity = resourcesOf(row.capacity);
      const said = resourcesOf(row.free);
      const free = AXES.map((axis, i) => [
        axis,
        Math.max(0, Math.min(said[axis], capacity[axis] - Number(row.held[i]))),
      ]);
      return { ...row, capacity, free: Object.fromEntries(free) as Resources };
    });
  }

  return {
    async taskWait(id: TaskId, keyId: KeyId | null): Promise<TaskWait> {
      const [task] = await sql.query<QueuedRow>(QUEUED, [id, keyId, LIMITS.waitCounted + 1]);
      if (task === undefined) throw taskNotFound(id);
      if (task.available_at === null) return { task_id: id, state: task.state, wait: null };
      const executors = await candidates();
      const ahead = Math.min(task.ahead, LIMITS.waitCounted);
      const { image } = task.spec;
      const { reason, message, axis } = whyQueued(
        { asked: footprint(task.spec), image, retryInMs: task.retry_in_ms },
        { count: ahead, isMore: task.ahead > ahead },
        executors,
      );
      return {
        ...{ task_id: id, state: task.state },
        wait: {
          ...{ reason, message, ahead, executors: executors.length },
          axis: axis === null ? null : WIRE_NAME[axis],
          available_at: task.available_at.toISOString(),
        },
      };
    },
  };
}

type CandidateRow = {
  capacity: number[];
  free: number[];
  held: (number | string)[];
  images: string[];
  draining: boolean;
};
type QueuedRow = {
  state: TaskState;
  spec: TaskSpec;
  /** Null where the task is not queued. */
  available_at: Date | null;
  retry_in_ms: number;
  ahead: number;
};

/** Of those that are connected, with what their leases hold of each axis. */
const CANDIDATES = `
select to_jsonb(x.capacity) as capacity, to_jsonb(x.free) as free, x.images, x.draining,
  (select to_jsonb(array[${AXES.map((_, i) => `coalesce(sum(h.amounts[${i + 1}]), 0)`).join(", ")}])
   from holdings h where h.executor_id = x.id) as held
from executors x where not (${EXECUTOR_LOST})`;

/** The order is that of claims (dsec_acquire), in the parts that the index `queue_order` answers; what is held back for a retry is before nobody. */
const QUEUED = `
select ${TASK_STATE} as state, t.spec, q.available_at,
  coalesce(ceil(extract(epoch from q.available_at - dsec_now()) * 1000), 0)::int as retry_in_ms,
  (select count(*)::int from (
     select from queue o where o.priority > q.priority and o.available_at <= dsec_now()
     union all
     select from queue o
     where o.priority = q.priority and (o.rank, o.task_id) < (q.rank, q.task_id) and o.available_at <= dsec_now()
     limit $3
   ) before) as ahead
from ${TASK_FROM} left join queue q on q.task_id = t.id
where t.id = $1 and ($2::text is null or t.key_id = $2)`;
