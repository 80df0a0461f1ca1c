import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { Task } from "#core/wire/tasks.ts";
import { leastMs } from "#test/support/least-ms.ts";
import {
  type Client,
  type ExecutorClient,
  openTestGateway,
  readEvents,
  type SseMessage,
  type TestGateway,
} from "../gateway-under-test.ts";

let gateway: TestGateway;
let client: Client;
let executor: ExecutorClient;
beforeAll(async () => {
  gateway = await openTestGateway();
  client = await gateway.client("tasks");
  executor = await gateway.executor();
});
afterAll(() => gateway.close());

async function running(): Promise<{ task: Task; lease: Lease }> {
  const task = await client.submit();
  const [lease] = await executor.acquire();
  expect(lease?.task_id).toBe(task.id);
  await executor.start(lease!);
  return { task, lease: lease! };
}

const follow = (task: Task, init?: RequestInit, query = "") =>
  client.send("GET", `/v1/tasks/${task.id}/events${query}`, undefined, init);
const from = (id: string): RequestInit => ({ headers: { "last-event-id": id } });
const seqs = (messages: SseMessage[]) => messages.map(({ id }) => Number(id));
const openStreams = async () =>
  Number(/^dsec_event_streams (\d+)$/m.exec(await (await gateway.fetch("/metrics")).text())?.[1]);

test("600 events are seen once each and in order across a reconnect in the middle (B83)", async () => {
  const { task, lease } = await running();
  const first = follow(task).then((response) => readEvents(response, (messages) => messages.length >= 300));
  const { lease_id, fence } = lease;
  for (let i = 0; i < 600; i += 20) {
    const events = Array.from({ length: 20 }, (_, j) => {
      const data = Buffer.from(`line ${i + j}\n`).toString("base64");
      return { type: "stdout", lease_id, fence, offset: i + j, data };
    });
    await executor.ok("POST", "/v1/leases/events", { events });
  }
  const before = await first;
  expect(before.length).toBeGreaterThanOrEqual(300);
  const second = follow(task, from(before.at(-1)!.id!)).then((response) => readEvents(response));
  await executor.finish(lease, { stdout: "x" });
  const after = await second;

  const all = [...before, ...after];
  expect(seqs(all)).toEqual(Array.from({ length: all.length }, (_, i) => i + 1));
  const printed = all.filter(({ event }) => event === "stdout").map(({ data }) => JSON.parse(data).data);
  expect(printed.map((data) => Buffer.from(data, "base64").toString())).toEqual(
    Array.from({ length: 600 }, (_, i) => `line ${i}\n`),
  );
  expect(JSON.parse(all.at(-1)!.data)).toMatchObject({ type: "state", state: "succeeded" });
  expect(await openStreams()).toBe(0);
});

test("an id that this task has no event for gives one explicit resync, then everything from the start (B83)", async () => {
  const { task, lease } = await running();
  await executor.finish(lease);
  const whole = await readEvents(await follow(task));
  const ids = [
    "1000000",
    "-1",
    "abc",
    "1.5",
    "9007199254740993",
    "99999999999999999999",
    "1e3",
    " 1 x",
    "0x1",
    "01",
  ];
  for (const id of ids) {
    const [resync, ...rest] = await readEvents(await follow(task, from(id)));
    expect([id, resync?.event]).toEqual([id, "resync"]);
    expect(JSON.parse(resync!.data)).toMatchObject({ last_event_id: id.trim() });
    expect(rest).toEqual(whole);
    const byQuery = await readEvents(await follow(task, {}, `?after=${encodeURIComponent(id)}`));
    expect(byQuery[0]?.event).toBe("resync");
  }
  expect(await readEvents(await follow(task, from("0")))).toEqual(whole);
});

test("Last-Event-ID goes before the after of the URL, which an EventSource keeps sending", async () => {
  const { task, lease } = await running();
  await executor.finish(lease);
  const whole = await readEvents(await follow(task));
  expect(await readEvents(await follow(task, from(whole[1]!.id!), "?after=1"))).toEqual(whole.slice(2));
  expect(await readEvents(await follow(task, {}, `?after=${whole[0]!.id}`))).toEqual(whole.slice(1));
});

test("resuming after the final event is told to stop (204), and HEAD streams nothing", async () => {
  const { task, lease } = await running();
  await executor.finish(lease);
  const whole = await readEvents(await follow(task));
  expect((await follow(task, from(whole.at(-1)!.id!))).status).toBe(204);
  const head = await client.send("HEAD", `/v1/tasks/${task.id}/events`);
  expect([head.status, head.headers.get("content-type"), await head.text()]).toEqual([
    200,
    "text/event-stream",
    "",
  ]);
  expect(await openStreams()).toBe(0);
});

test("a submission that accepts an event stream is answered with the task and then its events", async () => {
  const submit = (accept: string, key: string) =>
    client.send("POST", "/v1/tasks", { command: ["true"] }, { headers: { accept, "idempotency-key": key } });
  const key = crypto.randomUUID();
  const response = await submit("text/event-stream", key);
  expect([response.status, response.headers.get("content-type")]).toEqual([201, "text/event-stream"]);
  const streaming = readEvents(response);
  const [lease] = await executor.acquire();
  expect(response.headers.get("location")).toBe(`/v1/tasks/${lease!.task_id}`);
  await executor.start(lease!);
  await executor.finish(lease!);
  const [first, ...events] = await streaming;
  // Without an id: whoever resumes does so from the task's own events.
  expect([first!.event, first!.id]).toEqual(["task", undefined]);
  const task = JSON.parse(first!.data) as Task;
  expect(task).toMatchObject({ id: lease!.task_id, state: "queued" });
  expect(events).toEqual(await readEvents(await follow(task)));

  const again = await submit("application/json;q=0.5, Text/Event-Stream;q=1", key);
  expect(again.status).toBe(200);
  const [known, ...repeated] = await readEvents(again);
  expect(JSON.parse(known!.data)).toMatchObject({ id: task.id, state: "succeeded" });
  expect(repeated).toEqual(events);

  const plain = await submit("*/*", key);
  expect(await plain.json()).toMatchObject({ id: task.id });
  const refused = await client.send(
    "POST",
    "/v1/tasks",
    { command: [] },
    { headers: { accept: "text/event-stream" } },
  );
  expect([refused.status, (await refused.json()).error.code]).toEqual([400, "INVALID_REQUEST"]);
  expect(await openStreams()).toBe(0);
});

test("an event reaches its follower without waiting for a poll, and the head comes at once (B43)", async () => {
  const { task, lease } = await running();
  const response = await follow(task);
  expect(response.headers.get("cache-control")).toContain("no-transform");
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let seen = "";
  while (!seen.includes('"running"')) seen += decoder.decode((await reader.read()).value);
  // the poll underneath comes after a second
  const tookMs = await leastMs(600, async () => {
    seen = "";
    await executor.print(lease, "now");
    const storedAtMs = performance.now();
    while (!seen.includes("event: stdout")) seen += decoder.decode((await reader.read()).value);
    return performance.now() - storedAtMs;
  });
  expect(tookMs).toBeLessThan(600);
  await reader.cancel();
  expect(await openStreams()).toBe(0);
  await executor.finish(lease);
});

test("a follower that reads nothing costs no reads of the database, and one that left costs nothing more", async () => {
  const { task, lease } = await running();
  for (let i = 0; i < 20; i++) await executor.print(lease, "x".repeat(1000), i * 1000);
  let reads = 0;
  const { store } = gateway;
  const listEvents = store.listEvents;
  store.listEvents = (...args) => {
    reads++;
    return listEvents.apply(store, args);
  };
  try {
    const response = await follow(task);
    await new Promise((resolve) => setTimeout(resolve, 300));
    // one chunk ahead is what a stream holds by default
    expect(reads).toBeLessThanOrEqual(1);
    await response.body!.cancel();
    const afterLeaving = reads;
    gateway.wake.notify(`task:${task.id as TaskId}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(reads).toBe(afterLeaving);
  } finally {
    store.listEvents = listEvents;
  }
  await executor.finish(lease);
});

test("who follows what was submitted a moment ago is told all of it without a read of the database", async () => {
  const { task, lease } = await running();
  await executor.print(lease, "hello");
  await executor.finish(lease);
  const stranger = await gateway.client("tasks");
  expect(await stranger.refused("GET", `/v1/tasks/${task.id}/events`)).toMatchObject({
    code: "TASK_NOT_FOUND",
  });
  const reads = [vi.spyOn(gateway.store, "getTask"), vi.spyOn(gateway.store, "listEvents")];
  try {
    const fresh = await readEvents(await follow(task));
    for (const read of reads) expect(read).not.toHaveBeenCalled();
    expect(fresh).toEqual(await readEvents(await follow(task)));
    expect(fresh.map(({ event }) => event)).toEqual(["state", "state", "state", "stdout", "state"]);
  } finally {
    for (const read of reads) read.mockRestore();
  }
});

test("bytes that are no text, and text that looks like the protocol, arrive as they were", async () => {
  const { task, lease } = await running();
  const { lease_id, fence } = lease;
  const bytes = Buffer.concat([
    Buffer.from([0xff, 0xfe, 0x80, 0]),
    Buffer.from("\n\nid: 9\nevent: state\r\ndata: {}\n\n"),
  ]);
  const event = { type: "stderr", lease_id, fence, offset: 0, data: bytes.toString("base64") };
  await executor.ok("POST", "/v1/leases/events", { events: [event] });
  await executor.finish(lease);
  const stderr = (await readEvents(await follow(task))).find((message) => message.event === "stderr");
  expect(Buffer.from(JSON.parse(stderr!.data).data, "base64").equals(bytes)).toBe(true);
});

test("an idle stream is kept open by a comment every quarter of a minute (B83)", async () => {
  const task = await client.submit();
  const { wake } = gateway;
  const wait = wake.wait;
  const real = performance.now.bind(performance);
  let skippedMs = 0;
  const clock = vi.spyOn(performance, "now").mockImplementation(() => real() + skippedMs);
  wake.wait = async (_topic, ms) => {
    skippedMs += ms;
  };
  try {
    const reader = (await follow(task)).body!.getReader();
    const decoder = new TextDecoder();
    let seen = "";
    const startMs = performance.now();
    while ((seen.match(/^: still here$/gm) ?? []).length < 4)
      seen += decoder.decode((await reader.read()).value);
    const passedMs = performance.now() - startMs;
    expect(passedMs).toBeGreaterThanOrEqual(4 * LIMITS.sseHeartbeatMs);
    expect(passedMs).toBeLessThan(4 * LIMITS.sseHeartbeatMs + 10_000);
    await reader.cancel();
  } finally {
    wake.wait = wait;
    clock.mockRestore();
  }
  await client.ok("POST", `/v1/tasks/${task.id}/cancel`);
});

test("followers are let go when the gateway stops", async () => {
  const task = await client.submit();
  const events = await readEvents(await follow(task), ({ length }) => {
    if (length > 0) gateway.closing.abort();
    return false;
  });
  expect(events.map(({ event }) => event)).toEqual(["state"]);
  expect(await openStreams()).toBe(0);
});
