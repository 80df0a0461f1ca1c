import { LIMITS } from "#core/limits.ts";
import type { TaskEvent } from "#core/wire/tasks.ts";
import type { Topic, Wake } from "#gateway/wake-port.ts";

export type LocalWake = Wake & {
  /** Wakes everybody, as after a time in which wake-ups may have been missed. */
  notifyAll(): void;
  close(): void;
};

/** Wakes waiters of this process. Enough where one process is the whole gateway; others build on it. */
export function createLocalWake(options: { pollMs?: number } = {}): LocalWake {
  const pollMs = options.pollMs ?? LIMITS.wakePollMs;
  const followers = new Map<Topic, Set<(told: readonly TaskEvent[]) => void>>();

  function wakeTopic(topic: Topic, told: readonly TaskEvent[] = []): void {
    const all = followers.get(topic);
    if (all !== undefined) for (const onWake of [...all]) onWake(told);
  }

  function follow(topic: Topic, onWake: (told: readonly TaskEvent[]) => void): () => void {
    const set = followers.get(topic) ?? new Set();
    followers.set(topic, set.add(onWake));
    return () => {
      set.delete(onWake);
      if (set.size === 0 && followers.get(topic) === set) followers.delete(topic);
    };
  }

  return {
    follow,
    wait(topic, ms, signal) {
      return new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const done = () => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", done);
          unfollow();
          resolve();
        };
        const timer = setTimeout(done, Math.max(0, Math.min(ms, pollMs)));
        signal?.addEventListener("abort", done);
        const unfollow = follow(topic, done);
      });
    },
    notify: wakeTopic,
    notifyAll() {
      for (const topic of [...followers.keys()]) wakeTopic(topic);
    },
    close() {
      for (const topic of [...followers.keys()]) wakeTopic(topic);
    },
  };
}
