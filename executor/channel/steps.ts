import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { EventLog } from "./event-log.ts";

export type StepStatus = "succeeded" | "failed" | "abandoned" | "timed_out";

type Step = {
  number: number;
  name: string;
  parent: number | null;
  startedAtMs: number;
  /** Tool calls begun within it. */
  calls: number;
  state: "open" | "timed_out";
  /** Aborts when its time is over. */
  over: AbortController;
  timer: NodeJS.Timeout | null;
};

/**
 * The agent's plan as it tells it: steps that begin and end, one within another. A step that takes longer than the task
 * allows fails with what is known of it: calls under way are given up, and further ones are refused until the agent ends
 * the step. (Going back to where it began is for snapshots.)
 */
export class PlanSteps {
  readonly #log: EventLog;
  readonly #timeoutMs: number | null;
  #open: Step[] = [];
  #last = 0;

  constructor(log: EventLog, timeoutMs: number | null) {
    this.#log = log;
    this.#timeoutMs = timeoutMs;
  }

  /** Begins a step within the one that is open, and returns its number. INVALID_REQUEST past `openSteps` at once. */
  begin(name: string, state: unknown): number {
    if (this.#open.length >= LIMITS.openSteps) {
      throw new DsecError(
        "INVALID_REQUEST",
        `${this.#open.length} steps are open; end some before you begin ${name}`,
      );
    }
    const step: Step = {
      number: ++this.#last,
      name,
      parent: this.current,
      startedAtMs: performance.now(),
      calls: 0,
      state: "open",
      over: new AbortController(),
      timer: null,
    };
    if (this.#timeoutMs !== null) step.timer = setTimeout(() => this.#timeOut(step), this.#timeoutMs).unref();
    this.#open.push(step);
    this.#log.append("plan_step", {
      ...{ state: "begun", step: step.number, name, parent: step.parent },
      given_json: state === undefined ? null : JSON.stringify(state),
    });
    return step.number;
  }

  /** Ends an open step and whatever is open within it, and says how it ended: a step that timed out stays so. */
  end(number: number, status: "succeeded" | "failed", detail: unknown): StepStatus {
    const at = this.#open.findIndex((step) => step.number === number);
    if (at < 0) {
      const open = this.#open.map((step) => step.number).join(", ") || "none";
      throw new DsecError("STEP_NOT_FOUND", `step ${number} is not open; open: ${open}`);
    }
    const [step, ...within] = this.#open.slice(at) as [Step, ...Step[]];
    for (const inner of within.reverse())
      this.#close(inner, inner.state === "open" ? "abandoned" : "timed_out", undefined);
    const ended = step.state === "timed_out" ? "timed_out" : status;
    this.#close(step, ended, detail);
    return ended;
  }

  get current(): number | null {
    return this.#open.at(-1)?.number ?? null;
  }

  /**
   * Enters a tool call into the steps that are open.
   * @returns a signal that aborts when the time of one of them is over
   * @throws STEP_TIMED_OUT where that is so already
   */
  enter(): AbortSignal | null {
    for (const step of this.#open) if (step.state === "timed_out") throw timedOut(step, this.#timeoutMs!);
    for (const step of this.#open) step.calls++;
    if (this.#timeoutMs === null || this.#open.length === 0) return null;
    return AbortSignal.any(this.#open.map((step) => step.over.signal));
  }

  /** The sandbox has ended. */
  close(): void {
    // Also where the log takes nothing more: nobody would be told of a timer's failure.
    for (const { timer } of this.#open) if (timer !== null) clearTimeout(timer);
    for (const step of this.#open.toReversed()) {
      this.#close(step, step.state === "timed_out" ? "timed_out" : "abandoned", undefined);
    }
    this.#open = [];
  }

  #timeOut(step: Step): void {
    step.state = "timed_out";
    this.#log.append("plan_step", {
      ...{ state: "timed_out", step: step.number, name: step.name, calls: step.calls },
      timeout_ms: this.#timeoutMs,
    });
    step.over.abort(timedOut(step, this.#timeoutMs!));
  }

  #close(step: Step, status: StepStatus, detail: unknown): void {
    if (step.timer !== null) clearTimeout(step.timer);
    this.#open = this.#open.filter((open) => open !== step);
    this.#log.append("plan_step", {
      ...{ state: "ended", step: step.number, name: step.name, status, calls: step.calls },
      duration_us: Math.round((performance.now() - step.startedAtMs) * 1000),
      detail_json: detail === undefined ? null : JSON.stringify(detail),
    });
  }
}

function timedOut(step: Step, timeoutMs: number): DsecError {
  return new DsecError(
    "STEP_TIMED_OUT",
    `plan step ${step.number} (${step.name}) took longer than ${timeoutMs} ms; end it before you go on`,
    { details: { step: step.number, name: step.name, calls: step.calls } },
  );
}
