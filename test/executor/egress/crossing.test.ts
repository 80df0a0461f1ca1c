/** What of requests and answers crosses the proxy, and in what shape. */
import type { ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { client, get, plain, proxy, rest, rig, say, seen, until, useProxy } from "./proxy-clients.ts";

useProxy();

describe("what crosses the proxy (B37 B38 B40 B41)", () => {
  test("no hop-by-hop field, none that Connection names, no proxy credential, and Host as the URL has it", async () => {
    rig.upstream = (_request, response) => {
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
    rig.upstream = (request, response) => {
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
    rig.upstream = (request, response) => {
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
    rig.upstream = (_request, response) => response.writeHead(200, { "set-cookie": ["a=1", "b=2, c"] }).end();
    expect(await say(get(`http://tools.test:${plain}/`))).toMatch(
      /set-cookie: a=1\r\nset-cookie: b=2, c\r\n/i,
    );
  });

  test("an answer that is cut is never taken for a whole one", async () => {
    /** Cut once the client has its first half. */
    const cut = async (head: object) => {
      let upstream: ServerResponse | undefined;
      rig.upstream = (_request, response) => {
        upstream = response;
        response.writeHead(200, { ...head }).write("the first half");
      };
      const socket = await client();
      socket.write(get(`http://tools.test:${plain}/`));
      const begun = await until(socket, /the first half/);
      upstream!.socket!.destroy();
      return begun + (await rest(socket));
    };
    const chunked = await cut({});
    expect(chunked).toMatch(/\r\nthe first half(\r\n)?$/);
    const counted = await cut({ "content-length": 1000 });
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
    rig.upstream = (_request, response) => response.writeHead(200, { "content-length": 6 }).end("whole\n");
    const answer = await say(get(`http://tools.test:${plain}/`));
    expect(answer).toMatch(/content-length: 6\r\n/i);
    expect(answer).not.toContain("whole\n");
  });

  test("an upstream that cannot be reached is a 5xx with the reason, not a stall", async () => {
    rig.upstream = (_request, response) => response.socket!.destroy();
    expect(await say(get(`http://tools.test:${plain}/`))).toMatch(/^HTTP\/1.1 5\d\d /);
  });
});
