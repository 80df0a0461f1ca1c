import type { Digest } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { EventLog, MembersOf } from "../channel/event-log.ts";
import type { Memory } from "../memory/memory.ts";

/** What is known of an error where it happens; the rest is found here. */
export type Failure = Pick<MembersOf<"error">, "code" | "text" | "via" | "call" | "step" | "stack">;

/**
 * Records errors with what surrounded them: the task's memory as it is, where it can be read, and through the log the last
 * calls.
 */
export class Failures {
  readonly #log: EventLog;
  readonly #memory: Pick<Memory, "snapshot">;
  readonly #namespace: string;
  /** Memory that stands beside an error already is not written again beside the next. */
  #shown: Digest | null = null;

  constructor(log: EventLog, memory: Pick<Memory, "snapshot">, namespace: string) {
    this.#log = log;
    this.#memory = memory;
    this.#namespace = namespace;
  }

  /** Returns the number of the event. */
  async record(failure: Failure): Promise<number> {
    const reading = this.#memory.snapshot(this.#namespace, LIMITS.recordedMemoryBytes);
    const snapshot = await reading.catch(() => null);
    const isNews = snapshot !== null && snapshot.digest !== this.#shown;
    if (isNews) this.#shown = snapshot.digest;
    return this.#log.append("error", {
      ...failure,
      text: failure.text.slice(0, LIMITS.errorTextChars).toWellFormed(),
      stack: failure.stack?.slice(0, LIMITS.stackChars).toWellFormed(),
      memory_digest: snapshot?.digest,
      memory_json: isNews ? snapshot.json : null,
    });
  }
}
