/** The steps of an ATIF document out of the events that atif-import.ts made of them. */
import type { TraceEvent } from "#trace/events/event.ts";
import { textOfOutput } from "./imported.ts";
import { itemsOf, type JsonNode, memberOf, stringOf, treeOf } from "./json-tree.ts";

type Open = {
  number: number;
  name: string;
  given_json: string;
  /** Exact JSON of the message. */
  message: string | null;
  calls: { call: number; tool: string; arguments_json: string }[];
  answers: Map<number, string>;
  /** Exact JSON of what was observed beside the answers, in order. */
  observed: string[];
};

export class AtifSteps {
  /** Exact JSON of each embedded trajectory. */
  readonly subagents: string[] = [];
  #open: Open | null = null;

  /** The text of a step with the event that ends it; null otherwise. */
  take(event: TraceEvent): string | null {
    if (event.type === "plan_step" && event.state === "begun") {
      const given_json = event.given_json ?? "{}";
      const { step: number, name } = event;
      this.#open = { number, name, given_json, message: null, calls: [], answers: new Map(), observed: [] };
    } else if (event.type === "observation" && event.content_json !== null) this.#observe(event);
    else if (event.type === "tool_call_start" && this.#open !== null) {
      const { call, tool, arguments_json } = event;
      this.#open.calls.push({ call, tool: tool ?? event.kind, arguments_json: arguments_json ?? "{}" });
    } else if (event.type === "tool_call_end" && event.answer?.output_json != null) {
      this.#open?.answers.set(event.call, event.answer.output_json);
    } else if (event.type === "plan_step" && event.state === "ended" && this.#open !== null) {
      const step = textOf(this.#open);
      this.#open = null;
      return step;
    }
    return null;
  }

  #observe(event: TraceEvent<"observation">): void {
    if (event.source === "subagent") this.subagents.push(event.content_json!);
    else if (event.source === "environment") this.#open?.observed.push(event.content_json!);
    else if (this.#open !== null) this.#open.message = event.content_json!;
  }
}

function textOf(step: Open): string {
  const root = treeOf(step.given_json);
  const parts = [
    `"step_id":${step.number}`,
    `"source":${JSON.stringify(step.name)}`,
    `"message":${step.message ?? '""'}`,
  ];
  const slice = (node: JsonNode) => step.given_json.slice(node.start, node.end);
  const ids: (string | null)[] = [];
  for (const { name, value } of root?.kind === "object" ? root.members : []) {
    let text = slice(value);
    if (name === "tool_calls" && value.kind === "array") {
      const calls = value.items.map((item, index) => {
        ids.push(stringOf(memberOf(item, "tool_call_id")));
        const { tool = "", arguments_json = "{}" } = step.calls[index] ?? {};
        return withMembers(
          slice(item),
          `"function_name":${JSON.stringify(tool)},"arguments":${arguments_json}`,
        );
      });
      text = `[${calls}]`;
    } else if (name === "observation" && value.kind === "object")
      text = observationOf(step, value, ids, slice);
    parts.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${parts.join(",")}}`;
}

function observationOf(
  step: Open,
  observation: JsonNode & { kind: "object" },
  ids: (string | null)[],
  slice: (node: JsonNode) => string,
): string {
  const observed = [...step.observed];
  const results = itemsOf(memberOf(observation, "results")).map((result) => {
    if (result.kind !== "object") return slice(result);
    const rest = result.members
      .filter(({ name }) => name !== "content")
      .map(({ name, value }) => `${JSON.stringify(name)}:${slice(value)}`);
    if (memberOf(result, "content") === null) return `{${rest}}`;
    const id = stringOf(memberOf(result, "source_call_id"));
    const call = id === null ? undefined : step.calls[ids.indexOf(id)]?.call;
    const answer = call === undefined ? undefined : step.answers.get(call);
    // a call is answered once; what else came of it stands among the observations
    if (call !== undefined) step.answers.delete(call);
    const content = answer === undefined ? (observed.shift() ?? '""') : contentOf(answer);
    return `{${[...rest, `"content":${content}`].join(",")}}`;
  });
  const others = observation.members
    .filter(({ name }) => name !== "results")
    .map(({ name, value }) => `${JSON.stringify(name)}:${slice(value)}`);
  return `{${[...others, `"results":[${results}]`].join(",")}}`;
}

/** A content is a string, or parts of a message: an array of objects that have a type. */
function contentOf(output_json: string): string {
  const tree = treeOf(output_json);
  const areParts =
    tree?.kind === "array" &&
    tree.items.length > 0 &&
    tree.items.every((item) => ["text", "image"].includes(stringOf(memberOf(item, "type")) ?? ""));
  return areParts ? output_json : JSON.stringify(textOfOutput(output_json));
}

function withMembers(object: string, members: string): string {
  const inner = object.slice(1, -1).trim();
  return `{${inner}${inner === "" ? "" : ","}${members}}`;
}
