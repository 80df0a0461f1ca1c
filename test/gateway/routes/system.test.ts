import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { DsecError, ERROR_STATUS } from "#core/errors.ts";
import type { Task } from "#core/wire/tasks.ts";
import packageJson from "../../../package.json" with { type: "json" };
import { type Client, type Failure, openTestGateway, type TestGateway } from "../gateway-under-test.ts";

let gateway: TestGateway;
let client: Client;
beforeAll(async () => {
  gateway = await openTestGateway({ rateRequestsPerS: 10, rateBurst: 100 });
  client = await gateway.client("tasks");
});
afterAll(() => gateway.close());

test("a list is paged by cursor without a gap or a repeat, though tasks are added meanwhile", async () => {
  const made: string[] = [];
  for (let i = 0; i < 7; i++) made.push((await client.submit({ labels: { parity: String(i % 2) } })).id);
  const seen: string[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const query: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const page: { items: Task[]; next_cursor: string | null } = await client.ok(
      "GET",
      `/v1/tasks?limit=3${query}`,
    );
    seen.push(...page.items.map(({ id }) => id));
    cursor = page.next_cursor;
    if (seen.length === 3) await client.submit({ labels: { late: "1" } });
  }
  expect(seen.toSorted()).toEqual(made.toSorted());

  const odd = await client.ok<{ items: Task[] }>("GET", "/v1/tasks?label=parity%3D1&state=queued");
  expect(odd.items).toHaveLength(3);
  expect((await client.ok<{ items: Task[] }>("GET", "/v1/tasks?state=dead")).items).toEqual([]);
});

test("a bad page query is refused with the member that is wrong", async () => {
  for (const [query, code, text] of [
    ["cursor=zzz", "INVALID_CURSOR", "zzz"],
    ["limit=0", "INVALID_REQUEST", "limit"],
    ["limit=201", "INVALID_REQUEST", "limit"],
    ["limit=1e1000", "INVALID_REQUEST", "limit"],
    ["limit=2&limit=3", "INVALID_REQUEST", "limit"],
    ["limt=2", "INVALID_REQUEST", "did you mean limit?"],
    ["state=done", "INVALID_REQUEST", "state"],
    ["label=noequals", "INVALID_REQUEST", "label"],
  ] as const) {
    const error = await client.refused("GET", `/v1/tasks?${query}`);
    expect([query, error]).toMatchObject([query, { code, status: 400 }]);
    expect(error.message).toContain(text);
  }
});

test("every failure has the one error body, with the request's id: no route, no method, bad id, bad key", async () => {
  for (const [method, path, status, code] of [
    ["GET", "/v1/nothing", 404, "NOT_FOUND"],
    ["DELETE", "/v1/tasks", 405, "METHOD_NOT_ALLOWED"],
    ["PATCH", "/v1/keys/key_x/revoke", 405, "METHOD_NOT_ALLOWED"],
    ["OPTIONS", "/healthz", 405, "METHOD_NOT_ALLOWED"],
    ["GET", "/v1/tasks/task_1", 400, "INVALID_REQUEST"],
    ["GET", "/v1/tasks/%00", 400, "INVALID_REQUEST"],
    ["GET", "/v1/tasks/%E0%A4%A", 400, "INVALID_REQUEST"],
  ] as const) {
    const response = await client.send(method, path, undefined, { headers: { "x-request-id": "mine-1" } });
    const body = (await response.json()) as Failure;
    expect([method, path, response.status, body.error.code]).toEqual([method, path, status, code]);
    expect(body.error.request_id).toBe("mine-1");
    expect(response.headers.get("x-request-id")).toBe("mine-1");
    expect(Object.keys(ERROR_STATUS)).toContain(body.error.code);
  }
  const { error } = (await (await client.send("GET", "/v1/tasks/task_1")).json()) as Failure;
  expect(error.message).toMatch(/^the path \/v1\/tasks\/task_1: id: must be a task id such as/);
  const notAllowed = await client.send("DELETE", "/v1/tasks");
  expect(notAllowed.headers.get("allow")).toBe("GET, HEAD, POST");
});

test("a request id that is no plain word is replaced: it goes into logs and headers", async () => {
  for (const id of ["a b", "x".repeat(65), "ü", '{"a":1}']) {
    const response = await gateway.fetch("/healthz", {
      headers: { "x-request-id": encodeURI(id) === id ? id : encodeURI(id) },
    });
    expect(response.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  }
});

test("a failure that nobody foresaw tells the client nothing, and the log everything", async () => {
  const { store } = gateway;
  const getTask = store.getTask;
  store.getTask = async () => {
    throw new Error("password=hunter2 at db-7");
  };
  try {
    const response = await client.send("GET", "/v1/tasks/task_01m8m6fqbtey5pnmw9jbed743f");
    const text = await response.text();
    expect(response.status).toBe(500);
    expect(text).not.toContain("hunter2");
    const { request_id } = (JSON.parse(text) as Failure).error;
    expect(text).toContain(`quote request ${request_id}`);
    const entry = gateway.logged.find((event) => event.request_id === request_id);
    expect(String(entry?.error)).toContain("hunter2");
    expect(JSON.stringify(gateway.logged)).not.toContain(client.secret);
  } finally {
    store.getTask = getTask;
  }
});

test("while the database is away the gateway lives but is not ready, and says when to come back", async () => {
  const { store } = gateway;
  const ping = store.ping;
  store.ping = async () => {
    throw new DsecError("STORE_UNAVAILABLE", "the database does not answer");
  };
  try {
    expect((await gateway.fetch("/healthz")).status).toBe(200);
    const response = await gateway.fetch("/readyz");
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(await response.json()).toMatchObject({ error: { code: "STORE_UNAVAILABLE" } });
  } finally {
    store.ping = ping;
  }
  expect((await gateway.fetch("/readyz")).status).toBe(200);
});

test("while the signing key cannot be reached the gateway is not ready, and no probe makes it sign all the time", async () => {
  const { keys } = gateway.ports;
  const signer = keys.current();
  const current = keys.current;
  let asked = 0;
  let signed = "";
  let hang = false;
  const probe = async () => {
    const response = await gateway.fetch("/readyz");
    return [response.status, ((await response.json()) as Partial<Failure>).error?.code];
  };
  keys.current = () => ({
    ...signer,
    async sign(bytes) {
      asked++;
      signed = new TextDecoder().decode(bytes);
      if (hang) return new Promise<never>(() => {});
      throw new DsecError("SIGNER_UNAVAILABLE", "PKCS#11: the module is gone");
    },
  });
  try {
    gateway.clock.nowMs += 5_000;
    const unavailable = [503, "SIGNER_UNAVAILABLE"];
    expect(await Promise.all([probe(), probe()])).toEqual([unavailable, unavailable]);
    expect(await probe()).toEqual(unavailable);
    expect(asked).toBe(1);
    gateway.clock.nowMs += 5_000;
    hang = true;
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const hanging = probe();
    await vi.waitFor(() => expect(asked).toBe(2), { timeout: 20_000 });
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await hanging).toEqual(unavailable);
  } finally {
    vi.useRealTimers();
    keys.current = current;
  }
  expect(await probe()).toEqual([503, "SIGNER_UNAVAILABLE"]);
  gateway.clock.nowMs += 5_000;
  expect(await probe()).toEqual([200, undefined]);
  // What a token's signature is over has none.
  expect(signed).toContain(" ");
});

test("a key that asks too much is told how long to wait, while others are served", async () => {
  const [greedy, modest] = [await gateway.client("tasks"), await gateway.client("tasks")];
  const statuses = [];
  for (let i = 0; i < 101; i++) statuses.push((await greedy.send("GET", "/v1/tasks?limit=1")).status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(100);
  const limited = await greedy.send("GET", "/v1/tasks");
  expect(limited.status).toBe(429);
  expect(limited.headers.get("retry-after")).toBe("1");
  expect(await limited.json()).toMatchObject({
    error: { code: "RATE_LIMITED", details: { retry_after_ms: 100 } },
  });
  expect((await modest.send("GET", "/v1/tasks")).status).toBe(200);
  gateway.clock.nowMs += 100;
  expect((await greedy.send("GET", "/v1/tasks")).status).toBe(200);
  expect((await greedy.send("GET", "/v1/tasks")).status).toBe(429);
  gateway.clock.nowMs += 60_000;
});

test("probes and the key set are served however much strangers ask, what strangers send to be verified is not", async () => {
  const verify = () =>
    gateway.fetch("/v1/attestations/verify", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"jwt":"x"}',
    });
  const statuses = [];
  for (let i = 0; i < 101; i++) statuses.push((await verify()).status);
  expect([statuses.filter((status) => status === 422).length, statuses.at(-1)]).toEqual([100, 429]);
  for (let i = 0; i < 101; i++) expect((await gateway.fetch("/healthz")).status).toBe(200);
  expect((await gateway.fetch("/.well-known/jwks.json")).status).toBe(200);
});

test("an executor is not held back by a rate that is for clients", async () => {
  const executor = await gateway.executor();
  for (let i = 0; i < 150; i++) {
    expect((await executor.send("GET", "/v1/leases/cancellations?wait_ms=0")).status).toBe(200);
  }
});

test("the metrics are valid Prometheus text and name routes by their pattern, never by an id", async () => {
  const response = await gateway.fetch("/metrics");
  expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  const text = await response.text();
  for (const line of text.trimEnd().split("\n")) {
    expect(line).toMatch(
      /^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{([a-z_]+="(\\.|[^"\\])*",?)*\})? -?[0-9.e+-]+)$/,
    );
  }
  expect(text).toContain('dsec_http_requests_total{method="GET",route="/v1/tasks",status="200"}');
  expect(text).toContain('dsec_tasks{state="queued"}');
  expect(text).not.toMatch(/task_0|key_0|dsk_/);
  const buckets = [
    ...text.matchAll(/^dsec_http_request_seconds_bucket\{route="\/v1\/tasks",le="[^"]+"\} (\d+)$/gm),
  ];
  const counts = buckets.map((match) => Number(match[1]));
  expect(counts).toEqual(counts.toSorted((a, b) => a - b));
});

test("the reference is OpenAPI 3.1, names every schema's members, and its page names nothing foreign", async () => {
  const document = (await (await gateway.fetch("/openapi.json")).json()) as {
    openapi: string;
    servers: object[];
    components: { schemas: Record<string, object> };
    paths: Record<string, Record<string, { requestBody?: { content: Record<string, { schema: object }> } }>>;
  };
  expect(document.openapi).toBe("3.1.0");
  // its page sends requests to where it came from, on whatever port that is
  expect(document.servers).toEqual([{ url: "/" }]);
  const submit = document.paths["/v1/tasks"]?.post?.requestBody?.content["application/json"]?.schema;
  expect(submit).toEqual({ $ref: "#/components/schemas/TaskSpec" });
  const { TaskSpec } = document.components.schemas;
  expect(TaskSpec).toMatchObject({ type: "object", required: ["command"], additionalProperties: false });
  for (const [, name] of JSON.stringify(document).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
    expect(Object.keys(document.components.schemas)).toContain(name);
  }
  const page = await (await gateway.fetch("/docs")).text();
  expect(page).not.toMatch(/https?:/);
  expect((await gateway.fetch("/docs")).headers.get("content-security-policy")).toContain(
    "default-src 'self'",
  );
});

test("the root says what this is: a page to browsers that runs and loads nothing, JSON to all else", async () => {
  const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
  const links = ["/docs", "/openapi.json", "/healthz", "/metrics", "/.well-known/jwks.json"];
  const response = await gateway.fetch("/", { headers: { accept: browser } });
  expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(response.headers.get("vary")).toBe("Accept");
  const page = await response.text();
  expect(page).toContain(packageJson.version);
  expect([...page.matchAll(/href="([^"]+)"/g)].map(([, path]) => path)).toEqual(links);
  expect(page).not.toMatch(/<script|<link|<img|https?:|\son\w+=/);
  const style = createHash("sha256")
    .update(/<style>(.*)<\/style>/s.exec(page)![1]!)
    .digest("base64");
  expect(response.headers.get("content-security-policy")).toBe(
    `default-src 'none'; style-src 'sha256-${style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  );
  for (const accept of ["*/*", "application/json", "text/html;q=0.5, application/json", undefined]) {
    const answer = await gateway.fetch("/", { headers: accept === undefined ? {} : { accept } });
    const body = (await answer.json()) as { links: Record<string, string> };
    expect(body).toMatchObject({ name: "DSec gateway", version: packageJson.version });
    expect(Object.values(body.links)).toEqual(links);
    for (const path of links) expect((await gateway.fetch(path)).status).toBe(200);
  }
  const { paths } = (await (await gateway.fetch("/openapi.json")).json()) as { paths: object };
  expect(Object.keys(paths)).toContain("/");
});

test("the key set may be cached and read from anywhere, and holds no private member", async () => {
  const response = await gateway.fetch("/.well-known/jwks.json");
  expect(response.headers.get("cache-control")).toBe("public, max-age=300");
  expect(response.headers.get("access-control-allow-origin")).toBe("*");
  const { keys } = (await response.json()) as { keys: Record<string, unknown>[] };
  expect(keys[0]).toMatchObject({ use: "sig", alg: "EdDSA" });
  expect(JSON.stringify(keys)).not.toContain('"d"');
});
