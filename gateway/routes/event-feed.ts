import type { TaskId } from "#core/ids.ts";
import type { TaskEvent } from "#core/wire/tasks.ts";
import type { Topic, Wake } from "../ports.ts";

/** Past so many events that a slow client leaves waiting, the store keeps them. */
const TOLD_EVENTS_MAX = 32;

/**
 * What this process has told of one task since it is followed, so that a stream need not read from the store what was
 * stored here a moment ago. It never has a gap: where it does not know what comes next, the store is to be asked.
 */
export class EventFeed {
  #told: TaskEvent[] = [];
  #mustLook = true;
  readonly #wake: Wake;
  readonly #topic: Topic;
  readonly #unfollow: () => void;

  constructor(wake: Wake, taskId: TaskId) {
    this.#wake = wake;
    this.#topic = `task:${taskId}`;
    this.#unfollow = wake.follow(this.#topic, (told) => {
      if (told.length === 0 || this.#told.length + told.length > TOLD_EVENTS_MAX) this.#mustLook = true;
      else this.#told.push(...told);
    });
  }

  /**
   * The events from the one after `after` on, as far as they are known here; null where the store must be asked. What is
   * told while it is asked comes with the next call.
   */
  take(after: number): TaskEvent[] | null {
    const told = this.#told.filter((event) => event.seq > after).sort((a, b) => a.seq - b.seq);
    const isGapless = told.every((event, i) => event.seq === after + 1 + i);
    this.#told = [];
    if (!this.#mustLook && isGapless) return told;
    this.#mustLook = false;
    return null;
  }

  /** The store is to be asked with the next `take`, whatever is known here. */
  look(): void {
    this.#mustLook = true;
  }

  /** Resolves when there is news, when the signal aborts, or after `ms`; then it is time to look, news or not. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    if (this.#mustLook || this.#told.length > 0) return;
    await this.#wake.wait(this.#topic, ms, signal);
    if (this.#told.length === 0) this.#mustLook = true;
  }

  close(): void {
    this.#unfollow();
  }
}
