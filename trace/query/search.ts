/**
 * Finds the events of a segment that a query is true of, in their order. Before anything is unpacked it is known which types
 * of events can match, so only their sections are read, and those that say what the query asks of other events: starts
 * of calls, plan steps, memory.
 */
import { decodeEvent } from "#trace/events/codec.ts";
import { EVENT_TYPES, type EventType, type Section, sectionOf } from "#trace/events/event.ts";
import type { RawEvent } from "#trace/format/block.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { namesIn, type Query, trackedFor } from "./check.ts";
import { compile, type Test } from "./compile.ts";
import { EventView } from "./event-view.ts";
import type { Constants } from "./names.ts";
import { holdsAll, type Needle, needlesOf } from "./needles.ts";
import { seqRange } from "./range.ts";
import { Tracker } from "./tracker.ts";
import { parseExact, type Value } from "./value.ts";

/** An event that was found. `step`, `call` and `tool` are null where it has none, or where they were not come by. */
export type Match = {
  seq: number;
  t_us: number;
  type: EventType;
  step: number | null;
  call: number | null;
  tool: string | null;
  bytes: Uint8Array;
};

/** Only the events that match are decoded by those who want them: `decodeEvent(match.bytes, segment.startedWallUs)`. */
export async function* search(segment: TraceSegment, query: Query): AsyncGenerator<Match> {
  const plan = await planFor(segment, query);
  if (plan.tests.size === 0) return;
  const view = new EventView();
  const tracker = new Tracker(segment, plan);
  for await (const batch of segment.batches({ sections: plan.sections, ...plan.range })) {
    for (const event of batch) {
      const wanted = plan.tests.get(event.type);
      const tracked = plan.tracked.has(event.type);
      if (!tracked && (wanted === undefined || !holdsAll(event.bytes, wanted.needles))) continue;
      view.load(event.bytes);
      if (tracked) tracker.before(view);
      if (wanted !== undefined && (!tracked || holdsAll(event.bytes, wanted.needles))) {
        if (wanted.test === true || wanted.test(view, tracker)) yield matchOf(event, view, tracker);
      }
      if (tracked) tracker.after(view);
    }
  }
}

export type Plan = {
  sections: Section[];
  range: { fromSeq?: number; toSeq?: number };
  /** By the types that can match. */
  tests: Map<EventType, { test: Exclude<Test, false>; needles: Needle[] }>;
  /** Types whose events say what is asked of others. */
  tracked: Set<EventType>;
  /** Keys of the task's memory that are asked for. */
  keys: Set<string>;
  /** Whether more than tool and step is asked of the starts of calls. */
  keepsStarts: boolean;
};

/** What a search of this segment reads. */
export async function planFor(segment: TraceSegment, query: Query): Promise<Plan> {
  const asksReward = namesIn(query.expression).some(({ path }) => path[0] === "reward");
  const constants = constantsOf(segment, asksReward ? await lastReward(segment) : null);
  const tests: Plan["tests"] = new Map();
  for (const type of EVENT_TYPES) {
    const test = compile(query.expression, type, constants);
    if (test !== false) tests.set(type, { test, needles: needlesOf(query.expression, type, constants) });
  }
  const types = [...tests.keys()];
  const needs = trackedFor(query, types);
  const sections = new Set(types.map(sectionOf));
  if (needs.has("memory")) sections.add("memory_state");
  if (needs.has("calls") || needs.has("steps")) sections.add("plan_execution");
  const tracked = new Set<EventType>();
  // Where the section is read anyway, each match can be shown with its tool and step.
  if (sections.has("plan_execution")) {
    for (const type of ["tool_call_start", "tool_call_end", "plan_step"] as const) tracked.add(type);
  }
  if (needs.has("memory")) {
    for (const type of ["memory_read", "memory_write", "memory_snapshot"] as const) tracked.add(type);
  }
  const keys = new Set<string>();
  for (const { path } of namesIn(query.expression)) if (path[0] === "memory_state") keys.add(String(path[1]));
  // What came before may decide, unless nothing is asked of it.
  const { fromSeq, toSeq } = await seqRange(query.expression, segment);
  const range = {
    ...(needs.size === 0 && fromSeq > 1 ? { fromSeq } : {}),
    ...(toSeq === null ? {} : { toSeq }),
  };
  return { sections: [...sections], range, tests, tracked, keys, keepsStarts: needs.has("starts") };
}

function matchOf({ seq, t_us, type, bytes }: RawEvent, view: EventView, tracker: Tracker): Match {
  const call = view.call();
  return { seq, t_us, type, step: tracker.stepOfEvent(view), call, tool: tracker.toolOfEvent(view), bytes };
}

function constantsOf({ header }: TraceSegment, reward: Constants["reward"]): Constants {
  return {
    started_wall_us: header.started_wall_us,
    trace_id: header.trace_id,
    task_id: header.task_id,
    attempt: header.attempt,
    labels: labelsOf(header.labels_json),
    reward,
  };
}

function labelsOf(text: string | null): Value {
  try {
    return text === null ? null : parseExact(text);
  } catch {
    return null;
  }
}

async function lastReward(segment: TraceSegment): Promise<Constants["reward"]> {
  const last = segment.blocks.filter(({ section }) => section === "reward_signal").at(-1);
  if (last === undefined) return null;
  let bytes: Uint8Array | null = null;
  for await (const batch of segment.batches({ sections: ["reward_signal"], fromSeq: last.last_seq }))
    bytes = batch.at(-1)?.bytes ?? bytes;
  const event = bytes === null ? null : decodeEvent(bytes, 0);
  if (event?.type !== "reward") return null;
  const components: Record<string, number> = Object.create(null);
  for (const { name, product } of event.components) components[name] = product;
  return { sum: event.sum, components };
}
