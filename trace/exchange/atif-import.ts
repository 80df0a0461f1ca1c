/**
 * Agent Trajectory Interchange Format, ATIF v1.0 to v1.7 (Harbor, RFC 0001). Every step becomes a plan step of the same number,
 * with its message, calls, answers and metrics as events; what those do not hold (reasoning, ids, `extra`, times as they were
 * written) stays with the plan step as JSON, so that atif-export.ts gives the document back. A document that was made of a
 * trace carries its events in `extra`, and becomes that trace again.
 */
import { DsecError } from "#core/errors.ts";
import type { EventBody } from "#trace/events/event.ts";
import { carriedTrace } from "./atif-carried.ts";
import { ConversationBuilder, type ImportedTrace, type ImportOptions, wallUsOf } from "./imported.ts";
import { itemsOf, JsonDocument, type JsonNode, memberOf, stringOf } from "./json-tree.ts";
import type { JsonRecord } from "./records.ts";
import { recordId } from "./trace-names.ts";

export const ATIF_SOURCE = "atif";

/** @throws INVALID_REQUEST naming the step that breaks a rule of the format; TRACE_UNSUPPORTED for another version */
export async function importAtif(
  record: JsonRecord,
  name: string,
  options: ImportOptions,
): Promise<ImportedTrace> {
  const document = new JsonDocument(record.text, `${name}:${record.line}`);
  const { root } = document;
  const version = stringOf(memberOf(root, "schema_version"));
  if (version === null) throw document.refused("it has no schema_version; expected an ATIF trajectory");
  if (!/^ATIF-v1\.\d+$/.test(version)) {
    throw new DsecError(
      "TRACE_UNSUPPORTED",
      `${document.what}: schema_version is ${JSON.stringify(version).slice(0, 80)}; ATIF-v1.0 to v1.7 are read; convert it to one of them, or import it with a newer dsec`,
    );
  }
  const steps = itemsOf(memberOf(root, "steps"));
  if (steps.length === 0) throw document.refused("it has no steps");
  const carried = carriedTrace(document, steps);
  if (carried !== null) return carried;

  const times = steps.map((step) => wallUsOf(stringOf(memberOf(step, "timestamp"))));
  const started = times.find((time) => time !== null) ?? 0;
  const trajectory = new Trajectory(document, new ConversationBuilder(started, options));
  for (const [index, step] of steps.entries())
    await trajectory.addStep(step, index + 1, times[index] ?? null);
  for (const subagent of itemsOf(memberOf(root, "subagent_trajectories"))) {
    trajectory.builder.observe("subagent", document.textOf(subagent));
  }
  return {
    header: {
      trace_id: recordId(document, ["trajectory_id", "session_id"], record.line),
      source: ATIF_SOURCE,
      started_wall_us: started,
      labels_json: without(document, root, ["steps", "subagent_trajectories"]),
    },
    events: trajectory.builder.events,
  };
}

class Trajectory {
  readonly builder: ConversationBuilder;
  readonly #document: JsonDocument;

  constructor(document: JsonDocument, builder: ConversationBuilder) {
    this.#document = document;
    this.builder = builder;
  }

  async addStep(step: JsonNode, number: number, wallUs: number | null): Promise<void> {
    const document = this.#document;
    const at = `step ${number}`;
    const id = memberOf(step, "step_id");
    if (id?.kind !== "number" || document.textOf(id) !== String(number)) {
      throw document.refused(`${at} must have step_id ${number}`);
    }
    const source = stringOf(memberOf(step, "source"));
    if (source !== "user" && source !== "agent" && source !== "system") {
      throw document.refused(`${at}: source must be user, agent or system`);
    }
    const begun = { state: "begun", step: number, name: source, given_json: restOf(document, step) } as const;
    this.builder.add({ type: "plan_step", ...begun }, wallUs);
    const message = memberOf(step, "message");
    if (message !== null && !(message.kind === "string" && message.value === "")) {
      this.builder.observe(source === "agent" ? "assistant" : source, document.textOf(message), wallUs);
    }
    this.#addMetrics(step);
    const calls = new Map<string, number>();
    for (const call of itemsOf(memberOf(step, "tool_calls"))) {
      const tool = stringOf(memberOf(call, "function_name"));
      const callId = stringOf(memberOf(call, "tool_call_id"));
      const given = memberOf(call, "arguments");
      if (tool === null || callId === null || given?.kind !== "object") {
        throw document.refused(
          `${at}: a tool call must have tool_call_id, function_name and an object of arguments`,
        );
      }
      if (calls.has(callId))
        throw document.refused(`${at} has two tool calls ${JSON.stringify(callId).slice(0, 80)}`);
      const arguments_json = document.textOf(given);
      calls.set(
        callId,
        await this.builder.startCall({ tool, arguments_json, step: number, start_us: wallUs }),
      );
    }
    this.#addResults(step, at, calls);
    this.builder.add({ type: "plan_step", state: "ended", step: number, name: source }, wallUs);
  }

  #addResults(step: JsonNode, at: string, calls: Map<string, number>): void {
    const answered = new Set<number>();
    for (const result of itemsOf(memberOf(memberOf(step, "observation"), "results"))) {
      const content = memberOf(result, "content");
      const id = stringOf(memberOf(result, "source_call_id"));
      const call = id === null ? null : (calls.get(id) ?? null);
      if (id !== null && call === null) {
        throw this.#document.refused(
          `${at}: an observation is of call ${JSON.stringify(id).slice(0, 80)}, which is none of the step's`,
        );
      }
      const text =
        content?.kind === "string" ? content.value : content === null ? null : this.#document.textOf(content);
      if (call === null || answered.has(call) || text === null) {
        // a result of no call, a further one of the same call, or one without a content
        if (content !== null) this.builder.observe("environment", this.#document.textOf(content));
        continue;
      }
      answered.add(call);
      const said = memberOf(memberOf(result, "extra"), "is_error");
      const failed = said?.kind === "literal" ? said.value === true : text.startsWith("Error");
      this.builder.endCall(call, { text, failed });
    }
  }

  /** For the reports: the plan step keeps them as they were written. */
  #addMetrics(step: JsonNode): void {
    const metrics = memberOf(step, "metrics");
    if (metrics === null) return;
    const number = (name: string) => {
      const node = memberOf(metrics, name);
      const value = node?.kind === "number" ? Number(this.#document.textOf(node)) : Number.NaN;
      return Number.isSafeInteger(value) && value >= 0 ? value : null;
    };
    this.builder.add({
      type: "completion",
      call: null,
      model: stringOf(memberOf(step, "model_name")),
      prompt_tokens: number("prompt_tokens"),
      completion_tokens: number("completion_tokens"),
      cached_tokens: number("cached_tokens"),
      tool_calls: [],
    });
    const tokens = this.#tokensOf(metrics);
    if (tokens.length > 0) this.builder.add({ type: "token_logit", source: "assistant", tokens });
  }

  #tokensOf(metrics: JsonNode): EventBody<"token_logit">["tokens"] {
    const ids = itemsOf(memberOf(metrics, "completion_token_ids"));
    const logprobs = itemsOf(memberOf(metrics, "logprobs"));
    const numberAt = (nodes: JsonNode[], index: number) => {
      const node = nodes[index];
      return node?.kind === "number" ? Number(this.#document.textOf(node)) : Number.NaN;
    };
    const tokens = [];
    for (let index = 0; index < Math.min(ids.length, logprobs.length); index++) {
      const id = numberAt(ids, index);
      if (!Number.isSafeInteger(id) || id < 0) return [];
      tokens.push({ id, logprob: numberAt(logprobs, index), top_ids: [], top_logprobs: [], top_texts: [] });
    }
    return tokens;
  }
}

/** The step without what its events hold: message, names and arguments of calls, contents of results (which are true). */
function restOf(document: JsonDocument, step: JsonNode): string {
  if (step.kind !== "object") return "{}";
  const parts: string[] = [];
  for (const { name, value } of step.members) {
    if (name === "message" || name === "step_id" || name === "source") continue;
    let text = document.textOf(value);
    if (name === "tool_calls" && value.kind === "array") {
      text = `[${itemsOf(value).map((call) => without(document, call, ["function_name", "arguments"]))}]`;
    } else if (name === "observation" && value.kind === "object") {
      const results = itemsOf(memberOf(value, "results")).map((result) => {
        const kept = without(document, result, ["content"]).slice(1, -1);
        if (memberOf(result, "content") === null) return `{${kept}}`;
        // stands for what an event holds
        return `{"content":true${kept === "" ? "" : `,${kept}`}}`;
      });
      const rest = without(document, value, ["results"]).slice(1, -1);
      text = `{${rest}${rest === "" ? "" : ","}"results":[${results}]}`;
    }
    parts.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${parts.join(",")}}`;
}

function without({ text }: JsonDocument, node: JsonNode, names: string[]): string {
  if (node.kind !== "object") return "{}";
  const parts = node.members
    .filter(({ name }) => !names.includes(name))
    .map(({ name, value }) => `${JSON.stringify(name)}:${text.slice(value.start, value.end)}`);
  return `{${parts.join(",")}}`;
}
