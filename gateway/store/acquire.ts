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
      const leases = leasesOf(row, leaseTtlMs);
      for (const lease of leases) wake.notify(`task:${lease.task_id as TaskId}`);
      granted[row.request - 1] = leases;
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

/** The leases of one claim, as columns: `specs` is a JSON array, all others have a line for each lease. */
type ClaimRow = {
  request: number;
  expires_at: Date;
  lease_ids: string;
  task_ids: string;
  key_ids: string;
  fences: string;
  attempts: string;
  spec_digests: string;
  specs: string;
};

function leasesOf(row: ClaimRow, ttlMs: number): Lease[] {
  const taskIds = row.task_ids.split("\n") as TaskId[];
  const keyIds = row.key_ids.split("\n") as KeyId[];
  const fences = row.fences.split("\n");
  const attempts = row.attempts.split("\n");
  const digests = row.spec_digests.split("\n") as Digest[];
  const specs = JSON.parse(row.specs) as TaskSpec[];
  const expiresAt = row.expires_at.toISOString();
  return (row.lease_ids.split("\n") as LeaseId[]).map((leaseId, i) => ({
    lease_id: leaseId,
    task_id: taskIds[i]!,
    key_id: keyIds[i]!,
    fence: Number(fences[i]),
    attempt: Number(attempts[i]),
    ttl_ms: ttlMs,
    expires_at: expiresAt,
    spec: specs[i]!,
    spec_digest: digests[i]!,
  }));
}

const ACQUIRE = `
select * from dsec_acquire(${textArray(1)}, ${textArray(2)}::bigint[], ${textArray(3)}::integer[], $4::int, $5::int, $6::int)`;
