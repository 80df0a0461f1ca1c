/** Tool calls before they are made: who may make them, that each is made once, and what the task has left of its budgets. */
import { DsecError } from "#core/errors.ts";
import type { ExecutorId, KeyId, TaskId } from "#core/ids.ts";
import { type Bucket, takeCall, type Usage } from "#core/policy/budget.ts";
import type { Hold } from "#core/wire/leases.ts";
import { type Policy, type PolicyBudgets, PolicySchema } from "#core/wire/policy.ts";
import type { RecordedCall, Store } from "#gateway/ports.ts";
import { coalesce } from "./coalesce.ts";
import { type LeaseStanding, refusal, STANDING_COLUMNS, standingFrom, standings } from "./judgement.ts";
import type { Query } from "./sql.ts";
import type { StoreContext } from "./store.ts";

type CallMethods = "findCallContext" | "recordCall" | "useCall" | "withdrawCall" | "takeCall";
type Recording = { executorId: ExecutorId; hold: Hold; call: RecordedCall; how: "made" | "issued" | "used" };
type Taking = { taskId: TaskId; host: string; budgets: PolicyBudgets };
type Taken = Awaited<ReturnType<Store["takeCall"]>>;

export function callStore({ sql }: StoreContext): Pick<Store, CallMethods> {
  const record = coalesce<Recording, undefined>({
    run: (items) => (items.length === 1 ? recordAlone(items[0]!) : recordBatch(items, RECORD)),
  });
  const use = coalesce<Recording, undefined>({
    run: (items) => recordBatch(items, USE),
  });
  const take = coalesce<Taking, Taken>({
    run: (items) => sql.transaction((query) => takeBatch(query, items)),
    // Two at once would only wait for each other's rows.
    inFlightMax: 1,
  });

  /** Most calls come alone, and a statement for one costs two thirds. It says no more than that the call was taken. */
  async function recordAlone(item: Recording): Promise<(undefined | Error)[]> {
    const { executorId, hold, call, how } = item;
    const { seq, digest, deadlineInMs } = call;
    const { lease_id, fence } = hold;
    const parameters = [executorId, lease_id, fence, seq, digest, deadlineInMs, how !== "issued"];
    const taken = await sql.query(RECORD_ALONE, parameters);
    return taken.length === 1 ? [undefined] : recordBatch([item], RECORD);
  }

  async function recordBatch(items: Recording[], statement: string): Promise<(undefined | Error)[]> {
    const input = JSON.stringify(
      items.map(({ executorId, hold, call, how }) => ({
        executor_id: executorId,
        ...hold,
        seq: call.seq,
        digest: call.digest,
        deadline_ms: call.deadlineInMs,
        used: how !== "issued",
      })),
    );
    const rows = await sql.query<{ place: number; held: boolean; taken: boolean }>(statement, [input]);
    const byPlace = new Map(rows.map((row) => [row.place, row]));
    const refused = items.some((_, i) => !byPlace.get(i + 1)?.held);
    const found = refused
      ? await sql.query<LeaseStanding & { place: number }>(STANDINGS, [input])
      : ([] as (LeaseStanding & { place: number })[]);
    const standing = new Map(found.map((row) => [row.place, row]));
    return items.map(({ executorId, hold, call, how }, i) => {
      const row = byPlace.get(i + 1);
      if (!row?.held) return refusal(executorId, hold, standing.get(i + 1));
      return row.taken ? undefined : replayed(hold, call, how);
    });
  }

  return {
    async findCallContext(executorId, hold) {
      const [row] = await sql.query<LeaseStanding & { policy: unknown }>(
        `select ${STANDING_COLUMNS}, coalesce(p.policy, (t.spec -> 'policy')::jsonb) as policy
         from ${standingFrom("$1")} left join task_policies p on p.task_id = t.id`,
        [hold.lease_id],
      );
      const held =
        row?.owner === executorId &&
        row.current_lease_id === hold.lease_id &&
        Number(row.granted_fence) === hold.fence &&
        row.lease_end === null &&
        !row.over;
      if (!row || !held) throw refusal(executorId, hold, row);
      return { taskId: row.id, keyId: row.key_id as KeyId, policy: storedPolicy(row.policy) };
    },

    recordCall: (executorId, hold, call, how) => record({ executorId, hold, call, how }),
    useCall: (executorId, hold, call) => use({ executorId, hold, call, how: "used" }),
    async withdrawCall(taskId, fence, { seq, digest }) {
      await sql.query(
        "delete from calls where task_id = $1 and fence = $2::bigint and seq = $3::int and digest = $4",
        [taskId, fence, seq, digest],
      );
    },
    takeCall: (taskId, host, budgets) => take({ taskId, host, budgets }),
  };
}

/** Tasks from before there were policies reach nothing. */
export function storedPolicy(value: unknown): Policy {
  return value === null || value === undefined ? PolicySchema.parse({}) : (value as Policy);
}

function replayed({ lease_id }: Hold, { seq }: RecordedCall, how: Recording["how"]): DsecError {
  const what = how === "used" ? "its signature was used already" : "its seq was taken already";
  return new DsecError(
    "CALL_REPLAYED",
    `call ${seq} of lease ${lease_id}: ${what}; every call has a seq of its own and is made once`,
    { details: { seq } },
  );
}

/** The whole batch in one transaction: usage rows are locked in the order of their ids, then core decides, call by call. */
async function takeBatch(query: Query, items: Taking[]): Promise<Taken[]> {
  const tasks = JSON.stringify([...new Set(items.map(({ taskId }) => taskId))].sort());
  await query(
    `insert into call_usage (task_id, calls, bytes_up, bytes_down)
     select value, 0, 0, 0 from jsonb_array_elements_text($1::text::jsonb) order by value on conflict do nothing`,
    [tasks],
  );
  const used = await query<{
    task_id: TaskId;
    calls: string;
    bytes_up: string;
    bytes_down: string;
    now: Date;
  }>(
    `select u.task_id, u.calls, u.bytes_up, u.bytes_down, dsec_now() as now from call_usage u
     where u.task_id in (select value from jsonb_array_elements_text($1::text::jsonb)) order by u.task_id for update`,
    [tasks],
  );
  const usage = new Map<TaskId, Usage>(
    used.map(({ task_id, calls, bytes_up, bytes_down }) => [
      task_id,
      { calls: Number(calls), bytes_up: Number(bytes_up), bytes_down: Number(bytes_down) },
    ]),
  );
  const nowMs = used[0]?.now.getTime() ?? Date.now();
  const rated = items.filter(({ budgets }) => budgets.per_host_calls_per_s !== undefined);
  const buckets = rated.length === 0 ? new Map<string, Bucket>() : await bucketsOf(query, rated);

  const changed = new Map<string, { task_id: TaskId; host: string; tokens: number; at_ms: number }>();
  const taken = items.map(({ taskId, host, budgets }): Taken => {
    const key = `${taskId} ${host}`;
    const result = takeCall(budgets, usage.get(taskId)!, buckets.get(key) ?? null, nowMs);
    if (!result.allowed) return result;
    usage.set(taskId, result.usage);
    if (result.bucket !== null) {
      buckets.set(key, result.bucket);
      changed.set(key, { task_id: taskId, host, ...result.bucket });
    }
    return result;
  });

  await query(
    `update call_usage u set calls = i.calls from jsonb_to_recordset($1::text::jsonb) as i (task_id text, calls bigint)
     where u.task_id = i.task_id`,
    [JSON.stringify([...usage].map(([task_id, { calls }]) => ({ task_id, calls })))],
  );
  if (changed.size > 0) {
    await query(
      `insert into call_rates (task_id, host, tokens, at_ms)
       select task_id, host, tokens, at_ms
       from jsonb_to_recordset($1::text::jsonb) as i (task_id text, host text, tokens float8, at_ms float8)
       on conflict (task_id, host) do update set tokens = excluded.tokens, at_ms = excluded.at_ms`,
      [JSON.stringify([...changed.values()])],
    );
  }
  return taken;
}

async function bucketsOf(query: Query, rated: Taking[]): Promise<Map<string, Bucket>> {
  const asked = JSON.stringify(rated.map(({ taskId, host }) => ({ task_id: taskId, host })));
  const rows = await query<{ task_id: TaskId; host: string; tokens: number; at_ms: number }>(
    `select r.task_id, r.host, r.tokens, r.at_ms from call_rates r where (r.task_id, r.host) in (
       select task_id, host from jsonb_to_recordset($1::text::jsonb) as i (task_id text, host text))`,
    [asked],
  );
  return new Map(
    rows.map((row) => [
      `${row.task_id} ${row.host}`,
      { tokens: Number(row.tokens), at_ms: Number(row.at_ms) },
    ]),
  );
}

const INPUT = `
input as materialized (
  select * from rows from (
    jsonb_to_recordset($1::text::jsonb) as (
      executor_id text, lease_id text, fence bigint, seq int, digest text, deadline_ms bigint, used boolean)
  ) with ordinality as i(executor_id, lease_id, fence, seq, digest, deadline_ms, used, place)
)`;

/** Read, not locked: the call that follows can outlive its lease in any case, and renewals must not wait for calls. */
const HELD = `
held as materialized (
  select i.*, h.task_id from input i cross join lateral (
    select l.task_id from leases l
    where l.id = i.lease_id and l.fence = i.fence and l.executor_id = i.executor_id and l.expires_at > dsec_now() limit 1
  ) h
)`;

const ANSWER = `
select i.place::int as place, h.place is not null as held, d.digest is not null as taken
from input i left join held h using (place) left join done d on d.digest = i.digest`;

const RECORD = `
with ${INPUT}, ${HELD},
done as (
  insert into calls (task_id, fence, seq, digest, used_at, deadline_at)
  select h.task_id, h.fence, h.seq, h.digest, case when h.used then dsec_now() end,
    dsec_now() + h.deadline_ms * interval '1 ms'
  from held h order by h.task_id, h.fence, h.seq
  on conflict do nothing
  returning digest
)${ANSWER}`;

const RECORD_ALONE = `
insert into calls (task_id, fence, seq, digest, used_at, deadline_at)
select l.task_id, l.fence, $4::int, $5, case when $7::boolean then dsec_now() end,
  dsec_now() + $6::bigint * interval '1 ms'
from leases l where l.id = $2 and l.fence = $3::bigint and l.executor_id = $1 and l.expires_at > dsec_now()
on conflict do nothing returning 1`;

const USE = `
with ${INPUT}, ${HELD},
done as (
  update calls c set used_at = dsec_now(), deadline_at = dsec_now() + h.deadline_ms * interval '1 ms'
  from held h
  where c.task_id = h.task_id and c.fence = h.fence and c.seq = h.seq and c.digest = h.digest and c.used_at is null
  returning c.digest
)${ANSWER}`;

const STANDINGS = standings(INPUT, "");
