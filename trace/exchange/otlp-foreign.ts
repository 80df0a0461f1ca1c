/** Spans of other programs: in, as plan steps that keep them whole, and out again. */
import type { EventBody, TraceEvent } from "#trace/events/event.ts";
import { ConversationBuilder, type ImportedTrace, type ImportOptions } from "./imported.ts";
import { type JsonDocument, type JsonNode, memberOf, stringOf, treeOf } from "./json-tree.ts";
import { attributeValue } from "./otlp-values.ts";

export type ForeignSpan = { document: JsonDocument; resource: JsonNode; scope: JsonNode; span: JsonNode };

type Moment = { us: number; order: number; act: () => Promise<void> | void };

export async function importForeign(
  traceId: string,
  spans: ForeignSpan[],
  options: ImportOptions,
): Promise<ImportedTrace> {
  const timed = spans.map((span, index) => ({ ...span, step: index + 1, ...timesOf(span) }));
  const started = timed.reduce((least, { startUs }) => Math.min(least, startUs), timed[0]!.startUs);
  const builder = new ConversationBuilder(started, options);
  const stepOf = new Map(timed.map(({ span, step }) => [stringOf(memberOf(span, "spanId")), step]));
  const moments: Moment[] = [];
  for (const { document, resource, scope, span, step, startUs, endUs } of timed) {
    const name = stringOf(memberOf(span, "name")) ?? "span";
    const parent = stepOf.get(stringOf(memberOf(span, "parentSpanId"))) ?? null;
    const attributes = memberOf(span, "attributes");
    const read = (key: string) => attributeValue(attributes, key, document);
    const operation = read("gen_ai.operation.name");
    const failed = memberOf(memberOf(span, "status"), "code");
    const isError = failed !== null && ["2", '"STATUS_CODE_ERROR"'].includes(document.textOf(failed));
    const given_json = `{"resource":${without(document, resource, "scopeSpans")},"scope":${without(document, scope, "spans")},"span":${document.textOf(span)}}`;
    let call: number | null = null;
    moments.push({
      us: startUs,
      order: step,
      async act() {
        builder.add({ type: "plan_step", state: "begun", step, name, parent, given_json }, startUs);
        if (operation === "execute_tool") {
          const tool = read("gen_ai.tool.name");
          const given = read("gen_ai.tool.call.arguments");
          const arguments_json =
            typeof given === "string" ? jsonText(given) : given === undefined ? null : JSON.stringify(given);
          call = await builder.startCall({
            tool: typeof tool === "string" ? tool : name,
            arguments_json,
            step,
            start_us: startUs,
          });
        }
      },
    });
    moments.push({
      us: endUs,
      // inner spans end before those around them
      order: 2 * timed.length - step,
      act() {
        if (call !== null) {
          const result = read("gen_ai.tool.call.result");
          const text =
            typeof result === "string" ? result : result === undefined ? "" : JSON.stringify(result);
          builder.endCall(call, { text, failed: isError, end_us: endUs, duration_us: endUs - startUs });
        }
        if (operation === "chat") builder.add(completionOf(read), endUs);
        const status = isError ? "failed" : "succeeded";
        builder.add(
          { type: "plan_step", state: "ended", step, name, status, duration_us: endUs - startUs },
          endUs,
        );
      },
    });
  }
  moments.sort((one, other) => one.us - other.us || one.order - other.order);
  for (const { act } of moments) await act();
  return {
    header: { trace_id: traceId, source: "otlp", started_wall_us: started },
    events: builder.events,
  };
}

/** One resource and scope for each span: collectors merge them, and none is lost. */
export async function* foreignSpans(events: AsyncIterable<TraceEvent>): AsyncGenerator<string> {
  yield `{"resourceSpans":[`;
  const groups = new Map<string, string[]>();
  const steps: { step: number; group: string; span: string }[] = [];
  for await (const event of events) {
    if (event.type !== "plan_step" || event.state !== "begun" || event.given_json === null) continue;
    const json = event.given_json;
    const root = treeOf(json);
    const text = (name: string) => {
      const node = memberOf(root, name);
      return node === null ? "{}" : json.slice(node.start, node.end);
    };
    const spans = `{${inner(text("resource"), ",")}"scopeSpans":[{${inner(text("scope"), ",")}"spans":[`;
    steps.push({ step: event.step, group: spans, span: text("span") });
  }
  steps.sort((one, other) => one.step - other.step);
  for (const { group, span } of steps) {
    const spans = groups.get(group);
    if (spans === undefined) groups.set(group, [span]);
    else spans.push(span);
  }
  let first = true;
  for (const [group, spans] of groups) {
    yield `${first ? "" : ","}${group}${spans.join(",")}]}]}`;
    first = false;
  }
  yield "]}\n";
}

function completionOf(read: (key: string) => unknown): EventBody<"completion"> {
  const count = (key: string) => {
    const value = read(key);
    return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;
  };
  const model = read("gen_ai.response.model") ?? read("gen_ai.request.model");
  const reasons = read("gen_ai.response.finish_reasons");
  const reason = Array.isArray(reasons) ? reasons[0] : null;
  return {
    type: "completion",
    call: null,
    model: typeof model === "string" ? model : null,
    prompt_tokens: count("gen_ai.usage.input_tokens"),
    completion_tokens: count("gen_ai.usage.output_tokens"),
    cached_tokens: count("gen_ai.usage.cache_read.input_tokens"),
    finish_reason: typeof reason === "string" ? reason : null,
    tool_calls: [],
  };
}

function timesOf({ span, document }: ForeignSpan): { startUs: number; endUs: number } {
  const read = (name: string) => {
    const node = memberOf(span, name);
    const text = node === null ? "0" : (stringOf(node) ?? document.textOf(node));
    if (!/^\d{1,19}$/.test(text)) throw document.refused(`${name} is no time in nanoseconds`);
    return Number(BigInt(text) / 1000n);
  };
  const startUs = read("startTimeUnixNano");
  return { startUs, endUs: Math.max(startUs, read("endTimeUnixNano")) };
}

function jsonText(text: string): string {
  return treeOf(text) === null ? JSON.stringify(text) : text;
}

function without({ text }: JsonDocument, node: JsonNode, left: string): string {
  if (node.kind !== "object") return "{}";
  const parts = node.members
    .filter(({ name }) => name !== left)
    .map(({ name, value }) => `${JSON.stringify(name)}:${text.slice(value.start, value.end)}`);
  return `{${parts}}`;
}

/** The members of an object's text, with `after` behind them where there are any. */
function inner(object: string, after: string): string {
  const members = object.slice(1, -1).trim();
  return members === "" ? "" : members + after;
}
