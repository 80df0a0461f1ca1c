/** Secrets and budgets: what the gateway adds to a task's calls, and what it takes from the task for them. */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { PolicyRequest } from "#core/wire/policy.ts";
import { createSecretCipher } from "#gateway/proxy/secret-cipher.ts";
import { SentSecrets, sealContext } from "#gateway/proxy/secrets.ts";
import { shiftClock, stopClock } from "../store/support.ts";
import { bodyOf, LOOPBACK, openTestProxy, reach, type TestProxy } from "./proxy-under-test.ts";

const VALUE = "Bearer tok-5d2f9c0a7b";
const PART = "tok-5d2f9c0a7b";

let proxy: TestProxy;
let port: number;
let other: number;
const seen: { url: string; authorization: string | undefined }[] = [];
let redirect = "";

beforeAll(async () => {
  proxy = await openTestProxy();
  ({ port } = await proxy.serve(async (request, response) => {
    await bodyOf(request);
    seen.push({ url: request.url!, authorization: request.headers.authorization });
    if (request.url === "/echo") {
      response.write(`you sent ${request.headers.authorization!.slice(0, 12)}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
      return void response.end(`${request.headers.authorization!.slice(12)}, said the server`);
    }
    if (request.url === "/echo-header") response.setHeader("x-you-sent", request.headers.authorization!);
    if (request.url === "/echo-location") {
      response.writeHead(302, { location: `/?leak=${PART}` });
    }
    if (request.url === "/near") return void response.end(`${PART.slice(0, -1)}!`);
    if (request.url === "/go") response.writeHead(302, { location: redirect });
    response.end("x".repeat(100));
  }));
  ({ port: other } = await proxy.serve((request, response) => {
    seen.push({ url: `other${request.url}`, authorization: request.headers.authorization });
    response.end("other");
  }));
  for (const name of ["api.test", "evil.test"]) proxy.names.set(name, ["127.0.0.1"]);
  await proxy.client.ok("POST", "/v1/secrets", { name: "TOKEN", value: VALUE, hosts: ["api.test"] });
});
beforeEach(() => {
  seen.length = 0;
});
afterAll(() => proxy?.close());

const injecting = (more: Partial<PolicyRequest> = {}): PolicyRequest => ({
  rules: [
    { host: "api.test", port, plain_http: true, allow_private: LOOPBACK },
    { host: "evil.test", port: other, plain_http: true, allow_private: LOOPBACK },
  ],
  secrets: [{ host: "api.test", header: "Authorization", secret: "TOKEN", plain_http: true }],
  ...more,
});

test("a secret is set over what the sandbox sent, and stands in no answer, receipt, list or log", async () => {
  const sandbox = await proxy.lease(injecting());
  const answer = await sandbox.call(`http://api.test:${port}/`, {
    headers: [["authorization", "Bearer own"]],
  });
  expect(seen).toEqual([{ url: "/", authorization: VALUE }]);
  const { jwts } = await sandbox.receipts();
  const list = await proxy.client.ok("GET", "/v1/secrets");
  const everything = [
    JSON.stringify(answer),
    answer.body.toString(),
    ...jwts.map((jwt) => Buffer.from(jwt.split(".")[1]!, "base64url").toString()),
    JSON.stringify(list),
    JSON.stringify(proxy.gateway.logged),
  ].join("\n");
  expect(everything).not.toContain(PART);
  expect(list).toMatchObject({ items: [{ name: "TOKEN", hosts: ["api.test"] }] });
});

test("the value lies sealed in the database, and opens for its own key, name and hosts alone", async () => {
  const [sealed] = await proxy.gateway.store.findSecrets(proxy.client.id as never, ["TOKEN"]);
  expect(JSON.stringify(sealed)).not.toContain(PART);
  const cipher = proxy.gateway.ports.secretCipher!;
  const context = sealContext(proxy.client.id as never, sealed!);
  expect(await cipher.open(sealed!.sealed, context)).toBe(VALUE);
  const moved = sealContext(proxy.client.id as never, { ...sealed!, hosts: ["evil.test"] });
  for (const wrong of [moved, sealContext("key_other" as never, sealed!), ""]) {
    await expect(cipher.open(sealed!.sealed, wrong)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  }
  const stranger = await createSecretCipher(new Uint8Array(32));
  await expect(stranger.open(sealed!.sealed, context)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  expect(await cipher.seal(VALUE, context)).not.toBe(await cipher.seal(VALUE, context));
});

test("plain HTTP gets no secret unless the policy says so for that host", async () => {
  const sandbox = await proxy.lease(
    injecting({ secrets: [{ host: "api.test", header: "Authorization", secret: "TOKEN" }] }),
  );
  await sandbox.call(`http://api.test:${port}/`);
  expect(seen).toEqual([{ url: "/", authorization: undefined }]);
});

test("a redirect to another host leaves the secret behind (B35)", async () => {
  redirect = `http://evil.test:${other}/`;
  const sandbox = await proxy.lease(injecting());
  await sandbox.call(`http://api.test:${port}/go`);
  expect(seen).toEqual([
    { url: "/go", authorization: VALUE },
    { url: "other/", authorization: undefined },
  ]);
});

test("a secret goes only where it says itself, whatever a policy wants", async () => {
  const sandbox = await proxy.lease(
    injecting({
      secrets: [{ host: "evil.test", header: "Authorization", secret: "TOKEN", plain_http: true }],
    }),
  );
  expect(await sandbox.refused(`http://evil.test:${other}/`)).toMatchObject({
    code: "SECRET_FORBIDDEN",
    status: 403,
  });
  expect(seen).toEqual([]);
});

test("a secret that is not there, or another key's, refuses the call by name", async () => {
  const sandbox = await proxy.lease(
    injecting({
      secrets: [{ host: "api.test", header: "Authorization", secret: "MISSING", plain_http: true }],
    }),
  );
  expect(await sandbox.refused(`http://api.test:${port}/`)).toMatchObject({
    code: "SECRET_NOT_FOUND",
    message: expect.stringContaining("MISSING"),
  });
  const stranger = await proxy.gateway.client("tasks");
  expect(await stranger.ok("GET", "/v1/secrets")).toEqual({ items: [] });
  expect(await stranger.refused("DELETE", "/v1/secrets/TOKEN")).toMatchObject({ code: "SECRET_NOT_FOUND" });
  expect(seen).toEqual([]);
});

test("a new value is used at once and a deleted secret no more, within a second", async () => {
  const sandbox = await proxy.lease(
    injecting({
      secrets: [{ host: "api.test", header: "Authorization", secret: "ROTATED", plain_http: true }],
    }),
  );
  const body = { name: "ROTATED", value: "first-value", hosts: ["api.test"] };
  expect((await proxy.client.send("POST", "/v1/secrets", body)).status).toBe(201);
  await sandbox.call(`http://api.test:${port}/`);
  expect((await proxy.client.send("POST", "/v1/secrets", { ...body, value: "second-value" })).status).toBe(
    200,
  );
  await new Promise((resolve) => setTimeout(resolve, 1_050));
  await sandbox.call(`http://api.test:${port}/`);
  expect(seen.map(({ authorization }) => authorization)).toEqual(["first-value", "second-value"]);
  await proxy.client.ok("DELETE", "/v1/secrets/ROTATED");
  await new Promise((resolve) => setTimeout(resolve, 1_050));
  expect(await sandbox.refused(`http://api.test:${port}/`)).toMatchObject({ code: "SECRET_NOT_FOUND" });
});

test.each(["/echo", "/echo-header", "/echo-location"])(
  "%s: an answer that repeats the secret is cut before it",
  async (path) => {
    const sandbox = await proxy.lease(injecting());
    const answer = await sandbox.call(`http://api.test:${port}${path}`);
    expect(answer.error).toMatchObject({ code: "SECRET_REFLECTED" });
    expect(answer.body.toString()).not.toContain("tok");
    const { claims } = await sandbox.receipts();
    expect(JSON.stringify(claims)).not.toContain(PART);
    expect(JSON.stringify(answer)).not.toContain(PART);
  },
);

test("what only resembles a secret passes whole", async () => {
  const sandbox = await proxy.lease(injecting());
  expect((await sandbox.call(`http://api.test:${port}/near`)).body.toString()).toBe(`${PART.slice(0, -1)}!`);
});

test("a secret is found however the bytes are cut, and no other byte is kept back", () => {
  const text = new TextEncoder().encode(`before ${PART} after`);
  for (let cut = 0; cut <= text.length; cut++) {
    const sent = new SentSecrets();
    sent.add(VALUE);
    expect(
      () => [sent.pass(text.slice(0, cut)), sent.pass(text.slice(cut)), sent.pass(null)],
      `cut ${cut}`,
    ).toThrow();
  }
  const harmless = new TextEncoder().encode("tok-5 tok-5d2 tttok-5d2f9c0a7 tok-5d2f9c0a7");
  for (let size = 1; size < 9; size++) {
    const sent = new SentSecrets();
    sent.add(VALUE);
    const out: number[] = [];
    for (let at = 0; at < harmless.length; at += size) out.push(...sent.pass(harmless.slice(at, at + size)));
    out.push(...sent.pass(null));
    expect(Buffer.from(out).toString()).toBe(new TextDecoder().decode(harmless));
  }
});

test.each([
  ["a short value", { value: "xq7" }],
  ["a line break", { value: "Bearer x\r\nX-Admin: 1" }],
  ["no host", { hosts: [] }],
  ["every host", { hosts: ["*"] }],
  ["a bad name", { name: "no spaces" }],
  ["an unknown member", { scope: "all" }],
])("a secret with %s is refused, and the refusal does not repeat it", async (_, change) => {
  const body = { name: "OTHER", value: "long-enough-value", hosts: ["api.test"], ...change };
  const refused = await proxy.client.refused("POST", "/v1/secrets", body);
  expect(refused).toMatchObject({ code: "INVALID_REQUEST" });
  expect(JSON.stringify(refused)).not.toContain(body.value);
});

test("a budget of calls counts every attempt's and every hop's, and is exact under concurrency", async () => {
  const sandbox = await proxy.lease(reach(port, { budgets: { calls: 5 } }, "api.test"));
  const codes = await Promise.all(
    Array.from({ length: 9 }, async () => {
      const response = await sandbox.send(sandbox.head(`http://api.test:${port}/`));
      const text = await response.text();
      return response.ok ? "made" : (JSON.parse(text) as { error: { code: string } }).error.code;
    }),
  );
  expect(codes.filter((code) => code === "made").length).toBe(5);
  expect(codes.filter((code) => code === "BUDGET_EXHAUSTED").length).toBe(4);

  redirect = "/";
  const hops = await proxy.lease(reach(port, { budgets: { calls: 3 } }, "api.test"));
  await hops.call(`http://api.test:${port}/go`);
  const answer = await hops.call(`http://api.test:${port}/go`);
  expect(answer.error).toMatchObject({ code: "BUDGET_EXHAUSTED" });
});

test("bytes are counted as they move, and the call that goes over is stopped", async () => {
  const sandbox = await proxy.lease(reach(port, { budgets: { bytes_down: 250 } }, "api.test"));
  const url = `http://api.test:${port}/`;
  await sandbox.call(url);
  await sandbox.call(url);
  expect((await sandbox.call(url)).error).toMatchObject({ code: "BUDGET_EXHAUSTED", partial: true });
  expect(await sandbox.refused(url)).toMatchObject({ code: "BUDGET_EXHAUSTED", status: 429 });

  const sending = await proxy.lease(reach(port, { budgets: { bytes_up: 10 } }, "api.test"));
  await sending.call(url, { method: "POST", body: "0123456789" });
  expect((await sending.call(url, { method: "POST", body: "x" })).error).toMatchObject({
    code: "BUDGET_EXHAUSTED",
  });
});

test("a host's rate refuses with the time after which the next call passes", async () => {
  const sandbox = await proxy.lease(reach(port, { budgets: { per_host_calls_per_s: 2 } }, "api.test"));
  const url = `http://api.test:${port}/`;
  const { sql } = proxy.gateway;
  const nowMs = Date.now();
  await stopClock(sql, nowMs);
  try {
    await sandbox.call(url);
    await sandbox.call(url);
    const response = await sandbox.send(sandbox.head(url));
    expect(response.status).toBe(429);
    expect(response.headers.get("retry-after")).toBe("1");
    const { error } = (await response.json()) as {
      error: { code: string; details: { retry_after_ms: number } };
    };
    expect(error.code).toBe("CALL_RATE_LIMITED");
    const retryAfterMs = error.details.retry_after_ms;
    await stopClock(sql, nowMs + retryAfterMs - 1);
    expect(await sandbox.refused(url)).toMatchObject({ code: "CALL_RATE_LIMITED" });
    await stopClock(sql, nowMs + retryAfterMs);
    await sandbox.call(url);
  } finally {
    await shiftClock(sql, 0);
  }
});

test("a pinned fingerprint is enforced before a byte of another answer is handed on", async () => {
  const url = `http://api.test:${port}/`;
  const free = await proxy.lease(reach(port, {}, "api.test"));
  const { fingerprint } = (await free.call(url)).end!;
  const pinned = (pin: string) =>
    proxy.lease(reach(port, { fingerprints: [{ host: "api.test", pin: pin as never }] }, "api.test"));
  expect((await (await pinned(fingerprint!.body)).call(url)).body.length).toBe(100);
  const answer = await (await pinned(`sha256:${"1".repeat(64)}`)).call(url);
  expect(answer.error).toMatchObject({ code: "FINGERPRINT_MISMATCH" });
  expect(answer.head).toBeUndefined();
  expect(answer.body.length).toBe(0);
});
