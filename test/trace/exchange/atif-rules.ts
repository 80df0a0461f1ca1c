/** The rules of ATIF v1.7 as its reference models check them: members, types, references. Written from those, not from our code. */
import { expect } from "vitest";

type Fields = Record<string, (value: never) => boolean>;

const isText = (value: unknown) => typeof value === "string";
const isObject = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value);
const isCount = (value: unknown) => Number.isSafeInteger(value);
const isArray = Array.isArray;
const isContent = (value: unknown) => isText(value) || isArray(value);

const ROOT: Fields = {
  schema_version: (value) => value === "ATIF-v1.7",
  session_id: isText,
  trajectory_id: isText,
  agent: isObject,
  steps: isArray,
  notes: isText,
  final_metrics: isObject,
  continued_trajectory_ref: isText,
  extra: isObject,
  subagent_trajectories: isArray,
};
const AGENT: Fields = {
  name: isText,
  version: isText,
  model_name: isText,
  tool_definitions: isArray,
  extra: isObject,
};
const STEP: Fields = {
  step_id: isCount,
  timestamp: (value: string) => !Number.isNaN(Date.parse(value)),
  source: (value) => ["system", "user", "agent"].includes(value),
  model_name: isText,
  reasoning_effort: (value) => isText(value) || typeof value === "number",
  message: isContent,
  reasoning_content: isText,
  tool_calls: isArray,
  observation: isObject,
  metrics: isObject,
  is_copied_context: (value) => typeof value === "boolean",
  llm_call_count: isCount,
  extra: isObject,
};
const AGENT_ONLY = [
  "model_name",
  "reasoning_effort",
  "reasoning_content",
  "tool_calls",
  "metrics",
  "llm_call_count",
];
const CALL: Fields = { tool_call_id: isText, function_name: isText, arguments: isObject, extra: isObject };
const RESULT: Fields = {
  source_call_id: isText,
  content: isContent,
  subagent_trajectory_ref: isArray,
  extra: isObject,
};
const METRICS: Fields = {
  prompt_tokens: isCount,
  completion_tokens: isCount,
  cached_tokens: isCount,
  cost_usd: (value) => typeof value === "number",
  prompt_token_ids: isArray,
  completion_token_ids: isArray,
  logprobs: isArray,
  extra: isObject,
};
const FINAL: Fields = {
  total_prompt_tokens: isCount,
  total_completion_tokens: isCount,
  total_cached_tokens: isCount,
  total_cost_usd: (value) => typeof value === "number",
  total_steps: isCount,
  extra: isObject,
};

type Member = Record<string, never>;
type Document = Member & {
  agent: Member;
  final_metrics?: Member;
  steps: (Member & {
    step_id: number;
    source: string;
    tool_calls?: (Member & { tool_call_id: string })[];
    observation?: { results: (Member & { source_call_id?: string })[] };
    metrics?: Member;
  })[];
};

export function checkAtif(document: Document): void {
  fields(document, ROOT, ["schema_version", "agent", "steps"]);
  fields(document.agent, AGENT, ["name", "version"]);
  if (document.final_metrics !== undefined) fields(document.final_metrics, FINAL, []);
  expect(document.steps.length).toBeGreaterThan(0);
  for (const [index, step] of document.steps.entries()) {
    fields(step, STEP, ["step_id", "source", "message"]);
    expect(step.step_id).toBe(index + 1);
    if (step.source !== "agent") for (const name of AGENT_ONLY) expect(step).not.toHaveProperty(name);
    const ids = new Set<string>();
    for (const call of step.tool_calls ?? []) {
      fields(call, CALL, ["tool_call_id", "function_name", "arguments"]);
      expect(ids).not.toContain(call.tool_call_id);
      ids.add(call.tool_call_id);
    }
    for (const result of step.observation?.results ?? []) {
      fields(result, RESULT, []);
      if (result.source_call_id !== undefined) expect(ids).toContain(result.source_call_id);
    }
    if (step.metrics !== undefined) fields(step.metrics, METRICS, []);
  }
}

/** As pydantic with `extra="forbid"`. */
function fields(object: Record<string, never>, known: Fields, required: string[]): void {
  for (const name of required) expect(object).toHaveProperty(name);
  for (const [name, value] of Object.entries(object)) {
    expect(Object.keys(known), `member ${name}`).toContain(name);
    expect(known[name]!(value), `${name}: ${JSON.stringify(value)}`).toBe(true);
  }
}
