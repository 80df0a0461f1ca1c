/**
 * A trace in the Trace Event Format, which Perfetto and chrome://tracing load: a lane for the plan steps, as many lanes as
 * calls ran at once, counters for rewards, marks for everything else. Times are the trace's own, in microseconds.
 */
import type { TraceEvent } from "#trace/events/event.ts";
import type { TraceHeader } from "#trace/format/header.ts";
import { jsonOf } from "./event-lines.ts";

const PROCESS = 1;
const STEPS = 1;
const MARKS = 2;
const FIRST_LANE = 10;
/** Of steps that cross others; past all lanes of calls that a trace can have. */
const SPARE_LANES = 1_000_000;

/** Pieces of the document's text. */
export async function* exportChrome(
  header: TraceHeader,
  events: AsyncIterable<TraceEvent>,
): AsyncGenerator<string> {
  const metadata = jsonOf({
    trace_id: header.trace_id,
    source: header.source,
    started_wall_us: header.started_wall_us,
  });
  yield `{"displayTimeUnit":"ms","metadata":${metadata},"traceEvents":[`;
  yield named("process_name", PROCESS, header.trace_id);
  yield `,${named("thread_name", STEPS, "plan steps")},${named("thread_name", MARKS, "events")}`;
  const lanes = new Lanes();
  const stepLanes = new StepLanes();
  const steps = new Map<number, TraceEvent<"plan_step">>();
  const completeStep = function* (
    begun: TraceEvent<"plan_step">,
    toUs: number,
    args: object,
  ): Generator<string> {
    steps.delete(begun.step);
    const lane = stepLanes.take(begun.t_us, toUs);
    if (lane.isNew) yield `,${named("thread_name", lane.tid, "plan steps that cross others")}`;
    yield `,${complete(begun.name, lane.tid, begun.t_us, toUs, args)}`;
  };
  let lastUs = 0;
  for await (const event of events) {
    lastUs = Math.max(lastUs, event.t_us);
    if (event.type === "tool_call_start") {
      const lane = lanes.take(event);
      if (lane.isNew) yield `,${named("thread_name", lane.tid, `calls ${lane.tid - FIRST_LANE + 1}`)}`;
    } else if (event.type === "tool_call_end") {
      const open = lanes.free(event.call);
      if (open === null) yield `,${instant(event)}`;
      else
        yield `,${complete(labelOf(open.start), open.tid, open.start.t_us, event.t_us, { start: open.start, end: event })}`;
    } else if (event.type === "plan_step" && event.state === "begun") steps.set(event.step, event);
    else if (event.type === "plan_step" && event.state === "ended" && steps.has(event.step)) {
      const begun = steps.get(event.step)!;
      yield* completeStep(begun, event.t_us, { begun, ended: event });
    } else yield `,${instant(event)}`;
    if (event.type === "reward") yield `,${counter(event)}`;
  }
  // what never ended goes to the end of the trace
  for (const { start, tid } of lanes.rest()) {
    yield `,${complete(labelOf(start), tid, start.t_us, lastUs, { start, unanswered: true })}`;
  }
  for (const begun of [...steps.values()]) yield* completeStep(begun, lastUs, { begun, unended: true });
  yield "]}\n";
}

type OpenCall = { start: TraceEvent<"tool_call_start">; tid: number };

/** Slices of one thread must nest, so calls that overlap are on different ones. */
class Lanes {
  readonly #open = new Map<number, OpenCall>();
  readonly #busy: boolean[] = [];

  take(start: TraceEvent<"tool_call_start">): { tid: number; isNew: boolean } {
    const free = this.#busy.indexOf(false);
    const lane = free < 0 ? this.#busy.length : free;
    this.#busy[lane] = true;
    this.#open.set(start.call, { start, tid: FIRST_LANE + lane });
    return { tid: FIRST_LANE + lane, isNew: free < 0 };
  }

  free(call: number): OpenCall | null {
    const open = this.#open.get(call);
    if (open === undefined) return null;
    this.#open.delete(call);
    this.#busy[open.tid - FIRST_LANE] = false;
    return open;
  }

  rest(): Iterable<OpenCall> {
    return this.#open.values();
  }
}

/**
 * Steps may end in another order than they nest in; one that would cross another on its thread goes to the next thread. They are
 * given as they end, so that one crosses another before it where it began within that.
 */
class StepLanes {
  /** Of each thread the slices that are within no other of it, in order. */
  readonly #lanes: Span[][] = [[]];

  take(fromUs: number, toUs: number): { tid: number; isNew: boolean } {
    const slice = { fromUs, toUs: Math.max(fromUs, toUs) };
    const found = this.#lanes.slice(0, LANES_TRIED).findIndex((lane) => takes(lane, slice));
    const at = found < 0 ? this.#lanes.push([slice]) - 1 : found;
    return { tid: at === 0 ? STEPS : SPARE_LANES + at, isNew: found < 0 };
  }
}

/** Beyond these a step has a thread of its own: thousands that cross each other are not to be compared each with each. */
const LANES_TRIED = 64;

type Span = { fromUs: number; toUs: number };

/** Puts the slice over those that are within it; false where one before it would cross it. */
function takes(lane: Span[], slice: Span): boolean {
  if ((lane.at(-1)?.toUs ?? 0) > slice.toUs) return false;
  let [low, high] = [0, lane.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (lane[middle]!.fromUs < slice.fromUs) low = middle + 1;
    else high = middle;
  }
  if (low > 0 && lane[low - 1]!.toUs > slice.fromUs) return false;
  lane.length = low;
  lane.push(slice);
  return true;
}

function complete(name: string, tid: number, fromUs: number, toUs: number, args: object): string {
  const dur = Math.max(0, toUs - fromUs);
  return `{"ph":"X","pid":${PROCESS},"tid":${tid},"cat":"dsec","name":${JSON.stringify(name)},"ts":${fromUs},"dur":${dur},"args":${jsonOf(args)}}`;
}

function instant(event: TraceEvent): string {
  return `{"ph":"i","s":"t","pid":${PROCESS},"tid":${MARKS},"cat":"dsec","name":"${event.type}","ts":${event.t_us},"args":${jsonOf(event)}}`;
}

function counter(event: TraceEvent<"reward">): string {
  const series = [
    ...event.components.map(({ name, product }) => [name, product] as const),
    ["sum", event.sum],
  ];
  const args = Object.fromEntries(series.filter(([, value]) => Number.isFinite(value)));
  return `{"ph":"C","pid":${PROCESS},"tid":${MARKS},"name":"reward","ts":${event.t_us},"args":${JSON.stringify(args)}}`;
}

function named(what: string, tid: number, name: string): string {
  return `{"ph":"M","pid":${PROCESS},"tid":${tid},"name":"${what}","args":{"name":${JSON.stringify(name)}}}`;
}

function labelOf({ tool, method, url, kind }: TraceEvent<"tool_call_start">): string {
  return tool ?? (method !== null && url !== null ? `${method} ${url}` : kind);
}
