/** Spans of other programs: in, as plan steps that keep them whole, and out again. */
import { LIMITS } from "#core/limits.ts";
import type { EventBody, TraceEvent } from "#trace/events/event.ts";
import { ConversationBuilder, type ImportedTrace, type ImportOptions } from "./imported.ts";
import { itemsOf, type JsonDocument, type JsonNode, memberOf, stringOf, treeOf } from "./json-tree.ts";
import { attributeNode, jsonOfAny } from "./otlp-values.ts";
import { type PlacedSpan, visitsOf } from "./span-forest.ts";

export type ForeignSpan = { document: JsonDocument; resource: JsonNode; scope: JsonNode; span: JsonNode };

type TimedSpan = ForeignSpan & PlacedSpan & { endUs: number | null };

export async function importForeign(
  traceId: string,
  given: ForeignSpan[],
  options: ImportOptions,
): Promise<ImportedTrace> {
  const spans = given.map((span): TimedSpan => {
    const idIn = (name: string) => stringOf(memberOf(span.span, name))?.toLowerCase() || null;
    return { ...span, id: idIn("spanId"), parentId: idIn("parentSpanId"), ...timesOf(span) };
  });
  const started = spans.reduce(
    (least, { startUs }) => Math.min(least, startUs ?? least),
    Number.POSITIVE_INFINITY,
  );
  const startedWallUs = Number.isFinite(started) ? started : 0;
  const steps = new ForeignSteps(new ConversationBuilder(startedWallUs, options));
  for (const { place, state, parent, nextStartUs } of visitsOf(spans)) {
    if (state === "begun") await steps.begin(spans[place]!, place, parent);
    else steps.end(spans[place]!, place, nextStartUs);
  }
  return {
    header: { trace_id: traceId, source: "otlp", started_wall_us: startedWallUs },
    events: steps.builder.events,
  };
}

/** Places of spans in their file become numbers of steps in the order in which those begin. */
class ForeignSteps {
  readonly builder: ConversationBuilder;
  readonly #stepOf = new Map<number, number>();
  readonly #callOf = new Map<number, number>();

  constructor(builder: ConversationBuilder) {
    this.builder = builder;
  }

  async begin(given: TimedSpan, place: number, around: number | null): Promise<void> {
    const { document, resource, scope, span, startUs } = given;
    const step = this.#stepOf.size + 1;
    this.#stepOf.set(place, step);
    const parent = around === null ? null : this.#stepOf.get(around)!;
    const name = nameOf(span);
    const given_json = `{"resource":${without(document, resource, "scopeSpans")},"scope":${without(document, scope, "spans")},"span":${document.textOf(span)},"place":${place}}`;
    this.builder.add({ type: "plan_step", state: "begun", step, name, parent, given_json }, startUs);
    const attributes = new Attributes(given);
    if (attributes.text("gen_ai.operation.name") !== "execute_tool") return;
    const call = await this.builder.startCall({
      tool: attributes.text("gen_ai.tool.name") ?? name,
      arguments_json: attributes.json("gen_ai.tool.call.arguments"),
      step,
      start_us: startUs,
    });
    this.#callOf.set(place, call);
  }

  end(given: TimedSpan, place: number, latestUs: number | null): void {
    const { document, span, startUs, endUs } = given;
    const attributes = new Attributes(given);
    const code = memberOf(memberOf(span, "status"), "code");
    const failed = code !== null && ["2", '"STATUS_CODE_ERROR"'].includes(document.textOf(code));
    const duration_us = startUs === null || endUs === null ? null : endUs - startUs;
    const call = this.#callOf.get(place);
    if (call !== undefined) {
      const why = stringOf(memberOf(memberOf(span, "status"), "message"));
      const text = attributes.output("gen_ai.tool.call.result");
      this.builder.endCall(call, { text, failed, why, end_us: endUs, duration_us, latest_us: latestUs });
    }
    if (attributes.text("gen_ai.operation.name") === "chat") {
      this.builder.add(completionOf(attributes), endUs, latestUs);
    }
    const status = failed ? "failed" : "succeeded";
    const step = this.#stepOf.get(place)!;
    this.builder.add(
      { type: "plan_step", state: "ended", step, name: nameOf(span), status, duration_us },
      endUs,
      latestUs,
    );
  }
}

/** Those of a span, by key. */
class Attributes {
  readonly #document: JsonDocument;
  readonly #attributes: JsonNode | null;

  constructor({ document, span }: ForeignSpan) {
    this.#document = document;
    this.#attributes = memberOf(span, "attributes");
  }

  node(key: string): JsonNode | null {
    return attributeNode(this.#attributes, key);
  }

  text(key: string): string | null {
    return stringOf(memberOf(this.node(key), "stringValue"));
  }

  /** JSON, which conventions have as text or as a value. */
  json(key: string): string | null {
    const text = this.text(key);
    if (text !== null) return treeOf(text) === null ? JSON.stringify(text) : text;
    const node = this.node(key);
    return node === null ? null : jsonOfAny(node, this.#document);
  }

  /** As the agent was given it. */
  output(key: string): string | null {
    return this.text(key) ?? this.json(key);
  }

  count(key: string): number | null {
    const node = this.node(key);
    const value = node === null ? Number.NaN : Number(jsonOfAny(node, this.#document));
    return Number.isSafeInteger(value) && value >= 0 ? value : null;
  }
}

/** In the order of their file. Resources and scopes that are alike are one, as collectors merge them too; none is lost. */
export async function* foreignSpans(events: AsyncIterable<TraceEvent>): AsyncGenerator<string> {
  yield `{"resourceSpans":[`;
  const groups = new Map<string, string[]>();
  const steps: { place: number; group: string; span: string }[] = [];
  for await (const event of events) {
    if (event.type !== "plan_step" || event.state !== "begun" || event.given_json === null) continue;
    const json = event.given_json;
    const root = treeOf(json);
    const text = (name: string) => {
      const node = memberOf(root, name);
      return node === null ? "{}" : json.slice(node.start, node.end);
    };
    const spans = `{${inner(text("resource"), ",")}"scopeSpans":[{${inner(text("scope"), ",")}"spans":[`;
    const place = memberOf(root, "place");
    steps.push({
      place: place?.kind === "number" ? Number(json.slice(place.start, place.end)) : event.step,
      ...{ group: spans, span: text("span") },
    });
  }
  steps.sort((one, other) => one.place - other.place);
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

function completionOf(attributes: Attributes): EventBody<"completion"> {
  const reasons = memberOf(
    memberOf(attributes.node("gen_ai.response.finish_reasons"), "arrayValue"),
    "values",
  );
  return {
    type: "completion",
    call: null,
    model: attributes.text("gen_ai.response.model") ?? attributes.text("gen_ai.request.model"),
    prompt_tokens: attributes.count("gen_ai.usage.input_tokens"),
    completion_tokens: attributes.count("gen_ai.usage.output_tokens"),
    cached_tokens: attributes.count("gen_ai.usage.cache_read.input_tokens"),
    finish_reason: stringOf(memberOf(itemsOf(reasons)[0] ?? null, "stringValue")),
    tool_calls: [],
  };
}

function nameOf(span: JsonNode): string {
  return stringOf(memberOf(span, "name")) ?? "span";
}

/** Null for what no exporter knew (0, or no member), and what no trace can hold. */
function timesOf({ span, document }: ForeignSpan): { startUs: number | null; endUs: number | null } {
  const read = (name: string) => {
    const node = memberOf(span, name);
    const text = node === null ? "0" : (stringOf(node) ?? document.textOf(node));
    if (!/^\d{1,20}$/.test(text)) throw document.refused(`${name} is no time in nanoseconds`);
    const us = BigInt(text) / 1000n;
    return us === 0n || us > LIMITS.traceTimeUs ? null : Number(us);
  };
  const startUs = read("startTimeUnixNano");
  const endUs = read("endTimeUnixNano");
  return { startUs, endUs: startUs === null || endUs === null ? endUs : Math.max(startUs, endUs) };
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
