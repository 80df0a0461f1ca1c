import { bytesOfLatin1 } from "#core/bytes.ts";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { isFinal } from "#core/task.ts";
import { type Task, type TaskEvent, TaskEventSchema, TaskSchema } from "#core/wire/tasks.ts";
import { serverEvents } from "./event-stream.ts";
import { backoffMs, type Call, isTransient, pause, type Transport } from "./transport.ts";

/** A stream that says nothing for this long, not even a heartbeat, is a dead connection. */
const SILENCE_MS = 3 * LIMITS.sseHeartbeatMs;

/**
 * Submits a task and follows it in one request, so that nothing is waited for between the two. Repeated after a lost
 * answer, as `call` has to allow.
 */
export async function submitAndFollow(
  transport: Transport,
  call: Call,
  pathOf: (id: string) => string,
): Promise<{ task: Task; events: AsyncGenerator<TaskEvent> }> {
  for (let attempt = 0; ; attempt++) {
    try {
      const connection = oneConnection(transport, call);
      const first = await connection.next();
      if (first.done || typeof first.value === "string" || !("task" in first.value))
        throw new DsecError("GATEWAY_UNREACHABLE", `${call.path}: the answer does not begin with the task`);
      const { task } = first.value;
      return { task, events: followEvents(transport, pathOf(task.id), { signal: call.signal }, connection) };
    } catch (error) {
      if (attempt >= transport.retries || !isTransient(error) || call.signal?.aborted) throw error;
      await pause(backoffMs(attempt), call.signal);
    }
  }
}

/**
 * Follows a task's events to its final state, over any number of connections: after a drop it asks on from the
 * last sequence number it yielded, so that each event comes once and in order. When the gateway no longer knows
 * that number (`resync`) it starts again from what the gateway has. Ends without error when the signal aborts.
 * @param connection to begin with, which has yielded none yet
 */
export async function* followEvents(
  transport: Transport,
  path: string,
  given: { after?: number; signal?: AbortSignal | undefined },
  connection?: ReturnType<typeof oneConnection>,
): AsyncGenerator<TaskEvent> {
  let last = given.after ?? 0;
  let failures = 0;
  let following = connection;
  while (!given.signal?.aborted) {
    let failure: unknown;
    try {
      following ??= oneConnection(transport, resumption(path, last, given.signal));
      for await (const said of following) {
        failures = 0;
        if (said === "end") return;
        if (said === "alive") continue;
        if (said === "resync") {
          last = 0;
          continue;
        }
        if ("task" in said || said.seq <= last) continue;
        last = said.seq;
        yield said;
        if (said.type === "state" && isFinal(said.state)) return;
      }
      failure = new DsecError("GATEWAY_UNREACHABLE", `${path}: event streams end before they say anything`);
    } catch (error) {
      if (given.signal?.aborted) return;
      if (!isTransient(error)) throw error;
      failure = error;
    }
    following = undefined;
    if (failures >= transport.retries) throw failure;
    await pause(backoffMs(failures), given.signal).catch(() => {});
    failures++;
  }
}

function resumption(path: string, after: number, signal: AbortSignal | undefined): Call {
  const headers: Record<string, string> = after > 0 ? { "last-event-id": String(after) } : {};
  return { method: "GET", path, headers, idempotent: true, signal };
}

/** One request for the stream. `end` is the gateway's word that nothing is left to say (204). */
async function* oneConnection(
  transport: Transport,
  call: Call,
): AsyncGenerator<TaskEvent | { task: Task } | "alive" | "resync" | "end"> {
  const { path, signal } = call;
  const silence = new AbortController();
  const watch = () => setTimeout(() => silence.abort(new Error(`silent for ${SILENCE_MS} ms`)), SILENCE_MS);
  let timer = watch();
  try {
    const response = await transport.send({
      ...call,
      headers: { ...call.headers, accept: "text/event-stream" },
      signal: signal ? AbortSignal.any([signal, silence.signal]) : silence.signal,
    });
    if (response.status === 204 || !response.body) {
      yield "end";
      return;
    }
    for await (const event of serverEvents(response.body)) {
      clearTimeout(timer);
      timer = watch();
      if (event === "alive") {
        yield "alive";
        continue;
      }
      if (event.event === "resync") {
        yield "resync";
        continue;
      }
      const said: unknown = JSON.parse(event.data);
      if (event.event === "task") {
        const task = TaskSchema.safeParse(said);
        if (task.success) yield { task: task.data };
        continue;
      }
      const parsed = TaskEventSchema.safeParse(said);
      // a newer gateway may have kinds of event that this client does not know
      if (parsed.success) yield parsed.data;
    }
  } catch (cause) {
    if (cause instanceof DsecError) throw cause;
    throw new DsecError("GATEWAY_UNREACHABLE", `${path}: the event stream broke off`, { cause });
  } finally {
    clearTimeout(timer);
  }
}

/** The bytes of an output event. */
export function decodeData(event: Extract<TaskEvent, { type: "stdout" | "stderr" }>): Uint8Array {
  return bytesOfLatin1(atob(event.data));
}
