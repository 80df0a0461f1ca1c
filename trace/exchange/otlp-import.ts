/**
 * OTLP/JSON traces. What dsec exported becomes the same trace again; of other programs' spans each is a plan step, and those
 * of the GenAI semantic conventions are calls and completions beside. The span itself stays with its step, so that
 * otlp-export.ts gives it back.
 */
import { DsecError } from "#core/errors.ts";
import { EVENT_TYPES, type EventBody, type EventType } from "#trace/events/event.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import { differenceFromRead } from "./event-lines.ts";
import { EXPECTED } from "./import-formats.ts";
import type { ImportedTrace, ImportOptions, TimedEvent } from "./imported.ts";
import { itemsOf, JsonDocument, type JsonNode, memberOf, stringOf } from "./json-tree.ts";
import { type ForeignSpan, importForeign } from "./otlp-foreign.ts";
import { attributeValue, membersOf, TOOL_RESULT } from "./otlp-values.ts";
import type { JsonRecord } from "./records.ts";

/**
 * The traces of all records together: exporters and collectors spread the spans of one trace over many.
 * @throws INVALID_REQUEST naming the record; TRACE_UNSUPPORTED for what older exporters wrote
 */
export async function importOtlp(
  records: JsonRecord[],
  name: string,
  options: ImportOptions,
): Promise<ImportedTrace[]> {
  const own = new Map<string, OwnTrace>();
  const foreign = new Map<string, ForeignSpan[]>();
  for (const record of records) {
    const document = new JsonDocument(record.text, `${name}:${record.line}`);
    for (const resource of resourcesIn(document)) {
      const attributes = memberOf(memberOf(resource, "resource"), "attributes");
      const header = attributeValue(attributes, "dsec.trace", document);
      if (typeof header === "object" && header !== null) noteOwn(header, resource, document, own);
      else noteForeign(resource, document, foreign);
    }
  }
  const traces = [...own.values()].map(wholeTrace);
  for (const [traceId, spans] of foreign) traces.push(await importForeign(traceId, spans, options));
  return traces;
}

/** None where the request is empty, which it may be, also without the member. */
function resourcesIn(document: JsonDocument): JsonNode[] {
  const { root } = document;
  const isEmpty = root.kind === "object" && root.members.length === 0;
  if (!isEmpty && (root.kind !== "object" || !root.members.some(({ name }) => name === "resourceSpans"))) {
    throw document.refused(`it has no resourceSpans; ${EXPECTED.otlp}`);
  }
  const resources = memberOf(root, "resourceSpans");
  if (resources !== null && resources.kind !== "array") throw document.refused("resourceSpans is no array");
  for (const resource of itemsOf(resources)) {
    if (memberOf(resource, "instrumentationLibrarySpans") === null) continue;
    throw new DsecError(
      "TRACE_UNSUPPORTED",
      `${document.what}: it has instrumentationLibrarySpans, as exporters wrote them before OTLP 1.0; send it through a collector of today, which writes scopeSpans`,
    );
  }
  return itemsOf(resources);
}

type Placed = { seq: number; event: TimedEvent };
type OwnTrace = { document: JsonDocument; header: NewTraceHeader; events: Placed[]; count: unknown };

function noteOwn(
  given: object,
  resource: JsonNode,
  document: JsonDocument,
  own: Map<string, OwnTrace>,
): void {
  const { version, genesis_digest, ...header } = given as Record<string, unknown>;
  if (version !== 1) {
    throw new DsecError(
      "TRACE_UNSUPPORTED",
      `${document.what}: dsec.trace is of version ${JSON.stringify(version)?.slice(0, 40)}, known here is 1; import it with a newer dsec`,
    );
  }
  if (typeof header.trace_id !== "string" || typeof header.source !== "string") {
    throw document.refused("dsec.trace is not the header of a trace");
  }
  const key = JSON.stringify(given);
  const trace = own.get(key) ?? {
    document,
    header: { started_wall_us: 0, ...header } as NewTraceHeader,
    events: [],
    count: null,
  };
  own.set(key, trace);
  for (const scope of itemsOf(memberOf(resource, "scopeSpans"))) {
    for (const span of itemsOf(memberOf(scope, "spans"))) {
      const attributes = memberOf(span, "attributes");
      trace.count = attributeValue(attributes, "dsec.events", document) ?? trace.count;
      const start = placed(attributes, memberOf(span, "startTimeUnixNano"), document, "");
      if (start !== null) trace.events.push(start);
      const end = endOf(start, attributes, span, document);
      if (end !== null) trace.events.push(end);
      for (const event of itemsOf(memberOf(span, "events"))) {
        const noted = placed(memberOf(event, "attributes"), memberOf(event, "timeUnixNano"), document, "");
        if (noted !== null) trace.events.push(noted);
      }
    }
  }
}

function wholeTrace({ document, header, events, count }: OwnTrace): ImportedTrace {
  events.sort((one, other) => one.seq - other.seq);
  const gap = events.findIndex(({ seq }, index) => seq !== index + 1);
  if (gap >= 0 || events.length !== count) {
    const missing = gap >= 0 ? gap + 1 : events.length + 1;
    throw document.refused(`event ${missing} is missing: the export is not whole`);
  }
  return { header, events: events.map(({ event }) => event) };
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
