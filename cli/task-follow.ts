/** A submitted task as a command follows it: its output as it comes, its end, and Ctrl-C for it. */
import { isFinal, processExitCode } from "#core/task.ts";
import type { Task } from "#core/wire/tasks.ts";
import type { Client } from "#sdk/client.ts";
import { createOutputWriter } from "./output-writer.ts";
import { EXIT, note, onStopSignal } from "./program.ts";
import { plainLine } from "./terminal.ts";

/**
 * Passes the task's output on and resolves at its end. The first SIGINT or SIGTERM cancels it.
 * @returns `isRead`: false where nobody reads what was passed on, as after `| head -1`
 */
export async function followTask(
  client: Client,
  id: string,
  options: { raw?: boolean; quiet?: boolean; json?: boolean },
): Promise<{ task: Task; isRead: boolean }> {
  const writer = createOutputWriter({ raw: options.raw === true });
  const cancel = () => {
    client.tasks.cancel(id).catch((error: Error) => note(`cancelling ${id} failed: ${error.message}`));
  };
  const stopListening = onStopSignal(() => {
    if (!options.quiet) note(`\ncancelling ${id}; once more ends dsec without waiting`);
    cancel();
  });
  // the command would be killed by SIGPIPE, so its task is cancelled
  writer.broken.addEventListener("abort", cancel, { once: true });
  try {
    for await (const event of client.tasks.events(id)) if (!options.json) await writer.event(event);
  } finally {
    stopListening();
  }
  await writer.end();
  return { task: await client.tasks.get(id), isRead: !writer.broken.aborted };
}

/** As a shell would have it of the command. */
export function exitCode(task: Task): number {
  if (task.result) return processExitCode(task.result.outcome);
  return task.state === "cancelled" ? 130 : EXIT.runFailed;
}

/** Says how the command ended where its exit code alone would not. */
export function explainEnd(task: Task): void {
  const outcome = task.result?.outcome;
  if (outcome?.reason === "exited") return;
  const why = outcome ? outcome.reason.replaceAll("_", " ") : isFinal(task.state) ? task.state : "not over";
  const signal = outcome?.signal && outcome.reason === "signaled" ? ` by ${outcome.signal}` : "";
  note(`dsec: ${task.id} ${why}${signal}${outcome?.message ? `: ${plainLine(outcome.message)}` : ""}`);
}

/** For `--json`: the task with all that it wrote. */
export async function withStreams(client: Client, task: Task) {
  const bytes = (name: "stdout" | "stderr") =>
    task.result === null ? Promise.resolve(new Uint8Array()) : client.tasks.stream(task.id, name);
  const [stdout, stderr] = await Promise.all([bytes("stdout"), bytes("stderr")]);
  return {
    exit_code: exitCode(task),
    task,
    stdout_base64: Buffer.from(stdout).toString("base64"),
    stderr_base64: Buffer.from(stderr).toString("base64"),
  };
}
