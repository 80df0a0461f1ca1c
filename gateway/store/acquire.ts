import { type Digest, type ExecutorId, type KeyId, type LeaseId, newId, type TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Resources } from "#core/resources.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { TaskSpec } from "#core/wire/tasks.ts";
import type { Store } from "#gateway/ports.ts";
import { coalesce } from "./coalesce.ts";
import { BACKOFFS_MS, endedWithoutResult } from "./ends.ts";
import { vectorOf } from "./rows.ts";
import type { StoreContext } from "./store.ts";
import { storableJson } from "./text.ts";

/** Tasks that are looked at, and fit nobody who asks any more, before a claim contents itself with what it has. */
const MISSES_MAX = 100;
/** Expired leases that one statement ends. */
const EXPIRE_BATCH = 500;
/** Claims end expired leases themselves when nobody has for this long, so that no timer has to run for it. */
const EXPIRE_EVERY_MS = 1_000;

type Claim = { executorId: ExecutorId; free: Resources; max: number };

/** Granting leases and taking back those that ran out. */
export function acquirer({
  sql,
  wake,
  leaseTtlMs = LIMITS.leaseTtlMs,
}: StoreContext): Pick<Store, "acquireLeases" | "expireLeases"> {
  let expiredAtMs = Number.NEGATIVE_INFINITY;

  const claim = coalesce<Claim, Lease[]>({ run: claimBatch, weigh: (item) => item.max });

  async function claimBatch(claims: Claim[]): Promise<Lease[][]> {
    if (performance.now() - expiredAtMs > EXPIRE_EVERY_MS) await expireLeases();
    const leaseCount = claims.reduce((sum, item) => sum + item.max, 0);
    const leaseIds = Array.from({ length: leaseCount }, () => newId("lease"));
    const requests = claims.map((item) => ({
      executor_id: item.executorId,
      free: vectorOf(item.free),
      max: item.max,
    }));
    const rows = await sql.query<ClaimRow>(
      `select a.*, (select key_id from tasks t where t.id = a.task_id) as key_id
       from dsec_acquire($1::text::jsonb, string_to_array($2, ','), $3::int * interval '1 ms',
         $4::int * interval '1 ms', $5) a`,
      [JSON.stringify(requests), leaseIds.join(","), leaseTtlMs, LIMITS.executorLostAfterMs, MISSES_MAX],
    );
    const granted: Lease[][] = claims.map(() => []);
    for (const row of rows) {
      granted[row.request - 1]!.push({
        lease_id: row.lease_id,
        task_id: row.task_id,
        key_id: row.key_id,
        fence: Number(row.fence),
        attempt: row.attempt,
        ttl_ms: leaseTtlMs,
        expires_at: row.expires_at.toISOString(),
        spec: row.spec,
        spec_digest: row.spec_digest,
      });
      wake.notify(`task:${row.task_id}`);
    }
    return granted;
  }

  async function expireLeases(): Promise<number> {
    let total = 0;
    for (;;) {
      expiredAtMs = performance.now();
      const rows = await sql.query<{ id: TaskId; state: string }>(EXPIRE, [
        EXPIRE_BATCH,
        BACKOFFS_MS,
        storableJson(endedWithoutResult("executor_lost", "the executor of the last attempt was lost")),
        storableJson(endedWithoutResult("cancelled", "cancelled; the executor was lost meanwhile")),
      ]);
      for (const row of rows) wake.notify(`task:${row.id}`);
      if (rows.some((row) => row.state === "queued")) wake.notify("queue");
      total += rows.length;
      if (rows.length < EXPIRE_BATCH) return total;
    }
  }

  return {
    acquireLeases: (executorId, free, max) => claim({ executorId, free, max }),
    expireLeases,
  };
}

type ClaimRow = {
  request: number;
  lease_id: LeaseId;
  task_id: TaskId;
  key_id: KeyId;
  fence: string;
  attempt: number;
  expires_at: Date;
  spec: TaskSpec;
  spec_digest: Digest;
};

/**
 * The attempt was counted when it was claimed, so that one which takes its executor down with it counts like any
 * other. Rows that another instance is ending right now are skipped.
 */
const EXPIRE = `
with over as materialized (
  select id from tasks
  where state in ('leased', 'running') and lease_expires_at <= (select dsec_now())
  order by lease_expires_at limit $1 for update skip locked
),
ended as (
  update tasks t
  set state = case when t.cancel_requested then 'cancelled' when t.attempts < t.attempts_max then 'queued' else 'dead' end,
      result = case when t.cancel_requested then $4::text::jsonb when t.attempts < t.attempts_max then null
                    else $3::text::jsonb end,
      finished_at = case when t.cancel_requested or t.attempts >= t.attempts_max then dsec_now() end,
      available_at = dsec_now() + ($2::text::jsonb ->> (t.attempts - 1))::int * interval '1 ms',
      lease_end = 'expired', last_seq = t.last_seq + 1
  from over o where t.id = o.id
  returning t.id, t.last_seq, t.state, t.fence
),
logged as (
  insert into task_events (task_id, seq, at, type, fence, state, reason)
  select e.id, e.last_seq, dsec_now(), 'state', e.fence, e.state,
         case e.state when 'cancelled' then 'cancelled' else 'executor_lost' end
  from ended e
)
select id, state from ended`;
