/** What happens behind a CONNECT. */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { describe, expect, test } from "vitest";
import {
  client,
  opaque,
  plain,
  proxy,
  rest,
  secure,
  secured,
  tunnel,
  under,
  until,
  useProxy,
} from "./proxy-clients.ts";

useProxy();

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

  test("a client that ended just before its sandbox did has had its whole connection", async () => {
    const tls = await secured(await tunnel(`opaque.test:${opaque}`), {
      servername: "opaque.test",
      ca: under.upstreamAuthority.certificate,
    });
    tls.write(`GET / HTTP/1.1\r\nHost: opaque.test:${opaque}\r\n\r\n`);
    await until(tls, /unopened\n/);
    tls.end();
    await once(tls, "finish");
    await proxy.proxy.close();
    const [connection] = proxy.calls.connections;
    if (!connection!.closed) await once(connection!, "close");
    expect(connection!.writableFinished).toBe(true);
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
