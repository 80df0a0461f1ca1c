import type { Observation } from "#core/wire/observations.ts";
import { Waiters } from "../messages/waiters.ts";
import type { EventLog } from "./event-log.ts";

/** What somebody outside has put into the sandbox and the agent has not been given yet. */
export class ObservationQueue {
  readonly #log: EventLog;
  readonly #waiters = new Waiters();
  #waiting: Observation[] = [];
  #lastSeq = 0;

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** Records who injected it, and keeps it for the next answer. One that came before is ignored: the gateway repeats. */
  inject(observation: Observation): void {
    if (observation.seq <= this.#lastSeq) return;
    this.#lastSeq = observation.seq;
    const { seq, from: source, at, content } = observation;
    const content_json = JSON.stringify(content);
    this.#log.append("observation", { state: "injected", observation: seq, source, at, content_json });
    this.#waiting.push(observation);
    this.#waiters.wake("observation");
  }

  /** All that waits, which is then the agent's. @param call the tool call with whose answer it goes, if with one */
  take(call: number | null): Observation[] {
    if (this.#waiting.length === 0) return NONE;
    const taken = this.#waiting;
    this.#waiting = [];
    for (const { seq: observation } of taken)
      this.#log.append("observation", { state: "given", observation, call });
    return taken;
  }

  get count(): number {
    return this.#waiting.length;
  }

  /** Resolves once something waits, after `ms`, or when the signal aborts. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    if (this.#waiting.length === 0 && ms > 0) await this.#waiters.wait("observation", ms, signal);
  }
}

const NONE: Observation[] = [];
