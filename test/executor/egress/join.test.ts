/** How the two sides of a connection that is passed through come to their ends. */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { type Duplex, duplexPair } from "node:stream";
import { afterEach, beforeEach, expect, test } from "vitest";
import { join } from "#executor/egress/tunnel.ts";

let client: Socket;
/** What the executor holds of the gateway's tunnel, and the upstream behind it. */
let connection: Duplex;
let upstream: Duplex;
let closed: Promise<unknown>;

beforeEach(async () => {
  const server = createServer({ allowHalfOpen: true });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const { port } = server.address() as { port: number };
  client = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  client.on("error", () => {});
  await once(client, "connect");
  const [socket] = await accepted;
  server.close();
  socket.on("error", () => socket.destroy());
  [connection, upstream] = duplexPair();
  closed = once(connection, "close");
  join(socket, connection);
  upstream.resume();
});
afterEach(() => {
  client.destroy();
  connection.destroy();
});

const cameToItsEnd = () => connection.readableEnded && connection.writableFinished;

test("a client that is reset by an upstream's last words, which it does not read, was done", async () => {
  client.write("goodbye");
  await once(upstream, "data");
  client.pause();
  upstream.end("goodbye to you");
  await once(connection, "end");
  client.resetAndDestroy();
  await closed;
  expect(cameToItsEnd()).toBe(true);
});

test("so was one that is reset a moment before its upstream ends", async () => {
  client.resetAndDestroy();
  await once(client, "close");
  upstream.end();
  await closed;
  expect(cameToItsEnd()).toBe(true);
});

test("a client that is reset while its upstream goes on has broken off", async () => {
  upstream.write("the first part");
  await once(client, "data");
  client.resetAndDestroy();
  await closed;
  expect(cameToItsEnd()).toBe(false);
});

test("a client that ends has its connection ended, and what still comes for it is passed on", async () => {
  client.end("all that I ask");
  await once(upstream, "end");
  upstream.end("an answer");
  expect(String(await once(client, "data"))).toBe("an answer");
  client.destroy();
  await closed;
  expect(cameToItsEnd()).toBe(true);
});
