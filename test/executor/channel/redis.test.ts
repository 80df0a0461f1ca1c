import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { TaskId } from "#core/ids.ts";
import { taskNamespace } from "#executor/memory/memory.ts";
import { connectRedisMemoryStore } from "#executor/memory/redis-store.ts";
import { dsec } from "#test/cli/dsec.ts";
import { startRedis } from "#test/executor/memory/redis-server.ts";
import { reach } from "#test/gateway/proxy/proxy-under-test.ts";
import type { TraceEvent } from "#trace/events/event.ts";
import { ChannelRig } from "./channel-under-test.ts";

const SHARED = { memory: { shared: [{ name: "notes", access: "write" as const }] } };

test("sandboxes share memory in a Redis, each with its own record, and what another executor writes there is told", async () => {
  const redis = await startRedis(undefined, "hidden");
  try {
    await using rig = await ChannelRig.open({ redisUrl: redis.url });
    const [writer, reader] = [await rig.channel(SHARED), await rig.channel(SHARED)];
    expect((await writer.send("PUT", "/v1/memory/plan?namespace=notes", "1.0")).status).toBe(201);
    const read = await reader.send("GET", "/v1/memory/plan?namespace=notes");
    expect([read.body.toString(), read.headers.etag]).toEqual(["1.0", '"1"']);
    expect((await reader.send("PUT", "/v1/memory/own", '"mine"')).status).toBe(201);
    expect((await writer.send("GET", "/v1/memory/own")).status).toBe(404);

    // What it writes into a task's own memory, nobody here has recorded.
    const other = await connectRedisMemoryStore({ url: redis.url });
    const bounds = { keys: 10, bytes: 1000 };
    const options = { expect: "anything", ttlMs: null, bounds } as const;
    await other.put(taskNamespace(reader.lease.task_id as TaskId), "own", '"theirs"', options);
    await other.close();

    const said = (events: TraceEvent[]) =>
      events.map(
        (event) => `${event.type} ${"key" in event ? event.key : "code" in event ? event.code : ""}`,
      );
    expect(said((await writer.close()).events)).toEqual(["memory_write plan", "memory_read own"]);
    expect(said((await reader.close()).events)).toEqual([
      "memory_read plan",
      "memory_write own",
      "error MEMORY_CHANGED_UNRECORDED",
    ]);
  } finally {
    await redis.stop();
  }
});

test("an answer that comes while Redis is away is given and recorded, though nobody knows the memory then", async () => {
  const redis = await startRedis();
  await using rig = await ChannelRig.open({ redisUrl: redis.url });
  const { url, port } = await rig.proxy.serve(async (_request, response) => {
    await redis.stop();
    response.writeHead(500).end("no seat is left");
  });
  const book = { name: "book", kind: "http" as const, method: "POST" as const, url };
  const sandbox = await rig.channel({ policy: reach(port), tools: [book] });
  const answer = await sandbox.tool("book");
  expect([answer.status, answer.json]).toMatchObject([200, { output: "no seat is left", is_error: true }]);
  const again = await startRedis(redis.port);
  try {
    await expect.poll(async () => (await sandbox.send("GET", "/v1/memory")).status).toBe(200);
    const { events } = await sandbox.close();
    expect(events).toMatchObject([
      { type: "tool_call_start", tool: "book" },
      { type: "tool_call_end", state: "answered", status: 500, memory_digest: null, memory_changed: null },
      { type: "error", code: "TOOL_ERROR", memory_digest: null, memory_json: null },
      // No call is under way any more, in whose course this would be.
      { type: "memory_read", op: "list", call: null },
    ]);
  } finally {
    await again.stop();
  }
});

test("an attempt that ends while Redis is away keeps its result, and its trace says that nobody looked at memory", async () => {
  const redis = await startRedis();
  await using rig = await ChannelRig.open({ redisUrl: redis.url });
  const sandbox = await rig.channel();
  await sandbox.send("PUT", "/v1/memory/seat", "12");
  await redis.stop();
  const namespace = taskNamespace(sandbox.lease.task_id as TaskId);
  const { record, events } = await sandbox.close();
  expect(events).toMatchObject([
    { type: "memory_write", key: "seat" },
    { type: "error", code: "MEMORY_UNCHECKED", namespace, expected_digest: null, actual_digest: null },
  ]);
  await rig.deliver(sandbox, record);
});

test.each(["executor", "up"])(
  "dsec %s that cannot reach its Redis names it, and not the password",
  async (command) => {
    const data = await mkdtemp(join(tmpdir(), "dsec-redis-"));
    const words = command === "up" ? ["--port", "0"] : ["--gateway", "http://127.0.0.1:1", "--token", "none"];
    const env = { DSEC_MEMORY_REDIS: "redis://user:hidden@127.0.0.1:1" };
    const ended = await dsec([command, ...words, "--data", data], { env });
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/STORE_UNAVAILABLE: memory in Redis at 127\.0\.0\.1:1: .*ECONNREFUSED/);
    expect(ended.stderr + ended.stdout).not.toContain("hidden");
    await rm(data, { recursive: true });
  },
);
