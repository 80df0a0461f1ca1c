import type { ExecutorId, LeaseId, TaskId } from "#core/ids.ts";
import type { EventsRequest } from "#core/wire/leases.ts";
import type { TaskEvent } from "#core/wire/tasks.ts";
import type { Store } from "#gateway/ports.ts";
import { coalesce } from "./coalesce.ts";
import { heldRows } from "./judgement.ts";
import type { StoreContext } from "./store.ts";
import { storableJson } from "./text.ts";

type AppendRow = {
  executor_id: ExecutorId;
  lease_id: LeaseId;
  fence: string;
  task_id: TaskId;
  /** of the event before the first that was appended */
  seq_before: number;
  /** The first of them is that the command runs. */
  begins: boolean;
  at: Date;
};

type Output = Exclude<EventsRequest["events"][number], { type: "running" }>;
type Call = { executorId: ExecutorId; events: EventsRequest["events"]; json: string };

/** Appending what attempts say as they run. What one lease says keeps the order it came in. */
export function eventAppender({ sql, wake }: StoreContext): Pick<Store, "appendEvents"> {
  const append = coalesce<Call, { lost: LeaseId[] }>({
    run: appendBatch,
    weigh: (call) => 1 + call.json.length / 8192,
  });

  async function appendBatch(calls: Call[]): Promise<{ lost: LeaseId[] }[]> {
    const rows = await sql.query<AppendRow>(APPEND, [`[${calls.map((call) => call.json).join(",")}]`]);
    const held = new Map(rows.map((row) => [`${row.executor_id} ${row.lease_id} ${row.fence}`, row]));
    const told = new Map(rows.map((row) => [row, row.begins ? [running(row)] : []]));
    const lost = calls.map(({ executorId, events }) => {
      const refused = new Set<LeaseId>();
      for (const event of events) {
        const row = held.get(`${executorId} ${event.lease_id} ${event.fence}`);
        if (row === undefined) refused.add(event.lease_id as LeaseId);
        else if (event.type !== "running")
          told.get(row)!.push(numbered(event, row, told.get(row)!.length + 1));
      }
      return { lost: [...refused] };
    });
    for (const [row, events] of told) if (events.length > 0) wake.notify(`task:${row.task_id}`, events);
    return lost;
  }

  return {
    async appendEvents(executorId, events) {
      if (events.length === 0) return { lost: [] };
      const rows = events.map((event) => ({ ...event, executor_id: executorId }));
      return append({ executorId, events, json: storableJson(rows).slice(1, -1) });
    },
  };
}

function running({ seq_before, at, fence }: AppendRow): TaskEvent {
  const state = { type: "state", state: "running", reason: null } as const;
  return { seq: seq_before + 1, at: at.toISOString(), fence: Number(fence), ...state };
}

/** The event as `listEvents` has it from now on. */
function numbered(event: Output, row: AppendRow, place: number): TaskEvent {
  const common = { seq: row.seq_before + place, at: row.at.toISOString(), fence: event.fence };
  if (event.type === "truncated") return { ...common, type: event.type, stream: event.stream };
  return { ...common, type: event.type, offset: event.offset, data: event.data };
}

/**
 * Numbers are given out under the lease's row lock, so that readers never see one before those below it. That the command
 * runs comes before its output, and only once. Nobody waits for the disk: with the machine, live output may be lost.
 */
const APPEND = `
with clock as materialized (select dsec_now() as at, set_config('synchronous_commit', 'off', true)),
input as materialized (
  select * from rows from (
    jsonb_to_recordset($1::text::jsonb) as (
      executor_id text, lease_id text, fence bigint, type text, "offset" bigint, data text, stream text)
  ) with ordinality as i(executor_id, lease_id, fence, type, "offset", data, stream, place)
),
wanted as materialized (
  select executor_id, lease_id, fence, (count(*) filter (where type <> 'running'))::int as count,
         bool_or(type = 'running') as runs
  from input group by 1, 2, 3
),
held as materialized (${heldRows(
  "h.id, h.task_id, i.executor_id, i.lease_id, i.fence, i.count, i.runs and h.started_at is null as begins",
  "wanted",
)}
),
grown as (
  update leases l set
    last_seq = l.last_seq + h.count + h.begins::int,
    started_at = case when h.begins then c.at else l.started_at end,
    started_seq = case when h.begins then l.last_seq + 1 else l.started_seq end
  from clock c, held h
  where l.id = any (array(select id from held)) and h.id = l.id and h.count + h.begins::int > 0
  returning l.id, l.last_seq
),
logged as (
  insert into task_events (task_id, seq, at, type, fence, "offset", data, stream)
  select h.task_id, g.last_seq - h.count + row_number() over (partition by g.id order by i.place), c.at, i.type,
         i.fence, i."offset", i.data, i.stream
  from clock c cross join grown g join held h on h.id = g.id
  join input i on i.lease_id = h.lease_id and i.fence = h.fence and i.executor_id = h.executor_id
  where i.type <> 'running'
)
select h.executor_id, h.lease_id, h.fence::text as fence, h.task_id, h.begins, c.at,
       g.last_seq - h.count - h.begins::int as seq_before
from clock c cross join held h left join grown g on g.id = h.id`;
