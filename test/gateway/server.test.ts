import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type RunningGateway, startGateway } from "#gateway/node/server.ts";
import { leastMs } from "#test/support/least-ms.ts";
import { type Client, openTestGateway, type TestGateway } from "./gateway-under-test.ts";

let gateway: TestGateway;
let server: RunningGateway;
let client: Client;
beforeAll(async () => {
  gateway = await openTestGateway();
  server = await startGateway({ ports: gateway.ports, host: "127.0.0.1", port: 0 });
  client = await gateway.client("tasks");
});
afterAll(async () => {
  await server.close();
  await gateway.close();
});

const headers = () => ({ authorization: `Bearer ${client.secret}` });
const json = () => ({ ...headers(), "content-type": "application/json" });

test("HEAD over HTTP has the Content-Length of GET and no body (B38)", async () => {
  const artifact = await client.upload("x".repeat(12_345));
  for (const path of [
    `/v1/artifacts/${artifact}`,
    "/v1/tasks",
    "/healthz",
    "/docs/assets/swagger-ui.css",
    "/none",
  ]) {
    const get = await fetch(server.url + path, { headers: headers() });
    const body = await get.arrayBuffer();
    const head = await fetch(server.url + path, { method: "HEAD", headers: headers() });
    expect([path, head.status, head.headers.get("content-length")]).toEqual([
      path,
      get.status,
      String(body.byteLength),
    ]);
    expect(await head.text()).toBe("");
  }
});

test("a client that waits for 100-continue gets it, and its body is read once (B40)", async () => {
  const body = JSON.stringify({ command: ["true"], stdin: "x".repeat(500_000) });
  const answer = await new Promise<{ continued: boolean; status: number | undefined }>((resolve, reject) => {
    let continued = false;
    const request = httpRequest(
      `${server.url}/v1/tasks`,
      {
        method: "POST",
        headers: { ...json(), expect: "100-continue", "content-length": Buffer.byteLength(body) },
      },
      (response) => {
        response.resume();
        response.on("end", () => resolve({ continued, status: response.statusCode }));
      },
    );
    request.on("continue", () => {
      continued = true;
      request.end(body);
    });
    request.on("error", reject);
    request.flushHeaders();
  });
  expect(answer).toEqual({ continued: true, status: 201 });
});

test("a chunked body that never ends is cut at the bound, and the gateway goes on", async () => {
  const { port } = new URL(server.url);
  const answer = await new Promise<string>((resolve) => {
    const socket = connect(Number(port), "127.0.0.1");
    let text = "";
    let writing = true;
    socket.on("data", (chunk) => {
      text += chunk;
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      writing = false;
      resolve(text);
    });
    socket.write(
      `POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${client.secret}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    const chunk = `10000\r\n${" ".repeat(65_536)}\r\n`;
    const pump = () => {
      if (!writing) return;
      if (text.includes("BODY_TOO_LARGE")) {
        writing = false;
        socket.destroy();
        return;
      }
      if (socket.write(chunk)) setImmediate(pump);
      else socket.once("drain", pump);
    };
    pump();
  });
  expect(answer).toContain("413");
  expect(answer).toContain("BODY_TOO_LARGE");
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
});

test("a follower that drops its connection is noticed within a second (B43)", async () => {
  const task = await client.submit();
  const open = async () =>
    Number(/^dsec_event_streams (\d+)$/m.exec(await (await fetch(`${server.url}/metrics`)).text())?.[1]);
  const tookMs = await leastMs(1_000, async () => {
    const leaving = new AbortController();
    const response = await fetch(`${server.url}/v1/tasks/${task.id}/events`, {
      headers: headers(),
      signal: leaving.signal,
    });
    const reader = response.body!.getReader();
    await reader.read();
    expect(await open()).toBe(1);
    leaving.abort();
    const leftAtMs = performance.now();
    await reader.read().catch(() => {});
    await expect.poll(open).toBe(0);
    return performance.now() - leftAtMs;
  });
  expect(tookMs).toBeLessThan(1_000);
});

test("the reference page's files come from this gateway, and no other file does", async () => {
  const page = await (await fetch(`${server.url}/docs`)).text();
  const files = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]!);
  expect(files.length).toBeGreaterThan(3);
  for (const file of files) {
    const response = await fetch(server.url + file);
    expect([file, response.status]).toEqual([file, 200]);
    expect((await response.arrayBuffer()).byteLength).toBeGreaterThan(50);
  }
  for (const path of [
    "package.json",
    "..%2Fpackage.json",
    "%2Fetc%2Fpasswd",
    "swagger-ui.js.map",
    "constructor",
  ]) {
    expect([path, (await fetch(`${server.url}/docs/assets/${path}`)).status]).toEqual([path, 404]);
  }
});

test("a port that is in use is refused with the way out", async () => {
  const port = Number(new URL(server.url).port);
  await expect(startGateway({ ports: gateway.ports, host: "127.0.0.1", port })).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining("--port"),
  });
});

test("closing answers long polls, ends event streams, refuses new connections and leaves nothing running", async () => {
  const executor = await gateway.executor();
  const task = await client.submit();
  const body = JSON.stringify({
    free: {
      cpu_cores: 0,
      memory_mb: 0,
      gpu_memory_mb: 0,
      disk_iops: 0,
      network_mbps: 0,
      pids: 0,
      disk_mb: 0,
    },
  });
  const tookMs = await leastMs(4_000, async () => {
    const other = await startGateway({ ports: gateway.ports, host: "127.0.0.1", port: 0 });
    const events = await fetch(`${other.url}/v1/tasks/${task.id}/events`, { headers: headers() });
    const followed = events.text();
    const offered = vi.spyOn(gateway.store, "awaitLease");
    const polled = fetch(`${other.url}/v1/leases`, {
      method: "POST",
      body,
      headers: { authorization: `Bearer ${await executor.token()}`, "content-type": "application/json" },
    });
    await vi.waitFor(() => expect(offered).toHaveBeenCalled(), { timeout: 20_000 });
    offered.mockRestore();
    const startMs = performance.now();
    await other.close();
    await other.close();
    const closedAfterMs = performance.now() - startMs;
    expect(await (await polled).json()).toEqual({ leases: [] });
    expect(await followed).toContain("event: state");
    await expect(fetch(`${other.url}/healthz`)).rejects.toThrow();
    return closedAfterMs;
  });
  expect(tookMs).toBeLessThan(4_000);
  // the store is its owner's
  await gateway.store.ping();
});

test("leases whose time is over are swept while nobody asks", async () => {
  const swept: number[] = [];
  const { store } = gateway.ports;
  const expire = store.expireLeases;
  store.expireLeases = async () => {
    const ended = await expire.call(store);
    swept.push(ended);
    return ended;
  };
  try {
    while (swept.length < 2) await new Promise((resolve) => setTimeout(resolve, 100));
  } finally {
    store.expireLeases = expire;
  }
});
