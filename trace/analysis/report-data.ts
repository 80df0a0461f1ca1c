/** What a report says, as plain JSON: text, JSON and HTML are made of the same data. Texts in it are untrusted. */
import type { Digest } from "#core/ids.ts";
import type { EventType, Timing } from "#trace/events/event.ts";
import type { Compared } from "#trace/metrics/logit-divergence.ts";
import type { Consistency } from "#trace/metrics/memory-consistency.ts";
import type { Correlation } from "#trace/metrics/statistics.ts";
import type { Clustering } from "./clusters.ts";

export const METRICS = [
  "reward",
  "error_rate",
  "tool_call_accuracy",
  "tool_call_success",
  "plan_step_f1",
  "memory_consistency",
  "tool_calls",
  "duration_s",
] as const;
export type Metric = (typeof METRICS)[number];

/** Null where the trace does not say enough for it. */
export type Metrics = Record<Metric, number | null>;

export type Outcome = "succeeded" | "failed" | "unknown";

/** One trace among many. */
export type TraceRow = {
  file: string;
  trace_id: string;
  task_id: string | null;
  source: string;
  state: "sealed" | "open";
  outcome: Outcome;
  events: number;
  /** Plan steps; and calls that erred together with errors of no call. */
  steps: number;
  errors: number;
  metrics: Metrics;
};

export type ReportData = OneReport | ManyReport;

export type OneReport = {
  version: 1;
  kind: "one";
  trace: TraceRow & Provenance;
  timeline: TimelineEntry[];
  /** Calls beyond the bound, which the timeline leaves out. */
  calls_left_out: number;
  /** Errors, observations, rewards and others beyond the bound, which is theirs each. */
  events_left_out: number;
  memory: Consistency;
  rewards: RewardEntry[];
  errors: ErrorEntry[];
  /** What else happened: processes, their output, snapshots, messages. */
  others: OtherEntry[];
  tools: ToolRow[];
  /** Against another trace, where one was given. */
  logit_divergence: Compared | null;
  /** What is to be known of tool_call_accuracy; null where it was said which tools change state, or there is no accuracy. */
  accuracy_note: string | null;
};

export type Provenance = {
  started_wall_us: number;
  image: string | null;
  labels_json: string | null;
  attempt: number | null;
  lease_id: string | null;
  fence: number | null;
  level: string | null;
  spec_digest: Digest | null;
  /** The event chain after the last event, which an attestation names. */
  chain_head: Digest;
};

/** In the order in which they began. */
export type TimelineEntry = StepEntry | CallEntry | ObservationEntry;

export type StepEntry = {
  kind: "step";
  seq: number;
  t_us: number;
  step: number;
  parent: number | null;
  name: string;
  status: string | null;
  duration_us: number | null;
  calls: number;
};

export type CallEntry = {
  kind: "call";
  seq: number;
  t_us: number;
  call: number;
  step: number | null;
  tool: string;
  state: string | null;
  erred: boolean;
  duration_us: number | null;
  tries: number;
  code: string | null;
  text: string | null;
  arguments: CutText | null;
  answer: CutText | null;
  memory: MemoryChange[];
  timing: Timing | null;
  tokens: TokenEntry[];
  completions: CompletionEntry[];
};

export type ObservationEntry = {
  kind: "observation";
  seq: number;
  t_us: number;
  /** The innermost open one. */
  step: number | null;
  source: string | null;
  content: CutText | null;
};

/** `chars` is how many there were before it was cut. */
export type CutText = { text: string; chars: number };

export type MemoryChange = {
  seq: number;
  op: string;
  key: string;
  old: string | null;
  new: string | null;
  /** Where in the agent's program, in its own words. */
  origin: string | null;
};

export type CompletionEntry = {
  model: string | null;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  cached_tokens: number | null;
  finish_reason: string | null;
};

export type TokenEntry = {
  seq: number;
  text: string | null;
  id: number;
  logprob: number;
  top: { id: number; text: string | null; logprob: number }[];
};

export type RewardEntry = {
  seq: number;
  t_us: number;
  sum: number;
  source: string | null;
  components: {
    name: string;
    value: number;
    weight: number;
    weight_change: number | null;
    product: number;
  }[];
  /** What is wrong with its arithmetic, or null. */
  fault: string | null;
};

export type ErrorEntry = {
  seq: number;
  t_us: number;
  call: number | null;
  step: number | null;
  code: string;
  text: string;
  stack: CutText | null;
  /** The task's memory as it was. */
  memory: CutText | null;
  /** Of the last three calls, the oldest first. */
  payloads: {
    call: number;
    tool: string | null;
    url: string | null;
    sent: CutText | null;
    received: CutText | null;
  }[];
};

export type OtherEntry = {
  seq: number;
  t_us: number;
  step: number | null;
  type: EventType;
  title: string;
  text: CutText | null;
  /** It tells of a failure. */
  bad: boolean;
};

export type ToolRow = { tool: string; calls: number; errors: number; duration_us: number };

export type ManyReport = {
  version: 1;
  kind: "many";
  traces: TraceRow[];
  count: number;
  outcomes: Record<Outcome, number>;
  /** Means over the traces that have the metric. */
  means: Record<Metric, { mean: number | null; n: number }>;
  correlations: MetricCorrelation[];
  /** Of every two metrics, where that was asked for. */
  pairs: MetricPair[] | null;
  /** What is to be known of tool_call_accuracy; null where it was said which tools change state, or there is no accuracy. */
  accuracy_note: string | null;
  reward_shares: Record<string, number> | null;
  /** Rewards whose products do not add up to their sum. */
  reward_faults: number;
  tools: ToolRow[];
  clustering: Clustering | null;
  hints: Hint[];
  refused: { file: string; code: string; message: string }[];
  refused_count: number;
};

/** Rank correlation of a metric with the reward, over the traces that have both. */
export type MetricCorrelation = Correlation & { metric: Metric; adjusted_p: number | null };

export type MetricPair = Correlation & { of: [Metric, Metric]; adjusted_p: number | null };

/** Something that goes together with failure or reward; what causes what is not said. */
export type Hint = { text: string; n: number; adjusted_p: number; strength: number };
