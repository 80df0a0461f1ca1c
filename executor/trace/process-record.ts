import { LIMITS } from "#core/limits.ts";
import type { Outcome } from "#core/task.ts";
import type { SandboxEnd } from "#native/index.ts";
import type { EventLog } from "../channel/event-log.ts";
import type { LiveSink } from "../output-stream.ts";
import type { Failures } from "./failures.ts";

/** Of the task's command within its sandbox: the first process that init, which is 1, starts. */
const COMMAND_PID = 2;

/** Records a sandbox's command: that it began, what it said, how it ended. */
export class ProcessRecord {
  readonly #log: EventLog;
  readonly #failures: Failures;

  constructor(log: EventLog, failures: Failures) {
    this.#log = log;
    this.#failures = failures;
  }

  began(argv: string[]): void {
    this.#log.append("process", { state: "exec", pid: COMMAND_PID, argv });
  }

  /** Records what passes on its way to the sink. */
  sink(stream: "stdout" | "stderr", next: LiveSink): LiveSink {
    return {
      data: (offset, bytes) => {
        for (let at = 0; at < bytes.length; at += LIMITS.eventDataBytes) {
          const data = bytes.subarray(at, at + LIMITS.eventDataBytes);
          this.#log.append("output", { stream, offset: offset + at, data });
        }
        next.data(offset, bytes);
      },
      truncated: () => next.truncated(),
    };
  }

  /** An end that is no success is an error as well. */
  async ended(end: SandboxEnd, outcome: Outcome): Promise<void> {
    const state = end.reason === "oom_killed" ? "oom" : end.signal === null ? "exit" : "signal";
    this.#log.append("process", {
      ...{ state, pid: COMMAND_PID, argv: [], exit_code: end.exitCode, signal: end.signal },
      reason: outcome.reason,
      cpu_us: Math.round(end.usage.cpuUs),
      memory_peak_bytes: end.usage.memoryPeakBytes,
    });
    const { reason, exit_code } = outcome;
    if (reason === "exited" && exit_code === 0) return;
    const code = reason === "exited" ? "EXIT_NOT_ZERO" : reason.toUpperCase();
    await this.#failures.record({ code, text: textOf(outcome) });
  }
}

function textOf({ reason, exit_code, signal, message }: Outcome): string {
  const how =
    reason === "exited" ? `ended with exit code ${exit_code}` : `ended: ${reason.replaceAll("_", " ")}`;
  return `the command ${how}${signal === null ? "" : `, by ${signal}`}${message === null ? "" : `; ${message}`}`;
}
