/** What an executor's calls to its gateway are made over, against a server that does what gateways may do. */
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { GatewayConnections } from "#executor/gateway-connections.ts";
import { eventually } from "./executor-under-test.ts";

let server: Server | null = null;
afterEach(async () => {
  server?.closeAllConnections();
  if (server) await new Promise((resolve) => server!.close(resolve));
  server = null;
});

async function serving(listener: RequestListener, prefix = ""): Promise<GatewayConnections> {
  server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return new GatewayConnections(`http://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}`);
}

const live = { timeoutMs: 20_000, signal: new AbortController().signal };
const BYTES = new TextEncoder().encode("a call");

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Buffer.concat(parts).toString();
}

test("requests follow each other on kept connections, below the gateway's own path", async () => {
  const ports = new Set<number>();
  const connections = await serving((request, response) => {
    ports.add(request.socket.remotePort!);
    response.setHeader("X-Kind", "plain");
    request.pipe(response);
    response.setHeader("X-Path", request.url!);
  }, "/dsec/");
  for (let i = 0; i < 10; i++) {
    const answer = await connections.request("POST", "/v1/x", { authorization: "Bearer t" }, BYTES, live);
    expect([
      answer.status,
      answer.header("x-kind"),
      answer.header("x-path"),
      answer.header("absent"),
    ]).toEqual([...[200, "plain", "/dsec/v1/x", null]]);
    expect(await textOf(answer.body)).toBe("a call");
  }
  // One rests for a turn of the event loop after each answer, in which another may be taken.
  expect(ports.size).toBeLessThanOrEqual(2);
});

test("content that lies in a file has its length, and comes whole", async () => {
  const content = new Blob(Array.from({ length: 64 }, (_, i) => Buffer.alloc(64 * 1024, i)));
  let announced: string | undefined;
  const connections = await serving((request, response) => {
    announced = request.headers["content-length"];
    let bytes = 0;
    request.on("data", (part: Buffer) => (bytes += part.length)).on("end", () => response.end(String(bytes)));
  });
  const answer = await connections.request("POST", "/", {}, content, live);
  expect(await textOf(answer.body)).toBe(String(content.size));
  expect(announced).toBe(String(content.size));
});

test("whoever leaves before the answer or within it closes the connection, and is told of his own reason", async () => {
  let closed = 0;
  const asked = Promise.withResolvers<void>();
  const connections = await serving((request, response) => {
    asked.resolve();
    request.socket.once("close", () => closed++);
    if (request.url === "/begun") response.write("begun");
  });
  const reason = new Error("enough");
  const early = new AbortController();
  const waiting = connections.request("POST", "/silent", {}, BYTES, { ...live, signal: early.signal });
  void asked.promise.then(() => early.abort(reason));
  await expect(waiting).rejects.toBe(reason);
  await eventually(() => closed === 1);

  const late = new AbortController();
  const answer = await connections.request("POST", "/begun", {}, BYTES, { ...live, signal: late.signal });
  const pieces = answer.body[Symbol.asyncIterator]();
  expect(Buffer.from((await pieces.next()).value!).toString()).toBe("begun");
  const next = pieces.next();
  late.abort(reason);
  await expect(next).rejects.toBe(reason);
  await eventually(() => closed === 2);

  await expect(connections.request("POST", "/", {}, BYTES, { ...live, signal: early.signal })).rejects.toBe(
    reason,
  );

  const third = await connections.request("POST", "/begun", {}, BYTES, live);
  for await (const _ of third.body) break;
  await eventually(() => closed === 3);
});

test("an exchange that takes too long ends, whether or not it has begun", async () => {
  const connections = await serving((request, response) => {
    if (request.url === "/begun") response.write("begun");
  });
  const within = (timeoutMs: number, path: string) =>
    connections.request("POST", path, {}, BYTES, { ...live, timeoutMs });
  await expect(within(200, "/silent")).rejects.toMatchObject({ name: "TimeoutError" });
  // On a busy machine the head alone may take so long.
  const begun = (timeoutMs: number): ReturnType<typeof within> =>
    within(timeoutMs, "/begun").catch(() => begun(2 * timeoutMs));
  const answer = await begun(200);
  await expect(textOf(answer.body)).rejects.toMatchObject({ name: "TimeoutError" });
});

test("an answer that breaks off is no whole answer, and a gateway that is away is told", async () => {
  let breakOff = () => {};
  const connections = await serving((_request, response) => {
    response.write("begun");
    breakOff = () => response.destroy();
  });
  const answer = await connections.request("POST", "/", {}, BYTES, live);
  breakOff();
  await expect(textOf(answer.body)).rejects.toThrow();
  server!.closeAllConnections();
  await new Promise((resolve) => server!.close(resolve));
  server = null;
  await expect(connections.request("POST", "/", {}, BYTES, live)).rejects.toMatchObject({
    code: "ECONNREFUSED",
  });
});

test("whoever does not read makes the gateway wait", async () => {
  let written = 0;
  const connections = await serving(async (_request, response) => {
    const piece = Buffer.alloc(64 * 1024);
    while (!response.destroyed && written < 256 * 1024 * 1024) {
      written += piece.length;
      if (!response.write(piece)) await Promise.race([once(response, "drain"), once(response, "close")]);
    }
  });
  const { body } = await connections.request("POST", "/", {}, BYTES, live);
  const pieces = body[Symbol.asyncIterator]();
  await pieces.next();
  await eventually(async () => {
    const before = written;
    await new Promise((resolve) => setTimeout(resolve, 100));
    return written === before;
  });
  expect(written).toBeLessThan(32 * 1024 * 1024);
  await pieces.return!();
});
