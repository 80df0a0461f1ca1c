import { LIMITS } from "#core/limits.ts";
import { type EndReason, retryBackoffMs } from "#core/task.ts";
import type { Result } from "#core/wire/tasks.ts";
import { storableText } from "./text.ts";

/** SHA-256 of no bytes. */
const EMPTY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const SILENT = { digest: EMPTY, kept_bytes: 0, total_bytes: 0 } as const;

/** The result of a task whose last attempt never gave one: nothing was put out, and the message says why. */
export function endedWithoutResult(reason: EndReason, message: string): Result {
  // Well-formed again, because the cut may go through a surrogate pair.
  const bounded = storableText(message).slice(0, LIMITS.errorTextChars).toWellFormed();
  return {
    outcome: { reason, exit_code: null, signal: null, message: bounded },
    outputs: [],
    stdout: SILENT,
    stderr: SILENT,
  };
}

/** Back-off after the 1st, 2nd, … attempt, so that SQL needs no rule of its own. */
export const BACKOFFS_MS = Array.from({ length: LIMITS.retriesMax + 1 }, (_, i) =>
  retryBackoffMs(i + 1, LIMITS.retryBackoffBaseMs, LIMITS.retryBackoffMaxMs),
);
