import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Lease } from "#core/wire/leases.ts";
import type { TaskEvent } from "#core/wire/tasks.ts";
import { type RunningGateway, startGateway } from "#gateway/node/server.ts";
import { type Client, createClient } from "#sdk/client.ts";
import { decodeData } from "#sdk/task-events.ts";
import type { Fetch } from "#sdk/transport.ts";
import {
  type ExecutorClient,
  ISSUER,
  openTestGateway,
  type TestGateway,
} from "../gateway/gateway-under-test.ts";

let gateway: TestGateway;
let executor: ExecutorClient;
let apiKey: string;
let client: Client;
const direct: Fetch = (request) => gateway.app.fetch(request);

beforeAll(async () => {
  gateway = await openTestGateway();
  apiKey = (await gateway.client("tasks", "admin")).secret;
  executor = await gateway.executor();
  client = createClient({ gateway: ISSUER, apiKey, fetch: direct });
});

const stops: (() => unknown)[] = [];
afterAll(async () => {
  for (const stop of stops) await stop();
  await gateway.close();
});

/** A server of the test's own, and its origin. */
async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stops.push(() => server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Leases and finishes the one task that is queued. */
async function runNext(left: Parameters<ExecutorClient["finish"]>[1] = {}): Promise<void> {
  const [lease] = await executor.acquire();
  await executor.start(lease!);
  if (left.stdout) await executor.print(lease!, left.stdout);
  await executor.finish(lease!, left);
}

test("a task comes back with its events, its outputs and its attestation", async () => {
  const { artifact } = await client.artifacts.put(new TextEncoder().encode("input"));
  const submitted = await client.tasks.submit({
    command: ["cat", "/inputs/a"],
    inputs: [{ artifact, mount_path: "/inputs/a" }],
    outputs: ["*.json"],
  });
  expect(submitted.state).toBe("queued");
  const watching = collect(client.tasks.events(submitted.id));
  await runNext({ stdout: "hello", files: { "/work/output.json": '{"score":1}' } });

  const events = await watching;
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1));
  expect(states(events)).toEqual(["queued", "leased", "running", "succeeded"]);
  expect(printed(events)).toBe("hello");

  const task = await client.tasks.wait(submitted.id);
  expect(task.state).toBe("succeeded");
  const [output] = await client.tasks.outputs(task.id);
  expect(new TextDecoder().decode(await client.tasks.output(task.id, output!))).toBe('{"score":1}');
  expect(new TextDecoder().decode(await client.tasks.stream(task.id, "stdout"))).toBe("hello");
  const [attestation] = await client.tasks.attestations(task.id);
  expect(attestation?.id).toBe(task.attestation_id);
  expect((await client.attestations.verify(attestation!.jwt)).sub).toBe(task.id);
  expect((await client.jwks()).keys.length).toBeGreaterThan(0);
});

test("a submission whose answer was lost is asked for again and stays one task", async () => {
  let lost = 0;
  const flaky = createClient({
    gateway: ISSUER,
    apiKey,
    fetch: async (request) => {
      const response = await gateway.app.fetch(request);
      if (request.method !== "POST" || lost >= 2) return response;
      lost++;
      throw new TypeError("fetch failed", { cause: new Error("read ECONNRESET") });
    },
  });
  const label = { run: crypto.randomUUID() };
  const task = await flaky.tasks.submit({ command: ["true"], labels: label });
  expect(lost).toBe(2);
  const found = await client.tasks.list({ label: `run=${label.run}` });
  expect(found.items.map(({ id }) => id)).toEqual([task.id]);
  await client.tasks.cancel(task.id);
});

/** A client whose every answer to `method` breaks off in its body, `times` times. */
function cut(times: number, method: string, retries?: number) {
  const seen = { cuts: 0, calls: 0 };
  const cutting = createClient({
    gateway: ISSUER,
    apiKey,
    retries,
    fetch: async (request) => {
      seen.calls++;
      const response = await direct(request);
      if (request.method !== method || !response.ok || seen.cuts >= times) return response;
      seen.cuts++;
      return new Response(cutAfter(response.body!, 3), response);
    },
  });
  return { seen, cutting };
}

test("a submission whose answer broke off in its body is asked for again and stays one task", async () => {
  const { seen, cutting } = cut(2, "POST");
  const label = { run: crypto.randomUUID() };
  const task = await cutting.tasks.submit({ command: ["true"], labels: label });
  expect(seen.cuts).toBe(2);
  const found = await client.tasks.list({ label: `run=${label.run}` });
  expect(found.items.map(({ id }) => id)).toEqual([task.id]);
  await client.tasks.cancel(task.id);
});

test("content whose answer broke off is asked for again, and what goes on breaking off has a code", async () => {
  const { id } = await client.tasks.submit({ command: ["true"], outputs: ["*.json"] });
  await runNext({ stdout: "hello", files: { "/work/output.json": '{"score":1}' } });
  const [output] = await client.tasks.outputs(id);
  const reads: [what: string, read: (from: Client) => Promise<Uint8Array>, content: string][] = [
    ["an output", ({ tasks }) => tasks.output(id, output!), '{"score":1}'],
    ["a stream", ({ tasks }) => tasks.stream(id, "stdout"), "hello"],
    ["an artifact", ({ artifacts }) => artifacts.get(output!.digest), '{"score":1}'],
  ];
  for (const [what, read, content] of reads) {
    const { seen, cutting } = cut(2, "GET");
    expect([new TextDecoder().decode(await read(cutting)), seen.cuts], what).toEqual([content, 2]);
    const always = cut(Number.POSITIVE_INFINITY, "GET", 1);
    await expect(read(always.cutting), what).rejects.toMatchObject({
      code: "GATEWAY_UNREACHABLE",
      message: expect.stringContaining("broke off: connection reset"),
    });
    expect(always.seen.calls).toBe(2);
  }
  const trace = new Response(await cut(1, "GET").cutting.tasks.trace(id));
  await expect(trace.text()).rejects.toMatchObject({ code: "GATEWAY_UNREACHABLE" });
  expect(await new Response(await client.tasks.trace(id)).text()).toBe("hello");
});

test("making a key is not repeated though its answer broke off", async () => {
  const { seen, cutting } = cut(1, "POST");
  await expect(cutting.keys.create({ name: "cut", scopes: ["tasks"] })).rejects.toMatchObject({
    code: "GATEWAY_UNREACHABLE",
  });
  expect(seen.calls).toBe(1);
});

test("a redirect is not followed: its target is named, and is sent nothing", async () => {
  let reached = 0;
  const target = await serve((_, response) => {
    reached++;
    response.end("{}");
  });
  for (const status of [301, 302, 307, 308]) {
    const front = await serve((request, response) =>
      response.writeHead(status, { location: `${target}${request.url}` }).end(),
    );
    const { tasks } = createClient({ gateway: front, apiKey });
    await expect(tasks.submit({ command: ["true"] })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining(`name it: ${target}`),
    });
    await expect(tasks.list()).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  }
  const login = await serve((_, response) => response.writeHead(302, { location: "/login" }).end());
  await expect(createClient({ gateway: login, apiKey }).tasks.list()).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining(`to ${login}/login; no DSec gateway does that`),
  });
  expect(reached).toBe(0);
});

test("making a key is never repeated by itself", async () => {
  let calls = 0;
  const failing = createClient({
    gateway: ISSUER,
    apiKey,
    fetch: () => {
      calls++;
      throw new TypeError("fetch failed");
    },
  });
  await expect(failing.keys.create({ name: "once", scopes: ["tasks"] })).rejects.toMatchObject({
    code: "GATEWAY_UNREACHABLE",
  });
  expect(calls).toBe(1);
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

test("refusals are the gateway's own code and words, with the request's id", async () => {
  const missing = client.tasks.get("task_00000000000000000000000000");
  await expect(missing).rejects.toMatchObject({ name: "DsecError", code: "TASK_NOT_FOUND" });
  await expect(missing).rejects.toThrow(/task_0000/);
  const unknown = await client.tasks.submit({ command: [], nonsense: 1 } as never).catch((error) => error);
  expect(unknown).toMatchObject({ code: "INVALID_REQUEST", details: { request_id: expect.any(String) } });
  const stranger = createClient({
    gateway: ISSUER,
    apiKey: `dsk_${"0".repeat(26)}_${"A".repeat(43)}`,
    fetch: direct,
  });
  await expect(stranger.tasks.list()).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
});

test("a proxy's error page is a gateway that was not reached, and is tried again", async () => {
  let calls = 0;
  const behindProxy = createClient({
    gateway: ISSUER,
    apiKey,
    fetch: (request) => {
      calls++;
      if (calls <= 2)
        return new Response("<h1>Bad gateway</h1>", {
          status: 502,
          headers: { "content-type": "text/html" },
        });
      return gateway.app.fetch(request);
    },
  });
  expect((await behindProxy.tasks.list()).items).toBeInstanceOf(Array);
  expect(calls).toBe(3);
  const always = createClient({
    gateway: ISSUER,
    apiKey,
    retries: 1,
    fetch: () => new Response("<h1>no</h1>", { status: 502 }),
  });
  await expect(always.tasks.list()).rejects.toMatchObject({ code: "GATEWAY_UNREACHABLE" });
});

test("a limited client waits as long as it is told", async () => {
  let refusedAtMs = 0;
  const limited = createClient({
    gateway: ISSUER,
    apiKey,
    fetch: (request) => {
      if (refusedAtMs > 0) return gateway.app.fetch(request);
      refusedAtMs = performance.now();
      const error = { code: "RATE_LIMITED", message: "too many requests", request_id: "r" };
      return Response.json({ error }, { status: 429, headers: { "retry-after": "1" } });
    },
  });
  await limited.tasks.list();
  expect(performance.now() - refusedAtMs).toBeGreaterThanOrEqual(990);
});

test("content that was changed on its way is refused", async () => {
  const { artifact } = await client.artifacts.put(new TextEncoder().encode("content"));
  const tampering = createClient({
    gateway: ISSUER,
    apiKey,
    fetch: async (request) => {
      const response = await gateway.app.fetch(request);
      return request.url.includes("/v1/artifacts/") ? new Response("Content", response) : response;
    },
  });
  await expect(tampering.artifacts.get(artifact)).rejects.toMatchObject({ code: "DIGEST_MISMATCH" });
  expect(new TextDecoder().decode(await client.artifacts.get(artifact))).toBe("content");
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

test("every page of a long list is read", async () => {
  const label = crypto.randomUUID();
  const ids = [];
  for (let i = 0; i < 7; i++)
    ids.push((await client.tasks.submit({ command: ["true"], labels: { list: label } })).id);
  const page = await client.tasks.list({ label: `list=${label}`, limit: 3 });
  expect(page.items.length).toBe(3);
  const all = [];
  for await (const task of client.tasks.all({ label: `list=${label}` })) all.push(task.id);
  // By their ids, which tell milliseconds: of two that are made within one, either may come first.
  expect(all).toEqual(ids.sort().reverse());
});

test("keys are made, listed and revoked, and executors drained", async () => {
  const made = await client.keys.create({ name: "second", scopes: ["tasks"] });
  const second = createClient({ gateway: ISSUER, apiKey: made.secret, fetch: direct });
  await second.tasks.list();
  expect((await client.keys.revoke(made.id)).revoked_at).not.toBeNull();
  const keys = [];
  for await (const key of client.keys.all()) keys.push(key);
  expect(keys.find(({ id }) => id === made.id)?.revoked_at).not.toBeNull();
  expect(JSON.stringify(keys)).not.toContain(made.secret);
  const other = await gateway.executor();
  expect((await client.executors.drain(other.executorId)).state).toBe("draining");
  const executors = [];
  for await (const each of client.executors.all()) executors.push(each.id);
  expect(executors).toContain(other.executorId);
});

test("a gateway address that is none is refused before anything is sent", () => {
  expect(() => createClient({ gateway: "dsec.example" })).toThrow(/no URL|must be http/);
  expect(() => createClient({ gateway: "file:///etc/passwd" })).toThrow(/must be http/);
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

async function collect(events: AsyncGenerator<TaskEvent>): Promise<TaskEvent[]> {
  const all: TaskEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

function states(events: TaskEvent[]): string[] {
  return events.flatMap((event) => (event.type === "state" ? [event.state] : []));
}

function printed(events: TaskEvent[]): string {
  const decoder = new TextDecoder();
  return events.map((event) => (event.type === "stdout" ? decoder.decode(decodeData(event)) : "")).join("");
}

/** A body whose connection breaks after so many bytes. */
function cutAfter(body: ReadableStream<Uint8Array>, bytesMax: number): ReadableStream<Uint8Array> {
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
