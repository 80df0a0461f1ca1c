/** What becomes of a task is followed live: its events and its trace, over dropped connections and restarts. */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { LIMITS } from "#core/limits.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { TaskEvent } from "#core/wire/tasks.ts";
import { type RunningGateway, startGateway } from "#gateway/node/server.ts";
import { createClient } from "#sdk/client.ts";
import { ISSUER } from "../gateway/gateway-under-test.ts";
import { collect, cutAfter, openTestClient, printed, states, type TestClient } from "./client-under-test.ts";

let gateway: TestClient["gateway"];
let executor: TestClient["executor"];
let apiKey: TestClient["apiKey"];
let client: TestClient["client"];
let direct: TestClient["direct"];
let runNext: TestClient["runNext"];

const stops: (() => unknown)[] = [];
beforeAll(async () => {
  ({ gateway, executor, apiKey, client, direct, runNext } = await openTestClient());
});
afterAll(async () => {
  for (const stop of stops) await stop();
  await gateway.close();
});

test("events go on after dropped connections, each once and in order", async () => {
  let cuts = 0;
  const cutting = createClient({
    gateway: ISSUER,
    apiKey,
    fetch: async (request) => {
      const response = await gateway.app.fetch(request);
      if (!request.url.includes("/events") || cuts >= 4) return response;
      cuts++;
      return new Response(cutAfter(response.body!, 150 * cuts), response);
    },
  });
  const task = await cutting.tasks.submit({ command: ["true"] });
  const watching = collect(cutting.tasks.events(task.id));
  const [lease] = await executor.acquire();
  await executor.start(lease!);
  let offset = 0;
  for (const line of ["one\n", "two\n", "three\n", "four\n"]) {
    await executor.print(lease!, line, offset);
    offset += line.length;
  }
  await executor.finish(lease!, { stdout: "one\ntwo\nthree\nfour\n" });
  const events = await watching;
  expect(cuts).toBeGreaterThan(1);
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1));
  expect(printed(events)).toBe("one\ntwo\nthree\nfour\n");
});

test("a task is submitted and followed in one request", async () => {
  const paths: string[] = [];
  const counting = createClient({
    gateway: ISSUER,
    apiKey,
    fetch: (request) => {
      paths.push(`${request.method} ${new URL(request.url).pathname}`);
      return direct(request);
    },
  });
  const { task, events } = await counting.tasks.follow({ command: ["true"] });
  expect(task).toMatchObject({ state: "queued", spec: { command: ["true"] } });
  const watching = collect(events);
  await runNext({ stdout: "at once" });
  const seen = await watching;
  expect(seen.map(({ seq }) => seq)).toEqual(seen.map((_, i) => i + 1));
  expect(states(seen)).toEqual(["queued", "leased", "running", "succeeded"]);
  expect(printed(seen)).toBe("at once");
  expect(paths).toEqual(["POST /v1/tasks"]);
});

test("a submission that is followed stays one task, and each event comes once, wherever its connections break", async () => {
  for (const bytes of [0, 1, 40, 400, 1_200, 1_500]) {
    let cuts = 0;
    const cutting = createClient({
      gateway: ISSUER,
      apiKey,
      fetch: async (request) => {
        const response = await direct(request);
        if (cuts >= 2) return response;
        cuts++;
        return new Response(cutAfter(response.body!, bytes), response);
      },
    });
    const label = { run: crypto.randomUUID() };
    const { task, events } = await cutting.tasks.follow({ command: ["true"], labels: label });
    const watching = collect(events);
    await runNext({ stdout: `cut after ${bytes}` });
    const seen = await watching;
    expect(seen.map(({ seq }) => seq)).toEqual(seen.map((_, i) => i + 1));
    expect(states(seen)).toEqual(["queued", "leased", "running", "succeeded"]);
    expect(printed(seen)).toBe(`cut after ${bytes}`);
    const found = await client.tasks.list({ label: `run=${label.run}` });
    expect(found.items.map(({ id }) => id)).toEqual([task.id]);
  }
});

test("a submission that is refused rejects with the gateway's code, followed or not", async () => {
  const refused = client.tasks.follow({ command: [] });
  await expect(refused).rejects.toMatchObject({ code: "INVALID_REQUEST" });
});

test("a connection whose events nobody reads is given up as a silent one is, and they are asked for when they are read", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const requests: Request[] = [];
    const watched = createClient({
      gateway: ISSUER,
      apiKey,
      fetch: (request) => {
        requests.push(request);
        return direct(request);
      },
    });
    const { task, events } = await watched.tasks.follow({ command: ["true"] });
    vi.advanceTimersByTime(3 * LIMITS.sseHeartbeatMs);
    expect(requests.map(({ signal }) => signal.aborted)).toEqual([true]);
    vi.useRealTimers();
    await runNext();
    expect(states(await collect(events))).toEqual(["queued", "leased", "running", "succeeded"]);
    expect(requests.map(({ url }) => url).at(-1)).toContain(task.id);
  } finally {
    vi.useRealTimers();
  }
});

test("asking for events past the last one ends at once", async () => {
  const task = await client.tasks.submit({ command: ["true"] });
  await runNext();
  const all = await collect(client.tasks.events(task.id));
  expect(await collect(client.tasks.events(task.id, { after: all.length }))).toEqual([]);
});

test("an id that the gateway does not know starts the events over", async () => {
  const task = await client.tasks.submit({ command: ["true"] });
  await runNext();
  const events = await collect(client.tasks.events(task.id, { after: 999_999 }));
  expect(states(events)).toEqual(["queued", "leased", "running", "succeeded"]);
});

test("following ends without error when its signal aborts", async () => {
  const task = await client.tasks.submit({ command: ["true"] });
  const stop = new AbortController();
  const seen: TaskEvent[] = [];
  for await (const event of client.tasks.events(task.id, { signal: stop.signal })) {
    seen.push(event);
    stop.abort();
  }
  expect(states(seen)).toEqual(["queued"]);
  expect((await client.tasks.cancel(task.id)).state).toBe("cancelled");
});

test("a trace is followed over a gateway's restart, also of a task that waits, to the end of its attempt", async () => {
  let server = await startServer(0);
  const { tasks } = createClient({ gateway: server.url, apiKey });
  const restart = async () => {
    await server.close();
    server = await startServer(Number(new URL(server.url).port));
  };
  const { id } = await client.tasks.submit({ command: ["true"] });
  const isFollowed = untilFollowed();
  const followed = readAlong(tasks.followTrace(id));
  await isFollowed;
  await restart();
  const [lease] = await executor.acquire();
  await executor.start(lease!);
  await sendPart(lease!, 0, "first ");
  await vi.waitFor(() => expect(followed.text).toBe("first "), SOON);
  await restart();
  expect(followed.isOver).toBe(false);
  await sendPart(lease!, 6, "second");
  await executor.finish(lease!);
  await followed.over;
  expect(followed.text).toBe("first second");
});

test("a trace that is followed stays that of one attempt, though another begins while the connection is lost", async () => {
  const server = await startServer(0);
  const { tasks } = createClient({ gateway: server.url, apiKey });
  const { id } = await client.tasks.submit({ command: ["true"], retries: 1 });
  const isFollowed = untilFollowed();
  const followed = readAlong(tasks.followTrace(id));
  await isFollowed;
  const [first] = await executor.acquire();
  await executor.start(first!);
  await sendPart(first!, 0, "the first");
  await vi.waitFor(() => expect(followed.text).toBe("the first"), SOON);
  await server.close();
  const outcome = { reason: "launch_failed", exit_code: null, signal: null, message: "lost" } as const;
  const hold = { lease_id: first!.lease_id, fence: first!.fence };
  await gateway.store.failLease(executor.executorId as never, hold as never, outcome, null);
  const other = await gateway.executor();
  const [second] = await other.acquire(20_000);
  await other.start(second!);
  await sendPart(second!, 0, "the second, which is longer", other);
  await startServer(Number(new URL(server.url).port));
  await followed.over;
  expect(followed.text).toBe("the first");
  await other.finish(second!);
});

test("a trace is followed however long nothing happens, and not for ever where every connection breaks", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  try {
    let connections = 0;
    const quiet = (quietMs: number, times: number) =>
      createClient({
        gateway: ISSUER,
        apiKey,
        retries: 2,
        fetch: async () => {
          if (connections++ >= times) return new Response(null, { status: 204 });
          return new Response(
            new ReadableStream({
              pull(controller) {
                vi.advanceTimersByTime(quietMs);
                controller.error(new TypeError("terminated"));
              },
            }),
            { headers: { "dsec-attempt": "1" } },
          );
        },
      }).tasks.followTrace("task_00000000000000000000000000");
    await readAlong(quiet(300_000, 10)).over;
    expect(connections).toBe(11);
    connections = 0;
    await expect(readAlong(quiet(10, 10)).over).rejects.toMatchObject({ code: "GATEWAY_UNREACHABLE" });
    expect(connections).toBe(3);
  } finally {
    vi.useRealTimers();
  }
});

async function startServer(port: number): Promise<RunningGateway> {
  const server = await startGateway({ ports: gateway.ports, host: "127.0.0.1", port });
  stops.push(() => server.close());
  return server;
}

async function sendPart(
  { lease_id, fence }: Lease,
  offset: number,
  text: string,
  by = executor,
): Promise<void> {
  const path = `/v1/leases/${lease_id}/trace?fence=${fence}&offset=${offset}`;
  const init = { headers: { "content-type": "application/octet-stream" } };
  await by.ok("POST", path, new TextEncoder().encode(text), init);
}

const SOON = { timeout: 20_000 };

/** Resolves once the gateway waits for what is to come of a trace. */
function untilFollowed(): Promise<void> {
  const wait = gateway.wake.wait.bind(gateway.wake);
  return new Promise((resolve) => {
    const watched = vi.spyOn(gateway.wake, "wait").mockImplementation((topic, ms, signal) => {
      if (topic.startsWith("trace:")) {
        watched.mockRestore();
        resolve();
      }
      return wait(topic, ms, signal);
    });
  });
}

/** What has come so far. */
function readAlong(parts: AsyncGenerator<Uint8Array>) {
  const decoder = new TextDecoder();
  const read = { text: "", isOver: false, over: Promise.resolve() };
  read.over = (async () => {
    for await (const part of parts) read.text += decoder.decode(part);
    read.isOver = true;
  })();
  read.over.catch(() => {});
  return read;
}
