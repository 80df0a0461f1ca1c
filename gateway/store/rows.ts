/** From rows to what the wire shows. */
import type { AttestationId, Digest, ExecutorId, KeyId, TaskId } from "#core/ids.ts";
import { AXES, type Resources } from "#core/resources.ts";
import type { TaskState } from "#core/task.ts";
import { fromWire, toWire, type WireResources } from "#core/wire/common.ts";
import type { Executor } from "#core/wire/executors.ts";
import type { Key, Scope } from "#core/wire/keys.ts";
import type { Result, Task, TaskEvent, TaskSpec } from "#core/wire/tasks.ts";

export type TaskRow = {
  id: TaskId;
  key_id: KeyId;
  state: TaskState;
  spec: TaskSpec;
  spec_digest: Digest;
  attempts: number;
  fence: string;
  executor_id: ExecutorId | null;
  cancel_requested: boolean;
  created_at: Date;
  started_at: Date | null;
  finished_at: Date | null;
  result: Result | null;
  attestation_id: AttestationId | null;
};

/** A task and, while it is held, its lease. */
export const TASK_FROM = "tasks t left join leases l on l.id = t.lease_id";

export const TASK_STATE =
  "case when l.id is null then t.state when l.started_at is null then 'leased' else 'running' end";

/** What `taskOf` reads, from TASK_FROM. */
export const TASK_COLUMNS = `t.id, t.key_id, ${TASK_STATE} as state, t.spec, t.spec_digest,
  coalesce(l.attempt, t.attempts) as attempts, coalesce(l.fence, t.fence) as fence,
  coalesce(l.executor_id, t.executor_id) as executor_id,
  coalesce(l.cancel_requested, t.cancel_requested) as cancel_requested, t.created_at,
  coalesce(l.started_at, t.started_at) as started_at, t.finished_at, t.result, t.attestation_id`;

export function taskOf(row: TaskRow): Task {
  return {
    id: row.id,
    key_id: row.key_id,
    state: row.state,
    spec: row.spec,
    spec_digest: row.spec_digest,
    attempts: row.attempts,
    fence: Number(row.fence),
    executor_id: row.executor_id,
    cancel_requested: row.cancel_requested,
    created_at: row.created_at.toISOString(),
    started_at: timeOf(row.started_at),
    finished_at: timeOf(row.finished_at),
    result: row.result,
    attestation_id: row.attestation_id,
  };
}

export type EventRow = {
  seq: number;
  at: Date;
  type: TaskEvent["type"];
  fence: string;
  state: TaskState | null;
  reason: string | null;
  stream: "stdout" | "stderr" | null;
  offset: string | null;
  data: string | null;
};

export function eventOf(row: EventRow): TaskEvent {
  const common = { seq: row.seq, at: row.at.toISOString(), fence: Number(row.fence) };
  switch (row.type) {
    case "state":
      return { ...common, type: row.type, state: row.state!, reason: row.reason };
    case "truncated":
      return { ...common, type: row.type, stream: row.stream! };
    default:
      return { ...common, type: row.type, offset: Number(row.offset), data: row.data ?? "" };
  }
}

export type KeyRow = {
  id: KeyId;
  name: string;
  scopes: Scope[];
  secret_hash: Uint8Array;
  created_at: Date;
  expires_at: Date | null;
  revoked_at: Date | null;
  last_used_at: Date | null;
};

export function keyOf(row: KeyRow): Key {
  return {
    id: row.id,
    name: row.name,
    scopes: row.scopes,
    created_at: row.created_at.toISOString(),
    expires_at: timeOf(row.expires_at),
    revoked_at: timeOf(row.revoked_at),
    last_used_at: timeOf(row.last_used_at),
  };
}

export type ExecutorRow = {
  id: ExecutorId;
  public_key_x: string;
  capacity: number[];
  free: number[];
  images: string[];
  running: number;
  build: string;
  host: Executor["host"];
  draining: boolean;
  lost: boolean;
  enrolled_at: Date;
  last_seen_at: Date;
};

export function executorOf(row: ExecutorRow): Executor {
  return {
    id: row.id,
    state: row.draining ? "draining" : row.lost ? "lost" : "ready",
    public_key: { kty: "OKP", crv: "Ed25519", x: row.public_key_x },
    capacity: toWire(resourcesOf(row.capacity)),
    free: toWire(resourcesOf(row.free)),
    images: row.images,
    running: row.running,
    build: row.build,
    host: row.host,
    enrolled_at: row.enrolled_at.toISOString(),
    last_seen_at: row.last_seen_at.toISOString(),
  };
}

/** A resource vector as the database holds it: amounts in the order of AXES. */
export function vectorOf(resources: Resources): number[] {
  return AXES.map((axis) => resources[axis]);
}

export function vectorOfWire(wire: WireResources): number[] {
  return vectorOf(fromWire(wire));
}

export function resourcesOf(vector: number[]): Resources {
  return Object.fromEntries(AXES.map((axis, i) => [axis, vector[i]])) as Resources;
}

function timeOf(time: Date | null): string | null {
  return time === null ? null : time.toISOString();
}
