import { constants } from "node:os";
import { isRetriable, NOT_STARTED_EXIT_CODES, type Outcome } from "#core/task.ts";
import type { FailRequest } from "#core/wire/leases.ts";
import type { SandboxEnd } from "#native/index.ts";

/**
 * The outcome of an attempt from the facts that the launcher gives. What ended the command is never inferred from
 * an exit code: `exit 137` and death by SIGKILL differ. A sandbox is killed only for a cancellation here; one that
 * is killed for another reason has no outcome.
 */
export function outcomeOf(end: SandboxEnd): Outcome {
  const signal = end.signal === null ? null : signalName(end.signal);
  const code = end.exitCode ?? (end.signal === null ? null : 128 + end.signal);
  switch (end.reason) {
    case "exited":
      return { reason: "exited", exit_code: end.exitCode, signal: null, message: null };
    case "signaled":
      return { reason: "signaled", exit_code: code, signal, message: null };
    case "oom_killed":
      return { reason: "oom_killed", exit_code: code ?? 137, signal, message: null };
    case "command_not_found":
    case "command_not_executable": {
      const { reason, message } = end;
      return { reason, exit_code: NOT_STARTED_EXIT_CODES[reason], signal: null, message };
    }
    case "timed_out":
      // The command itself gave no result, unless it had ended before what it left running was killed.
      return { reason: "timed_out", exit_code: end.exitCode, signal: null, message: null };
    case "disk_full":
      return { reason: "disk_full", exit_code: end.exitCode, signal: null, message: end.message };
    case "killed":
      return { reason: "cancelled", exit_code: end.exitCode, signal: null, message: null };
  }
}

export function launchFailed(message: string): Outcome {
  return { reason: "launch_failed", exit_code: null, signal: null, message };
}

/** How a command ended by itself. Null where it did not: then it may be run again. */
export function commandEnd({ reason, exit_code, signal }: Outcome): CommandEnd | null {
  return reason === "cancelled" || isRetriable(reason) ? null : { exit_code, signal };
}
export type CommandEnd = NonNullable<FailRequest["ended"]>;

/** Of a command that ended, and of which no more can be said. */
export function recordFailed({ exit_code, signal }: CommandEnd, message: string): Outcome {
  return { reason: "record_failed", exit_code, signal, message };
}

/** `SIGKILL` for 9. Real-time signals are counted from glibc's SIGRTMIN, which is 34 (signal(7)). */
export function signalName(signal: number): string {
  const named = NAMES.get(signal);
  if (named !== undefined) return named;
  if (signal >= 34 && signal <= 64) return signal === 34 ? "SIGRTMIN" : `SIGRTMIN+${signal - 34}`;
  return `SIG${signal}`;
}

// The first name of each number: SIGABRT before its other name SIGIOT.
const NAMES = new Map<number, string>();
for (const [name, number] of Object.entries(constants.signals)) {
  if (!NAMES.has(number)) NAMES.set(number, name);
}
