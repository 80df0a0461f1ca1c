/** Observations for running sandboxes: taken from owners, handed to executors once they are received there. */
import { DsecError } from "#core/errors.ts";
import type { ExecutorId, KeyId, LeaseId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { TaskState } from "#core/task.ts";
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
        ...[taskId, owner, keyId, idempotencyKey, text, LIMITS.observationsQueued],
      ]);
      const { outcome, state, holder, place, noted_at } = row!;
      switch (outcome) {
        case null:
          throw taskNotFound(taskId);
        case "over":
          throw new DsecError(
            "TASK_ALREADY_FINISHED",
            `task ${taskId} is ${state}: nobody is there to observe anything`,
          );
        case "full":
          throw new DsecError(
            "OBSERVATIONS_FULL",
            `task ${taskId} has ${LIMITS.observationsQueued} observations that no executor has received; wait for them`,
            { details: { retry_after_ms: 1000 } },
          );
        case "reused":
          throw new DsecError(
            "IDEMPOTENCY_KEY_REUSED",
            `task ${taskId}: idempotency key ${JSON.stringify(idempotencyKey)} was used for observation ${place}, which another key made or which says something else; use a new key for a new observation`,
            { details: { seq: place } },
          );
      }
      if (holder !== null) wake.notify(`observe:${holder}`);
      const observed: unknown = JSON.parse(text);
      const observation = { seq: place, from: keyId, at: noted_at.toISOString(), content: observed };
      return { observation, created: outcome === "added" };
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

type AddedRow = { state: TaskState; holder: ExecutorId | null; place: number; noted_at: Date } & {
  /** Null where there is no such task. */
  outcome: "added" | "known" | "reused" | "over" | "full" | null;
};

type WaitingRow = { lease_id: LeaseId; fence: string; seq: number; key_id: KeyId; at: Date; content: string };

const ADD = `
select outcome, state, holder, place, noted_at from dsec_add_observation($1, $2, $3, $4, $5, $6::int)`;

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
