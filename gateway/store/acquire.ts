import type { Digest, ExecutorId, KeyId, LeaseId, TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Resources } from "#core/resources.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { TaskEvent, TaskSpec } from "#core/wire/tasks.ts";
import type { Store } from "#gateway/ports.ts";
import { coalesce } from "./coalesce.ts";
import { column, textArray } from "./columns.ts";
import { vectorOf } from "./rows.ts";
import type { SharedContext } from "./store.ts";

/** Tasks that are looked at, and fit nobody who asks any more, before a claim contents itself with what it has. */
const MISSES_MAX = 100;
/** Claims end expired leases themselves when nobody has for this long, so that no timer has to run for it. */
const EXPIRE_EVERY_MS = 1_000;

type Claim = { executorId: ExecutorId; free: Resources; max: number };

/** Granting leases. */
export function acquirer(
  { sql, wake, offers, leaseTtlMs = LIMITS.leaseTtlMs }: SharedContext,
  expireLeases: Store["expireLeases"],
): Pick<Store, "acquireLeases" | "awaitLease" | "expireLeases"> {
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
    const placed: Placed[][] = claims.map(() => []);
    for (const row of rows) placed[row.request - 1]!.push(...placedLeases(row, leaseTtlMs));
    for (const one of placed) {
      one.sort(inQueueOrder);
      for (const { lease, told } of one) wake.notify(`task:${lease.task_id as TaskId}`, [told]);
    }
    return placed.map((one) => one.map(({ lease }) => lease));
  }

  function expire(): Promise<number> {
    expiredAtMs = performance.now();
    return expireLeases();
  }

  return {
    acquireLeases: (executorId, free, max) => claim({ executorId, free, max }),
    awaitLease: (executorId, free, wait) => offers.during({ executorId, free }, wait),
    expireLeases: expire,
  };
}

/** Leases of one claim: a line of words for each in `leases`, and its spec in `specs`. */
type ClaimRow = { request: number; granted_at: Date; expires_at: Date; leases: string; specs: TaskSpec[] };
type Placed = { rank: number; lease: Lease; told: TaskEvent };

function placedLeases(row: ClaimRow, ttlMs: number): Placed[] {
  const expiresAt = row.expires_at.toISOString();
  const at = row.granted_at.toISOString();
  return row.leases.split("\n").map((line, i) => {
    const [rank, leaseId, taskId, keyId, fence, attempt, seq, digest] = line.split(" ");
    const lease: Lease = {
      lease_id: leaseId as LeaseId,
      task_id: taskId as TaskId,
      key_id: keyId as KeyId,
      fence: Number(fence),
      attempt: Number(attempt),
      ttl_ms: ttlMs,
      expires_at: expiresAt,
      spec: row.specs[i]!,
      spec_digest: digest as Digest,
    };
    return { rank: Number(rank), lease, told: leasedEvent(lease, Number(seq), at) };
  });
}

/** That the lease was granted, as `listEvents` has it. */
export function leasedEvent({ fence }: Lease, seq: number, at: string): TaskEvent {
  return { seq, at, fence, type: "state", state: "leased", reason: null };
}

function inQueueOrder(a: Placed, b: Placed): number {
  const byPriority = b.lease.spec.priority - a.lease.spec.priority;
  return byPriority || a.rank - b.rank || (a.lease.task_id < b.lease.task_id ? -1 : 1);
}

const ACQUIRE = `
select * from dsec_acquire(${textArray(1)}, ${textArray(2)}::bigint[], ${textArray(3)}::integer[], $4::int, $5::int, $6::int)`;
