import type { KeyId, TaskId } from "#core/ids.ts";
import type { Task, TaskEvent } from "#core/wire/tasks.ts";
import type { Topic, Wake } from "../wake-port.ts";

/** Past so many bytes of events that a slow client leaves waiting, the store keeps them. */
const TOLD_BYTES_MAX = 512 * 1024;
/** The same where nobody follows yet: enough for the first states and lines. */
const FRESH_BYTES_MAX = 32 * 1024;
/** What an event takes beside its data. */
const EVENT_BYTES = 256;
/** Tasks whose stream is held ready: whoever follows what it submits does so at once. */
const FRESH_TASKS_MAX = 1024;
const FRESH_MS = 10_000;

/**
 * What this process has told of one task since it is followed, so that a stream need not read from the store what was
 * stored here a moment ago. It never has a gap: where it does not know what comes next, the store is to be asked.
 */
export class EventFeed {
  #told: TaskEvent[] = [];
  #toldBytes = 0;
  #bytesMax = TOLD_BYTES_MAX;
  #mustLook = true;
  readonly #wake: Wake;
  readonly #topic: Topic;
  readonly #unfollow: () => void;

  constructor(wake: Wake, taskId: TaskId) {
    this.#wake = wake;
    this.#topic = `task:${taskId}`;
    this.#unfollow = wake.follow(this.#topic, (told) => this.#keep(told));
  }

  /** The feed of a task that is not stored yet, so that all its events are going to be told. Nobody follows it yet. */
  static ofNew(wake: Wake, taskId: TaskId): EventFeed {
    const feed = new EventFeed(wake, taskId);
    feed.#mustLook = false;
    feed.#bytesMax = FRESH_BYTES_MAX;
    return feed;
  }

  /** The task was stored, which is its first event. */
  begin(queued: TaskEvent): void {
    this.#keep([queued]);
  }

  /** Somebody follows it from now on. */
  handOver(): this {
    this.#bytesMax = TOLD_BYTES_MAX;
    return this;
  }

  /**
   * The events from the one after `after` on, as far as they are known here; null where the store must be asked. What is
   * told while it is asked comes with the next call.
   */
  take(after: number): TaskEvent[] | null {
    const told = this.#told.filter((event) => event.seq > after).sort((a, b) => a.seq - b.seq);
    const isGapless = told.every((event, i) => event.seq === after + 1 + i);
    this.#drop();
    if (!this.#mustLook && isGapless) return told;
    this.#mustLook = false;
    return null;
  }

  /** The store is to be asked with the next `take`, whatever is known here. */
  look(): void {
    this.#mustLook = true;
    this.#drop();
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

  #keep(told: readonly TaskEvent[]): void {
    if (this.#mustLook) return; // the store tells it all
    this.#told.push(...told);
    for (const event of told) this.#toldBytes += EVENT_BYTES + ("data" in event ? event.data.length : 0);
    if (told.length === 0 || this.#toldBytes > this.#bytesMax) this.look();
  }

  #drop(): void {
    this.#told = [];
    this.#toldBytes = 0;
  }
}

/**
 * Feeds of tasks that were submitted here a moment ago. Their streams begin with what this process knows anyway: most
 * submissions are followed at once, and the store has more to do just then than to be read.
 */
export class FreshFeeds {
  readonly #wake: Wake;
  readonly #closing: AbortSignal | undefined;
  /** In the order in which they came. */
  readonly #feeds = new Map<TaskId, { feed: EventFeed; keyId: KeyId; sinceMs: number }>();
  /** Runs while there are feeds. */
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param closing aborts when nobody will follow any more */
  constructor(wake: Wake, closing?: AbortSignal) {
    this.#wake = wake;
    this.#closing = closing;
    closing?.addEventListener("abort", () => this.#trim());
  }

  /** Follows a task that `submit` is about to store; what it rejects with, or made of an earlier one, is forgotten. */
  async over(
    id: TaskId,
    keyId: KeyId,
    submit: () => Promise<{ task: Task; created: boolean }>,
  ): Promise<{ task: Task; created: boolean }> {
    const feed = EventFeed.ofNew(this.#wake, id);
    try {
      const submitted = await submit();
      if (!submitted.created) feed.close();
      else {
        feed.begin(queuedEvent(submitted.task));
        this.#feeds.set(id, { feed, keyId, sinceMs: performance.now() });
        this.#trim();
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
    return fresh.feed.handOver();
  }

  /** Closes what is over or too many, and comes again when the next one is over. */
  #trim(): void {
    const nowMs = performance.now();
    for (const [id, { feed, sinceMs }] of this.#feeds) {
      const leftMs = sinceMs + FRESH_MS - nowMs;
      if (leftMs > 0 && this.#feeds.size <= FRESH_TASKS_MAX && !this.#closing?.aborted) {
        this.#timer ??= setTimeout(() => {
          this.#timer = undefined;
          this.#trim();
        }, leftMs);
        return;
      }
      feed.close();
      this.#feeds.delete(id);
    }
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/** As the store has it of a task that was just queued for the first time. */
function queuedEvent({ created_at }: Task): TaskEvent {
  return { seq: 1, at: created_at, fence: 0, type: "state", state: "queued", reason: null };
}
