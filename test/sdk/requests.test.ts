/** What a client asks for comes once and whole, whatever becomes of its requests and their answers on their way. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, createClient } from "#sdk/client.ts";
import { ISSUER } from "../gateway/gateway-under-test.ts";
import { collect, cutAfter, openTestClient, printed, states, type TestClient } from "./client-under-test.ts";

let gateway: TestClient["gateway"];
let apiKey: TestClient["apiKey"];
let client: TestClient["client"];
let direct: TestClient["direct"];
let runNext: TestClient["runNext"];

const stops: (() => unknown)[] = [];
beforeAll(async () => {
  ({ gateway, apiKey, client, direct, runNext } = await openTestClient());
});
afterAll(async () => {
  for (const stop of stops) await stop();
  await gateway.close();
});

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

/** A server of the test's own, and its origin. */
async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stops.push(() => server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
