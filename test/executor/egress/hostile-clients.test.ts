/** Clients that mean harm, or know no better. */
import { describe, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { eventually } from "../../native/sandboxes.ts";
import {
  client,
  get,
  plain,
  proxy,
  rest,
  rig,
  say,
  secure,
  seen,
  tunnel,
  useProxy,
} from "./proxy-clients.ts";

useProxy();

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
    rig.upstream = (request, response) => {
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
    rig.upstream = () => {};
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
