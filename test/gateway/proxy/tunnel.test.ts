/** Connections that are passed through, over a real gateway on a port: opaque TLS, and WebSockets with their secrets. */
import { once } from "node:events";
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { createServer as createTcpServer, type Server } from "node:net";
import { Duplex, Readable } from "node:stream";
import { connect as connectTls } from "node:tls";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import type { CallHead, ReceiptClaims } from "#core/wire/calls.ts";
import { startGateway } from "#gateway/node/server.ts";
import { selfSigned } from "#test/support/certificate.ts";
import { leastMs } from "#test/support/least-ms.ts";
import { claimsOf, LOOPBACK, openTestProxy, type Sandbox, type TestProxy } from "./proxy-under-test.ts";

type Message = { type: string; [member: string]: unknown };

let proxy: TestProxy;
let running: Awaited<ReturnType<typeof startGateway>>;
let sandbox: Sandbox;
let tls: { port: number };
let echo: Server;
let sockets: WebSocketServer;
let wsPort: number;
const upgrades: NodeJS.Dict<string | string[]>[] = [];
const certificate = selfSigned("opaque.test");
const secureCertificate = selfSigned("secure.test");
let secureServer: HttpsServer;
let securePort: number;

beforeAll(async () => {
  proxy = await openTestProxy();
  running = await startGateway({
    ports: proxy.gateway.ports,
    host: "127.0.0.1",
    port: 0,
    upstreamAuthorities: secureCertificate.cert,
  });
  tls = await proxy.serve((_, response) => response.end("unseen by the gateway"), certificate);
  echo = createTcpServer((socket) => {
    socket.pipe(socket);
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => echo.listen(0, "127.0.0.1", resolve));
  sockets = new WebSocketServer({ host: "127.0.0.1", port: 0 });
  await once(sockets, "listening");
  wsPort = (sockets.address() as AddressInfo).port;
  sockets.on("connection", (socket, request) => {
    upgrades.push(request.headers);
    socket.on("message", (data, binary) => socket.send(binary ? data : `echo ${data}`, { binary }));
  });
  secureServer = createHttpsServer(secureCertificate);
  const secure = new WebSocketServer({ server: secureServer });
  secure.on("connection", (socket) => socket.on("message", (data) => socket.send(`secretly ${data}`)));
  await new Promise<void>((resolve) => secureServer.listen(0, "127.0.0.1", resolve));
  securePort = (secureServer.address() as AddressInfo).port;
  for (const name of ["opaque.test", "ws.test", "secure.test", "other.test"])
    proxy.names.set(name, ["127.0.0.1"]);
  await proxy.client.ok("POST", "/v1/secrets", {
    name: "WS",
    value: "Bearer ws-secret-1",
    hosts: ["ws.test"],
  });
  sandbox = await proxy.lease({
    rules: [
      { host: "opaque.test", port: tls.port, opaque: true, allow_private: LOOPBACK },
      {
        host: "opaque.test",
        port: (echo.address() as AddressInfo).port,
        opaque: true,
        allow_private: LOOPBACK,
      },
      { host: "ws.test", port: wsPort, plain_http: true, allow_private: LOOPBACK },
      { host: "ws.test", port: 443 },
      { host: "secure.test", port: securePort, allow_private: LOOPBACK },
      { host: "other.test", port: securePort, allow_private: LOOPBACK },
    ],
    secrets: [{ host: "ws.test", header: "Authorization", secret: "WS", plain_http: true }],
  });
});
afterAll(async () => {
  await running?.close();
  echo?.close();
  for (const client of sockets?.clients ?? []) client.terminate();
  sockets?.close();
  secureServer?.closeAllConnections();
  secureServer?.close();
  await proxy?.close();
});

/** Opens a tunnel and says what it is for; its bytes are a stream, its messages a list. */
async function open(url: string, change: Partial<CallHead> = {}) {
  const { lease_id, fence } = sandbox.lease;
  const address = `${running.url.replace("http", "ws")}/v1/leases/${lease_id}/tunnel?fence=${fence}`;
  const ws = new WebSocket(address, {
    headers: { authorization: `Bearer ${await sandbox.executor.token()}` },
  });
  const messages: Message[] = [];
  const heard = new Set<() => void>();
  const bytes = new Duplex({
    read() {},
    write: (chunk, _, done) => ws.send(chunk, { binary: true }, done),
    final: (done) => ws.send('{"type":"eof"}', done),
  });
  ws.on("message", (data, binary) => {
    if (binary) return void bytes.push(data);
    const message = JSON.parse(data.toString()) as Message;
    messages.push(message);
    if (message.type === "eof") bytes.push(null);
    for (const told of heard) told();
  });
  await once(ws, "open");
  ws.send(
    JSON.stringify(sandbox.head(url, { method: url.startsWith("ws") ? "GET" : "CONNECT", head: change })),
  );
  const until = async (type: string): Promise<Message> => {
    for (;;) {
      const found = messages.find((message) => message.type === type || message.type === "error");
      if (found) return found;
      await new Promise<void>((resolve) => heard.add(resolve));
    }
  };
  return { ws, bytes, until };
}

function* pieces(whole: Buffer, bytes: number): Generator<Buffer> {
  for (let at = 0; at < whole.length; at += bytes) yield whole.subarray(at, at + bytes);
}

/** How many tunnels the echo server has open. */
const connections = () => promisify(echo.getConnections.bind(echo))();

const receiptOf = (message: Message) => claimsOf<ReceiptClaims>(message.receipt as string);

test("TLS to an opaque host is passed through unopened, and the receipt says so", async () => {
  const tunnel = await open(`https://opaque.test:${tls.port}/`);
  expect(await tunnel.until("head")).toMatchObject({ status: 200 });
  const secured = connectTls({ socket: tunnel.bytes, servername: "opaque.test", ca: certificate.cert });
  await once(secured, "secureConnect");
  secured.write("GET / HTTP/1.1\r\nHost: opaque.test\r\nConnection: close\r\n\r\n");
  let text = "";
  for await (const chunk of secured) text += chunk;
  expect(text).toContain("unseen by the gateway");
  tunnel.bytes.end();
  const end = await tunnel.until("end");
  const receipt = receiptOf(end);
  expect(receipt).toMatchObject({
    opaque: true,
    pinned_dns: true,
    fingerprint: null,
    error: null,
    status: 200,
  });
  expect(receipt.bytes_down).toBeGreaterThan(text.length);
});

test("bytes cross a tunnel unchanged, whatever their number, and its ends are told", async () => {
  const tunnel = await open(`https://opaque.test:${(echo.address() as AddressInfo).port}/`);
  await tunnel.until("head");
  const sent = Buffer.alloc(5 * 1024 * 1024, "0123456789abcdef");
  Readable.from(pieces(sent, 64 * 1024)).pipe(tunnel.bytes);
  const parts: Buffer[] = [];
  for await (const part of tunnel.bytes) parts.push(part as Buffer);
  expect(Buffer.concat(parts).equals(sent)).toBe(true);
  const end = await tunnel.until("end");
  expect(end).toMatchObject({ type: "end", bytes_up: sent.length, bytes_down: sent.length });
});

test("a WebSocket is judged, signed and given its secret like any call", async () => {
  const tunnel = await open(`ws://ws.test:${wsPort}/chat`, {
    headers: [
      ["Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="],
      ["Sec-WebSocket-Version", "13"],
    ],
  });
  const head = await tunnel.until("head");
  expect(head).toMatchObject({ status: 101 });
  expect(upgrades.at(-1)).toMatchObject({
    host: `ws.test:${wsPort}`,
    authorization: "Bearer ws-secret-1",
    "dsec-call-signature": expect.stringMatching(/^eyJ/),
  });
  // A masked text frame that says "hi" (RFC 6455 section 5.2).
  tunnel.bytes.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]));
  const [frame] = (await once(tunnel.bytes, "data")) as [Buffer];
  expect(frame.subarray(2).toString()).toBe("echo hi");
  tunnel.bytes.end();
  const end = await tunnel.until("end");
  expect(receiptOf(end)).toMatchObject({ status: 101, opaque: false, fingerprint: null });
});

test("a WebSocket over TLS opens where an authority of the operator's certifies the upstream, and its name", async () => {
  const tunnel = await open(`wss://secure.test:${securePort}/chat`, {
    headers: [
      ["Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="],
      ["Sec-WebSocket-Version", "13"],
    ],
  });
  expect(await tunnel.until("head")).toMatchObject({ status: 101 });
  tunnel.bytes.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]));
  const [frame] = (await once(tunnel.bytes, "data")) as [Buffer];
  expect(frame.subarray(2).toString()).toBe("secretly hi");
  tunnel.bytes.end();
  expect(receiptOf(await tunnel.until("end"))).toMatchObject({ status: 101, opaque: false });

  const impostor = await open(`wss://other.test:${securePort}/chat`);
  expect(await impostor.until("head")).toMatchObject({ type: "error", code: "UPSTREAM_FAILED" });
});

test("an upstream that does not upgrade answers, and the tunnel hands it on", async () => {
  sockets.shouldHandle = () => false;
  const tunnel = await open(`ws://ws.test:${wsPort}/refused`, {
    headers: [
      ["Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="],
      ["Sec-WebSocket-Version", "13"],
    ],
  });
  expect(await tunnel.until("head")).toMatchObject({ type: "head", status: 400 });
  expect(receiptOf(await tunnel.until("end"))).toMatchObject({ status: 400 });
  sockets.shouldHandle = () => true;
});

test("when the executor leaves, the upstream is closed within a second and the receipt says so (B43)", async () => {
  const tookMs = await leastMs(1_000, async () => {
    await expect.poll(connections).toBe(0); // those of the tests before
    const tunnel = await open(`https://opaque.test:${(echo.address() as AddressInfo).port}/`);
    await tunnel.until("head");
    expect(await connections()).toBe(1);
    tunnel.ws.terminate();
    const leftAtMs = performance.now();
    await expect.poll(connections).toBe(0);
    return performance.now() - leftAtMs;
  });
  expect(tookMs).toBeLessThan(1_000);
  await expect
    .poll(async () => (await sandbox.receipts()).claims.at(-1))
    .toMatchObject({ error: "CALL_CANCELLED", opaque: true });
});

test.each([
  ["a host that no rule names", "https://evil.test:443/", "DOMAIN_NOT_ALLOWED"],
  ["another port", "https://opaque.test:22/", "PORT_NOT_ALLOWED"],
  ["metadata", "https://169.254.169.254/", "ADDRESS_NOT_ALLOWED"],
  ["a host whose requests must be seen", "https://ws.test:443/", "REQUEST_TARGET_INVALID"],
  ["a WebSocket to a host that no rule names", "ws://evil.test/", "DOMAIN_NOT_ALLOWED"],
])("a tunnel to %s is refused (B36)", async (_, url, code) => {
  const tunnel = await open(url);
  expect(await tunnel.until("head")).toMatchObject({ type: "error", code, receipt: null });
});

test("a tunnel is bounded by the call's time", async () => {
  const tunnel = await open(`https://opaque.test:${(echo.address() as AddressInfo).port}/`, {
    timeout_ms: 200,
  });
  await tunnel.until("head");
  expect(await tunnel.until("error")).toMatchObject({ code: "CALL_TIMED_OUT" });
});

test("upgrades without a good token, or anywhere else, are refused with an answer", async () => {
  const { lease_id, fence } = sandbox.lease;
  const base = running.url.replace("http", "ws");
  const status = async (path: string, authorization: string) => {
    const ws = new WebSocket(`${base}${path}`, { headers: { authorization } });
    const [, response] = (await once(ws, "unexpected-response")) as [unknown, { statusCode: number }];
    ws.on("error", () => {});
    ws.terminate();
    return response.statusCode;
  };
  const tunnel = `/v1/leases/${lease_id}/tunnel?fence=${fence}`;
  expect(await status(tunnel, "Bearer nonsense")).toBe(401);
  expect(await status(tunnel, `Bearer ${proxy.client.secret}`)).toBe(403);
  expect(await status("/v1/tasks", `Bearer ${await sandbox.executor.token()}`)).toBe(404);
});
