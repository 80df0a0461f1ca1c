/** Observations for running sandboxes: taken from owners, handed to executors once they are received there. */
import { DsecError } from "#core/errors.ts";
import type { ExecutorId, KeyId, LeaseId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { isFinal, type TaskState } from "#core/task.ts";
import type { Store } from "#gateway/ports.ts";
import type { StoreContext } from "./store.ts";
import { taskNotFound } from "./tasks.ts";
import { storableJson } from "./text.ts";

type ObservationMethods = "addObservation" | "waitingObservations" | "observationsReceived";

export function observationStore({ sql, wake }: StoreContext): Pick<Store, ObservationMethods> {
  return {
    async addObservation({ taskId, owner, keyId, content, idempotencyKey }) {
      const text = storableJson(content);
      const [row] = await sql.query<AddedRow>(ADD, [
        taskId,
        owner,
        keyId,
        text,
        idempotencyKey,
        LIMITS.observationsQueued,
      ]);
      if (!row) throw taskNotFound(taskId);
      if (isFinal(row.state)) {
        throw new DsecError(
          "TASK_ALREADY_FINISHED",
          `task ${taskId} is ${row.state}: nobody is there to observe anything`,
        );
      }
      if (row.seq === null || row.at === null) {
        throw new DsecError(
          "OBSERVATIONS_FULL",
          `task ${taskId} has ${LIMITS.observationsQueued} observations that no executor has received; wait for them`,
          { details: { retry_after_ms: 1000 } },
        );
      }
      if (row.executor_id !== null) wake.notify(`observe:${row.executor_id}`);
      const observation = {
        seq: row.seq,
        from: row.from,
        at: row.at.toISOString(),
        content: JSON.parse(row.content) as unknown,
      };
      return { observation, created: row.created };
    },

    async waitingObservations(executorId) {
      const rows = await sql.query<WaitingRow>(WAITING, [executorId, LIMITS.observationsQueued]);
      return rows.map(({ lease_id, fence, seq, key_id: from, at, content }) => ({
        lease_id,
        fence: Number(fence),
        observation: { seq, from, at: at.toISOString(), content: JSON.parse(content) as unknown },
      }));
    },

    async observationsReceived(executorId, received) {
      if (received.length > 0) await sql.query(RECEIVED, [executorId, JSON.stringify(received)]);
    },
  };
}

type AddedRow = {
  state: TaskState;
  executor_id: ExecutorId | null;
  seq: number | null;
  from: KeyId;
  at: Date | null;
  content: string;
  created: boolean;
};

type WaitingRow = { lease_id: LeaseId; fence: string; seq: number; key_id: KeyId; at: Date; content: string };

/** Numbers are given out under the task's row lock. An idempotency key that was used names what it made then. */
const ADD = `
with task as materialized (
  select t.id, t.state, (select l.executor_id from leases l where l.id = t.lease_id) as executor_id from tasks t
  where t.id = $1 and ($2::text is null or t.key_id = $2) for update
),
before as materialized (
  select o.seq, o.key_id, o.at, o.content from observations o join task on task.id = o.task_id
  where o.idempotency_key = $5::text
),
waiting as (
  select count(*) as count from observations o join task on task.id = o.task_id where o.received_fence is null
),
added as (
  insert into observations (task_id, seq, key_id, idempotency_key, at, content)
  select task.id, (select coalesce(max(o.seq), 0) + 1 from observations o where o.task_id = task.id), $3, $5::text,
         dsec_now(), $4
  from task where task.state in ('queued', 'leased', 'running') and not exists (select 1 from before)
    and (select count from waiting) < $6::int
  returning seq, key_id, at, content
)
select case when b.seq is null then task.state else 'running' end as state, task.executor_id,
       coalesce(a.seq, b.seq) as seq, coalesce(a.key_id, b.key_id) as "from", coalesce(a.at, b.at) as at,
       coalesce(a.content, b.content) as content, a.seq is not null as created
from task left join added a on true left join before b on true`;

/** Those of tasks that the executor holds, and that it has not said to have received. */
const WAITING = `
select l.id as lease_id, l.fence::text as fence, o.seq, o.key_id, o.at, o.content
from observations o join tasks t on t.id = o.task_id join leases l on l.id = t.lease_id
where o.received_fence is null and l.executor_id = $1
order by o.task_id, o.seq limit $2`;

/** Of a lease that is another's by now nothing was received: the next attempt is to get it. */
const RECEIVED = `
update observations o set received_fence = i.fence
from jsonb_to_recordset($2::text::jsonb) as i (lease_id text, fence bigint, through int)
join leases l on l.id = i.lease_id and l.fence = i.fence and l.executor_id = $1
where o.task_id = l.task_id and o.seq <= i.through and o.received_fence is null`;
