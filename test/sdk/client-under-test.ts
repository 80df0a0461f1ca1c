/** A client of a whole gateway, called without a port, and an executor that does what a test says. */
import type { TaskEvent } from "#core/wire/tasks.ts";
import { createClient } from "#sdk/client.ts";
import { decodeData } from "#sdk/task-events.ts";
import type { Fetch } from "#sdk/transport.ts";
import { type ExecutorClient, ISSUER, openTestGateway } from "../gateway/gateway-under-test.ts";

export type TestClient = Awaited<ReturnType<typeof openTestClient>>;

export async function openTestClient() {
  const gateway = await openTestGateway();
  const apiKey = (await gateway.client("tasks", "admin")).secret;
  const executor = await gateway.executor();
  const direct: Fetch = (request) => gateway.app.fetch(request);
  return {
    gateway,
    executor,
    apiKey,
    direct,
    client: createClient({ gateway: ISSUER, apiKey, fetch: direct }),

    /** Leases and finishes the one task that is queued. */
    async runNext(left: Parameters<ExecutorClient["finish"]>[1] = {}): Promise<void> {
      const [lease] = await executor.acquire();
      await executor.start(lease!);
      if (left.stdout) await executor.print(lease!, left.stdout);
      await executor.finish(lease!, left);
    },
  };
}

export async function collect(events: AsyncGenerator<TaskEvent>): Promise<TaskEvent[]> {
  const all: TaskEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

export function states(events: TaskEvent[]): string[] {
  return events.flatMap((event) => (event.type === "state" ? [event.state] : []));
}

export function printed(events: TaskEvent[]): string {
  const decoder = new TextDecoder();
  return events.map((event) => (event.type === "stdout" ? decoder.decode(decodeData(event)) : "")).join("");
}

/** A body whose connection breaks after so many bytes. */
export function cutAfter(body: ReadableStream<Uint8Array>, bytesMax: number): ReadableStream<Uint8Array> {
  let left = bytesMax;
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        controller.enqueue(chunk.slice(0, left));
        left -= chunk.length;
        if (left <= 0) controller.error(new Error("connection reset"));
      },
    }),
  );
}
