import type { Metric, TraceRow } from "#trace/analysis/report-data.ts";

export const METRIC_NAMES: Record<Metric, string> = {
  reward: "reward",
  error_rate: "error rate",
  tool_call_accuracy: "tool accuracy",
  tool_call_success: "tool success",
  plan_step_f1: "plan step F1",
  memory_consistency: "memory consistency",
  tool_calls: "tool calls",
  duration_s: "duration (s)",
};
export const METRICS = Object.keys(METRIC_NAMES) as Metric[];

export const OUTCOMES: Record<TraceRow["outcome"], string> = {
  succeeded: "Succeeded",
  failed: "Failed",
  unknown: "Outcome not known",
};
