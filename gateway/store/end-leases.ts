import type { DsecError } from "#core/errors.ts";
import type { ExecutorId } from "#core/ids.ts";
import { isRetriable, type Outcome, stateAfter } from "#core/task.ts";
import type { Attestation } from "#core/wire/attestations.ts";
import type { Hold } from "#core/wire/leases.ts";
import type { Result, Task } from "#core/wire/tasks.ts";
import type { Store } from "#gateway/ports.ts";
import { coalesce } from "./coalesce.ts";
import { BACKOFFS_MS, endedWithoutResult } from "./ends.ts";
import { heldRows, type LeaseStanding, refusal, standings } from "./judgement.ts";
import { TASK_COLUMNS, type TaskRow, taskOf } from "./rows.ts";
import { isPoison } from "./sql.ts";
import type { StoreContext } from "./store.ts";
import { storableJson } from "./text.ts";

type End = { executorId: ExecutorId; hold: Hold; how: "completed" | "failed" | "released"; json: string };

/** The three ways in which an executor ends its lease. */
export function leaseEnder({
  sql,
  wake,
}: StoreContext): Pick<Store, "completeLease" | "failLease" | "releaseLease"> {
  const end = coalesce<End, Task>({
    run: endBatch,
    weigh: (item) => 1 + item.json.length / 8192,
    mayBePoisoned: isPoison,
  });

  async function endBatch(ends: End[]): Promise<(Task | Error)[]> {
    const input = `[${ends.map((item) => item.json).join(",")}]`;
    const rows = await sql.query<TaskRow & { place: number }>(END, [input, BACKOFFS_MS]);
    const tasks: (Task | Error | undefined)[] = ends.map(() => undefined);
    for (const row of rows) {
      tasks[row.place - 1] = taskOf(row);
      wake.notify(`task:${row.id}`);
    }
    if (rows.some((row) => row.state === "queued")) wake.notify("queue");
    if (rows.length < ends.length) await judgeRest(ends, input, tasks);
    return tasks as (Task | Error)[];
  }

  async function judgeRest(ends: End[], input: string, tasks: (Task | Error | undefined)[]): Promise<void> {
    const rows = await sql.query<LeaseStanding & { place: number; same_result: boolean }>(STANDINGS, [input]);
    const standings = new Map(rows.map((row) => [row.place, row]));
    ends.forEach((item, i) => {
      tasks[i] ??= repeatedOrRefused(item, standings.get(i + 1));
    });
  }

  const ended = (
    how: End["how"],
    executorId: ExecutorId,
    hold: Hold,
    result: Result,
    attestation: Attestation | null,
  ): Promise<Task> => {
    const { outcome } = result;
    const json = storableJson({
      executor_id: executorId,
      ...hold,
      how,
      retriable: isRetriable(outcome.reason),
      final_state: stateAfter(outcome, 0),
      reason: how === "released" ? "released" : outcome.reason,
      result,
      attestation,
    });
    return end({ executorId, hold, how, json });
  };

  return {
    completeLease: (executorId, hold, result, attestation) =>
      ended("completed", executorId, hold, result, attestation),
    failLease: (executorId, hold, outcome, attestation) =>
      ended("failed", executorId, hold, resultOf(outcome), attestation),
    releaseLease: (executorId, hold) => ended("released", executorId, hold, RELEASED, null),
  };
}

/** What a released task is left with where it was to be cancelled, and so is not queued again. */
const RELEASED = endedWithoutResult("cancelled", "cancelled; the executor gave it back");

function resultOf(outcome: Outcome): Result {
  const result = endedWithoutResult(outcome.reason, outcome.message ?? "");
  return { ...result, outcome: { ...outcome, message: outcome.message && result.outcome.message } };
}

/** An executor whose answer was lost asks again: the same end of the same lease is the same answer. */
function repeatedOrRefused(
  { executorId, hold, how }: End,
  standing: (LeaseStanding & { same_result: boolean }) | undefined,
): Task | DsecError {
  const repeated =
    standing &&
    standing.owner === executorId &&
    standing.current_lease_id === hold.lease_id &&
    Number(standing.granted_fence) === hold.fence &&
    standing.lease_end === how &&
    (standing.result === null || standing.same_result);
  return repeated ? taskOf(standing) : refusal(executorId, hold, standing);
}

const INPUT = `
input as materialized (
  select * from rows from (
    jsonb_to_recordset($1::text::jsonb) as (
      executor_id text, lease_id text, fence bigint, how text, retriable boolean, final_state text, reason text,
      result jsonb, attestation jsonb)
  ) with ordinality as i(executor_id, lease_id, fence, how, retriable, final_state, reason, result, attestation, place)
)`;

/** Where the task goes: back to the queue for another attempt, or to its last state. */
const NEXT = `case
  when i.how <> 'released' and not i.retriable then i.final_state
  when t.cancel_requested then 'cancelled'
  when i.how = 'released' or t.attempts < t.attempts_max then 'queued'
  else 'dead' end`;

/**
 * The end, its event, the attestation and what the key may name from now on are one statement. A release gives the
 * attempt back; an attempt that failed through a fault of ours waits for its back-off.
 */
const END = `
with ${INPUT},
held as materialized (${heldRows("i.place, h.id")}
),
ended as (
  update tasks t
  set state = ${NEXT},
      result = case when ${NEXT} = 'queued' then null else i.result end,
      finished_at = case when ${NEXT} = 'queued' then null else dsec_now() end,
      attestation_id = case when ${NEXT} = 'queued' then null else i.attestation ->> 'id' end,
      attempts = case when i.how = 'released' then t.attempts - 1 else t.attempts end,
      available_at = case when i.how <> 'released' and ${NEXT} = 'queued'
        then dsec_now() + ($2::text::jsonb ->> (t.attempts - 1))::int * interval '1 ms' else t.available_at end,
      lease_end = i.how, last_seq = t.last_seq + 1
  from held h join input i using (place) where t.id = h.id
  returning t.*, i.place, i.reason, i.attestation
),
logged as (
  insert into task_events (task_id, seq, at, type, fence, state, reason)
  select e.id, e.last_seq, dsec_now(), 'state', e.fence, e.state,
         case e.state when 'cancelled' then 'cancelled' else e.reason end
  from ended e
),
attested as (
  insert into attestations (id, task_id, fence, jwt, evidence, issued_at)
  select e.attestation ->> 'id', e.id, e.fence, e.attestation ->> 'jwt', e.attestation ->> 'evidence',
         (e.attestation ->> 'issued_at')::timestamptz
  from ended e where jsonb_typeof(e.attestation) = 'object'
),
known as (
  insert into artifacts (key_id, digest, size_bytes, created_at)
  select e.key_id, a.digest, max(a.size), dsec_now()
  from ended e cross join lateral (
    select o ->> 'digest' as digest, (o ->> 'size')::bigint as size from jsonb_array_elements(e.result -> 'outputs') o
    union all
    select e.result -> s ->> 'digest', (e.result -> s ->> 'kept_bytes')::bigint
    from unnest(array['stdout', 'stderr']) s where (e.result -> s ->> 'kept_bytes')::bigint > 0
  ) a
  group by e.key_id, a.digest order by e.key_id, a.digest
  on conflict do nothing
)
select t.place::int as place, ${TASK_COLUMNS} from ended t`;

const STANDINGS = standings(INPUT, ", coalesce(t.result = i.result, false) as same_result");
