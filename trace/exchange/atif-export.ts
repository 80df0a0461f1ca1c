/**
 * A trace as one ATIF v1.7 document. What was imported from ATIF is given back as it was; of any other trace, what the user
 * said, what the agent said and the calls that it made are steps, and each step carries its events beside (atif-carried.ts).
 * Steps are written as soon as their calls are answered.
 */
import type { TraceEvent } from "#trace/events/event.ts";
import type { TraceHeader } from "#trace/format/header.ts";
import { atifCallId, carriedEvent, isObjectJson, isPlainString } from "./atif-carried.ts";
import { AtifSteps } from "./atif-steps.ts";
import { jsonOf } from "./event-lines.ts";
import { textOfOutput } from "./imported.ts";
import { treeOf } from "./json-tree.ts";

export const ATIF_VERSION = "ATIF-v1.7";

/** Pieces of the document's text. */
export async function* exportAtif(
  header: TraceHeader,
  events: AsyncIterable<TraceEvent>,
): AsyncGenerator<string> {
  if (header.source === "atif") yield* givenBack(header, events);
  else yield* madeOf(header, events);
}

async function* givenBack(header: TraceHeader, events: AsyncIterable<TraceEvent>): AsyncGenerator<string> {
  const root = header.labels_json?.slice(1, -1).trim() ?? "";
  yield `{${root}${root === "" ? "" : ","}"steps":[`;
  const steps = new AtifSteps();
  let first = true;
  for await (const event of events) {
    const step = steps.take(event);
    if (step === null) continue;
    yield first ? step : `,${step}`;
    first = false;
  }
  yield "]";
  if (steps.subagents.length > 0) yield `,"subagent_trajectories":[${steps.subagents.join(",")}]`;
  yield "}\n";
}

async function* madeOf(header: TraceHeader, events: AsyncIterable<TraceEvent>): AsyncGenerator<string> {
  const agent = { name: header.image ?? header.source, version: "unknown" };
  const ids = `"session_id":${JSON.stringify(header.task_id ?? header.trace_id)},"trajectory_id":${JSON.stringify(header.trace_id)}`;
  yield `{"schema_version":"${ATIF_VERSION}",${ids},"agent":${JSON.stringify(agent)},"steps":[`;
  const maker = new StepMaker(header.started_wall_us !== 0);
  let written = 0;
  let count = 0;
  for await (const event of events) {
    count++;
    maker.add(event);
    for (const step of maker.finished()) yield `${written++ === 0 ? "" : ","}${step}`;
  }
  for (const step of maker.rest()) yield `${written++ === 0 ? "" : ","}${step}`;
  const carried = `{"dsec":{"events":${count},"trace":${jsonOf({ type: "trace", ...header })}}}`;
  yield `],"final_metrics":${JSON.stringify(maker.finalMetrics(written))},"extra":${carried}}\n`;
}

type Step = {
  source: "user" | "agent" | "system";
  wallUs: number;
  message: string;
  calls: { call: number; tool: string; arguments_json: string; isWhole: boolean }[];
  results: { call: number; text: string }[];
  carried: string[];
  metrics: {
    prompt_tokens?: number;
    completion_tokens?: number;
    cached_tokens?: number;
    logprobs?: number[];
  };
  model: string | null;
  /** Calls without an answer: the step is held for them. */
  open: Set<number>;
};

class StepMaker {
  readonly #hasTimes: boolean;
  /** The last is the one that events go to. */
  readonly #steps: Step[] = [];
  /** Of calls that are open: where their answer goes. */
  readonly #stepOfCall = new Map<number, Step>();
  /** Events before the first step. */
  #before: string[] = [];
  #number = 0;
  #tokens = { prompt: 0, completion: 0, cached: 0 };
  #reward: number | null = null;

  constructor(hasTimes: boolean) {
    this.#hasTimes = hasTimes;
  }

  add(event: TraceEvent): void {
    const isMessage =
      event.type === "observation" && event.state === "injected" && event.content_json !== null;
    if (isMessage) this.#begin(sourceOf(event.source), event, messageOf(event.content_json!));
    if (event.type === "tool_call_start") this.#addCall(event);
    if (event.type === "tool_call_end") this.#addAnswer(event);
    if (event.type === "completion") this.#addCompletion(event);
    if (event.type === "token_logit") this.#addTokens(event);
    if (event.type === "reward") this.#reward = event.sum;
    const text = carriedEvent(event, isMessage && isPlainString(event.content_json));
    const step = this.#steps.at(-1);
    if (step === undefined) this.#before.push(text);
    else step.carried.push(text);
  }

  *finished(): Generator<string> {
    while (this.#steps.length > 1 && this.#steps[0]!.open.size === 0) yield this.#write(this.#steps.shift()!);
  }

  *rest(): Generator<string> {
    if (this.#steps.length === 0) this.#push("system", 0, "");
    for (const step of this.#steps.splice(0)) yield this.#write(step);
  }

  finalMetrics(steps: number): object {
    const { prompt, completion, cached } = this.#tokens;
    return {
      ...(prompt > 0 ? { total_prompt_tokens: prompt } : {}),
      ...(completion > 0 ? { total_completion_tokens: completion } : {}),
      ...(cached > 0 ? { total_cached_tokens: cached } : {}),
      total_steps: steps,
      ...(this.#reward === null || !Number.isFinite(this.#reward) ? {} : { extra: { reward: this.#reward } }),
    };
  }

  #begin(source: Step["source"], event: TraceEvent, message: string): Step {
    return this.#push(source, event.wall_us, message);
  }

  #push(source: Step["source"], wallUs: number, message: string): Step {
    const step: Step = {
      source,
      wallUs,
      message,
      calls: [],
      results: [],
      carried: this.#before,
      metrics: {},
      model: null,
      open: new Set(),
    };
    this.#before = [];
    this.#steps.push(step);
    return step;
  }

  /** Calls that are made together are of one step; one that is made after an answer is a turn of its own. */
  #addCall(event: TraceEvent<"tool_call_start">): void {
    const last = this.#steps.at(-1);
    const step =
      last?.source === "agent" && last.results.length === 0 ? last : this.#begin("agent", event, "");
    const isWhole = isObjectJson(event.arguments_json);
    const tool = event.tool ?? event.method ?? event.kind;
    const shown = event.tool === null ? { url: event.url } : { arguments: event.arguments_json };
    const arguments_json = isWhole ? event.arguments_json! : jsonOf(shown);
    step.calls.push({ call: event.call, tool, arguments_json, isWhole });
    step.open.add(event.call);
    this.#stepOfCall.set(event.call, step);
  }

  #addAnswer(event: TraceEvent<"tool_call_end">): void {
    const step = this.#stepOfCall.get(event.call);
    if (step === undefined) return;
    this.#stepOfCall.delete(event.call);
    step.open.delete(event.call);
    const output = event.answer?.output_json ?? null;
    const text = output === null ? textOfAnswer(event) : textOfOutput(output);
    step.results.push({ call: event.call, text });
  }

  #addCompletion(event: TraceEvent<"completion">): void {
    const { prompt_tokens, completion_tokens, cached_tokens } = event;
    this.#tokens.prompt += prompt_tokens ?? 0;
    this.#tokens.completion += completion_tokens ?? 0;
    this.#tokens.cached += cached_tokens ?? 0;
    const step = this.#steps.at(-1);
    if (step?.source !== "agent") return;
    step.model = event.model;
    step.metrics = {
      ...step.metrics,
      ...(prompt_tokens === null ? {} : { prompt_tokens }),
      ...(completion_tokens === null ? {} : { completion_tokens }),
      ...(cached_tokens === null ? {} : { cached_tokens }),
    };
  }

  #addTokens({ tokens }: TraceEvent<"token_logit">): void {
    const step = this.#steps.at(-1);
    const logprobs = tokens.map(({ logprob }) => logprob);
    if (step?.source === "agent" && logprobs.every(Number.isFinite)) step.metrics.logprobs = logprobs;
  }

  #write(step: Step): string {
    const parts = [`"step_id":${++this.#number}`];
    if (this.#hasTimes) parts.push(`"timestamp":"${isoOf(step.wallUs)}"`);
    parts.push(`"source":"${step.source}"`);
    if (step.model !== null) parts.push(`"model_name":${JSON.stringify(step.model)}`);
    parts.push(`"message":${JSON.stringify(step.message)}`);
    if (step.calls.length > 0) {
      const calls = step.calls.map(
        ({ call, tool, arguments_json }) =>
          `{"tool_call_id":"${atifCallId(call)}","function_name":${JSON.stringify(tool)},"arguments":${arguments_json}}`,
      );
      parts.push(`"tool_calls":[${calls}]`);
    }
    if (step.results.length > 0) {
      const results = step.results.map(
        ({ call, text }) => `{"source_call_id":"${atifCallId(call)}","content":${JSON.stringify(text)}}`,
      );
      parts.push(`"observation":{"results":[${results}]}`);
    }
    if (Object.keys(step.metrics).length > 0) parts.push(`"metrics":${jsonOf(step.metrics)}`);
    parts.push(`"extra":{"dsec":{"events":[${step.carried}]}}`);
    return `{${parts.join(",")}}`;
  }
}

function sourceOf(source: string | null): Step["source"] {
  if (source === "assistant") return "agent";
  return source === "system" ? "system" : "user";
}

function messageOf(json: string): string {
  const tree = treeOf(json);
  return tree?.kind === "string" ? tree.value : json;
}

/** What can be said of an answer whose content is not kept as JSON. */
function textOfAnswer(event: TraceEvent<"tool_call_end">): string {
  const body = event.answer?.body ?? null;
  if (body !== null) return new TextDecoder().decode(body);
  return event.text ?? event.state;
}

/** RFC 3339 with microseconds. */
export function isoOf(wallUs: number): string {
  const seconds = new Date(Math.floor(wallUs / 1e6) * 1000).toISOString().slice(0, 19);
  const micros = ((wallUs % 1e6) + 1e6) % 1e6;
  return `${seconds}.${String(micros).padStart(6, "0")}Z`;
}
