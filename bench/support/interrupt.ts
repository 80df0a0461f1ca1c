import { setImmediate } from "node:timers/promises";
import { onStopSignal } from "#cli/program.ts";

/**
 * Does work that cleans up after itself: the first Ctrl-C (or SIGTERM) aborts the work's signal, and the process ends as
 * that signal has it once the work has ended; the second ends it at once.
 */
export async function interruptible<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const interruption = new AbortController();
  const forget = onStopSignal((name) => interruption.abort(new Interrupted(name)));
  try {
    return await work(interruption.signal);
  } catch (error) {
    if (interruption.signal.aborted) process.exit((interruption.signal.reason as Interrupted).exitCode);
    throw error;
  } finally {
    forget();
  }
}

/** Where work that was interrupted ends. Lets a signal in: one is not heard while computing never waits. */
export async function checkpoint(signal: AbortSignal): Promise<void> {
  await setImmediate();
  signal.throwIfAborted();
}

const ITEMS_BETWEEN_CHECKPOINTS = 1_000;

/** The same items, with checkpoints among them. */
export async function* untilInterrupted<Item>(
  items: Iterable<Item>,
  signal: AbortSignal,
): AsyncGenerator<Item> {
  let count = 0;
  for (const item of items) {
    if (count++ % ITEMS_BETWEEN_CHECKPOINTS === 0) await checkpoint(signal);
    yield item;
  }
}

class Interrupted extends Error {
  readonly exitCode: number;

  constructor(name: "SIGINT" | "SIGTERM") {
    super(`ended by ${name}`);
    this.exitCode = name === "SIGINT" ? 130 : 143;
  }
}
