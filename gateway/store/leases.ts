import type { Digest, ExecutorId, LeaseId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Hold, RenewResponse } from "#core/wire/leases.ts";
import type { TaskSpec } from "#core/wire/tasks.ts";
import type { Store } from "#gateway/ports.ts";
import { acquirer } from "./acquire.ts";
import { coalesce } from "./coalesce.ts";
import { column, rowsOf } from "./columns.ts";
import { leaseEnder } from "./end-leases.ts";
import { eventAppender } from "./events.ts";
import { executorNotFound } from "./executors.ts";
import { heldRows, type LeaseStanding, refusal, STANDING_COLUMNS, standingFrom } from "./judgement.ts";
import type { SharedContext } from "./store.ts";

type LeaseMethods =
  | "acquireLeases"
  | "awaitLease"
  | "expireLeases"
  | "renewLeases"
  | "listCancellations"
  | "appendEvents"
  | "findLease"
  | "completeLease"
  | "failLease"
  | "releaseLease";

type Held = { executorId: ExecutorId; hold: Hold };
type Renewed = RenewResponse["leases"][number] & { draining: boolean };

/** A lease from its grant to its end. */
export function leaseStore(context: SharedContext): Pick<Store, LeaseMethods> {
  const { sql, leaseTtlMs = LIMITS.leaseTtlMs } = context;
  const renew = coalesce<Held, Renewed>({ run: renewBatch });

  async function renewBatch(holds: Held[]): Promise<(Renewed | Error)[]> {
    const rows = await sql.query<RenewRow>(RENEW, [...holdColumns(holds), leaseTtlMs]);
    const byPlace = new Map(rows.map((row) => [row.place, row]));
    return holds.map(({ executorId, hold: { lease_id } }, i) => {
      const row = byPlace.get(i + 1);
      if (!row) return executorNotFound(executorId);
      const { draining, cancel_requested } = row;
      return cancel_requested === null
        ? { state: "lost", lease_id, draining }
        : { state: "held", lease_id, ttl_ms: leaseTtlMs, cancel_requested, draining };
    });
  }

  const { expireLeases, ...ending } = leaseEnder(context);
  return {
    ...acquirer(context, expireLeases),
    ...ending,
    ...eventAppender(context),

    async renewLeases(executorId, holds) {
      const renewed = await Promise.all(holds.map((hold) => renew({ executorId, hold })));
      return {
        leases: renewed.map(({ draining: _, ...lease }) => lease),
        draining: renewed.some((lease) => lease.draining),
      };
    },

    async listCancellations(executorId) {
      const rows = await sql.query<{ lease_id: LeaseId; fence: string }>(
        `select id as lease_id, fence from leases
         where executor_id = $1 and cancel_requested and expires_at > dsec_now()`,
        [executorId],
      );
      return rows.map((row) => ({ lease_id: row.lease_id, fence: Number(row.fence) }));
    },

    async findLease(executorId, hold) {
      const [row] = await sql.query<LeaseStanding & { key_x: string }>(
        `select ${STANDING_COLUMNS}, x.public_key_x as key_x
         from ${standingFrom("$1")} join executors x on x.id = coalesce(e.executor_id, l.executor_id, t.executor_id)`,
        [hold.lease_id],
      );
      // One that was completed or failed is found too: the executor may be repeating a call whose answer was lost.
      const ended = row?.lease_end === "completed" || row?.lease_end === "failed";
      if (!row || !(isHeld(executorId, hold, row) || (ended && isLatest(executorId, hold, row)))) {
        throw refusal(executorId, hold, row);
      }
      return {
        leaseId: hold.lease_id as LeaseId,
        taskId: row.id,
        executorId,
        fence: hold.fence,
        attempt: row.attempts,
        spec: row.spec as TaskSpec,
        specDigest: row.spec_digest as Digest,
        executorKey: { kty: "OKP", crv: "Ed25519", x: row.key_x },
        cancelRequested: row.cancel_requested,
      };
    },
  };
}

function isLatest(executorId: ExecutorId, hold: Hold, standing: LeaseStanding): boolean {
  return (
    standing.owner === executorId &&
    standing.current_lease_id === hold.lease_id &&
    Number(standing.granted_fence) === hold.fence
  );
}

function isHeld(executorId: ExecutorId, hold: Hold, standing: LeaseStanding | undefined): boolean {
  if (!standing || !isLatest(executorId, hold, standing)) return false;
  return standing.lease_end === null && !standing.over;
}

function holdColumns(holds: Held[]): string[] {
  return [
    column(holds.map(({ executorId }) => executorId)),
    column(holds.map(({ hold }) => hold.lease_id)),
    column(holds.map(({ hold }) => hold.fence)),
  ];
}

type RenewRow = { place: number; cancel_requested: boolean | null; draining: boolean };

const INPUT = `
input as materialized (
  select executor_id, lease_id, fence::bigint as fence, place from ${rowsOf("executor_id", "lease_id", "fence")}
)`;

const HELD_ROWS = `held as materialized (${heldRows("i.place, h.id, h.task_id, h.cancel_requested")}
)`;

const RENEW = `
with ${INPUT}, ${HELD_ROWS},
renewed as (
  update leases l set expires_at = dsec_now() + $4::int * interval '1 ms' where l.id = any (array(select h.id from held h))
)
select i.place::int as place, h.cancel_requested, x.draining
from input i join executors x on x.id = i.executor_id left join held h using (place)`;
