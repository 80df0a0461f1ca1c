import type { DsecError } from "#core/errors.ts";
import { type ExecutorId, type LeaseId, newId } from "#core/ids.ts";
import { isRetriable, type Outcome, stateAfter, type TaskState } from "#core/task.ts";
import type { Attestation } from "#core/wire/attestations.ts";
import type { Hold } from "#core/wire/leases.ts";
import type { Result, Task, TaskEvent } from "#core/wire/tasks.ts";
import type { Store } from "#gateway/ports.ts";
import { coalesce } from "./coalesce.ts";
import { column, rowsOf, textArray } from "./columns.ts";
import { BACKOFFS_MS, endedWithoutResult } from "./ends.ts";
import { type LeaseStanding, refusal, standings } from "./judgement.ts";
import { type TaskRow, taskOf } from "./rows.ts";
import type { StoreContext } from "./store.ts";
import { storableJson, storableText } from "./text.ts";

type End = {
  executorId: ExecutorId;
  hold: Hold;
  how: "completed" | "failed" | "released" | "expired";
  /** Where this leads to whatever came before; null where the task may have another attempt. */
  lastState: TaskState | null;
  reason: string;
  /** What the task is left with, should it end now. */
  result: Result;
  resultJson: string;
  /** `digest=bytes`, parted by spaces. */
  artifacts: string;
  attestation: Attestation | null;
};

/** Expired leases that one statement ends. */
const EXPIRE_BATCH = 500;

/** The ways in which a lease ends: three of its executor's, and its time. */
export function leaseEnder({
  sql,
  wake,
}: StoreContext): Pick<Store, "completeLease" | "failLease" | "releaseLease" | "expireLeases"> {
  const end = coalesce<End, Task>({
    run: endBatch,
    weigh: ({ resultJson, attestation }) =>
      1 + (resultJson.length + (attestation?.jwt.length ?? 0) + (attestation?.evidence.length ?? 0)) / 8192,
  });

  async function endBatch(ends: End[]): Promise<(Task | Error)[]> {
    const tasks = await write(ends);
    if (tasks.includes(undefined)) await judgeRest(ends, tasks);
    return tasks as (Task | Error)[];
  }

  /** The tasks of those leases that ended by this, each in the place of its item. */
  async function write(ends: End[]): Promise<(Task | Error | undefined)[]> {
    // In the order of lease ids, in which all batches lock, so that none can wait for another that waits for it.
    const order = [...ends.keys()].sort((a, b) => (ends[a]!.hold.lease_id < ends[b]!.hold.lease_id ? -1 : 1));
    const rows = await sql.query<EndRow>(END, endColumns(order.map((i) => ends[i]!)));
    const tasks: (Task | undefined)[] = ends.map(() => undefined);
    for (const row of rows) {
      const i = order[row.place - 1]!;
      tasks[i] = taskOf({ ...row, result: row.state === "queued" ? null : ends[i]!.result });
      wake.notify(`task:${row.id}`, toldOf(row));
    }
    if (rows.some((row) => row.state === "queued")) wake.notify("queue");
    return tasks;
  }

  async function judgeRest(ends: End[], tasks: (Task | Error | undefined)[]): Promise<void> {
    const rows = await sql.query<LeaseStanding & { place: number; same_result: boolean }>(STANDINGS, [
      column(ends.map(({ hold }) => hold.lease_id)),
      column(ends.map(({ resultJson }) => resultJson)),
    ]);
    const standings = new Map(rows.map((row) => [row.place, row]));
    ends.forEach((item, i) => {
      tasks[i] ??= repeatedOrRefused(item, standings.get(i + 1));
    });
  }

  const ended = (
    how: "completed" | "failed",
    executorId: ExecutorId,
    hold: Hold,
    result: Result,
    attestation: Attestation | null,
  ): Promise<Task> => {
    const { outcome } = result;
    const lastState = isRetriable(outcome.reason) ? null : stateAfter(outcome, 0);
    return end({
      executorId,
      hold,
      how,
      lastState,
      reason: outcome.reason,
      ...stored(result),
      artifacts: artifactsOf(result),
      attestation,
    });
  };

  return {
    completeLease: (executorId, hold, result, attestation) =>
      ended("completed", executorId, hold, result, attestation),
    failLease: (executorId, hold, outcome, attestation) =>
      ended("failed", executorId, hold, resultOf(outcome), attestation),
    releaseLease: (executorId, hold) =>
      end({ ...UNFINISHED, executorId, hold, how: "released", reason: "released", ...RELEASED }),

    async expireLeases() {
      for (let total = 0; ; ) {
        const rows = await sql.query<{ id: LeaseId; fence: string; executor_id: ExecutorId }>(
          "select id, fence, executor_id from leases where expires_at <= dsec_now() order by id limit $1",
          [EXPIRE_BATCH],
        );
        if (rows.length === 0) return total;
        const tasks = await write(
          rows.map(({ id, fence, executor_id }) => ({
            ...UNFINISHED,
            executorId: executor_id,
            hold: { lease_id: id, fence: Number(fence) },
            how: "expired",
            reason: "executor_lost",
            ...LOST,
          })),
        );
        total += tasks.filter((task) => task !== undefined).length;
        if (rows.length < EXPIRE_BATCH) return total;
      }
    },
  };
}

type EndRow = Omit<TaskRow, "result"> & { place: number; reason: string | null; last_seq: number };

/** The event of a task's last state. Of one that is queued again there is more to read. */
function toldOf({ state, fence, reason, last_seq, finished_at }: EndRow): TaskEvent[] {
  if (finished_at === null) return [];
  const at = finished_at.toISOString();
  return [{ seq: last_seq, at, fence: Number(fence), type: "state", state, reason }];
}

const UNFINISHED = { lastState: null, artifacts: "", attestation: null } as const;
/** What a task is left with that has no further attempt: because it was to be cancelled, or has none left. */
const RELEASED = stored(endedWithoutResult("cancelled", "cancelled; the executor gave it back"));
const LOST = stored(endedWithoutResult("executor_lost", "the executor of the last attempt was lost"));
const LOST_WHILE_CANCELLED = storableJson(
  endedWithoutResult("cancelled", "cancelled; the executor was lost meanwhile"),
);

/** A result and its JSON, in which what PostgreSQL cannot store is written out. */
function stored(result: Result): Pick<End, "result" | "resultJson"> {
  const resultJson = storableJson(result);
  return { result: resultJson === JSON.stringify(result) ? result : JSON.parse(resultJson), resultJson };
}

function resultOf(outcome: Outcome): Result {
  const result = endedWithoutResult(outcome.reason, outcome.message ?? "");
  return { ...result, outcome: { ...outcome, message: outcome.message && result.outcome.message } };
}

function artifactsOf({ outputs, stdout, stderr }: Result): string {
  const all = outputs.map(({ digest, size }) => `${digest}=${size}`);
  for (const { digest, kept_bytes } of [stdout, stderr]) {
    if (kept_bytes > 0) all.push(`${digest}=${kept_bytes}`);
  }
  return all.join(" ");
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

function endColumns(ends: End[]): string[] {
  const of = (value: (item: End) => string | number | null | undefined) =>
    column(ends.map((item) => value(item) ?? null));
  return [
    of(({ hold }) => hold.lease_id),
    of(({ hold }) => hold.fence),
    of(({ executorId }) => executorId),
    of(({ how }) => how),
    of(({ lastState }) => lastState),
    of(({ reason }) => reason),
    of(({ resultJson }) => resultJson),
    of(({ artifacts }) => artifacts),
    of(({ attestation }) => attestation?.id),
    of(({ attestation }) => attestation && storableText(attestation.jwt)),
    of(({ attestation }) => attestation && storableText(attestation.evidence)),
    of(({ attestation }) => attestation?.issued_at),
    of(({ lastState }) => (lastState === null ? newId("lease") : null)),
  ];
}

const END = `
select * from dsec_end(${textArray(1)}, ${textArray(2)}::bigint[], ${[3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13].map(textArray).join(", ")},
  '{${BACKOFFS_MS.join(",")}}', ${`'${LOST_WHILE_CANCELLED.replaceAll("'", "''")}'`})`;

const STANDINGS = standings(
  `input as materialized (select * from ${rowsOf("lease_id", "result")})`,
  ", coalesce(t.result::jsonb = i.result::jsonb, false) as same_result",
);
