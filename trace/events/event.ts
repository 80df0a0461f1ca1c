/**
 * What happened to one sandbox, as code sees it: proto/trace.proto with digests as `sha256:…`, absent members as null and
 * JSON as its exact text. Members are named as in the proto file, which says what each is.
 */
import type { Digest } from "#core/ids.ts";

/** JSON text (RFC 8259), kept as it was given: parsed into doubles, 9007199254740993 would become another number. */
export type JsonText = string;

export type CallState = "answered" | "fallback" | "failed" | "timed_out" | "cancelled";

export type Answer = { output_json: JsonText | null; head_json: JsonText | null; body: Uint8Array | null };
export type Timing = {
  network_us: number | null;
  serialization_us: number | null;
  gateway_us: number | null;
  snapshot_us: number | null;
  cpu_wait_us: number | null;
  throttled_us: number | null;
  gpu_us: number | null;
};
export type Shown = { value_json: JsonText | null; value_digest: Digest | null; bytes: number | null };
export type Token = {
  id: number;
  logprob: number;
  text: string | null;
  top_ids: number[];
  top_logprobs: number[];
  top_texts: string[];
  log_sum_exp: number | null;
};
export type RewardComponent = {
  name: string;
  value: number;
  weight: number;
  weight_change: number | null;
  product: number;
};
export type Payload = {
  call: number;
  tool: string | null;
  url: string | null;
  sent: string | null;
  received: string | null;
  truncated: boolean;
};
type MemoryAccess = {
  op: "get" | "list" | "search" | "put" | "delete" | "expire" | "clear";
  namespace: string;
  key: string;
  old: Shown | null;
  new: Shown | null;
  version: number;
  origin: string | null;
  call: number | null;
};

/** The members of each type of event. */
export type EventMembers = {
  tool_call_start: {
    call: number;
    tool: string | null;
    kind: "http" | "exec" | "memory" | "message";
    via: "http" | "mcp" | "proxy" | "import";
    read_only: boolean | null;
    where: "sandbox" | "sibling" | null;
    passage: "opaque" | "websocket" | null;
    method: string | null;
    url: string | null;
    arguments_digest: Digest | null;
    arguments_json: JsonText | null;
    body: Uint8Array | null;
    step: number | null;
    memory_digest: Digest | null;
    context_digest: Digest | null;
    /** The exec tool's call in whose course a program of the tool made this one. */
    within: number | null;
  };
  tool_call_end: {
    call: number;
    state: CallState;
    tries: number;
    duration_us: number;
    code: string | null;
    text: string | null;
    call_seq: number | null;
    status: number | null;
    is_error: boolean | null;
    body_digest: Digest | null;
    json_digest: Digest | null;
    output_digest: Digest | null;
    output_bytes: number | null;
    answer: Answer | null;
    exit_code: number | null;
    signal: number | null;
    reason: string | null;
    memory_digest: Digest | null;
    memory_changed: boolean | null;
    bytes_up: number | null;
    bytes_down: number | null;
    timing: Timing | null;
    replayed: boolean | null;
    details_json: JsonText | null;
    told_wall_us: number | null;
    stderr: string | null;
  };
  tool_call_late: {
    call: number;
    late_us: number;
    state: "answered" | "failed";
    code: string | null;
    text: string | null;
    call_seq: number | null;
    status: number | null;
    output_digest: Digest | null;
    output_bytes: number | null;
  };
  plan_step: {
    state: "begun" | "timed_out" | "ended";
    step: number;
    name: string;
    parent: number | null;
    given_json: JsonText | null;
    status: "succeeded" | "failed" | "abandoned" | "timed_out" | null;
    calls: number | null;
    duration_us: number | null;
    detail_json: JsonText | null;
    timeout_ms: number | null;
  };
  context: { context_digest: Digest; context_json: JsonText };
  observation: {
    state: "injected" | "given";
    observation: number;
    source: string | null;
    at: string | null;
    content_json: JsonText | null;
    call: number | null;
  };
  message: {
    op: "send" | "receive" | "acknowledge";
    channel: string;
    items: { id: number; from: string | null; body_digest: Digest }[];
    through: number | null;
  };
  process: {
    state: "exec" | "exit" | "signal" | "oom";
    pid: number;
    argv: string[];
    exit_code: number | null;
    signal: number | null;
    reason: string | null;
    cpu_us: number | null;
    memory_peak_bytes: number | null;
  };
  output: { stream: "stdout" | "stderr"; offset: number; data: Uint8Array };
  snapshot: {
    snapshot: number;
    levels: string;
    call: number | null;
    step: number | null;
    state_digest: Digest | null;
    duration_us: number;
    stored_bytes: number;
  };
  rollback: { snapshot: number; call: number | null; reason: string; duration_us: number };
  memory_read: MemoryAccess;
  memory_write: MemoryAccess;
  memory_snapshot: {
    namespace: string;
    version: number;
    state_digest: Digest;
    entries_json: JsonText;
    lifetimes_json: JsonText | null;
  };
  token_logit: { source: string | null; call: number | null; tokens: Token[] };
  completion: {
    call: number | null;
    model: string | null;
    prompt_tokens: number | null;
    completion_tokens: number | null;
    cached_tokens: number | null;
    finish_reason: string | null;
    tool_calls: { id: string; name: string; arguments_json: string }[];
    streamed: boolean | null;
  };
  reward: { components: RewardComponent[]; sum: number; source: string | null };
  error: {
    code: string;
    text: string;
    via: string | null;
    call: number | null;
    step: number | null;
    stack: string | null;
    memory_digest: Digest | null;
    memory_json: JsonText | null;
    payloads: Payload[];
    namespace: string | null;
    expected_digest: Digest | null;
    actual_digest: Digest | null;
    version: number | null;
    method: string | null;
    url: string | null;
    detail_json: JsonText | null;
  };
};

export type EventType = keyof EventMembers;

/** What is recorded of an event: members that are left out are null, lists empty. */
export type EventBody<T extends EventType = EventType> = {
  [K in T]: { type: K } & Written<EventMembers[K]>;
}[T];

/** An event as it is read. `seq` counts 1, 2, 3…; `t_us` is monotonic since the log was opened, `wall_us` since 1970. */
export type TraceEvent<T extends EventType = EventType> = {
  [K in T]: { seq: number; t_us: number; wall_us: number; type: K } & EventMembers[K];
}[T];

type Written<M> = { [K in keyof M as null extends M[K] ? never : K]: Part<M[K]> } & {
  [K in keyof M as null extends M[K] ? K : never]?: Part<M[K]> | undefined;
};
type Part<V> = V extends Uint8Array | string | number | boolean | null
  ? V
  : V extends (infer Item)[]
    ? Part<Item>[]
    : Written<V>;

export const SECTIONS = [
  "plan_execution",
  "memory_state",
  "token_logit",
  "reward_signal",
  "error_context",
] as const;
export type Section = (typeof SECTIONS)[number];

const SECTION_OF: Readonly<Record<EventType, Section>> = {
  tool_call_start: "plan_execution",
  tool_call_end: "plan_execution",
  tool_call_late: "plan_execution",
  plan_step: "plan_execution",
  context: "plan_execution",
  observation: "plan_execution",
  message: "plan_execution",
  process: "plan_execution",
  output: "plan_execution",
  snapshot: "plan_execution",
  rollback: "plan_execution",
  memory_read: "memory_state",
  memory_write: "memory_state",
  memory_snapshot: "memory_state",
  token_logit: "token_logit",
  completion: "token_logit",
  reward: "reward_signal",
  error: "error_context",
};

export const EVENT_TYPES = Object.keys(SECTION_OF) as EventType[];

export function sectionOf(type: EventType): Section {
  return SECTION_OF[type];
}
