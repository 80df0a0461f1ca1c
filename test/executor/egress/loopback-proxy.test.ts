/** What clients of every kind, honest and hostile, get from the proxy; the clients are this test, so that bytes count. */
import { once } from "node:events";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { LIMITS } from "#core/limits.ts";
import { eventually } from "../../native/sandboxes.ts";
import { EgressUnderTest } from "./egress-under-test.ts";

let under: EgressUnderTest;
let plain: number;
let secure: number;
let opaque: number;
/** What the upstream does next; each test says. */
let upstream: RequestListener;
let seen: IncomingMessage[];
let plainSockets: Set<Socket>;

beforeAll(async () => {
  under = await EgressUnderTest.start();
  const handler: RequestListener = (request, response) => {
    seen.push(request);
    upstream(request, response);
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

type Proxy = Awaited<ReturnType<EgressUnderTest["proxy"]>>;
let proxy: Proxy;
let clients: Socket[];
beforeEach(async () => {
  seen = [];
  clients = [];
  upstream = (_request, response) => response.end("ok\n");
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

async function client(): Promise<Socket> {
  const socket = connect(proxy.port, "127.0.0.1");
  socket.on("error", () => {});
  clients.push(socket);
  await once(socket, "connect");
  return socket;
}

/** Sends the text and reads until the other side closes. */
async function say(text: string | Buffer): Promise<string> {
  const socket = await client();
  socket.write(text, "latin1");
  return await rest(socket);
}

async function rest(socket: Socket): Promise<string> {
  const parts: Buffer[] = [];
  socket.on("data", (part) => parts.push(part));
  await new Promise((resolve) => socket.once("close", resolve));
  return Buffer.concat(parts).toString("latin1");
}

/** Reads until the text so far matches. */
async function until(socket: Socket, pattern: RegExp): Promise<string> {
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

const get = (url: string, ...fields: string[]) =>
  `GET ${url} HTTP/1.1\r\nHost: ${new URL(url).host}\r\nConnection: close\r\n${fields.map((field) => `${field}\r\n`).join("")}\r\n`;

/** A tunnel, and TLS inside it as a client that trusts the sandbox's authority begins it. */
async function tunnel(authority: string): Promise<Socket> {
  const socket = await client();
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
  expect(await until(socket, /\r\n\r\n/)).toBe("HTTP/1.1 200 Connection established\r\n\r\n");
  return socket;
}

async function secured(
  socket: Socket,
  options: { servername?: string; ca?: string; ALPNProtocols?: string[] },
) {
  const tls = connectTls({ socket, ca: proxy.authority.certificate, ...options });
  tls.on("error", () => {});
  await once(tls, "secureConnect");
  return tls;
}

describe("one decision for every form of a request (B36)", () => {
  const WEBSOCKET =
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  for (const [form, text, status, code] of [
    [
      "CONNECT to 443",
      () => "CONNECT denied.test:443 HTTP/1.1\r\nHost: denied.test:443\r\n\r\n",
      403,
      "DOMAIN_NOT_ALLOWED",
    ],
    [
      "CONNECT to 80",
      () => "CONNECT denied.test:80 HTTP/1.1\r\nHost: denied.test:80\r\n\r\n",
      403,
      "DOMAIN_NOT_ALLOWED",
    ],
    [
      "CONNECT with a root dot",
      () => "CONNECT denied.test.:443 HTTP/1.1\r\nHost: denied.test.:443\r\n\r\n",
      403,
      "DOMAIN_NOT_ALLOWED",
    ],
    [
      "CONNECT to another port",
      () => "CONNECT tools.test:22 HTTP/1.1\r\nHost: tools.test:22\r\n\r\n",
      403,
      "PORT_NOT_ALLOWED",
    ],
    [
      "CONNECT with another Host",
      () => `CONNECT denied.test:443 HTTP/1.1\r\nHost: tools.test:${secure}\r\n\r\n`,
      400,
      "REQUEST_TARGET_INVALID",
    ],
    [
      "CONNECT without a port",
      () => "CONNECT tools.test HTTP/1.1\r\nHost: tools.test\r\n\r\n",
      400,
      "REQUEST_TARGET_INVALID",
    ],
    ["absolute-form", () => get("http://denied.test/?secret=1"), 403, "DOMAIN_NOT_ALLOWED"],
    ["absolute-form of https", () => get("https://denied.test/"), 403, "DOMAIN_NOT_ALLOWED"],
    [
      "origin-form with Host",
      () => "GET / HTTP/1.1\r\nHost: denied.test\r\nConnection: close\r\n\r\n",
      403,
      "DOMAIN_NOT_ALLOWED",
    ],
    [
      "an upgrade",
      () => `GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n${WEBSOCKET}\r\n`,
      403,
      "DOMAIN_NOT_ALLOWED",
    ],
    [
      "an address with the Host of an allowed name",
      () => `GET http://169.254.169.254/ HTTP/1.1\r\nHost: tools.test:${plain}\r\nConnection: close\r\n\r\n`,
      400,
      "REQUEST_TARGET_INVALID",
    ],
    ["an address", () => get("http://169.254.169.254/latest"), 403, "ADDRESS_NOT_ALLOWED"],
    [
      "an address in another spelling",
      () => "GET http://2852039166/ HTTP/1.1\r\nHost: 2852039166\r\nConnection: close\r\n\r\n",
      403,
      "ADDRESS_NOT_ALLOWED",
    ],
    [
      "two Host fields",
      () => `GET / HTTP/1.1\r\nHost: tools.test:${plain}\r\nHost: denied.test\r\nConnection: close\r\n\r\n`,
      400,
      "REQUEST_TARGET_INVALID",
    ],
    ["no Host field", () => "GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 400, "REQUEST_TARGET_INVALID"],
    [
      "userinfo",
      () =>
        `GET http://tools.test:${plain}@denied.test/ HTTP/1.1\r\nHost: denied.test\r\nConnection: close\r\n\r\n`,
      400,
      "URL_INVALID",
    ],
    [
      "TRACE",
      () =>
        `TRACE http://tools.test:${plain}/ HTTP/1.1\r\nHost: tools.test:${plain}\r\nConnection: close\r\n\r\n`,
      403,
      "METHOD_NOT_ALLOWED_BY_POLICY",
    ],
    [
      "another scheme",
      () => "GET ftp://tools.test/ HTTP/1.1\r\nHost: tools.test\r\nConnection: close\r\n\r\n",
      400,
      "URL_INVALID",
    ],
    [
      "OPTIONS *",
      () => `OPTIONS * HTTP/1.1\r\nHost: tools.test:${plain}\r\nConnection: close\r\n\r\n`,
      400,
      "REQUEST_TARGET_INVALID",
    ],
  ] as const) {
    test(`${form} is answered ${status} ${code} and reaches nothing`, async () => {
      const answer = await say(text());
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      const { error } = JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4));
      expect(error.code).toBe(code);
      expect(answer).toMatch(new RegExp(`\r\nProxy-Status: dsec; error=[a-z_]+; details="${code}"\r\n`));
      expect(answer).not.toContain("secret=1");
      expect(proxy.calls.denials.map((denied) => denied.code)).toEqual([code]);
      expect([...proxy.calls.calls, ...proxy.calls.tunnels, ...seen]).toEqual([]);
    });
  }

  test("a request inside a tunnel cannot name another host, nor the tunnel another tunnel", async () => {
    for (const text of [
      "GET / HTTP/1.1\r\nHost: denied.test\r\nConnection: close\r\n\r\n",
      "GET https://denied.test/ HTTP/1.1\r\nHost: denied.test\r\nConnection: close\r\n\r\n",
      `GET http://tools.test:${plain}/ HTTP/1.1\r\nHost: tools.test:${plain}\r\nConnection: close\r\n\r\n`,
      "CONNECT denied.test:443 HTTP/1.1\r\nHost: denied.test:443\r\n\r\n",
    ]) {
      const tls = await secured(await tunnel(`tools.test:${secure}`), { servername: "tools.test" });
      tls.write(text);
      expect(await rest(tls)).toMatch(/^HTTP\/1.1 400 .*REQUEST_TARGET_INVALID/s);
    }
    expect(proxy.calls.calls).toEqual([]);
  });

  test("TLS in a tunnel that names another host gets an alert at once, and nothing is asked", async () => {
    for (const authority of [`tools.test:${secure}`, `opaque.test:${opaque}`]) {
      const refused = secured(await tunnel(authority), { servername: "denied.test" });
      await expect(refused).rejects.toThrow(/unrecognized name/);
    }
    expect(proxy.calls.denials.map(({ code }) => code)).toEqual(["TLS_NAME_MISMATCH", "TLS_NAME_MISMATCH"]);
    expect(proxy.calls.calls).toEqual([]);
  });

  test("a policy that changes counts for the next request of a connection that stands", async () => {
    const socket = await client();
    const request = `GET http://tools.test:${plain}/ HTTP/1.1\r\nHost: tools.test:${plain}\r\n\r\n`;
    socket.write(request);
    expect(await until(socket, /\r\n\r\nok\n$/)).toMatch(/^HTTP\/1.1 200/);
    proxy.calls.policyValue = {};
    socket.write(request);
    expect(await until(socket, /DOMAIN_NOT_ALLOWED/)).toMatch(/^HTTP\/1.1 403/);
  });
});

describe("what crosses the proxy (B37 B38 B40 B41)", () => {
  test("no hop-by-hop field, none that Connection names, no proxy credential, and Host as the URL has it", async () => {
    upstream = (_request, response) => {
      response.setHeader("Connection", "x-upstream-hop");
      response.setHeader("X-Upstream-Hop", "1");
      response.setHeader("Proxy-Authenticate", "Basic");
      response.setHeader("X-End-To-End", "1");
      response.end("ok\n");
    };
    const answer = await say(
      get(
        `http://tools.test:${plain}/`,
        "Connection: x-secret, x-other",
        "X-Secret: 1",
        "x-OTHER: 1",
        "Keep-Alive: timeout=5",
        "TE: trailers",
        "Proxy-Authorization: Basic eDp5",
        "Proxy-Connection: keep-alive",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABk",
        "X-Kept: a",
        "X-Kept: b",
      ),
    );
    expect(proxy.calls.calls[0]!.headers).toEqual([
      ["X-Kept", "a"],
      ["X-Kept", "b"],
    ]);
    expect(seen[0]!.headers.host).toBe(`tools.test:${plain}`);
    expect(answer).toContain("X-End-To-End: 1");
    expect(answer).not.toMatch(/x-upstream-hop|proxy-authenticate/i);
  });

  test("a body that waits for 100 (Continue) is asked for once, and not where the policy refuses", async () => {
    const socket = await client();
    socket.write(
      `POST http://tools.test:${plain}/ HTTP/1.1\r\nHost: tools.test:${plain}\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n`,
    );
    expect(await until(socket, /\r\n\r\n/)).toBe("HTTP/1.1 100 Continue\r\n\r\n");
    socket.write("hello");
    expect(await rest(socket)).toMatch(/^HTTP\/1.1 200 /);
    expect(proxy.calls.bodies.map(String)).toEqual(["hello"]);
    expect(seen[0]!.headers.expect).toBeUndefined();
    const refused = await say(
      "POST http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    );
    expect(refused).toMatch(/^HTTP\/1.1 403 /);
  });

  test("a refusal in the middle of an upload reaches a client that sends everything before it reads", async () => {
    const socket = await client();
    const request = `POST http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\nContent-Length: 8000000\r\n\r\n`;
    socket.write(request);
    await new Promise((resolve) => socket.write(Buffer.alloc(8_000_000), resolve));
    expect(await until(socket, /DOMAIN_NOT_ALLOWED/)).toMatch(/^HTTP\/1.1 403 /);
    // and the connection is good for more
    socket.write(get(`http://tools.test:${plain}/`));
    expect(await rest(socket)).toMatch(/HTTP\/1.1 200 /);
  });

  test("HEAD, 204 and 304 have no body, and HEAD keeps the length that GET would have", async () => {
    upstream = (request, response) => {
      if (request.url === "/204") response.writeHead(204).end();
      else if (request.url === "/304") response.writeHead(304, { etag: '"x"' }).end();
      else response.writeHead(200, { "content-length": 1000 }).end("x".repeat(1000));
    };
    const at = `http://tools.test:${plain}`;
    const head = await say(get(`${at}/`).replace("GET", "HEAD"));
    expect(head).toMatch(/content-length: 1000\r\n/i);
    expect(head).toMatch(/\r\n\r\n$/);
    expect((await say(get(`${at}/`))).split("\r\n\r\n")[1]).toBe("x".repeat(1000));
    for (const path of ["/204", "/304"]) {
      const answer = await say(get(at + path));
      expect(answer).toMatch(/\r\n\r\n$/);
      expect(answer).not.toMatch(/transfer-encoding|content-length/i);
    }
  });

  test("bytes of a header outside ASCII come through unchanged, both ways", async () => {
    const name = Buffer.from('attachment; filename="发票 år.pdf"').toString("latin1");
    upstream = (request, response) => {
      response.socket!.write(
        `HTTP/1.1 200 OK\r\nContent-Disposition: ${name}\r\nX-Echo: ${request.headers["x-name"]}\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n`,
        "latin1",
      );
      response.socket!.end();
    };
    const answer = await say(get(`http://tools.test:${plain}/`, `X-Name: ${name}`));
    expect(answer).toContain(`Content-Disposition: ${name}\r\n`);
    expect(answer).toContain(`X-Echo: ${name}\r\n`);
  });

  test("several Set-Cookie fields stay several", async () => {
    upstream = (_request, response) => response.writeHead(200, { "set-cookie": ["a=1", "b=2, c"] }).end();
    expect(await say(get(`http://tools.test:${plain}/`))).toMatch(
      /set-cookie: a=1\r\nset-cookie: b=2, c\r\n/i,
    );
  });

  test("an answer that is cut is never taken for a whole one", async () => {
    const cut = (head: object) => (_request: IncomingMessage, response: ServerResponse) => {
      response.writeHead(200, { ...head });
      response.write("the first half");
      setTimeout(() => response.socket!.destroy(), 50);
    };
    upstream = cut({});
    const chunked = await say(get(`http://tools.test:${plain}/`));
    expect(chunked).toContain("the first half");
    expect(chunked).not.toMatch(/\r\n0\r\n\r\n$/);
    upstream = cut({ "content-length": 1000 });
    const counted = await say(get(`http://tools.test:${plain}/`));
    expect(counted).toMatch(/content-length: 1000/i);
    expect(counted).toMatch(/the first half$/);
  });

  test("an answer whose call fails after its last byte is not whole either, though its length is known", async () => {
    const { call } = proxy.calls;
    proxy.calls.call = async (...given) => {
      const answer = await call.apply(proxy.calls, given);
      async function* withoutReceipt() {
        yield* answer.body;
        throw new Error("the fingerprint is not the pinned one");
      }
      return { ...answer, body: withoutReceipt() };
    };
    upstream = (_request, response) => response.writeHead(200, { "content-length": 6 }).end("whole\n");
    const answer = await say(get(`http://tools.test:${plain}/`));
    expect(answer).toMatch(/content-length: 6\r\n/i);
    expect(answer).not.toContain("whole\n");
  });

  test("an upstream that cannot be reached is a 5xx with the reason, not a stall", async () => {
    upstream = (_request, response) => response.socket!.destroy();
    expect(await say(get(`http://tools.test:${plain}/`))).toMatch(/^HTTP\/1.1 5\d\d /);
  });
});

describe("streams (B43)", () => {
  test("each event of an event stream arrives before the next is sent", async () => {
    let stream: ServerResponse | undefined;
    upstream = (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.flushHeaders();
      stream = response;
    };
    for (const scheme of ["http", "https"] as const) {
      const socket =
        scheme === "http"
          ? await client()
          : await secured(await tunnel(`tools.test:${secure}`), { servername: "tools.test" });
      const port = scheme === "http" ? plain : secure;
      socket.write(`GET ${scheme}://tools.test:${port}/ HTTP/1.1\r\nHost: tools.test:${port}\r\n\r\n`);
      expect(await until(socket, /\r\n\r\n/)).toContain("text/event-stream"); // the head alone, before any event
      for (const event of [
        "data: one\n\n",
        ": keep-alive\n\n",
        "data: two\r\n\r\n",
        "data: three\r\r",
        "da",
        "ta: four\n\n",
      ]) {
        stream!.write(event);
        expect(await until(socket, /\r\n.*\r\n$/s)).toContain(event);
      }
      stream!.end();
      expect(await until(socket, /0\r\n\r\n$/)).toBe("0\r\n\r\n");
    }
  });

  test("a client that leaves ends the call, whether it was waiting for the head or reading the body", async () => {
    for (const begin of [() => {}, (response: ServerResponse) => response.write("begun")]) {
      upstream = (_request, response) => void begin(response);
      const before = seen.length;
      const socket = await client();
      socket.write(get(`http://tools.test:${plain}/`));
      await eventually("the upstream is asked", () => seen.length > before);
      socket.destroy();
      await eventually("the upstream sees the close", () => plainSockets.size === 0, 1_000);
    }
    expect(proxy.calls.cancelled).toBe(2);
  });

  test("a client that does not read holds its upstream back, and memory stays where it is", async () => {
    let sent = 0;
    upstream = (_request, response) => {
      const part = Buffer.alloc(1 << 20);
      const send = () => {
        while (sent < 400 << 20) {
          sent += part.length;
          if (!response.write(part)) return void response.once("drain", send);
        }
        response.end();
      };
      send();
    };
    const socket = await client();
    socket.pause();
    socket.write(get(`http://tools.test:${plain}/`));
    let last = -1;
    await eventually("the upstream stops sending", () => {
      const stopped = sent > 0 && sent === last;
      last = sent;
      return stopped;
    });
    expect(sent).toBeLessThan(64 << 20);
  });

  test("a WebSocket echoes through the plain proxy, and its close is passed on", async () => {
    const socket = await client();
    const websocket = new WebSocket(`ws://tools.test:${plain}/echo`, {
      createConnection: () => socket,
    });
    await once(websocket, "open");
    websocket.send(Buffer.alloc(100_000, 7));
    const [data] = await once(websocket, "message");
    expect(Buffer.compare(data, Buffer.alloc(100_000, 7))).toBe(0);
    websocket.close(1000);
    expect((await once(websocket, "close"))[0]).toBe(1000);
  });

  test("an upstream that refuses a WebSocket has its answer read, and an upgrade that is none is a request", async () => {
    upstream = (_request, response) => response.writeHead(418).end("teapot");
    const upgrade = (protocol: string) =>
      `GET http://tools.test:${plain}/ HTTP/1.1\r\nHost: tools.test:${plain}\r\nConnection: Upgrade, close\r\nUpgrade: ${protocol}\r\n` +
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    expect(await say(upgrade("h2c"))).toMatch(/^HTTP\/1.1 418 .*teapot/s);
    expect(seen.at(-1)!.headers.upgrade).toBeUndefined();
  });
});

describe("tunnels", () => {
  test("HTTPS is opened: the client sees the sandbox's authority and HTTP/1.1, the gateway sees the request", async () => {
    const tls: TLSSocket = await secured(await tunnel(`tools.test:${secure}`), {
      servername: "tools.test",
      ALPNProtocols: ["h2", "http/1.1"],
    });
    expect(tls.alpnProtocol).toBe("http/1.1");
    expect(tls.getPeerCertificate().issuer.CN).toBe("DSec sandbox authority");
    for (const path of ["/one", "/two"]) {
      tls.write(`GET ${path} HTTP/1.1\r\nHost: tools.test:${secure}\r\n\r\n`);
      await until(tls, /ok\n$/);
    }
    expect(proxy.calls.calls.map(({ url }) => url)).toEqual([
      `https://tools.test:${secure}/one`,
      `https://tools.test:${secure}/two`,
    ]);
  });

  test("an address is opened without a server name", async () => {
    const socket = await tunnel(`127.0.0.1:${secure}`);
    const tls = connectTls({ socket, host: "127.0.0.1", ca: proxy.authority.certificate });
    await once(tls, "secureConnect");
    expect(tls.authorized).toBe(true);
    expect(tls.getPeerCertificate().subjectaltname).toBe("IP Address:127.0.0.1");
    tls.destroy();
  });

  test("plain HTTP inside a tunnel is judged as plain HTTP", async () => {
    const socket = await tunnel(`tools.test:${plain}`);
    socket.write(`GET /x HTTP/1.1\r\nHost: tools.test:${plain}\r\nConnection: close\r\n\r\n`);
    expect(await rest(socket)).toMatch(/^HTTP\/1.1 200 /);
    const other = await tunnel(`tools.test:${secure}`);
    other.write(`GET /x HTTP/1.1\r\nHost: tools.test:${secure}\r\nConnection: close\r\n\r\n`);
    expect(await rest(other)).toMatch(/^HTTP\/1.1 403 .*PORT_NOT_ALLOWED.*http:/s);
  });

  test("an opaque host is passed through unopened: the client sees the upstream's own certificate", async () => {
    const tls = await secured(await tunnel(`opaque.test:${opaque}`), {
      servername: "opaque.test",
      ca: under.upstreamAuthority.certificate,
    });
    tls.write(`GET / HTTP/1.1\r\nHost: opaque.test:${opaque}\r\nConnection: close\r\n\r\n`);
    expect(await rest(tls)).toContain("unopened\n");
    expect(proxy.calls.tunnels.map(({ url }) => url)).toEqual([`https://opaque.test:${opaque}/`]);
    expect(proxy.calls.calls).toEqual([]);
  });

  test("a ClientHello may come byte by byte, and together with the CONNECT", async () => {
    const hello = await helloFor("opaque.test");
    const slow = await tunnel(`opaque.test:${opaque}`);
    slow.setNoDelay(true);
    for (const byte of hello) await new Promise((resolve) => slow.write(Buffer.from([byte]), resolve));
    expect((await until(slow, /./s)).charCodeAt(0)).toBe(22); // a handshake record of the upstream
    const early = await client();
    early.write(
      Buffer.concat([
        Buffer.from(`CONNECT opaque.test:${opaque} HTTP/1.1\r\nHost: opaque.test:${opaque}\r\n\r\n`),
        hello,
      ]),
    );
    expect((await until(early, /\r\n\r\n./s)).charCodeAt(39)).toBe(22);
  });

  for (const [what, first] of [
    ["is no TLS", Buffer.from("GET / HTTP/1.1\r\nHost: opaque.test\r\n\r\n")],
    ["is another protocol", Buffer.from("SSH-2.0-OpenSSH_9.2\r\n")],
    ["is a broken ClientHello", Buffer.from([22, 3, 1, 0, 4, 1, 255, 255, 255])],
  ] as const) {
    test(`what goes into an opaque tunnel and ${what} is refused`, async () => {
      const socket = await tunnel(`opaque.test:${opaque}`);
      socket.write(first);
      expect(Buffer.from(await rest(socket), "latin1")).toEqual(Buffer.from([21, 3, 3, 0, 2, 2, 112]));
      expect(proxy.calls.denials.map(({ code }) => code)).toEqual(["TLS_NAME_MISMATCH"]);
    });
  }

  test("TLS that names no server does not pass through unopened", async () => {
    const socket = await tunnel(`opaque.test:${opaque}`);
    await expect(secured(socket, {})).rejects.toThrow(/unrecognized name/);
  });

  /** What a real client begins with. */
  async function helloFor(servername: string): Promise<Buffer> {
    const server = createServer();
    const port = await under.listen(server);
    const tls = connectTls({ port, host: "127.0.0.1", servername });
    tls.on("error", () => {});
    const [socket] = (await once(server, "connection")) as [Socket];
    const [hello] = await once(socket, "data");
    tls.destroy();
    return hello;
  }
});

describe("hostile clients", () => {
  for (const [what, text] of [
    ["bytes that are no HTTP", "\x00\x01\x02\xff\xfe\r\n\r\n"],
    ["TLS without a CONNECT", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
    ["HTTP/2 with prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    [
      "a length and chunks together",
      "POST http://tools.test/ HTTP/1.1\r\nHost: tools.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    [
      "two lengths",
      "POST http://tools.test/ HTTP/1.1\r\nHost: tools.test\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    ],
    [
      "a length that is no number",
      "POST http://tools.test/ HTTP/1.1\r\nHost: tools.test\r\nContent-Length: +3\r\n\r\nabc",
    ],
    ["a folded field", "GET http://tools.test/ HTTP/1.1\r\nHost: tools.test\r\nX-A: 1\r\n 2\r\n\r\n"],
    ["a space before the colon", "GET http://tools.test/ HTTP/1.1\r\nHost : tools.test\r\n\r\n"],
    ["a bare CR in a field", "GET http://tools.test/ HTTP/1.1\r\nHost: tools.test\r\nX-A: 1\rX-B: 2\r\n\r\n"],
    ["a NUL in a field", "GET http://tools.test/ HTTP/1.1\r\nHost: tools.test\r\nX-A: 1\x002\r\n\r\n"],
    [
      "a head without end",
      `GET http://tools.test/ HTTP/1.1\r\nHost: tools.test\r\nX-A: ${"a".repeat(LIMITS.callHeaderBytes + 1000)}`,
    ],
    [
      "a target without end",
      `GET http://tools.test/${"a".repeat(LIMITS.urlChars + 1)} HTTP/1.1\r\nHost: tools.test\r\nConnection: close\r\n\r\n`,
    ],
  ] as const) {
    test(`${what} are answered with 400 and the error JSON, and reach nothing`, async () => {
      const answer = await say(text);
      expect(answer).toMatch(/^HTTP\/1.1 400 .*\r\n\r\n\{"error":\{"code":"[A-Z_]+","message"/s);
      expect(proxy.calls.calls).toEqual([]);
    });
  }

  test("a smuggled request inside a body is body, not a request", async () => {
    const smuggled = "GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n";
    const answer = await say(
      `POST http://tools.test:${plain}/ HTTP/1.1\r\nHost: tools.test:${plain}\r\nContent-Length: ${smuggled.length}\r\nConnection: close\r\n\r\n${smuggled}`,
    );
    expect(answer.match(/HTTP\/1.1/g)).toHaveLength(1);
    expect(proxy.calls.bodies.map(String)).toEqual([smuggled]);
    expect(proxy.calls.denials).toEqual([]);
  });

  test("pipelined requests are answered in their order and made one at a time", async () => {
    let running = 0;
    let most = 0;
    upstream = (request, response) => {
      most = Math.max(most, ++running);
      const waitMs = request.url === "/1" ? 60 : 0;
      setTimeout(() => {
        running--;
        response.end(`answer ${request.url}\n`);
      }, waitMs);
    };
    const request = (path: string, more = "") =>
      `GET http://tools.test:${plain}${path} HTTP/1.1\r\nHost: tools.test:${plain}\r\n${more}\r\n`;
    const answer = await say(request("/1") + request("/2") + request("/3", "Connection: close\r\n"));
    expect(answer.match(/answer \/\d/g)).toEqual(["answer /1", "answer /2", "answer /3"]);
    expect(most).toBe(1);
  });

  test("pipelining without end is cut off", async () => {
    upstream = () => {};
    const request = `GET http://tools.test:${plain}/ HTTP/1.1\r\nHost: tools.test:${plain}\r\n\r\n`;
    expect(await say(request.repeat(1_000))).toBe("");
    expect(proxy.calls.calls.length).toBeLessThanOrEqual(1);
  });

  test("connections beyond the bound are closed, and those within it go on", async () => {
    const first = await client();
    for (let i = 1; i < LIMITS.egressConnections; i++) await client();
    expect(await say(get(`http://tools.test:${plain}/`))).toBe("");
    first.write(get(`http://tools.test:${plain}/`));
    expect(await rest(first)).toMatch(/^HTTP\/1.1 200 /);
  });

  test("an upload that breaks off is never sent, and closing leaves nothing open", async () => {
    const socket = await client();
    socket.write(
      `POST http://tools.test:${plain}/ HTTP/1.1\r\nHost: tools.test:${plain}\r\nContent-Length: 100\r\n\r\nhalf`,
    );
    await new Promise((resolve) => setTimeout(resolve, 50));
    socket.destroy();
    const idle = await tunnel(`tools.test:${secure}`);
    await proxy.proxy.close();
    await eventually("every connection is closed", () => idle.destroyed);
    expect(seen).toEqual([]);
  });
});
