/** Redaction of traces in memory, written and read by the real writer and reader. */
import type { EventBody, TraceEvent } from "#trace/events/event.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { nodeEngine } from "#trace/node/engine.ts";
import { patternOf } from "#trace/redaction/patterns.ts";
import { redact } from "#trace/redaction/redact.ts";
import { eventsIn, writtenTrace } from "../exchange/imports.ts";

export type Asked = { fields?: string[]; patterns?: string[] };
export type Redacted = {
  segment: TraceSegment;
  events: TraceEvent[];
  text: string;
  counts: Record<string, number>;
};

export const FILE_DIGEST = `sha256:${"f".repeat(64)}` as const;

export async function traceOf(
  bodies: EventBody[],
  header: Partial<NewTraceHeader> = {},
): Promise<TraceSegment> {
  return writtenTrace({
    header: { trace_id: "t", source: "dsec", started_wall_us: 5_000_000, ...header },
    events: bodies.map((body, index) => ({ ...body, t_us: index, wall_us: 5_000_000 + index })),
  });
}

export async function redacted(segment: TraceSegment, asked: Asked): Promise<Redacted> {
  const patterns = (asked.patterns ?? []).map((text, index) => patternOf(text, index + 1));
  const options = { fields: asked.fields ?? [], patterns, sha256: nodeEngine.sha256 };
  const redaction = await redact([segment], FILE_DIGEST, options);
  if (redaction.state === "clean") return shown(segment, {});
  const [only] = redaction.segments;
  const written = await writtenTrace({ header: only!.header, events: only!.events() });
  return shown(written, Object.fromEntries(redaction.counts));
}

/** `text` is everything that the trace says, with bytes as text. */
async function shown(segment: TraceSegment, counts: Record<string, number>): Promise<Redacted> {
  const events = await eventsIn(segment);
  // a Buffer would show itself as a list of numbers
  function replacer(this: Record<string, unknown>, name: string, value: unknown): unknown {
    const given = this[name];
    return given instanceof Uint8Array ? new TextDecoder().decode(given) : value;
  }
  return { segment, events, text: JSON.stringify([segment.header, events], replacer), counts };
}

export function observed(json: string): EventBody {
  return { type: "observation", state: "injected", observation: 1, source: "user", content_json: json };
}

/** The JSON of the first event after it was redacted. */
export async function redactedJson(json: string, asked: Asked): Promise<string> {
  const { events } = await redacted(await traceOf([observed(json)]), asked);
  const [event] = events;
  if (event?.type !== "observation") throw new Error("the event is gone");
  return event.content_json!;
}
