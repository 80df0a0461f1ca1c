import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent, type BodyInit, fetch, type Response } from "undici";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { TaskId } from "#core/ids.ts";
import { ErrorBodySchema } from "#core/wire/common.ts";
import { type MemoryEvent, MemoryPageSchema, MemoryWrittenSchema } from "#core/wire/memory.ts";
import type { Routes } from "#executor/channel/exchange.ts";
import { type SocketServer, serveSocket } from "#executor/channel/server.ts";
import { createMemory, type MemoryIdentity } from "#executor/memory/memory.ts";
import { createMemoryRoutes } from "#executor/memory/routes.ts";
import { SqliteDatabase } from "#executor/memory/sqlite-database.ts";
import { createSqliteMemoryStore } from "#executor/memory/sqlite-store.ts";
import { createMessageBus } from "#executor/messages/bus.ts";
import { unheardMessages } from "#executor/replay/unheard-messages.ts";

let folder: string;
let database: SqliteDatabase;
let sockets: { server: SocketServer; client: Agent }[] = [];
let one: Agent;
let events: MemoryEvent[] = [];
let count = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "dsec-routes-"));
  database = new SqliteDatabase(join(folder, "memory.db"));
});
beforeEach(async () => {
  events = [];
  count++;
  const memory = createMemory({
    store: createSqliteMemoryStore(database),
    onEvent: (event) => events.push(event),
  });
  const messages = createMessageBus(unheardMessages(), { lease_id: "lease_1", fence: 1 }, "1");
  const identity: MemoryIdentity = {
    taskId: `task_${count}` as TaskId,
    sandboxId: `sandbox_${count}`,
    owner: "key_1",
    grants: [{ name: "a b/&", access: "read" }],
  };
  let requests = 0;
  const newRequestId = () => `req_${++requests}`;
  one = await serve(createMemoryRoutes({ memory, messages, identity, newRequestId }));
});
afterEach(async () => {
  for (const { server, client } of sockets) {
    await client.destroy();
    await server.close();
  }
  sockets = [];
});
afterAll(async () => {
  database.close();
  await rm(folder, { recursive: true });
});

async function serve(routes: Routes): Promise<Agent> {
  const name = `${count}-${sockets.length}.sock`;
  const server = await serveSocket(folder, name, routes);
  const client = new Agent({ connect: { socketPath: join(folder, name) } });
  sockets.push({ server, client });
  return client;
}

type Options = { body?: BodyInit; headers?: Record<string, string>; signal?: AbortSignal };

function send(
  method: string,
  path: string,
  { body, headers = {}, signal }: Options = {},
  dispatcher = one,
): Promise<Response> {
  const type: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
  return fetch(`http://dsec${path}`, {
    method,
    headers: { ...type, ...headers },
    ...(body === undefined ? {} : { body, duplex: "half" }),
    ...(signal === undefined ? {} : { signal }),
    dispatcher,
  });
}

async function refusal(response: Response): Promise<string> {
  const { error } = ErrorBodySchema.parse(await response.json());
  expect(error.request_id).toBe(response.headers.get("x-request-id"));
  expect(error.message).not.toBe("");
  return `${response.status} ${error.code}`;
}

test("a value is what was put, byte for byte, under its version", async () => {
  const written = await send("PUT", "/v1/memory/score", { body: " 1.0 " });
  expect(written.status).toBe(201);
  expect(written.headers.get("etag")).toBe('"1"');
  expect(MemoryWrittenSchema.parse(await written.json())).toEqual({
    key: "score",
    version: 1,
    expires_at: null,
  });
  const read = await send("GET", "/v1/memory/score");
  expect(read.headers.get("content-type")).toBe("application/json");
  expect(read.headers.get("etag")).toBe('"1"');
  expect(await read.text()).toBe("1.0");
  expect((await send("PUT", "/v1/memory/score", { body: "2" })).status).toBe(200);
  expect((await send("DELETE", "/v1/memory/score")).status).toBe(204);
  expect(await refusal(await send("GET", "/v1/memory/score"))).toBe("404 MEMORY_NOT_FOUND");
});

test("HEAD shows the length that GET would send and no body", async () => {
  await send("PUT", "/v1/memory/text", { body: '"€€"' });
  for (const path of ["/v1/memory/text", "/v1/memory", "/v1/memory/gone"]) {
    const get = await send("GET", path);
    const head = await send("HEAD", path);
    expect(head.status).toBe(get.status);
    const length = (await get.arrayBuffer()).byteLength;
    if (get.status === 200) expect(head.headers.get("content-length")).toBe(String(length));
    expect(get.headers.get("content-length")).toBe(String(length));
    expect((await head.arrayBuffer()).byteLength).toBe(0);
  }
});

test("conditions are entity tags, and what is none is refused rather than ignored", async () => {
  const put = (headers: Record<string, string>) => send("PUT", "/v1/memory/key", { body: "1", headers });
  expect(await refusal(await put({ "if-match": "*" }))).toBe("412 MEMORY_VERSION_CONFLICT");
  expect((await put({ "if-none-match": "*" })).status).toBe(201);
  expect(await refusal(await put({ "if-none-match": "*" }))).toBe("412 MEMORY_VERSION_CONFLICT");
  expect((await put({ "if-match": '"1"' })).status).toBe(200);
  expect(await refusal(await put({ "if-match": '"1"' }))).toBe("412 MEMORY_VERSION_CONFLICT");
  for (const tag of ["1", 'W/"2"', '"2", "3"', '""', '"02"', '"2e0"', '"-2"', '"99999999999999999"']) {
    expect(await refusal(await put({ "if-match": tag }))).toBe("400 INVALID_REQUEST");
  }
  expect(await refusal(await put({ "if-match": '"2"', "if-none-match": "*" }))).toBe("400 INVALID_REQUEST");
  expect(await refusal(await put({ "if-none-match": '"2"' }))).toBe("400 INVALID_REQUEST");
  const known = await send("GET", "/v1/memory/key", { headers: { "if-none-match": '"2"' } });
  expect([known.status, await known.text()]).toEqual([304, ""]);
  expect((await send("GET", "/v1/memory/key", { headers: { "if-none-match": '"1"' } })).status).toBe(200);
  const stale = await send("DELETE", "/v1/memory/key", { headers: { "if-match": '"1"' } });
  expect(await refusal(stale)).toBe("412 MEMORY_VERSION_CONFLICT");
});

test("a lifetime is shown as the time of its end", async () => {
  const before = Date.now();
  const answer = await send("PUT", "/v1/memory/key?ttl_ms=60000", { body: "1" });
  const { expires_at } = MemoryWrittenSchema.parse(await answer.json());
  expect(Date.parse(expires_at!)).toBeGreaterThanOrEqual(before + 60_000);
  const read = await send("GET", "/v1/memory/key");
  expect(read.headers.get("dsec-expires-at")).toBe(expires_at);
  const kept = await send("PUT", "/v1/memory/key?ttl_ms=keep", { body: "2" });
  expect(kept.headers.get("dsec-expires-at")).toBe(expires_at);
  for (const ttl of ["0", "-1", "1.5", "1e99", "soon", ""]) {
    expect(await refusal(await send("PUT", `/v1/memory/key?ttl_ms=${ttl}`, { body: "1" }))).toBe(
      "400 INVALID_REQUEST",
    );
  }
});

test("a key is the rest of the path, unescaped once", async () => {
  const keys = {
    "a%2Fb": "a/b",
    "a/b": "a/b",
    "a%252Fb": "a%2Fb",
    "a+b": "a+b",
    "a%20b": "a b",
    "%E2%82%AC": "€",
    "a%3Fb": "a?b",
  };
  for (const [path, key] of Object.entries(keys)) {
    const answer = await send("PUT", `/v1/memory/${path}`, { body: "1" });
    expect(MemoryWrittenSchema.parse(await answer.json()).key).toBe(key);
  }
  for (const path of ["", "%", "%E2%82", "%00", "%zz", "x".repeat(513)]) {
    expect(await refusal(await send("PUT", `/v1/memory/${path}`, { body: "1" }))).toBe("400 INVALID_REQUEST");
  }
  // URLs resolve these before anybody sees them, so they must not reach another route that writes.
  for (const path of ["..", "%2e%2e", "."]) {
    expect((await send("PUT", `/v1/memory/${path}`, { body: "1" })).status).toBeGreaterThanOrEqual(400);
    expect((await send("DELETE", `/v1/memory/${path}`)).status).toBeGreaterThanOrEqual(400);
  }
  const page = MemoryPageSchema.parse(await (await send("GET", "/v1/memory")).json());
  expect(page.items.map((item) => item.key)).toEqual(["a b", "a%2Fb", "a+b", "a/b", "a?b", "€"]);
});

test("pages carry values as they were written", async () => {
  for (const [key, body] of [
    ["x*", "1.0"],
    ["x1", '{"a":-0}'],
    ["y", "2"],
  ] as const) {
    await send("PUT", `/v1/memory/${encodeURIComponent(key)}`, { body });
  }
  const first = await (await send("GET", "/v1/memory?prefix=x&limit=1")).text();
  expect(first).toMatch(
    /^\{"items":\[\{"key":"x\*","version":1,"expires_at":null,"value":1\.0\}\],"next_cursor":"[\w-]+"\}$/,
  );
  const { next_cursor } = JSON.parse(first);
  const second = await (await send("GET", `/v1/memory?prefix=x&limit=1&cursor=${next_cursor}`)).text();
  expect(second).toBe(
    '{"items":[{"key":"x1","version":2,"expires_at":null,"value":{"a":-0}}],"next_cursor":null}',
  );
  expect(MemoryPageSchema.parse(await (await send("GET", "/v1/memory?prefix=x*")).json()).items).toHaveLength(
    1,
  );
  const found = await send("POST", "/v1/memory", { body: '{"text":"1.0"}' });
  expect(await found.text()).toContain('"value":1.0');
  expect(await refusal(await send("POST", "/v1/memory", { body: '{"text":""}' }))).toBe(
    "400 INVALID_REQUEST",
  );
});

test("only a clear that says so empties the namespace", async () => {
  await send("PUT", "/v1/memory/a", { body: "1" });
  for (const path of [
    "/v1/memory",
    "/v1/memory/",
    "/v1/memory?clear=1",
    "/v1/memory?clear=true&clear=true",
  ]) {
    expect(await refusal(await send("DELETE", path))).toBe("400 INVALID_REQUEST");
  }
  expect(await (await send("DELETE", "/v1/memory?clear=true")).json()).toEqual({ removed: 1 });
});

test("what a request says that is not known is refused", async () => {
  const cases: [string, string, Options, string][] = [
    ["GET", "/v1/memory/a?ttl_ms=1", {}, "400 INVALID_REQUEST"],
    ["PUT", "/v1/memory/a?tll_ms=1", { body: "1" }, "400 INVALID_REQUEST"],
    ["PUT", "/v1/memory/a?__proto__=1", { body: "1" }, "400 INVALID_REQUEST"],
    ["GET", "/v1/memory?prefix=a&prefix=b", {}, "400 INVALID_REQUEST"],
    ["GET", "/v1/memory?limit=0", {}, "400 INVALID_REQUEST"],
    ["GET", "/v1/memory?limit=100000", {}, "400 INVALID_REQUEST"],
    ["GET", "/v1/memory?cursor=%00", {}, "400 INVALID_CURSOR"],
    ["POST", "/v1/memory", { body: '{"text":"a","texts":"b"}' }, "400 INVALID_REQUEST"],
    ["POST", "/v1/memory", { body: '{"text":"a","text":"b"}' }, "400 MALFORMED_JSON"],
    ["PATCH", "/v1/memory/a", { body: "1" }, "405 METHOD_NOT_ALLOWED"],
    ["PUT", "/v1/memory", { body: "1" }, "405 METHOD_NOT_ALLOWED"],
    ["GET", "/v1/memories", {}, "404 NOT_FOUND"],
    ["GET", "/v1/messages/a/b", {}, "404 NOT_FOUND"],
    ["GET", "/v1/messages/a/ack", {}, "405 METHOD_NOT_ALLOWED"],
    ["GET", "/v1/messages/..%2fx", {}, "404 NOT_FOUND"],
    ["GET", "/v1/messages/-x", {}, "400 INVALID_REQUEST"],
    ["GET", "/v1/messages/a?wait_ms=999999", {}, "400 INVALID_REQUEST"],
    [
      "PUT",
      "/v1/memory/a",
      { body: "1", headers: { "content-type": "text/plain" } },
      "415 UNSUPPORTED_MEDIA_TYPE",
    ],
    [
      "PUT",
      "/v1/memory/a",
      { body: "1", headers: { "content-type": "application/json; charset=latin1" } },
      "415 UNSUPPORTED_MEDIA_TYPE",
    ],
    ["PUT", "/v1/memory/a", {}, "415 UNSUPPORTED_MEDIA_TYPE"],
    [
      "PUT",
      "/v1/memory/a",
      { body: "", headers: { "content-type": "application/json" } },
      "400 MALFORMED_JSON",
    ],
    ["PUT", "/v1/memory/a", { body: Uint8Array.of(0x22, 0xff, 0x22) }, "400 MALFORMED_JSON"],
    ["PUT", "/v1/memory/a", { body: "9007199254740993" }, "422 MEMORY_VALUE_REFUSED"],
    ["GET", "/v1/memory/a?namespace=other", {}, "403 FORBIDDEN"],
    ["PUT", "/v1/memory/a?namespace=a%20b%2F%26", { body: "1" }, "403 FORBIDDEN"],
    ["GET", "/v1/memory/a?namespace=a%20b%2F%26", {}, "404 MEMORY_NOT_FOUND"],
  ];
  for (const [method, path, options, wanted] of cases) {
    expect(`${method} ${path} ${await refusal(await send(method, path, options))}`).toBe(
      `${method} ${path} ${wanted}`,
    );
  }
});

test("a body that never ends is cut off at the bound", async () => {
  let sent = 0;
  const endless = new ReadableStream({
    pull(controller) {
      sent += 65_536;
      controller.enqueue(new Uint8Array(65_536).fill(0x20));
    },
  });
  expect(await refusal(await send("PUT", "/v1/memory/a", { body: endless }))).toBe("413 BODY_TOO_LARGE");
  expect(sent).toBeLessThan(1024 * 1024);
});

test("an origin is a remark: bounded, unescaped, and never a reason to refuse", async () => {
  const origins: [string, string][] = [
    ["agent.py:4 append", "agent.py:4 append"],
    ["%E2%82%AC.py", "€.py"],
    ["%zz", "%zz"],
    ["a%00b", "ab"],
    ["x".repeat(5000), "x".repeat(200)],
  ];
  for (const [given, wanted] of origins) {
    await send("PUT", "/v1/memory/a", { body: "1", headers: { "dsec-origin": given } });
    expect(events.at(-1)?.source.origin).toBe(wanted);
  }
  await send("GET", "/v1/memory/a");
  expect(events.at(-1)?.source.origin).toBeNull();
});
