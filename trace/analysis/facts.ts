/** What reports know of one trace, from one pass over its events. What is kept grows with its calls, not with what they carried. */
import type { Digest } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { decodeEvent } from "#trace/events/codec.ts";
import type { EventType, Section, Timing, TraceEvent } from "#trace/events/event.ts";
import type { TraceHeader } from "#trace/format/header.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { type Consistency, MemoryCheck } from "#trace/metrics/memory-consistency.ts";
import type { RewardParts } from "#trace/metrics/rewards.ts";
import { type CallOutcome, erred } from "#trace/metrics/tool-calls.ts";
import { Unshown, type Value, valueOfText } from "#trace/query/value.ts";
import { type Labels, labelsOf } from "./labels.ts";

export type CallFacts = CallOutcome & {
  call: number;
  /** Number of its start. */
  seq: number;
  kind: string;
  step: number | null;
  t_us: number;
  duration_us: number | null;
  tries: number;
  code: string | null;
  text: string | null;
  output_digest: Digest | null;
  json_digest: Digest | null;
  /** JSON text of the arguments, and of the answer. */
  bytes_in: number;
  bytes_out: number;
  timing: Timing | null;
};

export type StepFacts = {
  step: number;
  name: string;
  parent: number | null;
  seq: number;
  t_us: number;
  duration_us: number | null;
  status: string | null;
  calls: number;
};

export type TraceFacts = {
  header: TraceHeader;
  state: "sealed" | "open";
  events: number;
  duration_us: number;
  labels: Labels;
  calls: CallFacts[];
  steps: StepFacts[];
  rewards: (RewardParts & { seq: number; source: string | null })[];
  /** The first ones. */
  errors: { seq: number; code: string; call: number | null; text: string }[];
  /** How many errors belong to no call, of all. */
  strayErrors: number;
  /** How the last process that is known to have ended did. */
  commandEnded: "well" | "badly" | null;
  memory: Consistency;
  /** The task's namespace at the end, and at its first failure: keys to values as they are written in JSON. */
  memoryState: Map<string, Value>;
  memoryAtFailure: Map<string, Value> | null;
};

export type FactsOptions = {
  /** Is given each event that was decoded, in order. */
  onEvent?: (event: TraceEvent) => void;
  /** Whether the arguments of a call are to be kept as text. */
  keepsArguments?: (start: TraceEvent<"tool_call_start">) => boolean;
};

export async function readFacts(segment: TraceSegment, options: FactsOptions = {}): Promise<TraceFacts> {
  const collector = new Collector(segment, options);
  for await (const batch of segment.batches({ sections: READ })) {
    for (const { type, bytes } of batch) {
      if (!PASSED_OVER.has(type)) collector.add(decodeEvent(bytes, segment.startedWallUs));
    }
  }
  return collector.facts();
}

/** Whose the namespace is: the task's own by its name, or in an import the first that is not shared. */
export function ownNamespace(header: Pick<TraceHeader, "task_id">): (namespace: string) => boolean {
  let own = header.task_id === null ? null : `task:${header.task_id}`;
  return (namespace) => {
    if (own === null && !namespace.startsWith("shared:")) own = namespace;
    return namespace === own;
  };
}

const READ: Section[] = ["plan_execution", "memory_state", "reward_signal", "error_context"];
const PASSED_OVER = new Set<EventType>(["context", "message", "output", "snapshot", "rollback"]);

class Collector {
  readonly #segment: TraceSegment;
  readonly #options: FactsOptions;
  readonly #isOwn: (namespace: string) => boolean;
  readonly #check: MemoryCheck;
  readonly #calls: CallFacts[] = [];
  readonly #byCall = new Map<number, CallFacts>();
  readonly #steps = new Map<number, StepFacts>();
  readonly #rewards: TraceFacts["rewards"] = [];
  readonly #errors: TraceFacts["errors"] = [];
  #strayErrors = 0;
  readonly #memory = new Map<string, Value>();
  #memoryAtFailure: Map<string, Value> | null = null;
  #commandEnded: TraceFacts["commandEnded"] = null;
  #endedUs = 0;

  constructor(segment: TraceSegment, options: FactsOptions) {
    this.#segment = segment;
    this.#options = options;
    this.#isOwn = ownNamespace(segment.header);
    this.#check = new MemoryCheck(this.#isOwn);
  }

  add(event: TraceEvent): void {
    this.#endedUs = Math.max(this.#endedUs, event.t_us);
    this.#check.add(event);
    this.#options.onEvent?.(event);
    switch (event.type) {
      case "tool_call_start":
        this.#started(event);
        return;
      case "tool_call_end":
        this.#ended(event);
        return;
      case "plan_step":
        this.#step(event);
        return;
      case "memory_write":
        if (this.#isOwn(event.namespace)) this.#wrote(event);
        return;
      case "memory_snapshot":
        if (this.#isOwn(event.namespace)) this.#snapshot(event);
        return;
      case "process":
        if (event.state !== "exec") this.#commandEnded = event.exit_code === 0 ? "well" : "badly";
        return;
      case "reward": {
        const { seq, components, sum, source } = event;
        this.#rewards.push({ seq, components, sum, source });
        return;
      }
      case "error": {
        const { seq, code, call, text } = event;
        if (call === null) this.#strayErrors++;
        if (this.#errors.length < LIMITS.reportCalls)
          this.#errors.push({ seq, code, call, text: text.slice(0, 500) });
        this.#failed(event.memory_json);
        return;
      }
    }
  }

  facts(): TraceFacts {
    const { header, state, count } = this.#segment;
    return {
      ...{ header, state, events: count, duration_us: this.#endedUs, labels: labelsOf(header.labels_json) },
      ...{
        calls: this.#calls,
        steps: [...this.#steps.values()],
        rewards: this.#rewards,
        errors: this.#errors,
        strayErrors: this.#strayErrors,
        commandEnded: this.#commandEnded,
      },
      ...{ memory: this.#check.result(), memoryState: this.#memory, memoryAtFailure: this.#memoryAtFailure },
    };
  }

  #started(event: TraceEvent<"tool_call_start">): void {
    const { call, seq, kind, tool, read_only, step, t_us, arguments_json, arguments_digest } = event;
    const keeps = this.#options.keepsArguments?.(event) ?? false;
    const facts: CallFacts = {
      ...{ call, seq, kind, tool, read_only, step, t_us, arguments_digest },
      ...{ arguments_json: keeps ? arguments_json : null, bytes_in: sizeOf(arguments_json, event.body) },
      ...{ state: null, is_error: null, duration_us: null, tries: 0, code: null, text: null, timing: null },
      ...{ output_digest: null, json_digest: null, bytes_out: 0 },
    };
    this.#calls.push(facts);
    this.#byCall.set(call, facts);
    const open = step === null ? undefined : this.#steps.get(step);
    if (open !== undefined) open.calls++;
  }

  #ended(event: TraceEvent<"tool_call_end">): void {
    const facts = this.#byCall.get(event.call);
    if (facts === undefined) return;
    const { state, is_error, duration_us, tries, code, output_digest, json_digest, timing, answer } = event;
    const bytes_out = event.output_bytes ?? sizeOf(answer?.output_json ?? null, answer?.body ?? null);
    const text = event.text?.slice(0, 500) ?? null;
    Object.assign(facts, {
      state,
      is_error,
      duration_us,
      tries,
      code,
      text,
      output_digest,
      json_digest,
      bytes_out,
      timing,
    });
    if (erred(facts)) this.#failed(null);
  }

  #step(event: TraceEvent<"plan_step">): void {
    const { step, state, name, parent, seq, t_us, status, duration_us } = event;
    if (state === "begun") {
      this.#steps.set(step, { step, name, parent, seq, t_us, duration_us: null, status: null, calls: 0 });
    } else if (state === "ended") {
      const begun = this.#steps.get(step);
      if (begun !== undefined)
        Object.assign(begun, { status, duration_us: duration_us ?? t_us - begun.t_us });
    }
  }

  #wrote({ op, key, new: now }: TraceEvent<"memory_write">): void {
    if (op === "clear") this.#memory.clear();
    else if (op !== "put" || now === null) this.#memory.delete(key);
    else if (now.value_json === null) this.#memory.set(key, new Unshown(now.value_digest, now.bytes));
    else this.#memory.set(key, valueOfText(now.value_json));
  }

  #snapshot({ entries_json }: TraceEvent<"memory_snapshot">): void {
    const entries = mapOf(entries_json);
    if (entries === null) return;
    this.#memory.clear();
    for (const [key, value] of entries) this.#memory.set(key, value);
  }

  /** The first failure's own word counts more than what was replayed. */
  #failed(memory_json: string | null): void {
    const told = memory_json === null ? null : mapOf(memory_json);
    this.#memoryAtFailure ??= told ?? new Map(this.#memory);
  }
}

function mapOf(json: string): Map<string, Value> | null {
  const entries = valueOfText(json);
  const isObject = typeof entries === "object" && entries !== null && !Array.isArray(entries);
  return isObject ? new Map(Object.entries(entries)) : null;
}

function sizeOf(json: string | null, body: Uint8Array | null): number {
  return json?.length ?? body?.length ?? 0;
}
