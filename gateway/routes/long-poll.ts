/** Requests that are held open until there is something to say. */
import type { Context } from "hono";
import { LIMITS } from "#core/limits.ts";
import type { Gateway } from "../environment.ts";
import type { Topic } from "../wake-port.ts";

/**
 * Calls `look` until it finds something, the time is over, `ended` aborts, the client has left or the gateway stops. Between looks
 * it sleeps until the topic wakes it, and never longer than about `pollMs`. The jitter keeps
 * many waiters from looking at once.
 *
 * `look` is never called for a client that is known to have left: what it would take would be lost.
 */
export async function longPoll<T>(
  gateway: Gateway,
  c: Context,
  options: {
    topic: Topic;
    waitMs: number;
    pollMs?: number;
    ended?: AbortSignal;
    look: () => Promise<T | null>;
    /** In place of only sleeping, where what is looked for may come meanwhile; the signal ends the sleep. */
    meanwhile?: (sleep: (until?: AbortSignal) => Promise<void>) => Promise<T | null>;
  },
): Promise<T | null> {
  const { topic, waitMs, pollMs = LIMITS.wakePollMs, look, meanwhile = asleep } = options;
  const signal = untilAborted(c.req.raw.signal, gateway.closing, options.ended);
  const endMs = performance.now() + waitMs;
  // From before the look on: what happens while it is under way is not in it, and would be waited for until the next poll.
  let woken = false;
  const unfollow = gateway.wake.follow(topic, () => (woken = true));
  try {
    while (!signal.aborted) {
      woken = false;
      const found = await look();
      if (found !== null) return found;
      const remainingMs = endMs - performance.now();
      if (remainingMs <= 0) return null;
      const sleepMs = Math.min(remainingMs, pollMs * (0.75 + Math.random() / 4));
      if (woken) continue;
      const brought = await meanwhile((until) =>
        gateway.wake.wait(topic, sleepMs, until ? AbortSignal.any([signal, until]) : signal),
      );
      if (brought !== null) return brought;
    }
    return null;
  } finally {
    unfollow();
  }
}

async function asleep(sleep: () => Promise<void>): Promise<null> {
  await sleep();
  return null;
}

export function untilAborted(...signals: (AbortSignal | undefined)[]): AbortSignal {
  const given = signals.filter((signal) => signal !== undefined);
  return given.length === 1 ? given[0]! : AbortSignal.any(given);
}
