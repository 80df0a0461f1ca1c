/** What came of tool calls. Receipts are only inserted, one for each call that was made. */
import { DsecError } from "#core/errors.ts";
import type { Digest, LeaseId, TaskId } from "#core/ids.ts";
import { merkleRootOfHashes } from "#core/merkle.ts";
import type { Receipt } from "#core/wire/calls.ts";
import type { KeptReceipt, Page, Store } from "#gateway/ports.ts";
import { coalesce } from "./coalesce.ts";
import type { Parameter } from "./sql.ts";
import type { StoreContext } from "./store.ts";
import { taskNotFound } from "./tasks.ts";

type ReceiptMethods = "recordReceipt" | "summarizeCalls" | "listReceipts" | "listLeaseReceipts";

/** @param findLease judges the hold of an executor that asks for its receipts */
export function receiptStore(
  { sql }: StoreContext,
  { findLease }: Pick<Store, "findLease">,
): Pick<Store, ReceiptMethods> {
  const record = coalesce<KeptReceipt, undefined>({
    async run(receipts) {
      if (receipts.length === 1) await recordAlone(receipts[0]!);
      else await sql.query(RECORD, [JSON.stringify(receipts.map(rowOf))]);
      return receipts.map(() => undefined);
    },
  });

  /** Most come alone, and a statement for one costs two thirds. */
  async function recordAlone({ taskId, leaseId, fence, seq, jwt, leaf, spent }: KeptReceipt): Promise<void> {
    const { calls, bytes_up, bytes_down } = spent;
    const parameters = [taskId, fence, seq, leaseId, jwt, leaf, calls, bytes_up, bytes_down];
    await sql.query(RECORD_ALONE, parameters);
  }

  async function list(
    condition: string,
    owner: Parameter[],
    { limit, cursor }: { limit: number; cursor?: string | undefined },
  ): Promise<Page<Receipt>> {
    const [fence, seq] = cursor === undefined ? [0, 0] : readCursor(cursor);
    const rows = await sql.query<ReceiptRow>(
      `select r.lease_id, r.fence, r.seq, r.jwt, r.issued_at from receipts r
       where ${condition} and (r.fence, r.seq) > ($1::bigint, $2::int) order by r.fence, r.seq limit $3`,
      [fence, seq, limit + 1, ...owner],
    );
    const items = rows.slice(0, limit).map(receiptOf);
    const last = items.at(-1);
    return { items, next_cursor: rows.length > limit && last ? `${last.fence}-${last.seq}` : null };
  }

  return {
    recordReceipt: (receipt) => record(receipt),

    async summarizeCalls(taskId, fence) {
      const [{ leaves, open }] = (await sql.query(SUMMARIZE, [taskId, fence])) as [CallsRow];
      return {
        count: leaves.length,
        receipts_root: await merkleRootOfHashes(leaves.map(bytesOf)),
        open,
      };
    },

    async listReceipts(taskId, keyId, page) {
      const [task] = await sql.query(
        "select 1 from tasks t where t.id = $1 and ($2::text is null or t.key_id = $2)",
        [taskId, keyId],
      );
      if (!task) throw taskNotFound(taskId);
      return list("r.task_id = $4", [taskId], page);
    },

    async listLeaseReceipts(executorId, hold, page) {
      const { taskId } = await findLease(executorId, hold);
      return list("r.task_id = $4 and r.fence = $5", [taskId, hold.fence], page);
    },
  };
}

type CallsRow = { leaves: Digest[]; open: number };
type ReceiptRow = { lease_id: LeaseId; fence: string; seq: number; jwt: string; issued_at: Date };

function receiptOf({ lease_id, fence, seq, jwt, issued_at }: ReceiptRow): Receipt {
  return { lease_id, fence: Number(fence), seq, receipt: jwt, issued_at: issued_at.toISOString() };
}

function rowOf({ taskId, leaseId, fence, seq, jwt, leaf, spent }: KeptReceipt) {
  return {
    task_id: taskId satisfies TaskId,
    lease_id: leaseId,
    fence,
    seq,
    jwt,
    leaf,
    ...spent,
  };
}

function readCursor(cursor: string): [fence: number, seq: number] {
  const match = /^(\d{1,15})-(\d{1,9})$/.exec(cursor);
  if (match !== null) return [Number(match[1]), Number(match[2])];
  throw new DsecError(
    "INVALID_CURSOR",
    `cursor ${JSON.stringify(cursor.slice(0, 80))} is not one that this list gave out; start without a cursor`,
  );
}

function bytesOf(leaf: Digest): Uint8Array {
  return Uint8Array.from(leaf.slice("sha256:".length).match(/../g)!, (pair) => Number.parseInt(pair, 16));
}

/**
 * One statement, hence one snapshot: a receipt that another gateway commits meanwhile is among the leaves, or its call
 * is still open.
 */
const SUMMARIZE = `
select
  (select coalesce(json_agg(r.leaf order by r.seq), '[]') from receipts r where r.task_id = $1 and r.fence = $2::bigint)
    as leaves,
  (select count(*)::int from calls c
   where c.task_id = $1 and c.fence = $2::bigint and c.deadline_at > dsec_now() and not exists (
     select 1 from receipts r where r.task_id = c.task_id and r.fence = c.fence and r.seq = c.seq)) as open`;

const RECORD = `
with input as materialized (
  select * from jsonb_to_recordset($1::text::jsonb) as i (
    task_id text, lease_id text, fence bigint, seq int, jwt text, leaf text, calls bigint, bytes_up bigint,
    bytes_down bigint)
),
kept as (
  insert into receipts (task_id, fence, seq, lease_id, jwt, leaf, issued_at)
  select task_id, fence, seq, lease_id, jwt, leaf, dsec_now() from input order by task_id, fence, seq
  on conflict do nothing
  returning task_id, fence, seq
)
insert into call_usage as u (task_id, calls, bytes_up, bytes_down)
select i.task_id, sum(i.calls), sum(i.bytes_up), sum(i.bytes_down)
from input i join kept k using (task_id, fence, seq) group by i.task_id order by i.task_id
on conflict (task_id) do update set calls = u.calls + excluded.calls, bytes_up = u.bytes_up + excluded.bytes_up,
  bytes_down = u.bytes_down + excluded.bytes_down`;

const RECORD_ALONE = `
with kept as (
  insert into receipts (task_id, fence, seq, lease_id, jwt, leaf, issued_at)
  values ($1, $2::bigint, $3::int, $4, $5, $6, dsec_now())
  on conflict do nothing
  returning task_id
)
insert into call_usage as u (task_id, calls, bytes_up, bytes_down)
select k.task_id, $7::bigint, $8::bigint, $9::bigint from kept k
on conflict (task_id) do update set calls = u.calls + excluded.calls, bytes_up = u.bytes_up + excluded.bytes_up,
  bytes_down = u.bytes_down + excluded.bytes_down`;
