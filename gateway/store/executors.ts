import { DsecError } from "#core/errors.ts";
import type { ExecutorId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Store } from "#gateway/ports.ts";
import { decodeCursor, pageOf } from "./cursor.ts";
import { type ExecutorRow, executorOf, resourcesOf, vectorOfWire } from "./rows.ts";
import type { StoreContext } from "./store.ts";
import { storableJson, storableText } from "./text.ts";

type ExecutorMethods =
  | "enrolExecutor"
  | "heartbeat"
  | "findExecutor"
  | "listExecutors"
  | "drainExecutor"
  | "capacities";

/** Of a row of `executors`. */
export const EXECUTOR_LOST = `last_seen_at <= dsec_now() - interval '${LIMITS.executorLostAfterMs} milliseconds'`;
const COLUMNS =
  "id, public_key_x, to_jsonb(capacity) as capacity, to_jsonb(free) as free, images, running, build, host, " +
  `draining, ${EXECUTOR_LOST} as lost, enrolled_at, last_seen_at`;

export function executorStore({ sql, wake }: StoreContext): Pick<Store, ExecutorMethods> {
  return {
    async enrolExecutor(id, request) {
      const capacity = vectorLiteral(vectorOfWire(request.capacity));
      // A daemon that starts again means to work again: enrolling ends a drain.
      const [row] = await sql.query<{ id: ExecutorId }>(
        `insert into executors as x (id, public_key_x, capacity, free, images, running, build, host, draining,
           enrolled_at, last_seen_at)
         values ($1, $2, $3::text::int[], $3::text::int[], $4::text::jsonb, 0, $5, $6::text::jsonb, false,
           dsec_now(), dsec_now())
         on conflict (public_key_x) do update set capacity = excluded.capacity, free = excluded.free,
           images = excluded.images, running = 0, build = excluded.build, host = excluded.host, draining = false,
           last_seen_at = excluded.last_seen_at
         returning id`,
        [
          id,
          request.public_key.x,
          capacity,
          storableJson(request.images),
          storableText(request.build),
          storableJson(request.host),
        ],
      );
      return row!.id;
    },

    async heartbeat(id, beat) {
      const [row] = await sql.query<{ draining: boolean }>(
        `update executors set capacity = $2::text::int[], free = $3::text::int[], images = $4::text::jsonb,
           running = $5, last_seen_at = dsec_now()
         where id = $1 returning draining`,
        [
          id,
          vectorLiteral(vectorOfWire(beat.capacity)),
          vectorLiteral(vectorOfWire(beat.free)),
          storableJson(beat.images),
          beat.running,
        ],
      );
      if (!row) throw executorNotFound(id);
      return { draining: row.draining };
    },

    async findExecutor(id) {
      const [row] = await sql.query<ExecutorRow>(`select ${COLUMNS} from executors where id = $1`, [id]);
      if (!row) throw executorNotFound(id);
      return executorOf(row);
    },

    async listExecutors({ limit, cursor }) {
      const rows = await sql.query<ExecutorRow>(
        `select ${COLUMNS} from executors where ($1::text is null or id < $1) order by id desc limit $2`,
        [cursor === undefined ? null : decodeCursor(cursor, "executor"), limit + 1],
      );
      return pageOf(rows, limit, executorOf);
    },

    async drainExecutor(id) {
      const [row] = await sql.query<ExecutorRow>(
        `update executors set draining = true where id = $1 returning ${COLUMNS}`,
        [id],
      );
      if (!row) throw executorNotFound(id);
      wake.notify(`cancel:${id}`);
      return executorOf(row);
    },

    async capacities() {
      const rows = await sql.query<{ capacity: number[]; images: string[] }>(
        `select to_jsonb(capacity) as capacity, images from executors where not draining and not (${EXECUTOR_LOST})`,
      );
      return rows.map((row) => ({ capacity: resourcesOf(row.capacity), images: row.images }));
    },
  };
}

export function executorNotFound(id: ExecutorId): DsecError {
  return new DsecError("EXECUTOR_NOT_FOUND", `there is no executor ${id}; it has to enrol first`);
}

/** PostgreSQL's text form of an integer array. */
function vectorLiteral(vector: number[]): string {
  return `{${vector.join(",")}}`;
}
