import type { Digest, ExecutorId, KeyId, LeaseId, TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Resources } from "#core/resources.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { TaskSpec } from "#core/wire/tasks.ts";
import type { Store } from "#gateway/ports.ts";
import { coalesce } from "./coalesce.ts";
import { column, textArray } from "./columns.ts";
import { vectorOf } from "./rows.ts";
import type { StoreContext } from "./store.ts";

/** Tasks that are looked at, and fit nobody who asks any more, before a claim contents itself with what it has. */
const MISSES_MAX = 100;
/** Claims end expired leases themselves when nobody has for this long, so that no timer has to run for it. */
const EXPIRE_EVERY_MS = 1_000;

type Claim = { executorId: ExecutorId; free: Resources; max: number };

/** Granting leases. */
export function acquirer(
  { sql, wake, leaseTtlMs = LIMITS.leaseTtlMs }: StoreContext,
  expireLeases: Store["expireLeases"],
): Pick<Store, "acquireLeases" | "expireLeases"> {
  let expiredAtMs = Number.NEGATIVE_INFINITY;

  const claim = coalesce<Claim, Lease[]>({ run: claimBatch, weigh: (item) => item.max });

  async function claimBatch(claims: Claim[]): Promise<Lease[][]> {
    if (performance.now() - expiredAtMs > EXPIRE_EVERY_MS) await expire();
    const rows = await sql.query<ClaimRow>(ACQUIRE, [
      column(claims.map((item) => item.executorId)),
      column(claims.flatMap((item) => vectorOf(item.free))),
      column(claims.map((item) => item.max)),
      leaseTtlMs,
      LIMITS.executorLostAfterMs,
      MISSES_MAX,
    ]);
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

  function expire(): Promise<number> {
    expiredAtMs = performance.now();
    return expireLeases();
  }

  return {
    acquireLeases: (executorId, free, max) => claim({ executorId, free, max }),
    expireLeases: expire,
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

const ACQUIRE = `
select * from dsec_acquire(${textArray(1)}, ${textArray(2)}::bigint[], ${textArray(3)}::integer[], $4::int, $5::int, $6::int)`;
