import type { KeyId, TaskId } from "#core/ids.ts";
import type { Task, TaskEvent } from "#core/wire/tasks.ts";
import type { Topic, Wake } from "../ports.ts";

/** Past so many events that a slow client leaves waiting, the store keeps them. */
const TOLD_EVENTS_MAX = 32;
/** Tasks whose stream is held ready: whoever follows what it submits does so at once. */
const FRESH_TASKS_MAX = 1024;
const FRESH_MS = 10_000;

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

  /** The task was stored here just now, followed from before that: all its events are told, this one first. */
  begin(queued: TaskEvent): void {
    this.#mustLook = false;
    this.#told.push(queued);
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

/**
 * Feeds of tasks that were submitted here a moment ago. Their streams begin with what this process knows anyway: most
 * submissions are followed at once, and the store has more to do just then than to be read.
 */
export class FreshFeeds {
  readonly #wake: Wake;
  readonly #feeds = new Map<TaskId, { feed: EventFeed; keyId: KeyId; sinceMs: number }>();

  constructor(wake: Wake) {
    this.#wake = wake;
  }

  /** Follows a task that `submit` is about to store; what it rejects with, or made of an earlier one, is forgotten. */
  async over(
    id: TaskId,
    keyId: KeyId,
    submit: () => Promise<{ task: Task; created: boolean }>,
  ): Promise<{ task: Task; created: boolean }> {
    const feed = new EventFeed(this.#wake, id);
    try {
      const submitted = await submit();
      if (!submitted.created) feed.close();
      else {
        feed.begin(queuedEvent(submitted.task));
        this.#keep(id, keyId, feed);
      }
      return submitted;
    } catch (error) {
      feed.close();
      throw error;
    }
  }

  /** The feed of a task that was submitted here a moment ago, once; null where there is none that the owner may see. */
  take(id: TaskId, owner: KeyId | null): EventFeed | null {
    const fresh = this.#feeds.get(id);
    if (fresh === undefined || (owner !== null && owner !== fresh.keyId)) return null;
    this.#feeds.delete(id);
    return fresh.feed;
  }

  #keep(id: TaskId, keyId: KeyId, feed: EventFeed): void {
    const nowMs = performance.now();
    this.#feeds.set(id, { feed, keyId, sinceMs: nowMs });
    for (const [old, { feed, sinceMs }] of this.#feeds) {
      if (this.#feeds.size <= FRESH_TASKS_MAX && nowMs - sinceMs < FRESH_MS) return;
      feed.close();
      this.#feeds.delete(old);
    }
  }
}

/** As the store has it of a task that was just queued for the first time. */
function queuedEvent({ created_at }: Task): TaskEvent {
  return { seq: 1, at: created_at, fence: 0, type: "state", state: "queued", reason: null };
}
