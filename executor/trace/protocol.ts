/** What passes between an executor and the thread that collects what happens in its sandboxes. */
import { EVENT_TYPES, type EventType } from "#trace/events/event.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import type { SealedTrace } from "#trace/node/files.ts";

/**
 * Kinds of records in the ring. Those from 0 on are events, by their place in EVENT_TYPES; the others are said of a
 * recording as a whole, and stand in the ring too, so that each comes after all that was recorded before it.
 */
export const RECORD = { open: 0x100, end: 0x101, stop: 0x102, flush: 0x103 } as const;

const KINDS = new Map(EVENT_TYPES.map((type, kind) => [type, kind]));

export function kindOf(type: EventType): number {
  return KINDS.get(type)!;
}

/** The content of an `open` record, as JSON. */
export type Opening = { path: string; header: NewTraceHeader };

export type CollectorSetup = {
  ringDescriptor: number;
  /** By slot the bytes of a trajectory's file that are whole: BigInt64Array. */
  flushedBytes: SharedArrayBuffer;
};

export type CollectorMessage =
  | { type: "ready" }
  /** What was recorded before it was asked for is in the trajectory's file. */
  | { type: "flushed"; slot: number }
  /** Nothing of this recording can be written at the moment; `lost` counts its events that never will be. */
  | { type: "failed"; slot: number; message: string; lost: number }
  /** It had never been flushed, so its file is a trace as it stands, which lacks only its name. */
  | { type: "sealed"; slot: number; trace: SealedTrace }
  /** Its trajectory is whole and closed. */
  | { type: "closed"; slot: number }
  | { type: "unwritable"; slot: number; message: string };
