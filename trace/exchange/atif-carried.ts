/**
 * The events of a trace within the ATIF document that was made of it. Each step carries its events in `extra.dsec.events`; what
 * the step itself says (the message, a call's name and arguments, an answer) is not said twice: the event names those members
 * in `native`, and they are read from the step.
 */
import type { TraceEvent } from "#trace/events/event.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import { jsonOf, parseLine } from "./event-lines.ts";
import { type ImportedTrace, outputOf, type TimedEvent, textOfOutput } from "./imported.ts";
import { itemsOf, type JsonDocument, type JsonNode, memberOf, stringOf, treeOf } from "./json-tree.ts";

export function atifCallId(call: number): string {
  return `call_${call}`;
}

/** The event as a step carries it, without the members that the step shows. */
export function carriedEvent(event: TraceEvent, isStepMessage: boolean): string {
  const shown: Record<string, unknown> = { ...event };
  const native: string[] = [];
  if (event.type === "observation" && isStepMessage && isPlainString(event.content_json)) {
    delete shown.content_json;
    native.push("content_json");
  }
  if (event.type === "tool_call_start" && isObjectJson(event.arguments_json)) {
    delete shown.arguments_json;
    native.push("arguments_json");
  }
  if (event.type === "tool_call_end" && isPlainOutput(event.answer?.output_json ?? null)) {
    shown.answer = { ...event.answer, output_json: null };
    native.push("answer.output_json");
  }
  return jsonOf(native.length === 0 ? shown : { ...shown, native });
}

/** The trace that the document was made of; null where it carries none, or not the whole of it any more. */
export function carriedTrace(document: JsonDocument, steps: JsonNode[]): ImportedTrace | null {
  const carried = memberOf(memberOf(document.root, "extra"), "dsec");
  const headerNode = memberOf(carried, "trace");
  const countNode = memberOf(carried, "events");
  if (headerNode === null || countNode?.kind !== "number") return null;
  const parsed = parseLine(document, headerNode);
  if (parsed.kind !== "header") return null;
  const shown = new ShownCalls(document, steps);
  const events: { seq: number; event: TimedEvent }[] = [];
  for (const step of steps) {
    for (const node of itemsOf(memberOf(memberOf(memberOf(step, "extra"), "dsec"), "events"))) {
      const event = shown.fill(node, step);
      if (event === null) return null;
      events.push(event);
    }
  }
  events.sort((one, other) => one.seq - other.seq);
  const isWhole = events.length === Number(document.textOf(countNode));
  if (!isWhole || events.some(({ seq }, index) => seq !== index + 1)) return null;
  return { header: parsed.header as NewTraceHeader, events: events.map(({ event }) => event) };
}

/** Whether the message of a step, which is a string, gives the content back exactly. */
export function isPlainString(json: string | null): json is string {
  if (json === null) return false;
  const tree = treeOf(json);
  return tree?.kind === "string" && JSON.stringify(tree.value) === json;
}

export function isObjectJson(json: string | null): json is string {
  return json !== null && treeOf(json)?.kind === "object";
}

function isPlainOutput(json: string | null): json is string {
  return json !== null && outputOf(textOfOutput(json)) === json;
}

class ShownCalls {
  readonly #document: JsonDocument;
  readonly #arguments = new Map<string, JsonNode>();
  readonly #contents = new Map<string, JsonNode>();

  constructor(document: JsonDocument, steps: JsonNode[]) {
    this.#document = document;
    for (const step of steps) {
      for (const call of itemsOf(memberOf(step, "tool_calls"))) {
        note(this.#arguments, memberOf(call, "tool_call_id"), memberOf(call, "arguments"));
      }
      for (const result of itemsOf(memberOf(memberOf(step, "observation"), "results"))) {
        note(this.#contents, memberOf(result, "source_call_id"), memberOf(result, "content"));
      }
    }
  }

  /** The event with what its step shows, or null where the step shows it no more. */
  fill(node: JsonNode, step: JsonNode): { seq: number; event: TimedEvent } | null {
    const native = itemsOf(memberOf(node, "native")).map(stringOf);
    const bare: JsonNode =
      node.kind === "object"
        ? { ...node, members: node.members.filter(({ name }) => name !== "native") }
        : node;
    const call = memberOf(node, "call");
    const id = call?.kind === "number" ? atifCallId(Number(this.#document.textOf(call))) : "";
    const shown: Record<string, string | null> = {};
    for (const member of native) {
      if (member === "content_json") shown[member] = jsonOfString(memberOf(step, "message"));
      else if (member === "arguments_json") shown[member] = this.#textOf(this.#arguments.get(id));
      else if (member === "answer.output_json") shown[member] = outputIn(this.#contents.get(id));
      else return null;
      if (shown[member] === null) return null;
    }
    const parsed = parseLine(this.#document, bare);
    if (parsed.kind !== "event") return null;
    const { seq, event } = parsed;
    const output_json = shown["answer.output_json"];
    if (output_json !== undefined && event.type === "tool_call_end") {
      return { seq, event: { ...event, answer: { ...event.answer, output_json } } };
    }
    return { seq, event: { ...event, ...shown } as TimedEvent };
  }

  #textOf(node: JsonNode | undefined): string | null {
    return node === undefined ? null : this.#document.textOf(node);
  }
}

function note(map: Map<string, JsonNode>, id: JsonNode | null, value: JsonNode | null): void {
  const key = stringOf(id);
  if (key !== null && value !== null && !map.has(key)) map.set(key, value);
}

function jsonOfString(node: JsonNode | null): string | null {
  return node?.kind === "string" ? JSON.stringify(node.value) : null;
}

function outputIn(node: JsonNode | undefined): string | null {
  return node?.kind === "string" ? outputOf(node.value) : null;
}
