import type { Observation } from "#core/wire/observations.ts";
import { Waiters } from "../messages/waiters.ts";
import type { Replay } from "../replay/replay.ts";
import type { EventLog } from "./event-log.ts";

/** What somebody outside has put into the sandbox and the agent has not been given yet. */
export class ObservationQueue {
  readonly #log: EventLog;
  readonly #replay: Replay | null;
  readonly #waiters = new Waiters();
  #waiting: Observation[] = [];
  #lastSeq = 0;

  /** @param replay says what is given when, in place of whoever injects */
  constructor(log: EventLog, replay: Replay | null) {
    this.#log = log;
    this.#replay = replay;
  }

  /** Records who injected it, and keeps it for the next answer. One that came before is ignored: the gateway repeats. */
  inject(own: Observation): void {
    const observation = { ...own, seq: own.seq + (this.#replay?.foreignObservations ?? 0) };
    if (observation.seq <= this.#lastSeq || this.#replay?.has(observation.seq)) return;
    this.#keep(observation);
  }

  #keep(observation: Observation): void {
    this.#lastSeq = Math.max(this.#lastSeq, observation.seq);
    const { seq, from: source, at, content } = observation;
    const content_json = JSON.stringify(content);
    this.#log.append("observation", { state: "injected", observation: seq, source, at, content_json });
    this.#waiting.push(observation);
    this.#waiters.wake("observation");
  }

  /** All that waits, which is then the agent's. @param call the tool call with whose answer it goes, if with one */
  take(call: number | null): Observation[] {
    this.#replayed(call);
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

  /** Together with which calls they come is in the record, whatever their order. */
  #replayed(call: number | null): void {
    for (const observation of this.#replay?.observationsFor(call) ?? NONE) this.#keep(observation);
  }

  /** Resolves once something waits, after `ms`, or when the signal aborts. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    this.#replayed(null);
    if (this.#waiting.length === 0 && ms > 0) await this.#waiters.wait("observation", ms, signal);
  }
}

const NONE: Observation[] = [];
