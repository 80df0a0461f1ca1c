/**
 * A trace as OTLP/JSON (ExportTraceServiceRequest) with the GenAI semantic conventions: `invoke_agent` is the whole,
 * `execute_tool` a call, `chat` a completion, `plan_step` a step; everything else is a span event of the innermost span that
 * was open. All members are kept as attributes, so that otlp-import.ts gives the same events.
 */
import { sha256 } from "#core/json.ts";
import type { TraceEvent } from "#trace/events/event.ts";
import type { TraceHeader } from "#trace/format/header.ts";
import { foreignSpans } from "./otlp-foreign.ts";
import { anyValue, attribute, attributesOf, stringValue, TOOL_RESULT } from "./otlp-values.ts";

export const OTLP_SOURCE = "otlp";

/** Pieces of the document's text. */
export async function* exportOtlp(
  header: TraceHeader,
  events: AsyncIterable<TraceEvent>,
): AsyncGenerator<string> {
  if (header.source === OTLP_SOURCE) {
    yield* foreignSpans(events);
    return;
  }
  const resource = [
    attribute("service.name", stringValue("dsec")),
    attribute("dsec.trace", anyValue(header, "trace")!),
  ];
  yield `{"resourceSpans":[{"resource":{"attributes":[${resource}]},"scopeSpans":[{"scope":{"name":"dsec"},"spans":[`;
  const spans = new Spans((await sha256(`otlp:${header.genesis_digest}`)).slice(7, 39), header);
  for await (const event of events) {
    const span = spans.take(event);
    if (span !== null) yield `${span},`;
  }
  for (const span of spans.stillOpen()) yield `${span},`;
  yield `${spans.root()}]}]}]}\n`;
}

type OpenSpan = {
  id: string;
  parent: string;
  name: string;
  start: TraceEvent;
  attributes: string[];
  events: string[];
};

/** SPAN_KIND_INTERNAL and STATUS_CODE_ERROR. */
const INTERNAL = 1;
const ERROR = 2;

class Spans {
  readonly #traceId: string;
  readonly #header: TraceHeader;
  readonly #calls = new Map<number, OpenSpan>();
  readonly #steps = new Map<number, OpenSpan>();
  /** The open spans, the innermost last. */
  readonly #open: OpenSpan[] = [];
  readonly #rootEvents: string[] = [];
  #count = 0;
  #firstUs: number | null = null;
  #lastUs = 0;

  constructor(traceId: string, header: TraceHeader) {
    this.#traceId = traceId;
    this.#header = header;
  }

  /** The text of the span that this event ends. */
  take(event: TraceEvent): string | null {
    this.#count++;
    this.#firstUs = Math.min(this.#firstUs ?? event.wall_us, event.wall_us);
    this.#lastUs = Math.max(this.#lastUs, event.wall_us);
    switch (event.type) {
      case "tool_call_start":
        this.#begin(this.#calls, event.call, `execute_tool ${event.tool ?? event.kind}`, event, [
          attribute("gen_ai.operation.name", stringValue("execute_tool")),
          attribute("gen_ai.tool.call.id", stringValue(String(event.call))),
        ]);
        return null;
      case "tool_call_end":
        return this.#end(
          this.#calls,
          event.call,
          event,
          event.state !== "answered" || event.is_error === true,
        );
      case "plan_step":
        if (event.state === "begun") {
          this.#begin(this.#steps, event.step, `plan_step ${event.name}`, event, []);
          return null;
        }
        if (event.state === "ended")
          return this.#end(this.#steps, event.step, event, event.status === "failed");
        break;
      case "completion":
        return this.#chat(event);
    }
    this.#note(event);
    return null;
  }

  *stillOpen(): Generator<string> {
    for (const span of this.#open) yield this.#textOf(span, span.attributes, this.#lastUs, null);
  }

  root(): string {
    const attributes = [
      attribute("gen_ai.operation.name", stringValue("invoke_agent")),
      attribute("gen_ai.conversation.id", stringValue(this.#header.trace_id)),
      attribute("dsec.events", anyValue(this.#count, "events")!),
    ];
    const start = this.#firstUs ?? this.#header.started_wall_us;
    return `{${this.#ids(ROOT, null)},"name":"invoke_agent","kind":${INTERNAL},${times(start, this.#lastUs)},"attributes":[${attributes}],"events":[${this.#rootEvents}]}`;
  }

  #begin(
    spans: Map<number, OpenSpan>,
    key: number,
    name: string,
    event: TraceEvent,
    attributes: string[],
  ): void {
    const span = {
      id: spanId(event.seq),
      parent: this.#innermost(event)?.id ?? ROOT,
      name,
      start: event,
      attributes: [...attributes, ...own(event)],
      events: [],
    };
    spans.set(key, span);
    this.#open.push(span);
  }

  #end(spans: Map<number, OpenSpan>, key: number, event: TraceEvent, failed: boolean): string | null {
    const span = spans.get(key);
    if (span === undefined) {
      // its beginning was not recorded
      this.#note(event);
      return null;
    }
    spans.delete(key);
    this.#open.splice(this.#open.indexOf(span), 1);
    const { type, wall_us, ...members } = event;
    const result = event.type === "tool_call_end" ? (event.answer?.output_json ?? null) : null;
    const rest =
      result === null ? members : { ...members, answer: { ...answerOf(event), output_json: null } };
    const attributes = [...span.attributes, ...attributesOf(type, rest, "end.")];
    if (wall_us < span.start.wall_us) attributes.push(attribute("dsec.end.wall_us", anyValue(wall_us, "")!));
    if (result !== null) attributes.push(attribute(TOOL_RESULT, stringValue(result)));
    const message = event.type === "tool_call_end" ? (event.text ?? event.code ?? event.state) : "failed";
    return this.#textOf(span, attributes, wall_us, failed ? message : null);
  }

  #chat(event: TraceEvent<"completion">): string {
    const attributes = [attribute("gen_ai.operation.name", stringValue("chat")), ...own(event)];
    if (event.finish_reason !== null) {
      const reasons = anyValue([event.finish_reason], "");
      attributes.push(attribute("gen_ai.response.finish_reasons", reasons!));
    }
    const parent = this.#innermost(event)?.id ?? ROOT;
    const name = event.model === null ? "chat" : `chat ${event.model}`;
    return this.#textOf(
      { id: spanId(event.seq), parent, name, start: event, attributes, events: [] },
      attributes,
      event.wall_us,
      null,
    );
  }

  #note(event: TraceEvent): void {
    const attributes = own(event);
    if (event.type === "reward") {
      attributes.push(attribute("gen_ai.evaluation.name", stringValue(event.source ?? "reward")));
    }
    const text = `{"timeUnixNano":"${nanos(event.wall_us)}","name":"${nameOf(event)}","attributes":[${attributes}]}`;
    (this.#innermost(event)?.events ?? this.#rootEvents).push(text);
  }

  /** The call that the event is of, or else the last span that is open. */
  #innermost(event: TraceEvent): OpenSpan | undefined {
    const call = "call" in event && typeof event.call === "number" ? this.#calls.get(event.call) : undefined;
    return call ?? this.#open.at(-1);
  }

  #textOf(span: OpenSpan, attributes: string[], endUs: number, failure: string | null): string {
    const status = failure === null ? "" : `,"status":{"code":${ERROR},"message":${JSON.stringify(failure)}}`;
    return `{${this.#ids(span.id, span.parent)},"name":${JSON.stringify(span.name)},"kind":${INTERNAL},${times(span.start.wall_us, endUs)},"attributes":[${attributes}],"events":[${span.events}]${status}}`;
  }

  #ids(id: string, parent: string | null): string {
    const above = parent === null ? "" : `,"parentSpanId":"${parent}"`;
    return `"traceId":"${this.#traceId}","spanId":"${id}"${above}`;
  }
}

function answerOf(event: TraceEvent): object {
  return (event.type === "tool_call_end" ? event.answer : null) ?? {};
}

/** An event's own attributes: its members, its number, its monotonic time. Its wall time is the span's. */
function own(event: TraceEvent): string[] {
  const { type, wall_us, ...members } = event;
  return [attribute("dsec.type", stringValue(type)), ...attributesOf(type, members)];
}

function nameOf({ type }: TraceEvent): string {
  if (type === "error") return "exception";
  return type === "reward" ? "gen_ai.evaluation.result" : `dsec.${type}`;
}

/** Eight bytes, never all zero; the root's is that of number 0. */
function spanId(seq: number): string {
  return `d5${seq.toString(16).padStart(14, "0")}`;
}
const ROOT = spanId(0);

function times(startUs: number, endUs: number): string {
  return `"startTimeUnixNano":"${nanos(startUs)}","endTimeUnixNano":"${nanos(Math.max(startUs, endUs))}"`;
}

/** Past 2^53, so never a number. */
function nanos(wallUs: number): string {
  return String(BigInt(wallUs) * 1000n);
}
