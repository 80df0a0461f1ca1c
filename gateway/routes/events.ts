/** A task's events as a stream (Server-Sent Events, HTML Living Standard section 9.2) that resumes without gap or repeat. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { KeyId, TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { isFinal } from "#core/task.ts";
import { TaskIdSchema } from "#core/wire/common.ts";
import { EventsQuerySchema, type Task, type TaskEvent } from "#core/wire/tasks.ts";
import { ownerOf } from "../auth.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { noContent } from "../reply.ts";
import { EventFeed } from "./event-feed.ts";
import { untilAborted } from "./long-poll.ts";

const EVENTS_PER_READ = 256;

export function eventRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/tasks/{id}/events",
      tag: "tasks",
      summary: "Follow a task's events",
      description:
        "`id` is the event's seq, `event` its type, `data` the event as JSON. Resume with Last-Event-ID or `after`. An id that is not known here gives one `resync` event, then everything from the start. The stream ends after the final state; resuming after that is 204, which tells an EventSource to stop.",
      access: ["tasks", "admin"],
      params: z.strictObject({ id: TaskIdSchema }),
      query: EventsQuerySchema,
      waits: true,
      responses: {
        200: { description: "events", body: "text/event-stream" },
        204: { description: "the task is final and everything was seen", body: null },
      },
    },
    async (c, { caller, params, query }) => {
      const taskId = params.id as TaskId;
      const given = c.req.header("last-event-id") ?? query.after;
      const owner = ownerOf(caller);
      const isHead = c.req.method === "HEAD";
      let feed = isHead || !isStart(given) ? null : gateway.freshFeeds.take(taskId, owner);
      let position: Position = { after: 0, resync: null };
      if (feed === null) {
        const task = await gateway.store.getTask(taskId, owner);
        position = await positionOf(gateway, taskId, given);
        if (isFinal(task.state) && position.resync === null && position.after > 0) {
          const rest = await gateway.store.listEvents(taskId, position.after, 1);
          if (rest.length === 0) return noContent(c);
        }
      }
      if (isHead) return c.body(null, 200, STREAM_HEADERS);
      // Before anything is read, so that nothing comes in between unheard.
      feed ??= new EventFeed(gateway.wake, taskId);
      const greeting = position.resync === null ? ": following\n\n" : resyncText(position.resync);
      const stream = eventStream(gateway, c, taskId, feed, { after: position.after, greeting });
      return c.body(stream, 200, STREAM_HEADERS);
    },
  );
  return app;
}

const STREAM_HEADERS = {
  "Content-Type": "text/event-stream",
  // Intermediaries that buffer or compress would hold events back (B43).
  "Cache-Control": "no-store, no-transform",
  "X-Accel-Buffering": "no",
};

/** Answers a submission with the task, as an event without an id, and all that becomes of it. */
export function answerWithEvents(gateway: Gateway, c: Context, task: Task, status: 200 | 201): Response {
  const id = task.id as TaskId;
  const feed = gateway.freshFeeds.take(id, task.key_id as KeyId) ?? new EventFeed(gateway.wake, id);
  const greeting = `event: task\ndata: ${JSON.stringify(task)}\n\n`;
  return c.body(eventStream(gateway, c, id, feed, { after: 0, greeting }), status, STREAM_HEADERS);
}

type Position = { after: number; resync: { given: string; why: string } | null };

/** Where to begin: after the given id if this task has that event, else from the start, saying so. */
async function positionOf({ store }: Gateway, taskId: TaskId, given: string | undefined): Promise<Position> {
  if (isStart(given)) return { after: 0, resync: null };
  const resync = (why: string): Position => ({ after: 0, resync: { given: given.slice(0, 100), why } });
  if (!/^[1-9][0-9]{0,15}$/.test(given)) return resync("the id is not a number that events have");
  const seq = Number(given);
  if (!Number.isSafeInteger(seq)) return resync("the id is beyond what events can have");
  const [event] = await store.listEvents(taskId, seq - 1, 1);
  return event?.seq === seq ? { after: seq, resync: null } : resync("this task has no event with that id");
}

function isStart(given: string | undefined): given is undefined | "" | "0" {
  return given === undefined || given === "" || given === "0";
}

/**
 * Reads only when the client has room (pull), so that a slow one costs one batch of memory. Ends after the final
 * state, when the client leaves, or when the gateway stops.
 */
function eventStream(
  gateway: Gateway,
  c: Context,
  taskId: TaskId,
  feed: EventFeed,
  start: { after: number; greeting: string },
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder();
  const cancelled = new AbortController();
  const signal = untilAborted(cancelled.signal, c.req.raw.signal, gateway.closing);
  const gauge = (by: number) => gateway.metrics.move("dsec_event_streams", "Event streams open now.", {}, by);
  let { after, greeting } = start;
  let sentAtMs = performance.now();
  let open = true;
  gauge(1);
  const end = (controller?: ReadableStreamDefaultController) => {
    if (!open) return;
    open = false;
    feed.close();
    gauge(-1);
    controller?.close();
  };

  return new ReadableStream({
    async pull(controller) {
      const send = (text: string) => {
        sentAtMs = performance.now();
        controller.enqueue(encoder.encode(text) as Uint8Array<ArrayBuffer>);
      };
      if (greeting !== "") {
        // At once, so that the client has its answer's head before the first event.
        send(greeting);
        greeting = "";
        return;
      }
      try {
        while (!signal.aborted) {
          const events = feed.take(after) ?? (await gateway.store.listEvents(taskId, after, EVENTS_PER_READ));
          if (events.length === EVENTS_PER_READ) feed.look();
          if (events.length > 0) {
            after = events.at(-1)!.seq;
            send(events.map(eventText).join(""));
            if (events.some((event) => event.type === "state" && isFinal(event.state))) end(controller);
            return;
          }
          const quietMs = performance.now() - sentAtMs;
          if (quietMs >= LIMITS.sseHeartbeatMs) return send(": still here\n\n");
          await feed.wait(Math.min(LIMITS.wakePollMs, LIMITS.sseHeartbeatMs - quietMs), signal);
        }
        end(controller);
      } catch (error) {
        // The head is sent: all that can still be said is that the stream broke. The client resumes by its last id.
        gateway.log({ level: "error", message: "event stream broke", task_id: taskId, error: String(error) });
        end();
        controller.error(error);
      }
    },
    cancel() {
      cancelled.abort();
      end();
    },
  });
}

function eventText(event: TaskEvent): string {
  // JSON has no raw line breaks, so one data line holds it.
  return `id: ${event.seq}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

function resyncText({ given, why }: { given: string; why: string }): string {
  return `id: 0\nevent: resync\ndata: ${JSON.stringify({ last_event_id: given, reason: why })}\n\n`;
}
