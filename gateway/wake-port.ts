import type { ExecutorId, TaskId } from "#core/ids.ts";
import type { TaskEvent } from "#core/wire/tasks.ts";

/** What can be waited for. A wake-up says only "look again": it may come late, twice or for nothing. */
export type Topic =
  | "queue"
  | `task:${TaskId}`
  | `trace:${TaskId}`
  | `cancel:${ExecutorId}`
  | `end-poll:${ExecutorId}`
  | `observe:${ExecutorId}`
  | `messages:${number}`;

/** Wakes long polls and event streams, in this process or across instances. Polling underneath bounds what is missed. */
export type Wake = {
  /** Resolves on the next wake-up for the topic, after `ms`, or when the signal aborts; never rejects. */
  wait(topic: Topic, ms: number, signal?: AbortSignal): Promise<void>;
  /**
   * Calls back at every wake-up for the topic until the function that it returns is called. What is `told` are events of
   * the topic's task, in the order of their numbers, which are stored; none where the waker does not know or is elsewhere.
   */
  follow(topic: Topic, onWake: (told: readonly TaskEvent[]) => void): () => void;
  /** Wakes whoever waits or follows, in this process and elsewhere. The store calls it after commit. */
  notify(topic: Topic, told?: readonly TaskEvent[]): void;
};
