import { DsecError } from "#core/errors.ts";
import {
  type Digest,
  type ExecutorId,
  isDigest,
  type KeyId,
  type LeaseId,
  newId,
  type TaskId,
} from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Resources } from "#core/resources.ts";
import { isFinal, TASK_STATES, type TaskState } from "#core/task.ts";
import type { Lease } from "#core/wire/leases.ts";
import { footprint, type Task, type TaskSpec } from "#core/wire/tasks.ts";
import type { Store } from "#gateway/ports.ts";
import { leasedEvent } from "./acquire.ts";
import { coalesce } from "./coalesce.ts";
import { column, rowsOf } from "./columns.ts";
import { decodeCursor, pageOf } from "./cursor.ts";
import { endedWithoutResult } from "./ends.ts";
import { takeBack } from "./lost-grants.ts";
import type { Offers } from "./offers.ts";
import {
  type EventRow,
  eventOf,
  TASK_COLUMNS,
  TASK_FROM,
  TASK_STATE,
  type TaskRow,
  taskOf,
  vectorOf,
} from "./rows.ts";
import { isPoison, type Parameter } from "./sql.ts";
import type { SharedContext } from "./store.ts";
import { storableJson } from "./text.ts";

type TaskMethods =
  | "submitTask"
  | "findSubmission"
  | "getTask"
  | "listTasks"
  | "cancelTask"
  | "listEvents"
  | "countTasks";

/** @param releaseLease takes back what was granted to nobody's knowledge */
export function taskStore(
  { sql, wake, offers, closing, leaseTtlMs = LIMITS.leaseTtlMs }: SharedContext,
  { releaseLease }: Pick<Store, "releaseLease">,
): Pick<Store, TaskMethods> {
  const submit = coalesce<Submission, Submitted>({
    run: async (submissions) => {
      const offer = submissions.length === 1 ? offers.take(footprint(submissions[0]!.spec)) : null;
      return offer === null ? submitBatch(submissions) : [await submitTo(offer, submissions[0]!)];
    },
    weigh: ({ specJson }) => 1 + specJson.length / 8192,
  });

  async function submitBatch(submissions: Submission[]): Promise<(Submitted | Error)[]> {
    const mayRepeat = submissions.some(({ idempotencyKey }) => idempotencyKey !== null);
    const rows = await sql.query<{ id: TaskId; created_at: Date }>(
      mayRepeat ? SUBMIT_ONCE : SUBMIT,
      submissionColumns(submissions),
    );
    const createdAt = new Map(rows.map((row) => [row.id, row.created_at]));
    if (rows.length > 0) wake.notify("queue");
    return Promise.all(
      submissions.map((submission) => {
        const at = createdAt.get(submission.id);
        return at ? { task: newTask(submission, at), created: true } : submittedBefore(submission);
      }),
    );
  }

  /** Stores a task that comes alone while an executor waits for one, and mostly grants it. */
  async function submitTo(
    { room, settle }: NonNullable<ReturnType<Offers["take"]>>,
    submission: Submission,
  ): Promise<Submitted | Error> {
    const leaseId = newId("lease");
    let lease: Lease | null = null;
    try {
      const [row] = await sql.query<SubmittedRow>(SUBMIT_TO, [
        ...submissionFields(submission, leaseId),
        room.executorId,
        arrayOf(room.free),
        leaseTtlMs,
        LIMITS.executorLostAfterMs,
      ]);
      if (row === undefined) return submittedBefore(submission);
      if (row.expires_at === null) wake.notify("queue");
      else {
        lease = firstLease(submission, leaseId, row.expires_at, leaseTtlMs);
        wake.notify(`task:${submission.id}`, [leasedEvent(lease, 2, row.created_at.toISOString())]);
      }
      return { task: newTask(submission, row.created_at), created: true };
    } catch (error) {
      // A statement that the database has refused has granted nothing; of any other nobody knows.
      const hold = { lease_id: leaseId, fence: 1 };
      if (!isPoison(error)) void takeBack(() => releaseLease(room.executorId, hold), leaseTtlMs, closing);
      throw error;
    } finally {
      settle(lease);
    }
  }

  /** The task that holds the submission's idempotency key already. */
  async function submittedBefore(submission: Submission): Promise<Submitted | Error> {
    const { keyId, idempotencyKey, specDigest, id } = submission;
    const first = await firstTask(keyId, idempotencyKey, specDigest);
    if (first === null) return new Error(`task ${id} was neither stored nor is it a repetition`);
    return first instanceof Error ? first : { task: first, created: false };
  }

  async function firstTask(
    keyId: KeyId,
    idempotencyKey: string | null,
    specDigest: Digest,
  ): Promise<Task | DsecError | null> {
    const [row] = await sql.query<TaskRow>(
      `select ${TASK_COLUMNS} from ${TASK_FROM} where t.key_id = $1 and t.idempotency_key = $2`,
      [keyId, idempotencyKey],
    );
    if (!row) return null;
    if (row.spec_digest === specDigest) return taskOf(row);
    return new DsecError(
      "IDEMPOTENCY_KEY_REUSED",
      `idempotency key ${JSON.stringify(idempotencyKey)} was used for task ${row.id} with another spec ` +
        `(${row.spec_digest}, now ${specDigest}); use a new key for a new task`,
      { details: { task_id: row.id } },
    );
  }

  return {
    submitTask: (task) => submit({ ...task, specJson: storableJson(task.spec) }),

    async findSubmission(keyId, idempotencyKey, specDigest) {
      const first = await firstTask(keyId, idempotencyKey, specDigest);
      if (first instanceof Error) throw first;
      return first;
    },

    async getTask(id, keyId) {
      const [row] = await sql.query<TaskRow>(
        `select ${TASK_COLUMNS} from ${TASK_FROM} where t.id = $1 and ($2::text is null or t.key_id = $2)`,
        [id, keyId],
      );
      if (!row) throw taskNotFound(id);
      return taskOf(row);
    },

    async listTasks({ keyId, state, label, limit, cursor }) {
      // Only the conditions that apply, so that the plan of each combination has its index.
      const parameters: Parameter[] = [limit + 1];
      const conditions = ["true"];
      const where = (condition: string, parameter: Parameter) =>
        conditions.push(condition.replace("?", `$${parameters.push(parameter)}`));
      if (keyId !== null) where("t.key_id = ?", keyId);
      if (state !== undefined) where(`${TASK_STATE} = ?`, state);
      if (label) {
        where(
          "t.labels <> '{}'::jsonb and t.labels @> ?::text::jsonb",
          storableJson({ [label.name]: label.value }),
        );
      }
      if (cursor !== undefined) where("t.id < ?", decodeCursor(cursor, "task"));
      const rows = await sql.query<TaskRow>(
        `select ${TASK_COLUMNS} from ${TASK_FROM} where ${conditions.join(" and ")} order by t.id desc limit $1`,
        parameters,
      );
      return pageOf(rows, limit, taskOf);
    },

    async cancelTask(id, keyId) {
      const ended = storableJson(endedWithoutResult("cancelled", "cancelled while it was queued"));
      for (let tries = 0; tries < CANCEL_TRIES_MAX; tries++) {
        const [row] = await sql.query<{ executor_id: ExecutorId | null }>(CANCEL, [id, keyId, ended]);
        const task = await this.getTask(id, keyId);
        if (row) {
          wake.notify(`task:${id}`);
          if (row.executor_id !== null) wake.notify(`cancel:${row.executor_id}`);
        }
        // Neither in the queue nor held when the statement looked: it is on its way from one to the other.
        if (row || isFinal(task.state)) return task;
      }
      throw new DsecError("STORE_UNAVAILABLE", `task ${id} was changing; try again`);
    },

    async listEvents(taskId, after, limit) {
      const rows = await sql.query<EventRow>(EVENTS, [taskId, after, limit]);
      return rows.map(eventOf);
    },

    async countTasks() {
      const rows = await sql.query<{ state: TaskState; count: number }>(COUNTS);
      const counts = Object.fromEntries(TASK_STATES.map((state) => [state, 0])) as Record<TaskState, number>;
      for (const row of rows) counts[row.state] = row.count;
      return counts;
    },
  };
}

export function taskNotFound(id: TaskId): DsecError {
  return new DsecError("TASK_NOT_FOUND", `there is no task ${id} among those that this key may see`);
}

type Submitted = { task: Task; created: boolean };
type Submission = {
  id: TaskId;
  keyId: KeyId;
  spec: TaskSpec;
  specDigest: Digest;
  idempotencyKey: string | null;
  specJson: string;
};

/** How often a cancellation looks for a task that changes hands just then. */
const CANCEL_TRIES_MAX = 10;

/** In the order of `submission`'s columns. */
function submissionFields(
  { id, keyId, idempotencyKey, spec, specJson, specDigest }: Submission,
  leaseId: LeaseId,
): (string | number | null)[] {
  return [
    ...[id, keyId, idempotencyKey, leaseId, specJson, specDigest],
    ...[storableJson(spec.labels), imageName(spec.image), spec.job, arrayOf(footprint(spec))],
    ...[spec.priority, spec.retries + 1],
  ];
}

function submissionColumns(submissions: Submission[]): string[] {
  const rows = submissions.map((submission) => submissionFields(submission, newId("lease")));
  return rows[0]!.map((_, i) => column(rows.map((row) => row[i]!)));
}

/** A vector as an array of SQL's. */
function arrayOf(resources: Resources): string {
  return `{${vectorOf(resources)}}`;
}

/** What a claim of the task would be granted. */
function firstLease(
  { id, keyId, spec, specDigest }: Submission,
  leaseId: LeaseId,
  expiresAt: Date,
  ttlMs: number,
): Lease {
  return {
    lease_id: leaseId,
    task_id: id,
    key_id: keyId,
    fence: 1,
    attempt: 1,
    ttl_ms: ttlMs,
    expires_at: expiresAt.toISOString(),
    spec,
    spec_digest: specDigest,
  };
}

/**
 * Start-time fair queueing (Goyal, Vin, Cheng 1996), with one task as the unit of service: a task's rank is one
 * more than the larger of its key's last rank and the virtual time. A key's backlog spreads out over the ranks to
 * come, and a key that comes later starts at the present, so that neither starves the other.
 */
const submission = (conflict: string) => `
with clock as materialized (select dsec_now() as at),
input as materialized (
  select id, key_id, idempotency_key, lease_id, spec::json as spec, spec_digest, labels::jsonb as labels, image_name, job,
         resources::int[] as resources, priority::smallint as priority, attempts_max::int as attempts_max, place
  from ${rowsOf(
    "id",
    "key_id",
    "idempotency_key",
    "lease_id",
    "spec",
    "spec_digest",
    "labels",
    "image_name",
    "job",
    "resources",
    "priority",
    "attempts_max",
  )}
),
grown as (
  insert into shares as s (key_id, priority, last_rank)
  select i.key_id, i.priority, coalesce((select rank from turns u where u.priority = i.priority), 0) + count(*)
  from input i group by i.key_id, i.priority order by i.key_id, i.priority
  on conflict (key_id, priority) do update set last_rank = greatest(
    excluded.last_rank,
    s.last_rank + (select count(*) from input i where i.key_id = s.key_id and i.priority = s.priority))
  returning s.key_id, s.priority, s.last_rank
),
placed as (
  select i.*, g.last_rank + 1 - row_number() over (partition by i.key_id, i.priority order by i.place desc) as rank
  from input i join grown g using (key_id, priority)
),
stored as (
  insert into tasks (id, key_id, idempotency_key, lease_id, spec_digest, spec, labels, image_name, job, resources,
    priority, rank, attempts_max, created_at, state, fence, attempts, cancel_requested, last_seq)
  select p.id, p.key_id, p.idempotency_key, p.lease_id, p.spec_digest, p.spec, p.labels, p.image_name, p.job,
    p.resources, p.priority, p.rank, p.attempts_max, c.at, 'queued', 0, 0, false, 1
  from placed p cross join clock c ${conflict}
  returning id, lease_id, key_id, priority, rank, fence, attempts, attempts_max, last_seq, image_name, resources,
    spec_digest, spec, created_at
),
queued as (
  insert into queue (priority, rank, available_at, task_id, lease_id, key_id, fence, attempts, attempts_max, last_seq,
    image_name, cpu_millis, memory_mb, gpu_memory_mb, disk_iops, network_mbps, pids, disk_mb, spec_digest, spec)
  select s.priority, s.rank, s.created_at, s.id, s.lease_id, s.key_id, s.fence, s.attempts, s.attempts_max, s.last_seq,
    s.image_name, s.resources[1], s.resources[2], s.resources[3], s.resources[4], s.resources[5], s.resources[6],
    s.resources[7], s.spec_digest, dsec_queued_spec(s.spec)
  from stored s
)
select id, created_at from stored`;

const SUBMIT = submission("");
/** Rows are inserted in the order of their unique keys, so that two batches cannot wait for each other. */
const SUBMIT_ONCE = submission("order by p.key_id, p.idempotency_key, p.place on conflict do nothing");

type SubmittedRow = { created_at: Date; expires_at: Date | null };

const SUBMIT_TO = `
select created_at, expires_at from dsec_submit_to($1, $2, $3, $4, $5::text::json, $6, $7::text::jsonb, $8, $9,
  $10::text::int[], $11::smallint, $12::int, $13, $14::text::bigint[], $15::int, $16::int)`;

const CANCEL = "select executor_id from dsec_cancel($1, $2, $3)";

/** Those that the task and its lease tell of, and those that are written down. */
const EVENTS = `
with task as materialized (
  select t.created_at, t.state, t.reason, t.finished_at, t.last_seq, coalesce(l.fence, t.fence) as fence,
         coalesce(l.granted_at, t.leased_at) as leased_at, coalesce(l.leased_seq, t.leased_seq) as leased_seq,
         coalesce(l.started_at, t.started_at) as started_at, coalesce(l.started_seq, t.started_seq) as started_seq
  from ${TASK_FROM} where t.id = $1
),
told as (
  select s.* from task t cross join lateral (values
    (1, t.created_at, 0, 'queued', null),
    (t.leased_seq, t.leased_at, t.fence, 'leased', null),
    (t.started_seq, t.started_at, t.fence, 'running', null),
    (t.last_seq, t.finished_at, t.fence, t.state, t.reason)
  ) s (seq, at, fence, state, reason)
  where s.seq is not null and s.at is not null and s.seq > $2::int
),
written as (
  select * from task_events where task_id = $1 and seq > $2::int order by seq limit $3::int
)
select seq, at, 'state' as type, fence, state, reason, null as stream, null as "offset", null as data from told
union all
select seq, at, type, fence, state, reason, stream, "offset"::text, data from written
order by seq limit $3::int`;

/** What waits and what is held is counted; ends were counted as they came. */
const COUNTS = `
select 'queued' as state, count(*)::float8 as count from queue
union all
select case when started_at is null then 'leased' else 'running' end, count(*)::float8 from leases group by 1
union all
select state, sum(count)::float8 from end_counts group by state`;

/** `host` and digests run anywhere; a name runs only where the executor says that it has it. */
function imageName(image: string): string | null {
  return image === "host" || isDigest(image) ? null : image;
}

function newTask({ id, keyId, spec, specDigest }: Submission, createdAt: Date): Task {
  return {
    id,
    key_id: keyId,
    state: "queued",
    spec,
    spec_digest: specDigest,
    attempts: 0,
    fence: 0,
    executor_id: null,
    cancel_requested: false,
    created_at: createdAt.toISOString(),
    started_at: null,
    finished_at: null,
    result: null,
    attestation_id: null,
  };
}
