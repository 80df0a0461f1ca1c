import { DsecError } from "#core/errors.ts";
import { pause } from "../pause.ts";

/** Before the second try; each pause is twice the one before it. */
const FIRST_PAUSE_MS = 50;
const PAUSE_MAX_MS = 1_000;

/**
 * Gives back a lease whose grant was not answered. Nobody has heard of it, and left alone it would cost the task an attempt
 * when its time is over. It may not be there yet, for a statement goes on in the database when its connection is gone: so
 * it is looked for until its time would be over. Never rejects.
 * @param release rejects with LEASE_NOT_FOUND while it is not there, with STORE_UNAVAILABLE while the database is away
 */
export async function takeBack(
  release: () => Promise<unknown>,
  ttlMs: number,
  closing: AbortSignal,
): Promise<void> {
  const untilMs = performance.now() + ttlMs;
  let pauseMs = FIRST_PAUSE_MS;
  while (!closing.aborted && performance.now() < untilMs) {
    try {
      await release();
      return;
    } catch (error) {
      const code = error instanceof DsecError ? error.code : null;
      if (code !== "LEASE_NOT_FOUND" && code !== "STORE_UNAVAILABLE") return; // it has ended
    }
    await pause(pauseMs, closing);
    pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS);
  }
}
