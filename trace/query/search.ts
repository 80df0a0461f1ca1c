/**
 * Finds the events of a segment that a query is true of, in their order. Before anything is unpacked it is known which types
 * of events can match, so only their sections are read, and those that say what the query asks of other events: starts
 * of calls, plan steps, memory.
 */
import { decodeEvent } from "#trace/events/codec.ts";
import { EVENT_TYPES, type EventType, SECTIONS, type Section, sectionOf } from "#trace/events/event.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { namesIn, type Query, trackedFor } from "./check.ts";
import { compile, type Test } from "./compile.ts";
import type { EventView } from "./event-view.ts";
import type { Constants } from "./names.ts";
import { Haystack, type IndexOf, type Needle, needlesOf, portableIndexOf } from "./needles.ts";
import { seqRange } from "./range.ts";
import { type Cursor, Scan } from "./scan.ts";
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

/**
 * Only the events that match are decoded by those who want them: `decodeEvent(match.bytes, segment.startedWallUs)`.
 * @param indexOf the platform's own, which is many times faster
 */
export async function* search(
  segment: TraceSegment,
  query: Query,
  indexOf: IndexOf = portableIndexOf,
): AsyncGenerator<Match> {
  const plan = await planFor(segment, query, indexOf);
  if (plan.tests.size === 0) return;
  const tracker = new Tracker(segment, plan);
  const mayHold = new Map(plan.sections.map((section) => [section, contentTest(plan, section)]));
  const scan = new Scan(segment, plan.sections, plan.range);
  for (;;) {
    const matches: Match[] = [];
    const waiting = searchLoaded(scan, plan, tracker, matches);
    yield* matches;
    if (waiting === null) return;
    await waiting.load(mayHold.get(waiting.section)!);
  }
}

/**
 * Goes on until a block must be loaded, and says of which section; null at the end. What it finds is in the blocks that are loaded,
 * at most one of each section. No generator, for in one the loop over millions of events would take a multiple of its time.
 */
function searchLoaded(scan: Scan, plan: Plan, tracker: Tracker, matches: Match[]): Cursor | null {
  for (let next = scan.next(); next !== null; next = scan.next()) {
    const { cursor, untilSeq } = next;
    if (!cursor.loaded) return cursor;
    const { view } = cursor;
    do {
      const { type, content, from, to } = view;
      const wanted = plan.tests.get(type);
      const tracked = plan.tracked.has(type);
      if (tracked) tracker.before(view);
      if (wanted !== undefined) {
        const { test, needles } = wanted;
        const held = needles.every((needle) => needle.held(content, from, to));
        if (held && (test === true || test(view, tracker))) matches.push(matchOf(view, tracker));
      }
      if (tracked) tracker.after(view);
    } while (cursor.advance() && view.seq < untilSeq);
  }
  return null;
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
  /** Every change to one of them holds one of these; null where that cannot be said. */
  keyNeedles: Needle[] | null;
  /** Whether more than tool and step is asked of the starts of calls. */
  keepsStarts: boolean;
};

/** What a search of this segment reads. */
export async function planFor(
  segment: TraceSegment,
  query: Query,
  indexOf: IndexOf = portableIndexOf,
): Promise<Plan> {
  const asksReward = namesIn(query.expression).some(({ path }) => path[0] === "reward");
  const constants = constantsOf(segment, asksReward ? await lastReward(segment) : null);
  const tests: Plan["tests"] = new Map();
  const haystacks = new Map(SECTIONS.map((section) => [section, new Haystack(indexOf)]));
  for (const type of EVENT_TYPES) {
    const haystack = haystacks.get(sectionOf(type))!;
    const test = compile(query.expression, type, constants, haystack);
    const needles = needlesOf(query.expression, type, constants, haystack);
    if (test !== false) tests.set(type, { test, needles });
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
  const needlesOfKeys = [...keys, "clear"].map((text) => haystacks.get("memory_state")!.needle(text, "text"));
  const keyNeedles = needlesOfKeys.every(({ length }) => length > 0) ? needlesOfKeys.flat() : null;
  // What came before may decide, unless nothing is asked of it.
  const { fromSeq, toSeq } = await seqRange(query.expression, segment);
  const range = {
    ...(needs.size === 0 && fromSeq > 1 ? { fromSeq } : {}),
    ...(toSeq === null ? {} : { toSeq }),
  };
  const keepsStarts = needs.has("starts");
  return { sections: [...sections], range, tests, tracked, keys, keyNeedles, keepsStarts };
}

/** Whether a block's content can hold a match, or something that is kept track of. */
function contentTest(plan: Plan, section: Section): (content: Uint8Array) => boolean {
  if ([...plan.tracked].some((type) => sectionOf(type) === section)) return () => true;
  const tests = [...plan.tests].filter(([type]) => sectionOf(type) === section).map(([, test]) => test);
  return (content) =>
    tests.some(({ needles }) => needles.every((needle) => needle.held(content, 0, content.length)));
}

function matchOf(view: EventView, tracker: Tracker): Match {
  const { seq, t_us, type } = view;
  const [step, tool] = [tracker.stepOfEvent(view), tracker.toolOfEvent(view)];
  return { seq, t_us, type, step, call: view.call(), tool, bytes: view.copy() };
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
