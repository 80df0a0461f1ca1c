/** Traces in memory, written and read by the real writer and reader. */

import { encodeEvent } from "#trace/events/codec.ts";
import type { EventBody } from "#trace/events/event.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import { openTrace } from "#trace/format/reader.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { TrajectoryWriter } from "#trace/format/writer.ts";
import { nodeEngine } from "#trace/node/engine.ts";

export type Made = EventBody & { t_us?: number | undefined };

/** @param flushEvery events between two flushes, so that a small trace has many blocks */
export async function madeTrace(
  events: Iterable<Made>,
  header: Partial<NewTraceHeader> = {},
  flushEvery = Number.POSITIVE_INFINITY,
): Promise<TraceSegment> {
  const pieces: Uint8Array[] = [];
  const given = { trace_id: "made", source: "test", started_wall_us: 1_700_000_000_000_000, ...header };
  const writer = new TrajectoryWriter(given, nodeEngine, (bytes) => pieces.push(bytes.slice()));
  let seq = 0;
  for (const { t_us = seq * 1000, ...body } of events) {
    const place = { seq: ++seq, t_us, wall_skew_us: 0 };
    writer.add(encodeEvent(body as EventBody, place), { ...place, type: body.type });
    if (seq % flushEvery === 0) writer.flush();
  }
  writer.seal();
  const bytes = Buffer.concat(pieces);
  const source = {
    name: "made.trace",
    size: bytes.length,
    read: async (offset: number, length: number) => new Uint8Array(bytes.subarray(offset, offset + length)),
  };
  const { segments } = await openTrace(source, nodeEngine);
  return segments[0]!;
}

/** A declared tool's call from its start to its end. */
export function call(
  number: number,
  tool: string,
  given: {
    arguments?: unknown;
    output?: unknown;
    end?: Partial<EventBody<"tool_call_end">>;
    start?: Partial<EventBody<"tool_call_start">>;
    between?: Made[];
  } = {},
): Made[] {
  const start = { type: "tool_call_start", call: number, tool, kind: "exec", via: "http" } as const;
  const end = { type: "tool_call_end", call: number, state: "answered", tries: 1, duration_us: 500 } as const;
  return [
    { ...start, arguments_json: jsonOf(given.arguments ?? {}), ...given.start },
    ...(given.between ?? []),
    { ...end, is_error: false, answer: { output_json: jsonOf(given.output ?? null) }, ...given.end },
  ];
}

/** Strings are taken as JSON text, so that tests can write integers that JavaScript cannot. */
export function jsonOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function remember(key: string, value: string | null, old: string | null = null): Made {
  return {
    type: "memory_write",
    op: value === null ? "delete" : "put",
    namespace: "memory",
    key,
    old: old === null ? null : { value_json: old },
    new: value === null ? null : { value_json: value },
    version: 1,
    origin: "agent.py:1",
  };
}

export function failed(text: string, of: { call?: number; code?: string } = {}): Made {
  return { type: "error", code: of.code ?? "TOOL_FAILED", text, call: of.call ?? null, payloads: [] };
}
