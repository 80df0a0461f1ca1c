/**
 * OTLP/JSON traces. What dsec exported becomes the same trace again; of other programs' spans each is a plan step, and those
 * of the GenAI semantic conventions are calls and completions beside. The span itself stays with its step, so that
 * otlp-export.ts gives it back.
 */
import { EVENT_TYPES, type EventBody, type EventType } from "#trace/events/event.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import { differenceFromRead } from "./event-lines.ts";
import type { ImportedTrace, ImportOptions, TimedEvent } from "./imported.ts";
import { itemsOf, JsonDocument, type JsonNode, memberOf, stringOf } from "./json-tree.ts";
import { type ForeignSpan, importForeign } from "./otlp-foreign.ts";
import { attributeValue, membersOf, TOOL_RESULT } from "./otlp-values.ts";
import type { JsonRecord } from "./records.ts";

/**
 * The traces of all records together: exporters spread the spans of one trace over many lines.
 * @throws INVALID_REQUEST naming the record
 */
export async function importOtlp(
  records: JsonRecord[],
  name: string,
  options: ImportOptions,
): Promise<ImportedTrace[]> {
  const traces: ImportedTrace[] = [];
  const foreign = new Map<string, ForeignSpan[]>();
  for (const record of records) {
    const document = new JsonDocument(record.text, `${name}:${record.line}`);
    const resources = itemsOf(memberOf(document.root, "resourceSpans"));
    if (resources.length === 0) throw document.refused("it has no resourceSpans; expected OTLP/JSON traces");
    for (const resource of resources) {
      const header = attributeValue(
        memberOf(memberOf(resource, "resource"), "attributes"),
        "dsec.trace",
        document,
      );
      if (typeof header === "object" && header !== null) {
        traces.push(ownTrace(header as Record<string, unknown>, resource, document));
      } else noteForeign(resource, document, foreign);
    }
  }
  for (const [traceId, spans] of foreign) traces.push(await importForeign(traceId, spans, options));
  return traces;
}

type Placed = { seq: number; event: TimedEvent };

function ownTrace(
  { version, genesis_digest, ...header }: Record<string, unknown>,
  resource: JsonNode,
  document: JsonDocument,
): ImportedTrace {
  if (version !== 1 || typeof header.trace_id !== "string" || typeof header.source !== "string") {
    throw document.refused("dsec.trace is not the header of a trace of version 1");
  }
  const events: Placed[] = [];
  let count: unknown = null;
  for (const scope of itemsOf(memberOf(resource, "scopeSpans"))) {
    for (const span of itemsOf(memberOf(scope, "spans"))) {
      const attributes = memberOf(span, "attributes");
      count = attributeValue(attributes, "dsec.events", document) ?? count;
      const start = placed(attributes, memberOf(span, "startTimeUnixNano"), document, "");
      if (start !== null) events.push(start);
      const end = endOf(start, attributes, span, document);
      if (end !== null) events.push(end);
      for (const event of itemsOf(memberOf(span, "events"))) {
        const noted = placed(memberOf(event, "attributes"), memberOf(event, "timeUnixNano"), document, "");
        if (noted !== null) events.push(noted);
      }
    }
  }
  events.sort((one, other) => one.seq - other.seq);
  const gap = events.findIndex(({ seq }, index) => seq !== index + 1);
  if (gap >= 0 || events.length !== count) {
    const missing = gap >= 0 ? gap + 1 : events.length + 1;
    throw document.refused(`event ${missing} is missing: the export is not whole`);
  }
  return {
    header: { started_wall_us: 0, ...header } as NewTraceHeader,
    events: events.map(({ event }) => event),
  };
}

/** The event that ended the span, whose members stand among those of the start. */
function endOf(
  start: Placed | null,
  attributes: JsonNode | null,
  span: JsonNode,
  document: JsonDocument,
): Placed | null {
  if (attributeValue(attributes, "dsec.end.seq", document) === undefined) return null;
  const type = start?.event.type === "plan_step" ? "plan_step" : "tool_call_end";
  return placed(attributes, memberOf(span, "endTimeUnixNano"), document, "end.", type);
}

function withResult(
  members: Record<string, unknown>,
  attributes: JsonNode | null,
  document: JsonDocument,
): object {
  const output_json = attributeValue(attributes, TOOL_RESULT, document);
  return output_json === undefined
    ? members
    : { ...members, answer: { ...(members.answer as object), output_json } };
}

function placed(
  attributes: JsonNode | null,
  time: JsonNode | null,
  document: JsonDocument,
  prefix: string,
  given?: EventType,
): Placed | null {
  const type = given ?? attributeValue(attributes, "dsec.type", document);
  if (typeof type !== "string" || !(EVENT_TYPES as string[]).includes(type)) return null;
  const all = membersOf(type as EventType, attributes, document, prefix);
  const { seq, t_us, wall_us = wallUsOf(time), type: _, ...members } = all;
  const event = {
    type,
    ...(type === "tool_call_end" ? withResult(members, attributes, document) : members),
  } as EventBody;
  const wrong = differenceFromRead(event);
  if (!Number.isSafeInteger(seq) || !Number.isSafeInteger(t_us) || !Number.isSafeInteger(wall_us)) {
    throw document.refused(`a span of type ${type} has no number or time`);
  }
  if (wrong !== null) throw document.refused(`event ${seq}, a ${type}: ${wrong}`);
  return { seq: seq as number, event: { ...event, t_us: t_us as number, wall_us: wall_us as number } };
}

function wallUsOf(node: JsonNode | null): number {
  const text = stringOf(node);
  return text !== null && /^\d{1,19}$/.test(text) ? Number(BigInt(text) / 1000n) : Number.NaN;
}

function noteForeign(resource: JsonNode, document: JsonDocument, foreign: Map<string, ForeignSpan[]>): void {
  for (const scope of itemsOf(memberOf(resource, "scopeSpans"))) {
    for (const span of itemsOf(memberOf(scope, "spans"))) {
      const traceId = stringOf(memberOf(span, "traceId"))?.toLowerCase() ?? "";
      if (!/^[0-9a-f]{32}$/.test(traceId))
        throw document.refused("a span has no traceId of 32 hexadecimal digits");
      const spans = foreign.get(traceId) ?? [];
      foreign.set(traceId, spans);
      spans.push({ document, resource, scope, span });
    }
  }
}
