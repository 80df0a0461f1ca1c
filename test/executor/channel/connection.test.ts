/** A connection to a sandbox's socket, over requests that are answered at once and those that are for node:http. */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Exchange, Reply } from "#executor/channel/exchange.ts";
import { type SocketServer, serveSocket } from "#executor/channel/server.ts";

let directory: string;
let server: SocketServer;
let client: Socket;
/** What the client has read. */
let answers = "";
let asked: Asked[] = [];
let onAsked = () => {};

/** A request whose answer waits until the test gives it. */
type Asked = { exchange: Exchange; reply: (reply?: Partial<Reply>) => void };

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "dsec-connection-"));
  server = await serveSocket(directory, "s", (exchange) => {
    const { promise, resolve } = Promise.withResolvers<Reply>();
    const reply = (given: Partial<Reply> = {}) =>
      resolve({ status: 200, headers: {}, body: `"${exchange.path}"`, ...given });
    asked.push({ exchange, reply });
    onAsked();
    return promise;
  });
  [asked, answers, onAsked] = [[], "", () => {}];
  client = connect(join(directory, "s"));
  client.on("data", (part) => {
    answers += part.toString("latin1");
    client.emit("read");
  });
  await once(client, "connect");
});
afterEach(async () => {
  client.destroy();
  await server.close();
  await rm(directory, { recursive: true });
});

async function askedFor(count: number): Promise<Asked> {
  while (asked.length < count) await new Promise<void>((resolve) => (onAsked = resolve));
  return asked[count - 1]!;
}

/** The bodies of so many answers, whose ends are the paths that were asked for. */
async function read(...paths: string[]): Promise<void> {
  const told = () => [...answers.matchAll(/"(\/\w+)"/g)].map(([, path]) => path);
  while (told().length < paths.length) await once(client, "read");
  expect(told()).toEqual(paths);
}

const get = (path: string, more = "") => `GET ${path} HTTP/1.1\r\nhost: dsec\r\n${more}\r\n`;
const CHUNKED = "transfer-encoding: chunked\r\n";

test("what comes while another request is answered is answered after it, however it is cut", async () => {
  client.write(get("/one"));
  const one = await askedFor(1);
  for (const byte of get("/two")) {
    client.write(byte);
    // A turn for each, so that each is read alone.
    await new Promise(setImmediate);
  }
  client.write(`${get("/three", CHUNKED)}0\r\n\r\n`);
  one.reply();
  (await askedFor(2)).reply();
  (await askedFor(3)).reply();
  await read("/one", "/two", "/three");
});

test("a body may come after its head", async () => {
  client.write(get("/late", "content-length: 5\r\n"));
  await new Promise(setImmediate);
  client.write("12345");
  const { exchange, reply } = await askedFor(1);
  expect(Buffer.from(await exchange.body(5)).toString()).toBe("12345");
  reply();
  await read("/late");
});

test("a connection goes over to node:http with the first request that is for it, and stays good", async () => {
  client.write(get("/plain"));
  (await askedFor(1)).reply();
  await read("/plain");
  client.write(get("/chunks", CHUNKED));
  client.write("3\r\nabc\r\n0\r\n\r\n");
  const { exchange, reply } = await askedFor(2);
  expect(Buffer.from(await exchange.body(3)).toString()).toBe("abc");
  reply();
  await read("/plain", "/chunks");
  client.write(get("/after", "connection: close\r\n"));
  (await askedFor(3)).reply();
  await read("/plain", "/chunks", "/after");
  await once(client, "close");
});

test.each([
  ["at once", ""],
  ["by node:http", CHUNKED],
])("a client that leaves before its answer is noticed, where it is answered %s", async (_how, more) => {
  client.write(get("/long", more) + (more === "" ? "" : "0\r\n\r\n"));
  const { exchange, reply } = await askedFor(1);
  const { signal } = exchange;
  const left = once(signal, "abort");
  client.destroy();
  await left;
  reply();
});

test("answers without a body end with their head", async () => {
  const cases: [method: string, reply: Partial<Reply>, head: string][] = [
    ["HEAD", {}, "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n"],
    ["DELETE", { status: 204, body: null }, "HTTP/1.1 204 No Content\r\n"],
    [
      "GET",
      { status: 304, body: null, headers: { etag: '"1"' } },
      'HTTP/1.1 304 Not Modified\r\netag: "1"\r\n',
    ],
    ["POST", { status: 202, body: null }, "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n"],
  ];
  for (const [at, [method, reply, head]] of cases.entries()) {
    answers = "";
    client.write(get("/none").replace("GET", method));
    (await askedFor(at + 1)).reply(reply);
    while (!answers.endsWith("\r\n\r\n")) await once(client, "read");
    expect(answers.replace(/date: [^\r]*\r\n\r\n$/, "")).toBe(head);
  }
});
