import { DsecError } from "#core/errors.ts";
import { type Digest, isDigest, type KeyId, type TaskId } from "#core/ids.ts";
import { isFinal, TASK_STATES, type TaskState } from "#core/task.ts";
import type { Task, TaskSpec } from "#core/wire/tasks.ts";
import type { Store } from "#gateway/ports.ts";
import { coalesce } from "./coalesce.ts";
import { decodeCursor, pageOf } from "./cursor.ts";
import { endedWithoutResult } from "./ends.ts";
import { type EventRow, eventOf, TASK_COLUMNS, type TaskRow, taskOf, vectorOfWire } from "./rows.ts";
import { isPoison, type Parameter } from "./sql.ts";
import type { StoreContext } from "./store.ts";
import { storableJson } from "./text.ts";

type TaskMethods = "submitTask" | "getTask" | "listTasks" | "cancelTask" | "listEvents" | "countTasks";

export function taskStore({ sql, wake }: StoreContext): Pick<Store, TaskMethods> {
  const submit = coalesce<Submission, Submitted>({
    run: submitBatch,
    weigh: (submission) => 1 + submission.json.length / 8192,
    mayBePoisoned: isPoison,
  });

  async function submitBatch(submissions: Submission[]): Promise<(Submitted | Error)[]> {
    const rows = await sql.query<{ id: TaskId; created_at: Date }>(SUBMIT, [
      `[${submissions.map((submission) => submission.json).join(",")}]`,
    ]);
    const createdAt = new Map(rows.map((row) => [row.id, row.created_at]));
    if (rows.length > 0) wake.notify("queue");
    return Promise.all(
      submissions.map((submission) => {
        const at = createdAt.get(submission.id);
        return at ? { task: newTask(submission, at), created: true } : submittedBefore(submission);
      }),
    );
  }

  /** The task that holds the submission's idempotency key already. */
  async function submittedBefore(submission: Submission): Promise<Submitted | Error> {
    const { keyId, idempotencyKey, specDigest, id } = submission;
    const [row] = await sql.query<TaskRow>(
      `select ${TASK_COLUMNS} from tasks t where t.key_id = $1 and t.idempotency_key = $2`,
      [keyId, idempotencyKey],
    );
    if (!row) return new Error(`task ${id} was neither stored nor is it a repetition`);
    if (row.spec_digest === specDigest) return { task: taskOf(row), created: false };
    return new DsecError(
      "IDEMPOTENCY_KEY_REUSED",
      `idempotency key ${JSON.stringify(idempotencyKey)} was used for task ${row.id} with another spec ` +
        `(${row.spec_digest}, now ${specDigest}); use a new key for a new task`,
      { details: { task_id: row.id } },
    );
  }

  return {
    submitTask(task) {
      const { spec } = task;
      const json = storableJson({
        id: task.id,
        key_id: task.keyId,
        idempotency_key: task.idempotencyKey,
        spec,
        spec_digest: task.specDigest,
        labels: spec.labels,
        image_name: imageName(spec.image),
        resources: vectorOfWire(spec.resources),
        priority: spec.priority,
        attempts_max: spec.retries + 1,
      });
      return submit({ ...task, json });
    },

    async getTask(id, keyId) {
      const [row] = await sql.query<TaskRow>(
        `select ${TASK_COLUMNS} from tasks t where t.id = $1 and ($2::text is null or t.key_id = $2)`,
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
      if (state !== undefined) where("t.state = ?", state);
      if (label) {
        where(
          "t.labels <> '{}'::jsonb and t.labels @> ?::text::jsonb",
          storableJson({ [label.name]: label.value }),
        );
      }
      if (cursor !== undefined) where("t.id < ?", decodeCursor(cursor, "task"));
      const rows = await sql.query<TaskRow>(
        `select ${TASK_COLUMNS} from tasks t where ${conditions.join(" and ")} order by t.id desc limit $1`,
        parameters,
      );
      return pageOf(rows, limit, taskOf);
    },

    async cancelTask(id, keyId) {
      const ended = endedWithoutResult("cancelled", "cancelled while it was queued");
      const [row] = await sql.query<TaskRow & { changed: boolean }>(CANCEL, [id, keyId, storableJson(ended)]);
      if (row) {
        wake.notify(`task:${id}`);
        if (!isFinal(row.state) && row.executor_id !== null) wake.notify(`cancel:${row.executor_id}`);
        return taskOf(row);
      }
      return this.getTask(id, keyId);
    },

    async listEvents(taskId, after, limit) {
      const rows = await sql.query<EventRow>(
        `select seq, at, type, fence, state, reason, stream, "offset", data from task_events
         where task_id = $1 and seq > $2 order by seq limit $3`,
        [taskId, after, limit],
      );
      return rows.map(eventOf);
    },

    async countTasks() {
      const rows = await sql.transaction(async (query) => {
        await query("set local enable_seqscan = on"); // reads everything: in order, then
        return query<{ state: TaskState; count: number }>(
          "select state, count(*)::float8 as count from tasks group by state",
        );
      });
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
  /** The row to be, as JSON. */
  json: string;
};

/**
 * Start-time fair queueing (Goyal, Vin, Cheng 1996), with one task as the unit of service: a task's rank is one
 * more than the larger of its key's last rank and the virtual time. A key's backlog spreads out over the ranks to
 * come, and a key that comes later starts at the present, so that neither starves the other. Rows are inserted in
 * the order of their unique keys, so that two batches cannot wait for each other.
 */
const SUBMIT = `
with clock as materialized (select dsec_now() as at),
input as materialized (
  select * from rows from (
    jsonb_to_recordset($1::text::jsonb) as (
      id text, key_id text, idempotency_key text, spec jsonb, spec_digest text, labels jsonb, image_name text,
      resources int[], priority smallint, attempts_max int)
  ) with ordinality as i(id, key_id, idempotency_key, spec, spec_digest, labels, image_name, resources, priority,
    attempts_max, place)
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
  insert into tasks (id, key_id, idempotency_key, state, spec, spec_digest, labels, image_name, resources, priority,
    rank, available_at, attempts, attempts_max, fence, cancel_requested, last_seq, created_at)
  select p.id, p.key_id, p.idempotency_key, 'queued', p.spec, p.spec_digest, p.labels, p.image_name, p.resources,
    p.priority, p.rank, c.at, 0, p.attempts_max, 0, false, 1, c.at
  from placed p cross join clock c order by p.key_id, p.idempotency_key, p.place
  on conflict do nothing
  returning id, created_at
),
logged as (
  insert into task_events (task_id, seq, at, type, fence, state)
  select s.id, 1, s.created_at, 'state', 0, 'queued' from stored s
)
select id, created_at from stored`;

/** Queued: ends at once. Held: the holder is told. No row where the task is final, unknown or another key's. */
const CANCEL = `
with changed as (
  update tasks t
  set cancel_requested = true,
      state = case when t.state = 'queued' then 'cancelled' else t.state end,
      finished_at = case when t.state = 'queued' then dsec_now() end,
      result = case when t.state = 'queued' then $3::text::jsonb end,
      last_seq = case when t.state = 'queued' then t.last_seq + 1 else t.last_seq end
  where t.id = $1 and ($2::text is null or t.key_id = $2) and t.state in ('queued', 'leased', 'running')
  returning t.*
),
logged as (
  insert into task_events (task_id, seq, at, type, fence, state, reason)
  select t.id, t.last_seq, t.finished_at, 'state', t.fence, t.state, 'cancelled'
  from changed t where t.state = 'cancelled'
)
select ${TASK_COLUMNS} from changed t`;

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
