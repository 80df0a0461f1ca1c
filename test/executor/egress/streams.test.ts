/** Event streams and WebSockets, and clients that leave or do not read. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { eventually } from "../../native/sandboxes.ts";
import {
  client,
  get,
  plain,
  plainSockets,
  proxy,
  rig,
  say,
  secure,
  secured,
  seen,
  tunnel,
  until,
  useProxy,
} from "./proxy-clients.ts";

useProxy();

describe("streams (B43)", () => {
  test("each event of an event stream arrives before the next is sent", async () => {
    let stream: ServerResponse | undefined;
    rig.upstream = (_request, response) => {
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
      rig.upstream = (_request, response) => void begin(response);
      const before = seen.length;
      const socket = await client();
      socket.write(get(`http://tools.test:${plain}/`));
      await eventually("the upstream is asked", () => seen.length > before);
      socket.destroy();
      await eventually("the upstream sees the close", () => plainSockets.size === 0, 30_000);
    }
    expect(proxy.calls.cancelled).toBe(2);
  });

  test("a client that does not read holds its upstream back, and memory stays where it is", async () => {
    let sent = 0;
    rig.upstream = (_request, response) => {
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
    let last = 0;
    let unchanged = 0;
    await eventually("the upstream stops sending", () => {
      unchanged = sent > 0 && sent === last ? unchanged + 1 : 0;
      last = sent;
      return unchanged === 25;
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
    rig.upstream = (_request, response) => response.writeHead(418).end("teapot");
    const upgrade = (protocol: string) =>
      `GET http://tools.test:${plain}/ HTTP/1.1\r\nHost: tools.test:${plain}\r\nConnection: Upgrade, close\r\nUpgrade: ${protocol}\r\n` +
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    // ws refuses what is not for /echo
    expect(await say(upgrade("websocket"))).toMatch(/^HTTP\/1.1 400 Bad Request/);
    expect(proxy.calls.calls.map(({ url }) => url)).toEqual([`http://tools.test:${plain}/`]);
    expect(await say(upgrade("h2c"))).toMatch(/^HTTP\/1.1 418 .*teapot/s);
    expect(seen.at(-1)!.headers.upgrade).toBeUndefined();
  });
});
