/** The report on one trace: its calls in order with all that belongs to them, as far as a page can hold it. */
import { LIMITS } from "#core/limits.ts";
import { decodeEvent } from "#trace/events/codec.ts";
import type { Shown, TraceEvent } from "#trace/events/event.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { rewardFault } from "#trace/metrics/rewards.ts";
import { erred } from "#trace/metrics/tool-calls.ts";
import { type CallFacts, ownNamespace, type StepFacts } from "./facts.ts";
import { type MeasureOptions, measure } from "./metrics.ts";
import type {
  CallEntry,
  CutText,
  MemoryChange,
  ObservationEntry,
  OneReport,
  RewardEntry,
  StepEntry,
  TokenEntry,
} from "./report-data.ts";
import { ToolTable, toolName } from "./tool-table.ts";

export async function oneReport(
  segment: TraceSegment,
  file: string,
  options: MeasureOptions,
): Promise<OneReport> {
  const carried = new Carried(segment);
  const { facts, row } = await measure(segment, file, options, (event) => carried.add(event));
  await carried.addTokens(segment);
  const { header } = segment;
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
      started_wall_us: header.started_wall_us,
      image: header.image,
      labels_json: header.labels_json,
    },
    timeline,
    calls_left_out: facts.calls.length - shown.length,
    memory: facts.memory,
    rewards: carried.rewards,
    errors: facts.errors,
    tools: tools.rows(),
    logit_divergence: null,
  };
}

/** What calls carried, of the first ones. */
class Carried {
  readonly arguments = new Map<number, CutText>();
  readonly answers = new Map<number, CutText>();
  readonly memory = new Map<number, MemoryChange[]>();
  readonly tokens = new Map<number, TokenEntry[]>();
  readonly observations: ObservationEntry[] = [];
  readonly rewards: RewardEntry[] = [];
  readonly #isOwn: (namespace: string) => boolean;
  #lastCall: number | null = null;

  constructor({ header }: Pick<TraceSegment, "header">) {
    this.#isOwn = ownNamespace(header);
  }

  add(event: TraceEvent): void {
    switch (event.type) {
      case "tool_call_start": {
        this.#lastCall = event.call;
        const text = event.arguments_json ?? textOf(event.body);
        if (text !== null && this.arguments.size < LIMITS.reportCalls)
          this.arguments.set(event.call, cut(text));
        return;
      }
      case "tool_call_end": {
        const text = event.answer?.output_json ?? textOf(event.answer?.body ?? null);
        if (text !== null && this.arguments.has(event.call)) this.answers.set(event.call, cut(text));
        return;
      }
      case "memory_write": {
        // A change between calls is shown with the call before it.
        const call = event.call ?? this.#lastCall ?? 0;
        const changes = this.memory.get(call) ?? [];
        if (!this.#isOwn(event.namespace) || changes.length >= MOST_CHANGES) return;
        const { seq, op, key } = event;
        changes.push({ seq, op, key, old: shownText(event.old), new: shownText(event.new) });
        this.memory.set(call, changes);
        return;
      }
      case "observation": {
        if (this.observations.length >= LIMITS.reportCalls) return;
        const { seq, t_us, source, content_json } = event;
        const content = content_json === null ? null : cut(content_json);
        this.observations.push({ kind: "observation", seq, t_us, source, content });
        return;
      }
      case "reward": {
        const { seq, t_us, sum, source, components } = event;
        if (this.rewards.length >= LIMITS.reportCalls) return;
        this.rewards.push({ seq, t_us, sum, source, components, fault: rewardFault(event) });
        return;
      }
    }
  }

  /** Tokens are read apart: no metric of one trace needs them. */
  async addTokens(segment: TraceSegment): Promise<void> {
    let count = 0;
    for await (const batch of segment.batches({ sections: ["token_logit"] })) {
      for (const { type, bytes } of batch) {
        if (type !== "token_logit" || count >= MOST_TOKENS) continue;
        const event = decodeEvent(bytes, segment.startedWallUs) as TraceEvent<"token_logit">;
        const entries = this.tokens.get(event.call ?? 0) ?? [];
        for (const token of event.tokens.slice(0, MOST_TOKENS - count)) {
          const top = token.top_ids.map((id, at) => {
            return { id, text: token.top_texts[at] ?? null, logprob: token.top_logprobs[at] ?? 0 };
          });
          entries.push({ seq: event.seq, text: token.text, id: token.id, logprob: token.logprob, top });
        }
        count += event.tokens.length;
        this.tokens.set(event.call ?? 0, entries);
      }
    }
  }
}

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
  };
}

function stepEntry({ seq, t_us, step, parent, name, status, duration_us, calls }: StepFacts): StepEntry {
  return { kind: "step", seq, t_us, step, parent, name, status, duration_us, calls };
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
