/** A proxy on a port of this host and clients that are the test itself, so that bytes count. */
import { once } from "node:events";
import type { IncomingMessage, RequestListener } from "node:http";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { WebSocketServer } from "ws";
import { EgressUnderTest } from "./egress-under-test.ts";

export let under: EgressUnderTest;
export let plain: number;
export let secure: number;
export let opaque: number;
/** What the upstreams were asked. */
export let seen: IncomingMessage[];
export let plainSockets: Set<Socket>;
type Proxy = Awaited<ReturnType<EgressUnderTest["proxy"]>>;
export let proxy: Proxy;
let clients: Socket[];
/** What the upstreams answer; each test says. */
export const rig: { upstream: RequestListener } = { upstream: (_request, response) => response.end() };

/** Upstreams for a file of tests, and a fresh proxy for each test. */
export function useProxy(): void {
  beforeAll(async () => {
    under = await EgressUnderTest.start();
    const handler: RequestListener = (request, response) => {
      seen.push(request);
      rig.upstream(request, response);
    };
    plainSockets = new Set();
    const plainServer = under.plain(handler);
    plainServer.on("connection", (socket) => {
      plainSockets.add(socket);
      socket.once("close", () => plainSockets.delete(socket));
    });
    new WebSocketServer({ server: plainServer, path: "/echo" }).on("connection", (socket) => {
      socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
    });
    plain = await under.listen(plainServer);
    secure = await under.listen(under.secure(handler));
    opaque = await under.listen(under.secure((_request, response) => response.end("unopened\n")));
  });
  afterAll(() => under[Symbol.asyncDispose]());

  beforeEach(async () => {
    seen = [];
    clients = [];
    rig.upstream = (_request, response) => response.end("ok\n");
    proxy = await under.proxy({
      rules: [
        { host: "tools.test", port: plain, plain_http: true },
        { host: "tools.test", port: secure },
        { host: "127.0.0.1", port: secure, allow_private: ["127.0.0.1"] },
        { host: "opaque.test", port: opaque, opaque: true },
      ],
    });
  });
  afterEach(async () => {
    for (const client of clients) client.destroy();
    await proxy.proxy.close();
  });
}

export async function client(): Promise<Socket> {
  const socket = connect(proxy.port, "127.0.0.1");
  socket.on("error", () => {});
  clients.push(socket);
  await once(socket, "connect");
  return socket;
}

/** Sends the text and reads until the other side closes. */
export async function say(text: string | Buffer): Promise<string> {
  const socket = await client();
  socket.write(text, "latin1");
  return await rest(socket);
}

export async function rest(socket: Socket): Promise<string> {
  const parts: Buffer[] = [];
  socket.on("data", (part) => parts.push(part));
  await new Promise((resolve) => socket.once("close", resolve));
  return Buffer.concat(parts).toString("latin1");
}

/** Reads until the text so far matches. */
export async function until(socket: Socket, pattern: RegExp): Promise<string> {
  let text = "";
  while (!pattern.test(text)) {
    const part: Buffer | null = socket.read();
    if (part !== null) text += part.toString("latin1");
    else if (socket.readableEnded || socket.destroyed)
      throw new Error(`closed after ${JSON.stringify(text)}`);
    else await Promise.race([once(socket, "readable"), once(socket, "close")]);
  }
  return text;
}

export const get = (url: string, ...fields: string[]) =>
  `GET ${url} HTTP/1.1\r\nHost: ${new URL(url).host}\r\nConnection: close\r\n${fields.map((field) => `${field}\r\n`).join("")}\r\n`;

/** A tunnel, and TLS inside it as a client that trusts the sandbox's authority begins it. */
export async function tunnel(authority: string): Promise<Socket> {
  const socket = await client();
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
  expect(await until(socket, /\r\n\r\n/)).toBe("HTTP/1.1 200 Connection established\r\n\r\n");
  return socket;
}

export async function secured(
  socket: Socket,
  options: { servername?: string; ca?: string; ALPNProtocols?: string[] },
) {
  const tls = connectTls({ socket, ca: proxy.authority.certificate, ...options });
  tls.on("error", () => {});
  await once(tls, "secureConnect");
  return tls;
}
