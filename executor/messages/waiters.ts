/** Who waits for what, within this process. A wake-up only says "look again". */
export class Waiters {
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Resolves on the next wake-up for the topic, after `ms`, or when the signal aborts; never rejects. */
  wait(topic: string, ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const wakers = this.#waiting.get(topic) ?? new Set();
      this.#waiting.set(topic, wakers);
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        wakers.delete(done);
        if (wakers.size === 0 && this.#waiting.get(topic) === wakers) this.#waiting.delete(topic);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal?.addEventListener("abort", done, { once: true });
      wakers.add(done);
    });
  }

  wake(topic: string): void {
    for (const waker of [...(this.#waiting.get(topic) ?? [])]) waker();
  }
}
