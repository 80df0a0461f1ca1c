import type { Topic, Wake } from "#gateway/ports.ts";

/** How long a wait goes on at most before its caller looks again: the polling underneath. */
export const WAKE_POLL_MS = 1_000;

export type LocalWake = Wake & {
  /** Wakes every waiter, as after a time in which wake-ups may have been missed. */
  notifyAll(): void;
  close(): void;
};

/** Wakes waiters of this process. Enough where one process is the whole gateway; others build on it. */
export function createLocalWake(options: { pollMs?: number } = {}): LocalWake {
  const pollMs = options.pollMs ?? WAKE_POLL_MS;
  const waiters = new Map<Topic, Set<() => void>>();

  function wakeTopic(topic: Topic): void {
    for (const resolve of [...(waiters.get(topic) ?? [])]) resolve();
  }

  return {
    wait(topic, ms, signal) {
      return new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const done = () => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", done);
          const others = waiters.get(topic);
          others?.delete(done);
          if (others?.size === 0) waiters.delete(topic);
          resolve();
        };
        const timer = setTimeout(done, Math.max(0, Math.min(ms, pollMs)));
        signal?.addEventListener("abort", done);
        const set = waiters.get(topic) ?? new Set();
        waiters.set(topic, set.add(done));
      });
    },
    notify: wakeTopic,
    notifyAll() {
      for (const topic of [...waiters.keys()]) wakeTopic(topic);
    },
    close() {
      for (const topic of [...waiters.keys()]) wakeTopic(topic);
    },
  };
}
