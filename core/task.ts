/**
 * The life of a task. `queued → leased → running → succeeded | failed | cancelled | dead`; a lost or failed
 * attempt that has retries left goes back to `queued`.
 */
export const TASK_STATES = [
  "queued",
  "leased",
  "running",
  "succeeded",
  "failed",
  "cancelled",
  "dead",
] as const;
export type TaskState = (typeof TASK_STATES)[number];

/** No statement moves a task out of one of these. */
export const FINAL_STATES = [
  "succeeded",
  "failed",
  "cancelled",
  "dead",
] as const satisfies readonly TaskState[];

export function isFinal(state: TaskState): boolean {
  return (FINAL_STATES as readonly TaskState[]).includes(state);
}

/**
 * Why an attempt ended, as a fact of its own and never inferred from an exit code: `exited` has a code,
 * `signaled` a signal, `timed_out` is what the launcher's deadline did, `oom_killed` is what the cgroup's event
 * counter says, `command_not_executable` means that the file is there but could not be started, `disk_full` is
 * what the launcher saw of the writable layer, and `output_too_large` means that the command ended but its
 * declared outputs pass the bounds, so none is kept. `launch_failed` and `executor_lost` are faults of ours: the
 * command never gave a result. `record_failed` is one as well, after the command had ended: what was recorded of
 * it could not be kept, or the gateway refused it.
 */
export const END_REASONS = [
  "exited",
  "signaled",
  "timed_out",
  "oom_killed",
  "cancelled",
  "command_not_found",
  "command_not_executable",
  "disk_full",
  "output_too_large",
  "launch_failed",
  "executor_lost",
  "record_failed",
] as const;
export type EndReason = (typeof END_REASONS)[number];

/** What a shell would report of a command that could not be started (POSIX, 2.8.2 Exit Status for Commands). */
export const NOT_STARTED_EXIT_CODES = { command_not_found: 127, command_not_executable: 126 } as const;

/** How an attempt ended. */
export type Outcome = {
  reason: EndReason;
  /** What a shell would report: the exit code, or 128 + the signal; null when the command never ran to an end we saw. */
  exit_code: number | null;
  /** Name of the signal that ended the command (`SIGKILL`), only when the kernel says that one did. */
  signal: string | null;
  /** What was wrong, for people; set for faults of ours and where the command could not be started. */
  message: string | null;
};

/**
 * Only faults of ours are retried, and only where the command had not ended. One that ran and failed, was killed, or ran
 * out of time or memory has given its result; running it again would change what is being measured, and do again what it
 * did to the world.
 */
export function isRetriable(reason: EndReason): boolean {
  return reason === "launch_failed" || reason === "executor_lost";
}

/** The task state that an attempt's end leads to, given how many attempts the task may still have. */
export function stateAfter(outcome: Outcome, attemptsLeft: number): TaskState {
  switch (outcome.reason) {
    case "exited":
      return outcome.exit_code === 0 ? "succeeded" : "failed";
    case "cancelled":
      return "cancelled";
    case "record_failed":
      return "dead";
    case "launch_failed":
    case "executor_lost":
      return attemptsLeft > 0 ? "queued" : "dead";
    default:
      return "failed";
  }
}

/** Milliseconds to wait before attempt `attempt + 1`: doubling from the base, bounded. */
export function retryBackoffMs(attempt: number, baseMs: number, maxMs: number): number {
  return Math.min(maxMs, baseMs * 2 ** Math.max(0, attempt - 1));
}

/** What the exit status of `dsec run` is: the command's own, or the shell's convention for how it ended. */
export function processExitCode(outcome: Outcome): number {
  // A command that exited 0 while its outputs were dropped has not succeeded.
  if (outcome.reason === "output_too_large" && outcome.exit_code === 0) return 125;
  if (outcome.reason === "record_failed") return 125; // nobody vouches for how it ended
  if (outcome.exit_code !== null) return outcome.exit_code;
  switch (outcome.reason) {
    case "timed_out":
      return 124; // as timeout(1)
    case "cancelled":
      return 130; // as after Ctrl-C
    case "oom_killed":
      return 137;
    case "command_not_found":
    case "command_not_executable":
      return NOT_STARTED_EXIT_CODES[outcome.reason];
    default:
      return 125; // as `docker run` when the runtime itself failed
  }
}
