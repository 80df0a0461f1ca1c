/** Request-targets with bytes outside ASCII, which servers take and Node's parser does not. */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import {
  client,
  get,
  plain,
  proxy,
  rest,
  rig,
  say,
  secure,
  secured,
  seen,
  tunnel,
  under,
  until,
  useProxy,
} from "./proxy-clients.ts";

useProxy();

const UTF8 = Buffer.from("/发票/café?q=é").toString("latin1");
const ESCAPED = "/%E5%8F%91%E7%A5%A8/caf%C3%A9?q=%C3%A9";
const at = () => `http://tools.test:${plain}`;
const urls = () => proxy.calls.calls.map(({ url }) => url);
const head = (line: string, ...fields: string[]) =>
  `${[`${line} HTTP/1.1`, `Host: tools.test:${plain}`, ...fields].join("\r\n")}\r\n\r\n`;

test("bytes outside ASCII are asked for as their escapes, UTF-8 or not, and so is what is escaped already", async () => {
  for (const target of [UTF8, "/caf\xe9?\xff=\x80", "/caf%c3%a9"])
    expect(await say(`${head(`GET ${at()}${target}`, "Connection: close")}`)).toMatch(/^HTTP\/1.1 200 /);
  expect(urls()).toEqual([`${at()}${ESCAPED}`, `${at()}/caf%E9?%FF=%80`, `${at()}/caf%c3%a9`]);
  expect(seen.map(({ url }) => url)).toEqual([ESCAPED, "/caf%E9?%FF=%80", "/caf%c3%a9"]);
});

test("a head may come byte by byte", async () => {
  const socket = await client();
  socket.setNoDelay(true);
  for (const byte of Buffer.from(head(`GET ${at()}${UTF8}`, "Connection: close"), "latin1")) {
    await new Promise((resolve) => socket.write(Buffer.of(byte), resolve));
  }
  expect(await rest(socket)).toMatch(/^HTTP\/1.1 200 /);
  expect(urls()).toEqual([`${at()}${ESCAPED}`]);
});

test("requests that are pipelined without a body keep their targets", async () => {
  const answers = await say(
    head(`GET ${at()}/a\xe9`) + head(`GET ${at()}/b\xe9`) + head(`GET ${at()}/c\xe9`, "Connection: close"),
  );
  expect(answers.match(/HTTP\/1.1 200 /g)).toHaveLength(3);
  expect(urls()).toEqual([`${at()}/a%E9`, `${at()}/b%E9`, `${at()}/c%E9`]);
});

test("no byte of a body is changed, whatever it looks like, and the next request on the connection is read anew", async () => {
  const body = `GET /\xe9 HTTP/1.1\r\n\r\nPOST /\xff HTTP/1.1\r\n\xfe\r\n\r\n`;
  const socket = await client();
  const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  for (const [fields, content] of [
    [[`Content-Length: ${body.length}`], body],
    [["Transfer-Encoding: chunked"], chunked],
  ] as const) {
    const request = Buffer.from(head(`POST ${at()}/caf\xe9`, ...fields) + content, "latin1");
    // in one piece, and cut within head and body
    for (const cut of [request.length, 20, request.length - 40, request.length - 8]) {
      socket.write(request.subarray(0, cut));
      await new Promise((resolve) => setImmediate(resolve));
      socket.write(request.subarray(cut));
      expect(await until(socket, /ok\n$/)).toMatch(/^HTTP\/1.1 200 /);
    }
  }
  expect(urls()).toEqual(Array.from({ length: 8 }, () => `${at()}/caf%E9`));
  expect(proxy.calls.bodies.map((sent) => sent.toString("latin1"))).toEqual(
    Array.from({ length: 8 }, () => body),
  );
});

test("a body that is sent while the answer before it is still under way is left as it is", async () => {
  const open: (() => void)[] = [];
  rig.upstream = (_request, response) => void open.push(() => response.end("ok\n"));
  const socket = await client();
  const body = "line\xe9\nline\xe9\n";
  socket.write(head(`GET ${at()}/first\xe9`), "latin1");
  await expect.poll(() => open.length).toBe(1);
  socket.write(head(`POST ${at()}/second\xe9`, `Content-Length: ${2 * body.length}`) + body, "latin1");
  open[0]!();
  await until(socket, /ok\n$/);
  socket.write(body, "latin1");
  await expect.poll(() => open.length).toBe(2);
  open[1]!();
  await until(socket, /ok\n$/);
  expect(proxy.calls.bodies.map((sent) => sent.toString("latin1"))).toEqual(["", body + body]);
  expect(urls()).toEqual([`${at()}/first%E9`, `${at()}/second%E9`]);
});

test("so it is within a tunnel, in TLS and in plain HTTP, where the client speaks first", async () => {
  const inside = async (connection: Socket, port: number) => {
    connection.write(
      Buffer.from(`GET ${UTF8} HTTP/1.1\r\nHost: tools.test:${port}\r\nConnection: close\r\n\r\n`, "latin1"),
    );
    return rest(connection);
  };
  expect(
    await inside(await secured(await tunnel(`tools.test:${secure}`), { servername: "tools.test" }), secure),
  ).toMatch(/^HTTP\/1.1 200 /);
  expect(await inside(await tunnel(`tools.test:${plain}`), plain)).toMatch(/^HTTP\/1.1 200 /);
  expect(urls()).toEqual([`https://tools.test:${secure}${ESCAPED}`, `${at()}${ESCAPED}`]);
});

test("a CONNECT whose client does not wait for its answer loses nothing of its TLS", async () => {
  const socket = await client();
  // The first record goes out with the CONNECT; both are in the proxy's first read.
  const early = `CONNECT tools.test:${plain} HTTP/1.1\r\nHost: tools.test:${plain}\r\n\r\n`;
  const request = `POST /caf\xe9 HTTP/1.1\r\nHost: tools.test:${plain}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n\xe9\n`;
  socket.write(Buffer.from(early + request, "latin1"));
  expect(await rest(socket)).toMatch(/^HTTP\/1.1 200 Connection established\r\n\r\nHTTP\/1.1 200 /);
  expect(proxy.calls.bodies.map((sent) => sent.toString("latin1"))).toEqual(["\xe9\n"]);
  expect(urls()).toEqual([`${at()}/caf%E9`]);
});

test("frames of a WebSocket are none of a request's bytes", async () => {
  const socket = await client();
  const fields = [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
  ];
  socket.write(head(`GET ${at()}/echo`, ...fields));
  await until(socket, /\r\n\r\n/);
  const text = Buffer.from("é\né\n");
  for (let round = 0; round < 2; round++) {
    socket.write(Buffer.concat([Buffer.from([0x81, 0x80 | text.length, 0, 0, 0, 0]), text]));
    let echo = Buffer.alloc(0);
    while (echo.length < text.length + 2) {
      const part: Buffer | null = socket.read();
      if (part === null) await once(socket, "readable");
      else echo = Buffer.concat([echo, part]);
    }
    expect(echo.subarray(2)).toEqual(text);
  }
});

test("bytes outside ASCII in an answer's head come through unchanged where it has no body, and where it opens a WebSocket", async () => {
  rig.upstream = (_request, response) => {
    response.socket!.end(`HTTP/1.1 304 Not Modified\r\nLocation: ${UTF8}\r\n\r\n`, "latin1");
  };
  expect(await say(get(`${at()}/`))).toContain(`Location: ${UTF8}\r\n`);
  expect(await say(get(`${at()}/`).replace("GET", "HEAD"))).toContain(`Location: ${UTF8}\r\n`);

  const opening = createServer((socket) => {
    const fields = ["Connection: Upgrade", "Upgrade: websocket", `X-Name: ${UTF8}`];
    socket.write(Buffer.from(`HTTP/1.1 101 Switching Protocols\r\n${fields.join("\r\n")}\r\n\r\n`, "latin1"));
    socket.on("error", () => {});
  });
  const port = await under.listen(opening);
  proxy.calls.policyValue = { rules: [{ host: "tools.test", port, plain_http: true }] };
  const socket = await client();
  socket.write(
    get(`http://tools.test:${port}/`, "Upgrade: websocket").replace(
      "Connection: close",
      "Connection: Upgrade",
    ),
  );
  expect(await until(socket, /\r\n\r\n/)).toContain(`X-Name: ${UTF8}\r\n`);
});
