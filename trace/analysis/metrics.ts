/** The metrics of one trace, and how it came out. */
import type { TraceSegment } from "#trace/format/segment.ts";
import { planStepF1 } from "#trace/metrics/plan-steps.ts";
import { erred, errorRate, toolCallAccuracy, toolCallSuccess } from "#trace/metrics/tool-calls.ts";
import { type FactsOptions, readFacts, type TraceFacts } from "./facts.ts";
import { isUnsettled, type KnownTools, labelsOf, stateChangingBy } from "./labels.ts";
import { accuracyNote, type Observed, readOnlyAsObserved, ToolObserver } from "./observed-tools.ts";
import type { Metrics, Outcome, TraceRow } from "./report-data.ts";

export type MeasureOptions = {
  /** Tools that change state, where neither the traces nor their labels say. */
  stateChanging: ReadonlySet<string> | null;
  /** The reward from which on a trace has succeeded. */
  successReward: number;
};

export const MEASURE_DEFAULTS: MeasureOptions = { stateChanging: null, successReward: 1 };

export type Measured = {
  facts: TraceFacts;
  row: TraceRow;
  /** What the trace's calls say of their tools: whether they only read. */
  declared: ReadonlyMap<string, boolean>;
  /** What its answers show of tools. */
  observed: Observed;
  /** Accuracy anew, once more is known of tools than this trace alone says; null where it needs no more. */
  accuracyWith: ((known: KnownTools) => Promise<number>) | null;
  /** What is to be known of the accuracy; null where somebody said which tools change state, or there is none. */
  accuracyNote: string | null;
};

export async function measure(
  segment: TraceSegment,
  file: string,
  options: MeasureOptions,
  onEvent?: FactsOptions["onEvent"],
): Promise<Measured> {
  const { gold } = labelsOf(segment.header.labels_json);
  const observer = new ToolObserver();
  const facts = await readFacts(segment, {
    // Only what is compared with gold is kept.
    keepsArguments: ({ read_only }) => gold !== null && read_only !== true,
    onEvent(event) {
      observer.add(event);
      onEvent?.(event);
    },
  });
  const { header, state, events, calls, labels } = facts;
  const { trace_id, task_id, source } = header;
  const outcome = outcomeOf(facts, options.successReward);
  const declared = new Map<string, boolean>();
  for (const { tool, read_only } of calls)
    if (tool !== null && read_only !== null) declared.set(tool, read_only);
  const metrics = metricsOf(facts);
  const { observed } = observer;
  let accuracyWith: Measured["accuracyWith"] = null;
  let note: string | null = null;
  if (labels.gold !== null) {
    // What is kept for later is no more than what counts.
    const made = calls.filter((call) => call.read_only !== true && call.state === "answered" && !erred(call));
    const accuracy = async (known: KnownTools) => {
      const changesState = stateChangingBy(options.stateChanging, labels, known);
      return (await toolCallAccuracy(made, labels.gold!, changesState)).value;
    };
    const known = { declared, observed: readOnlyAsObserved(observed) };
    metrics.tool_call_accuracy = await accuracy(known);
    if (isUnsettled(options.stateChanging, labels, declared, made)) {
      accuracyWith = accuracy;
      if (labels.readOnly === null && declared.size === 0) note = accuracyNote(known.observed);
    }
  }
  const errors = calls.filter(erred).length + facts.strayErrors;
  const steps = facts.steps.length;
  const row = { file, trace_id, task_id, source, state, outcome, events, steps, errors, metrics };
  return { facts, row, declared, observed, accuracyWith, accuracyNote: note };
}

/** All but the accuracy, which needs more than the trace. */
function metricsOf({ calls, labels, steps, rewards, memory, duration_us }: TraceFacts): Metrics {
  const followed = steps.map(({ name }) => name);
  return {
    reward: rewards.at(-1)?.sum ?? null,
    error_rate: errorRate(calls),
    tool_call_accuracy: null,
    tool_call_success: toolCallSuccess(calls),
    plan_step_f1: labels.goldSteps === null ? null : planStepF1(followed, labels.goldSteps),
    memory_consistency: memory.value,
    tool_calls: calls.length,
    duration_s: duration_us / 1e6,
  };
}

/** By its labels, else its last reward, else how its outermost plan steps ended where all did, else its command. */
export function outcomeOf(
  { labels, rewards, steps, commandEnded }: TraceFacts,
  successReward: number,
): Outcome {
  if (labels.success !== null) return labels.success ? "succeeded" : "failed";
  const reward = rewards.at(-1);
  if (reward !== undefined) return reward.sum >= successReward ? "succeeded" : "failed";
  const outermost = steps.filter(({ parent, status }) => parent === null && status !== null);
  const ended = outermost.filter(({ status }) => status !== "abandoned");
  if (ended.some(({ status }) => status !== "succeeded")) return "failed";
  // A step that was open when the sandbox ended tells nothing of how.
  if (ended.length > 0 && ended.length === outermost.length) return "succeeded";
  return commandEnded === null ? "unknown" : commandEnded === "well" ? "succeeded" : "failed";
}
