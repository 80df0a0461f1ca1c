/** One decision, whatever form a request takes. */
import { describe, expect, test } from "vitest";
import {
  client,
  get,
  opaque,
  plain,
  proxy,
  rest,
  say,
  secure,
  secured,
  seen,
  tunnel,
  until,
  useProxy,
} from "./proxy-clients.ts";

useProxy();

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
