import { DsecError } from "#core/errors.ts";
import { isPassing } from "./retry.ts";

export type LogEvent = { level: "info" | "warn" | "error"; message: string; [field: string]: unknown };
type Log = (event: LogEvent) => void;

const OUTAGE_LOG_EVERY_MS = 30_000;

/** Logs failures so that an outage is a line at its begin and one at its end, not one for each call. */
export class FailureReporter {
  readonly #log: Log;
  #outageLoggedAtMs: number | null = null;

  constructor(log: Log) {
    this.#log = log;
  }

  readonly report = (error: unknown): void => {
    const message = error instanceof Error ? error.message : String(error);
    if (!isPassing(error)) {
      this.#log({ level: "error", message, ...(error instanceof DsecError ? { code: error.code } : {}) });
      return;
    }
    const nowMs = performance.now();
    if (this.#outageLoggedAtMs !== null && nowMs - this.#outageLoggedAtMs < OUTAGE_LOG_EVERY_MS) return;
    this.#outageLoggedAtMs = nowMs;
    this.#log({ level: "warn", message: `${message}; trying again`, code: error.code });
  };

  /** An answer came: where an outage was logged, so is its end. */
  reached(): void {
    if (this.#outageLoggedAtMs === null) return;
    this.#outageLoggedAtMs = null;
    this.#log({ level: "info", message: "the gateway answers again" });
  }
}
