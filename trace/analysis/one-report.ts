/** The report on one trace: its calls in order with all that belongs to them, as far as a page can hold it. */
import { LIMITS } from "#core/limits.ts";
import { decodeEvent } from "#trace/events/codec.ts";
import type { EventType, Shown, TraceEvent } from "#trace/events/event.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { rewardFault } from "#trace/metrics/rewards.ts";
import { erred } from "#trace/metrics/tool-calls.ts";
import { type CallFacts, ownNamespace, type StepFacts } from "./facts.ts";
import { type MeasureOptions, measure } from "./metrics.ts";
import type {
  CallEntry,
  CompletionEntry,
  CutText,
  ErrorEntry,
  MemoryChange,
  ObservationEntry,
  OneReport,
  OtherEntry,
  RewardEntry,
  StepEntry,
  TokenEntry,
} from "./report-data.ts";
import { summaryOf } from "./summary.ts";
import { ToolTable, toolName } from "./tool-table.ts";

export async function oneReport(
  segment: TraceSegment,
  file: string,
  options: MeasureOptions,
): Promise<OneReport> {
  const carried = new Carried(segment);
  const { facts, row, accuracyNote } = await measure(segment, file, options, (event) => carried.add(event));
  await carried.addRest(segment);
  const { started_wall_us, image, labels_json, attempt, lease_id, fence, level, spec_digest } =
    segment.header;
  const shown = facts.calls.slice(0, LIMITS.reportCalls);
  const timeline = [
    ...facts.steps.map(stepEntry),
    ...shown.map((call) => callEntry(call, carried)),
    ...carried.observations,
  ].sort((one, other) => one.seq - other.seq);
  const tools = new ToolTable();
  for (const call of facts.calls) tools.add(call);
  return {
    version: 1,
    kind: "one",
    trace: {
      ...row,
      ...{ started_wall_us, image, labels_json, attempt, lease_id, fence, level, spec_digest },
      chain_head: segment.chainHead,
    },
    timeline,
    calls_left_out: facts.calls.length - shown.length,
    events_left_out: carried.eventsLeftOut,
    memory: facts.memory,
    rewards: carried.rewards,
    errors: carried.errors,
    others: carried.others,
    tools: tools.rows(),
    logit_divergence: null,
    accuracy_note: accuracyNote,
  };
}

/** What calls carried, of the first ones. */
class Carried {
  readonly #shown = new Set<number>();
  readonly arguments = new Map<number, CutText>();
  readonly answers = new Map<number, CutText>();
  readonly memory = new Map<number, MemoryChange[]>();
  readonly tokens = new Map<number, TokenEntry[]>();
  readonly completions = new Map<number, CompletionEntry[]>();
  readonly errors: ErrorEntry[] = [];
  readonly others: OtherEntry[] = [];
  readonly observations: ObservationEntry[] = [];
  readonly rewards: RewardEntry[] = [];
  eventsLeftOut = 0;
  readonly #isOwn: (namespace: string) => boolean;
  #lastCall: number | null = null;
  /** Plan steps that are open, the innermost last. */
  #open: number[] = [];
  #tokenCount = 0;

  constructor({ header }: Pick<TraceSegment, "header">) {
    this.#isOwn = ownNamespace(header);
  }

  add(event: TraceEvent): void {
    switch (event.type) {
      case "tool_call_start": {
        this.#lastCall = event.call;
        if (this.#shown.size < LIMITS.reportCalls) this.#shown.add(event.call);
        const text = event.arguments_json ?? textOf(event.body);
        if (text !== null && this.#shown.has(event.call)) this.arguments.set(event.call, cut(text));
        return;
      }
      case "tool_call_end": {
        const text = event.answer?.output_json ?? textOf(event.answer?.body ?? null);
        if (text !== null && this.#shown.has(event.call)) this.answers.set(event.call, cut(text));
        return;
      }
      case "memory_write": {
        // A change between calls is shown with the call before it.
        const call = event.call ?? this.#lastCall ?? 0;
        const changes = this.memory.get(call) ?? [];
        if (!this.#isOwn(event.namespace) || changes.length >= MOST_CHANGES) return;
        const { seq, op, key, origin } = event;
        changes.push({ seq, op, key, old: shownText(event.old), new: shownText(event.new), origin });
        this.memory.set(call, changes);
        return;
      }
      case "plan_step":
        this.#stepChanged(event);
        return;
      case "error":
        this.#keep(this.errors, errorEntry(event, this.#step));
        return;
      case "observation": {
        const { seq, t_us, source, content_json } = event;
        const content = content_json === null ? null : cut(content_json);
        this.#keep(this.observations, { kind: "observation", seq, t_us, step: this.#step, source, content });
        return;
      }
      case "reward": {
        const { seq, t_us, sum, source, components } = event;
        this.#keep(this.rewards, { seq, t_us, sum, source, components, fault: rewardFault(event) });
        return;
      }
    }
  }

  /** Tokens, processes and what they wrote are read apart: no metric of one trace needs them. */
  async addRest(segment: TraceSegment): Promise<void> {
    this.#open = [];
    for await (const batch of segment.batches({ sections: ["plan_execution", "token_logit"] })) {
      for (const { type, bytes } of batch) {
        if (!REST.has(type)) continue;
        const event = decodeEvent(bytes, segment.startedWallUs);
        if (event.type === "plan_step") this.#stepChanged(event);
        else if (event.type === "token_logit") this.#addTokens(event);
        else if (event.type === "completion") this.#addCompletion(event);
        else this.#addOther(event);
      }
    }
  }

  get #step(): number | null {
    return this.#open.at(-1) ?? null;
  }

  #stepChanged({ state, step }: TraceEvent<"plan_step">): void {
    if (state === "begun") this.#open.push(step);
    else if (state === "ended") this.#open = this.#open.filter((open) => open !== step);
  }

  #addTokens({ seq, call, tokens }: TraceEvent<"token_logit">): void {
    const entries = this.tokens.get(call ?? 0) ?? [];
    for (const { text, id, logprob, top_ids, top_texts, top_logprobs } of tokens) {
      if (++this.#tokenCount > MOST_TOKENS) break;
      const top = top_ids.map((id, at) => {
        return { id, text: top_texts[at] ?? null, logprob: top_logprobs[at] ?? 0 };
      });
      entries.push({ seq, text, id, logprob, top });
    }
    this.tokens.set(call ?? 0, entries);
  }

  #addCompletion(event: TraceEvent<"completion">): void {
    const { model, prompt_tokens, completion_tokens, cached_tokens, finish_reason } = event;
    const entries = this.completions.get(event.call ?? 0) ?? [];
    if (entries.length >= MOST_CHANGES) return;
    entries.push({ model, prompt_tokens, completion_tokens, cached_tokens, finish_reason });
    this.completions.set(event.call ?? 0, entries);
  }

  /** What a process wrote in one go may be many events. */
  #addOther(event: TraceEvent): void {
    const { seq, t_us, type } = event;
    const before = this.others.at(-1);
    if (event.type !== "output") {
      const bad = event.type === "process" && isBad(event);
      const text = cut(membersText(event));
      this.#keep(this.others, { seq, t_us, step: this.#step, type, title: summaryOf(event), text, bad });
      return;
    }
    const text = textOf(event.data)!;
    if (before?.type === "output" && before.title === event.stream) {
      const whole = before.text!.text + text.slice(0, LIMITS.reportTextChars);
      before.text = { text: cut(whole).text, chars: before.text!.chars + text.length };
    } else {
      const members = { type, title: event.stream, text: cut(text), bad: false };
      this.#keep(this.others, { seq, t_us, step: this.#step, ...members });
    }
  }

  #keep<Entry>(entries: Entry[], entry: Entry): void {
    if (entries.length < LIMITS.reportCalls) entries.push(entry);
    else this.eventsLeftOut++;
  }
}

const REST = new Set<EventType>([
  ...(["plan_step", "token_logit", "completion"] as const),
  ...(["process", "output", "snapshot", "rollback", "message"] as const),
]);

const MOST_CHANGES = 100;
const MOST_TOKENS = 50_000;

function callEntry(facts: CallFacts, carried: Carried): CallEntry {
  const { seq, t_us, call, step, state, duration_us, tries, code, text, timing } = facts;
  return {
    kind: "call",
    ...{ seq, t_us, call, step, state, duration_us, tries, code, text, timing },
    tool: toolName(facts),
    erred: erred(facts),
    arguments: carried.arguments.get(call) ?? null,
    answer: carried.answers.get(call) ?? null,
    memory: carried.memory.get(call) ?? [],
    tokens: carried.tokens.get(call) ?? [],
    completions: carried.completions.get(call) ?? [],
  };
}

function stepEntry({ seq, t_us, step, parent, name, status, duration_us, calls }: StepFacts): StepEntry {
  return { kind: "step", seq, t_us, step, parent, name, status, duration_us, calls };
}

function errorEntry(event: TraceEvent<"error">, open: number | null): ErrorEntry {
  const { seq, t_us, call, code, text, stack, memory_json } = event;
  const cutOrNull = (value: string | null) => (value === null ? null : cut(value));
  return {
    ...{ seq, t_us, call, step: event.step ?? open, code, text: cut(text).text },
    ...{ stack: cutOrNull(stack), memory: cutOrNull(memory_json) },
    payloads: event.payloads.slice(-3).map(({ call, tool, url, sent, received }) => {
      return { call, tool, url, sent: cutOrNull(sent), received: cutOrNull(received) };
    }),
  };
}

/** Of an event without bytes in it: what is known. */
function membersText(event: TraceEvent): string {
  const { seq: _seq, t_us: _t, wall_us: _wall, type: _type, ...members } = event;
  const known = Object.entries(members).filter(([, value]) => value !== null);
  return JSON.stringify(Object.fromEntries(known));
}

function isBad({ state, exit_code }: TraceEvent<"process">): boolean {
  return state === "oom" || state === "signal" || (state === "exit" && exit_code !== 0);
}

function cut(text: string): CutText {
  return { text: text.slice(0, LIMITS.reportTextChars).toWellFormed(), chars: text.length };
}

function shownText(shown: Shown | null): string | null {
  if (shown === null) return null;
  return shown.value_json ?? `${shown.bytes} bytes, ${shown.value_digest}`;
}

const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });

function textOf(bytes: Uint8Array | null): string | null {
  return bytes === null ? null : decoder.decode(bytes);
}
