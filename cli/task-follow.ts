/** A submitted task as a command follows it: its output as it comes, its end, and Ctrl-C for it. */
import { DsecError } from "#core/errors.ts";
import { isFinal, processExitCode } from "#core/task.ts";
import type { Task, TaskEvent, TaskRequest } from "#core/wire/tasks.ts";
import type { Client } from "#sdk/client.ts";
import { createOutputWriter } from "./output-writer.ts";
import { EXIT, note, onStopSignal } from "./program.ts";
import { withQueueNotes } from "./queue-notes.ts";
import { plainLine } from "./terminal.ts";

/** What there is of a followed task: `isRead` is false where nobody reads what was passed on, as after `| head -1`. */
export type Followed = { task: Task; isRead: boolean };

/**
 * Submits the task, says why where it waits, passes its output on and resolves at its end. The first SIGINT or SIGTERM
 * cancels it, from the moment on at which the gateway may have it: a task that nobody knows of must not go on.
 * @param options.served rejects once nothing runs tasks any more: then this one is not waited for, and that is thrown
 * @param submitted is told its id
 * @throws OUTPUT_UNWRITABLE where standard output takes no more for another reason than a reader that went away
 */
export async function followTask(
  client: Client,
  request: TaskRequest,
  options: { raw?: boolean; quiet?: boolean; json?: boolean; served?: Promise<void> | undefined },
  submitted: (id: string) => void = () => {},
): Promise<Followed> {
  const writer = options.json ? undefined : createOutputWriter({ raw: options.raw === true });
  const following = new AbortController();
  const notCancelled = Promise.withResolvers<never>();
  let id: string | undefined;
  let isStopping = false;
  const cancel = () => {
    isStopping = true;
    if (id !== undefined) cancelTask(client, id).catch(notCancelled.reject);
  };
  const stopListening = onStopSignal(() => {
    const what = id ?? "the task, once the gateway has answered";
    if (!options.quiet) note(`\ncancelling ${what}; once more ends dsec without waiting`);
    cancel();
  });
  // the command would be killed by SIGPIPE, so its task is cancelled
  writer?.broken.addEventListener("abort", cancel, { once: true });
  const passOn = async (task: string, events: AsyncGenerator<TaskEvent>) => {
    const noted = options.quiet ? events : withQueueNotes(client, task, events);
    try {
      for await (const event of noted) await writer?.event(event);
    } catch (cause) {
      if (!(cause instanceof DsecError)) throw cause;
      const way = `${task} is not cancelled by that; follow it once the gateway answers: dsec task logs ${task}`;
      throw new DsecError(cause.code, `${cause.message}; ${way}`, { cause });
    }
  };

  try {
    const { task, events } = await client.tasks.follow(request, { signal: following.signal });
    id = task.id;
    submitted(id);
    if (isStopping) cancel();
    const served = options.served === undefined ? [] : [options.served];
    await Promise.race([passOn(id, events), notCancelled.promise, ...served]);
  } finally {
    following.abort();
    stopListening();
  }
  const task = await client.tasks.get(id);
  await writer?.end(task, (name) => client.tasks.stream(task.id, name));
  return { task, isRead: writer === undefined || !writer.isReaderGone() };
}

/** @throws what kept the gateway from hearing of it, with the way to try again */
async function cancelTask(client: Client, id: string): Promise<void> {
  try {
    await client.tasks.cancel(id);
  } catch (cause) {
    const code = cause instanceof DsecError ? cause.code : "INTERNAL";
    if (code === "TASK_ALREADY_FINISHED") return;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new DsecError(
      code,
      `${id} may still run, for it could not be cancelled: ${why}; try again: dsec task cancel ${id}`,
      { cause },
    );
  }
}

/** As a shell would have it of the command. */
export function exitCode(task: Task): number {
  if (task.result) return processExitCode(task.result.outcome);
  return task.state === "cancelled" ? 130 : EXIT.runFailed;
}

/** Says how the command ended where its exit code alone would not, and of outputs that none is there. */
export function explainEnd(task: Task): void {
  const outcome = task.result?.outcome;
  const { outputs, working_directory } = task.spec;
  if (outputs.length > 0 && task.result?.outputs.length === 0)
    note(
      `dsec: ${task.id} left no file that matches ${plainLine(outputs.join(" or "))} in ${working_directory}`,
    );
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
