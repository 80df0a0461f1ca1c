/**
 * The members of each type of event as they lie in its bytes: their field number in proto/trace.proto and what they are.
 * A `?` marks those that may be absent, which is null.
 */
import type { EventMembers, EventType } from "#trace/events/event.ts";

export type Kind =
  | "integer"
  | "number"
  | "text"
  | "boolean"
  | "bytes"
  | "digest"
  | "shown"
  | "timing"
  | "answer"
  | "list";

export type Member = readonly [field: number, kind: Kind | `${Kind}?`];

type Members<M> = { readonly [K in keyof M]: readonly [number, null extends M[K] ? `${Kind}?` : Kind] };

export const MEMBERS: { readonly [T in EventType]: Members<EventMembers[T]> } = {
  tool_call_start: {
    call: [1, "integer"],
    tool: [2, "text?"],
    kind: [3, "text"],
    via: [4, "text"],
    read_only: [5, "boolean?"],
    where: [6, "text?"],
    passage: [7, "text?"],
    method: [8, "text?"],
    url: [9, "text?"],
    arguments_digest: [10, "digest?"],
    arguments_json: [11, "text?"],
    body: [12, "bytes?"],
    step: [13, "integer?"],
    memory_digest: [14, "digest?"],
    context_digest: [15, "digest?"],
  },
  tool_call_end: {
    call: [1, "integer"],
    state: [2, "text"],
    tries: [3, "integer"],
    duration_us: [4, "integer"],
    code: [5, "text?"],
    text: [6, "text?"],
    call_seq: [7, "integer?"],
    status: [8, "integer?"],
    is_error: [9, "boolean?"],
    body_digest: [10, "digest?"],
    json_digest: [11, "digest?"],
    output_digest: [12, "digest?"],
    output_bytes: [13, "integer?"],
    answer: [14, "answer?"],
    exit_code: [15, "integer?"],
    signal: [16, "integer?"],
    reason: [17, "text?"],
    memory_digest: [18, "digest?"],
    memory_changed: [19, "boolean?"],
    bytes_up: [20, "integer?"],
    bytes_down: [21, "integer?"],
    timing: [22, "timing?"],
    replayed: [23, "boolean?"],
    details_json: [24, "text?"],
  },
  tool_call_late: {
    call: [1, "integer"],
    late_us: [2, "integer"],
    state: [3, "text"],
    code: [4, "text?"],
    text: [5, "text?"],
    call_seq: [6, "integer?"],
    status: [7, "integer?"],
    output_digest: [8, "digest?"],
    output_bytes: [9, "integer?"],
  },
  plan_step: {
    state: [1, "text"],
    step: [2, "integer"],
    name: [3, "text"],
    parent: [4, "integer?"],
    given_json: [5, "text?"],
    status: [6, "text?"],
    calls: [7, "integer?"],
    duration_us: [8, "integer?"],
    detail_json: [9, "text?"],
    timeout_ms: [10, "integer?"],
  },
  context: {
    context_digest: [1, "digest"],
    context_json: [2, "text"],
  },
  observation: {
    state: [1, "text"],
    observation: [2, "integer"],
    source: [3, "text?"],
    at: [4, "text?"],
    content_json: [5, "text?"],
    call: [6, "integer?"],
  },
  message: {
    op: [1, "text"],
    channel: [2, "text"],
    items: [3, "list"],
    through: [4, "integer?"],
  },
  process: {
    state: [1, "text"],
    pid: [2, "integer"],
    argv: [3, "list"],
    exit_code: [4, "integer?"],
    signal: [5, "integer?"],
    reason: [6, "text?"],
    cpu_us: [7, "integer?"],
    memory_peak_bytes: [8, "integer?"],
  },
  output: {
    stream: [1, "text"],
    offset: [2, "integer"],
    data: [3, "bytes"],
  },
  snapshot: {
    snapshot: [1, "integer"],
    levels: [2, "text"],
    call: [3, "integer?"],
    step: [4, "integer?"],
    state_digest: [5, "digest?"],
    duration_us: [6, "integer"],
    stored_bytes: [7, "integer"],
  },
  rollback: {
    snapshot: [1, "integer"],
    call: [2, "integer?"],
    reason: [3, "text"],
    duration_us: [4, "integer"],
  },
  memory_read: {
    op: [1, "text"],
    namespace: [2, "text"],
    key: [3, "text"],
    old: [4, "shown?"],
    new: [5, "shown?"],
    version: [6, "integer"],
    origin: [7, "text?"],
    call: [8, "integer?"],
  },
  memory_write: {
    op: [1, "text"],
    namespace: [2, "text"],
    key: [3, "text"],
    old: [4, "shown?"],
    new: [5, "shown?"],
    version: [6, "integer"],
    origin: [7, "text?"],
    call: [8, "integer?"],
  },
  memory_snapshot: {
    namespace: [1, "text"],
    version: [2, "integer"],
    state_digest: [3, "digest"],
    entries_json: [4, "text"],
  },
  token_logit: {
    source: [1, "text?"],
    call: [2, "integer?"],
    tokens: [3, "list"],
  },
  completion: {
    call: [1, "integer?"],
    model: [2, "text?"],
    prompt_tokens: [3, "integer?"],
    completion_tokens: [4, "integer?"],
    cached_tokens: [5, "integer?"],
    finish_reason: [6, "text?"],
    tool_calls: [7, "list"],
    streamed: [8, "boolean?"],
  },
  reward: {
    components: [1, "list"],
    sum: [2, "number"],
    source: [3, "text?"],
  },
  error: {
    code: [1, "text"],
    text: [2, "text"],
    via: [3, "text?"],
    call: [4, "integer?"],
    step: [5, "integer?"],
    stack: [6, "text?"],
    memory_digest: [7, "digest?"],
    memory_json: [8, "text?"],
    payloads: [9, "list"],
    namespace: [10, "text?"],
    expected_digest: [11, "digest?"],
    actual_digest: [12, "digest?"],
    version: [13, "integer?"],
    method: [14, "text?"],
    url: [15, "text?"],
    detail_json: [16, "text?"],
  },
};

/** Field numbers of what a timing says. */
export const TIMING_FIELDS: Readonly<Record<string, number>> = {
  network_us: 1,
  serialization_us: 2,
  gateway_us: 3,
  snapshot_us: 4,
  cpu_wait_us: 5,
  throttled_us: 6,
  gpu_us: 7,
};

export function memberOf(type: EventType, name: string): Member | null {
  const members = MEMBERS[type] as Readonly<Record<string, Member>>;
  return Object.hasOwn(members, name) ? members[name]! : null;
}
