import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { isFinal } from "#core/task.ts";
import { type TaskEvent, TaskEventSchema } from "#core/wire/tasks.ts";
import { serverEvents } from "./event-stream.ts";
import { backoffMs, isTransient, pause, type Transport } from "./transport.ts";

/** A stream that says nothing for this long, not even a heartbeat, is a dead connection. */
const SILENCE_MS = 3 * LIMITS.sseHeartbeatMs;

/**
 * Follows a task's events to its final state, over any number of connections: after a drop it asks on from the
 * last sequence number it yielded, so that each event comes once and in order. When the gateway no longer knows
 * that number (`resync`) it starts again from what the gateway has. Ends without error when the signal aborts.
 */
export async function* followEvents(
  transport: Transport,
  path: string,
  given: { after?: number; signal?: AbortSignal },
): AsyncGenerator<TaskEvent> {
  let last = given.after ?? 0;
  let failures = 0;
  while (!given.signal?.aborted) {
    let failure: unknown;
    try {
      for await (const event of oneConnection(transport, path, last, given.signal)) {
        failures = 0;
        if (event === "end") return;
        if (event === "alive") continue;
        if (event === "resync") {
          last = 0;
          continue;
        }
        if (event.seq <= last) continue;
        last = event.seq;
        yield event;
        if (event.type === "state" && isFinal(event.state)) return;
      }
      failure = new DsecError("GATEWAY_UNREACHABLE", `${path}: event streams end before they say anything`);
    } catch (error) {
      if (given.signal?.aborted) return;
      if (!isTransient(error)) throw error;
      failure = error;
    }
    if (failures >= transport.retries) throw failure;
    await pause(backoffMs(failures), given.signal).catch(() => {});
    failures++;
  }
}

/** One request for the stream. `end` is the gateway's word that nothing is left to say (204). */
async function* oneConnection(
  transport: Transport,
  path: string,
  after: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<TaskEvent | "alive" | "resync" | "end"> {
  const silence = new AbortController();
  const watch = () => setTimeout(() => silence.abort(new Error(`silent for ${SILENCE_MS} ms`)), SILENCE_MS);
  let timer = watch();
  try {
    const response = await transport.send({
      method: "GET",
      path,
      headers: { accept: "text/event-stream", ...(after > 0 ? { "last-event-id": String(after) } : {}) },
      idempotent: true,
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
      const parsed = TaskEventSchema.safeParse(JSON.parse(event.data));
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
  return Uint8Array.from(atob(event.data), (char) => char.charCodeAt(0));
}
