import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { bodyOf, decodeEvent, encodeEvent } from "#trace/events/codec.ts";
import type { EventType, TraceEvent } from "#trace/events/event.ts";
import type { RawEvent } from "./block.ts";
import { sameBytes } from "./frames.ts";
import type { TraceSegment } from "./segment.ts";

/** An event that contradicts the ones before it, or is not written as this version writes it. */
export type Problem = { seq: number; what: string };

export type Validation = {
  trace_id: string;
  source: string;
  state: "sealed" | "open";
  events: number;
  chain_head: Digest;
  types: Partial<Record<EventType, number>>;
  calls: { started: number; ended: number };
  steps: { begun: number; ended: number };
  /** The first ones; `problem_count` counts all. */
  problems: Problem[];
  problem_count: number;
};

const PROBLEMS_SHOWN = 20;

/**
 * Checks all that can be checked of a segment by itself: that it is as it was written, and that what it tells can be.
 * @throws TRACE_CORRUPT or TRACE_UNSUPPORTED where it isn't as it was written; what it tells is judged in the result
 */
export async function validate(segment: TraceSegment): Promise<Validation> {
  const story = new Story();
  const problems: Problem[] = [];
  let problemCount = 0;
  const types: Partial<Record<EventType, number>> = {};
  const { events, chain_head } = await segment.verify((raw) => {
    types[raw.type] = (types[raw.type] ?? 0) + 1;
    const event = decodeEvent(raw.bytes, segment.header.started_wall_us);
    for (const what of [...writtenOtherwise(raw, event, segment), ...story.tell(event)]) {
      problemCount++;
      if (problems.length < PROBLEMS_SHOWN) problems.push({ seq: raw.seq, what });
    }
  });
  const { trace_id, source } = segment.header;
  return {
    ...{ trace_id, source, state: segment.state, events, chain_head, types },
    ...{ calls: story.calls, steps: story.steps, problems, problem_count: problemCount },
  };
}

/** There is one encoding of each event; another one would have another chain. */
function writtenOtherwise({ bytes }: RawEvent, event: TraceEvent, { header }: TraceSegment): string[] {
  const { seq, t_us, wall_us } = event;
  const wall_skew_us = wall_us - t_us - header.started_wall_us;
  try {
    const again = encodeEvent(bodyOf(event), { seq, t_us, wall_skew_us });
    return sameBytes(again, bytes)
      ? []
      : ["it holds what this version does not know, or is not in canonical form"];
  } catch (error) {
    if (!(error instanceof DsecError)) throw error;
    return [error.message];
  }
}

/** What the events so far have told of calls and steps. */
class Story {
  readonly calls = { started: 0, ended: 0 };
  readonly steps = { begun: 0, ended: 0 };
  #calls = new Map<number, "started" | "ended">();
  readonly #openSteps = new Set<number>();
  /** The innermost open one last; others may have ended. */
  readonly #begunSteps: number[] = [];
  #lastStep = 0;
  #lastUs = 0;

  /** What is wrong with the next one. */
  tell(event: TraceEvent): string[] {
    const wrong: string[] = [];
    if (event.t_us < this.#lastUs)
      wrong.push(`its time ${event.t_us} µs is before the last one's ${this.#lastUs} µs`);
    this.#lastUs = event.t_us;
    if (event.type === "tool_call_start") {
      if (this.#calls.has(event.call)) wrong.push(`call ${event.call} starts again`);
      else this.calls.started++;
      this.#calls.set(event.call, "started");
    } else if (event.type === "tool_call_end") {
      const state = this.#calls.get(event.call);
      if (state === undefined) wrong.push(`call ${event.call} ends and never started`);
      else if (state === "ended") wrong.push(`call ${event.call} ends again`);
      else this.calls.ended++;
      this.#calls.set(event.call, "ended");
    } else if (event.type === "plan_step") this.#tellStep(event, wrong);
    else if ("call" in event && event.call !== null && !this.#calls.has(event.call)) {
      wrong.push(`it is of call ${event.call}, which has not started`);
    }
    return wrong;
  }

  #tellStep({ state, step, parent }: TraceEvent<"plan_step">, wrong: string[]): void {
    const innermost = this.#begunSteps.at(-1) ?? null;
    if (state === "begun") {
      if (step <= this.#lastStep) wrong.push(`step ${step} begins after step ${this.#lastStep}`);
      if (parent !== innermost) {
        wrong.push(
          `step ${step} begins within ${nameOf(parent)}, but ${nameOf(innermost)} is the innermost open one`,
        );
      }
      this.#lastStep = Math.max(this.#lastStep, step);
      this.#openSteps.add(step);
      this.#begunSteps.push(step);
      this.steps.begun++;
    } else if (!this.#openSteps.has(step)) wrong.push(`step ${step} is ${state} and is not open`);
    else if (state === "ended") {
      if (step !== innermost) wrong.push(`step ${step} ends while ${nameOf(innermost)} within it is open`);
      this.#openSteps.delete(step);
      while (this.#begunSteps.length > 0 && !this.#openSteps.has(this.#begunSteps.at(-1)!))
        this.#begunSteps.pop();
      this.steps.ended++;
    }
  }
}

function nameOf(step: number | null): string {
  return step === null ? "no step" : `step ${step}`;
}
