import { setTimeout as sleep } from "node:timers/promises";
import { DsecError, type ErrorCode } from "#core/errors.ts";

const BASE_MS = 100;
const MAX_MS = 5_000;
/** A gateway that fails in itself at the same call so often will not do better later. */
const INTERNAL_TRIES = 6;

/**
 * Makes an idempotent call until it gives an answer: again after an outage, an overload or a passing failure of
 * the gateway, never after a refusal. Rejects with the signal's reason when it aborts.
 */
export async function untilAnswered<T>(
  call: () => Promise<T>,
  options: { signal: AbortSignal; onFailure?: ((error: DsecError) => void) | undefined },
): Promise<T> {
  for (let tries = 1; ; tries++) {
    options.signal.throwIfAborted();
    try {
      return await call();
    } catch (error) {
      options.signal.throwIfAborted();
      if (!isPassing(error) || (error.code === "INTERNAL" && tries >= INTERNAL_TRIES)) throw error;
      options.onFailure?.(error);
      await pause(backoffMs(tries, error), options.signal);
    }
  }
}

/** A failure that says nothing about the request itself. */
export function isPassing(error: unknown): error is DsecError {
  return error instanceof DsecError && PASSING.has(error.code);
}

/** Doubling from 100 ms to 5 s, of which a random half is taken, so that executors do not return in step. */
export function backoffMs(tries: number, error?: DsecError): number {
  const asked = error?.details?.retry_after_ms;
  const ceiling = Math.min(MAX_MS, BASE_MS * 2 ** Math.min(tries - 1, 16));
  return Math.max(typeof asked === "number" ? asked : 0, ceiling / 2) + (Math.random() * ceiling) / 2;
}

/** Waits; rejects with the signal's reason when it aborts first. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch {
    signal.throwIfAborted();
  }
}

/** What the work comes to; rejects with the signal's reason where that aborts first, and leaves the work alone. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const left = Promise.withResolvers<never>();
  const leave = () => left.reject(signal.reason);
  if (signal.aborted) leave();
  signal.addEventListener("abort", leave, { once: true });
  try {
    return await Promise.race([work, left.promise]);
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

const PASSING = new Set<ErrorCode>([
  "GATEWAY_UNREACHABLE",
  "STORE_UNAVAILABLE",
  "SIGNER_UNAVAILABLE",
  "RATE_LIMITED",
  "INTERNAL",
]);
