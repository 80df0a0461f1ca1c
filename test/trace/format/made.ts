/** Traces in memory, for tests of their bytes. */
import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { encodeEvent } from "#trace/events/codec.ts";
import type { EventBody, TraceEvent } from "#trace/events/event.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import type { EventRange } from "#trace/format/merge.ts";
import { openTrace, type TraceFile } from "#trace/format/reader.ts";
import { TrajectoryWriter } from "#trace/format/writer.ts";
import { nodeEngine, sealingEngine } from "#trace/node/engine.ts";
import { type Random, randomBody } from "../events/random-events.ts";

export const STARTED_US = 1_764_000_000_000_000;
export const HEADER: NewTraceHeader = { trace_id: "trace-1", source: "test", started_wall_us: STARTED_US };

/**
 * Writes the bodies, ten microseconds apart; flushes after every so many, and seals unless told to leave it open. What is flushed
 * once is written as a sealed trace is, with the dictionary.
 */
export function made(
  bodies: readonly EventBody[],
  { flushEvery = Number.POSITIVE_INFINITY, sealed = true, header = HEADER } = {},
): Uint8Array {
  const parts: Uint8Array[] = [];
  const engine = Number.isFinite(flushEvery) ? nodeEngine : sealingEngine;
  const writer = new TrajectoryWriter(header, engine, (bytes) => parts.push(bytes));
  for (const body of bodies) {
    const place = { seq: writer.count + 1, t_us: (writer.count + 1) * 10, wall_skew_us: 0 };
    writer.add(encodeEvent(body, place), { ...place, type: body.type });
    if (writer.count % flushEvery === 0) writer.flush();
  }
  if (sealed) writer.seal();
  else writer.flush();
  return Buffer.concat(parts);
}

/** With numbers of calls and steps that an index has room for. */
export function randomBodies(random: Random, count: number): EventBody[] {
  return Array.from({ length: count }, (_, at) => {
    const body = randomBody(random);
    if (body.type === "tool_call_start") return { ...body, call: at + 1 };
    return body.type === "plan_step" ? { ...body, step: at + 1 } : body;
  });
}

export type Reads = { offset: number; length: number }[];

/** @param reads is told of each read */
export function opened(bytes: Uint8Array, reads: Reads = []): Promise<TraceFile> {
  return openTrace(
    {
      name: "made.trace",
      size: bytes.length,
      read: async (offset, length) => {
        reads.push({ offset, length });
        return Uint8Array.prototype.slice.call(bytes, offset, offset + length);
      },
    },
    nodeEngine,
  );
}

/** Of all segments. */
export async function eventsOf(file: TraceFile, range: EventRange = {}): Promise<TraceEvent[]> {
  const events: TraceEvent[] = [];
  for (const segment of file.segments) for await (const event of segment.events(range)) events.push(event);
  return events;
}

/** Compares thousands of events, and shows of a failure the first that differs. */
export function expectSame(events: readonly unknown[], expected: readonly unknown[], what: string): void {
  const at = events.findIndex((event, at) => !isDeepStrictEqual(event, expected[at]));
  if (at >= 0) expect(events[at], `${what}, event at ${at}`).toEqual(expected[at]);
  expect(events.length, what).toBe(expected.length);
}
