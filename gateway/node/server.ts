/** The gateway on Node: the app behind an HTTP server, the reference page's files, and the sweep of what is over. */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { getRequestListener } from "@hono/node-server";
import type { OpenAPIHono } from "@hono/zod-openapi";
import { DsecError } from "#core/errors.ts";
import { createGateway } from "../app.ts";
import type { Env } from "../environment.ts";
import { pause } from "../pause.ts";
import type { GatewayPorts } from "../ports.ts";
import { serveCalls } from "./call-server.ts";
import { nodeCrypto } from "./crypto-engine.ts";
import { pinnedUpstream } from "./pinned-fetch.ts";
import { serveTunnels } from "./tunnel.ts";

export type RunningGateway = {
  /** Where it listens, without a trailing slash. */
  url: string;
  /** The same app without HTTP, for an executor in this process. */
  fetch: (request: Request) => Promise<Response>;
  /** Answers what is held open, ends event streams, waits for what runs (bounded), and frees the port. */
  close(): Promise<void>;
};

/** Leases end by the database's clock, and a job's channels with its tasks; this only bounds how late anybody notices. */
const SWEEP_EVERY_MS = 1_000;
/** How long close() waits for requests in flight before it cuts their connections. */
const CLOSE_GRACE_MS = 5_000;

/**
 * Serves until closed. Rejects with CONFIG_INVALID where the address cannot be listened on.
 * The ports stay the caller's: close() does not close the store.
 */
export async function startGateway(options: {
  ports: GatewayPorts;
  host: string;
  /** 0 takes a free one. */
  port: number;
  /** Authorities that upstreams may be certified by beside Mozilla's, in PEM. */
  upstreamAuthorities?: string | undefined;
}): Promise<RunningGateway> {
  const { ports, host, port, upstreamAuthorities: ca } = options;
  const closing = new AbortController();
  const upstream = pinnedUpstream(ca === undefined ? {} : { ca });
  const { app, gateway } = createGateway(
    { crypto: nodeCrypto, upstream, ...ports },
    { closing: closing.signal },
  );
  serveReferenceFiles(app);
  const calls = serveCalls(gateway);
  const others = getRequestListener(app.fetch, { hostname: host });
  const server = createServer((request, response) => {
    if (!calls(request, response)) void others(request, response);
  });
  await listen(server, host, port);
  const tunnels = serveTunnels(server, gateway, ca);
  const sweeper = sweep(ports, closing.signal);

  let closed: Promise<void> | undefined;
  return {
    url: urlOf(server, host),
    fetch: async (request) => app.fetch(request),
    close() {
      closed ??= (async () => {
        closing.abort();
        tunnels.close();
        await Promise.all([stopServer(server), sweeper]);
        await upstream.close();
      })();
      return closed;
    },
  };
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const refuse = (cause: NodeJS.ErrnoException) => {
      const why =
        cause.code === "EADDRINUSE"
          ? "it is in use; stop what uses it or choose another --port"
          : cause.message;
      reject(new DsecError("CONFIG_INVALID", `cannot listen on ${host} port ${port}: ${why}`, { cause }));
    };
    server.once("error", refuse);
    // Node's own limit for a whole request, 5 min, would cut large uploads over slow lines; headers stay bounded.
    server.requestTimeout = 0;
    server.headersTimeout = 30_000;
    server.keepAliveTimeout = 30_000;
    server.listen(port, host, () => {
      server.off("error", refuse);
      resolve();
    });
  });
}

function urlOf(server: Server, host: string): string {
  const { port } = server.address() as AddressInfo;
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

async function stopServer(server: Server): Promise<void> {
  const stopped = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const cut = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
  // Connections whose request ends now stay open for another one; close those as they fall idle.
  const idle = setInterval(() => server.closeIdleConnections(), 50);
  await stopped;
  clearTimeout(cut);
  clearInterval(idle);
}

/** Runs until the signal aborts. A database that is away is met again at the next round. */
async function sweep({ store, log }: GatewayPorts, signal: AbortSignal): Promise<void> {
  let failing = false;
  while (!signal.aborted) {
    try {
      const ended = await store.expireLeases();
      if (ended > 0) log({ level: "info", message: "leases expired", count: ended });
      await store.sweepChannels();
      failing = false;
    } catch (error) {
      if (!failing)
        log({ level: "warn", message: "sweeping leases and channels failed", error: String(error) });
      failing = true;
    }
    await pause(SWEEP_EVERY_MS, signal);
  }
}

/** The few files of swagger-ui-dist that the reference page names; no other name becomes a path. */
const REFERENCE_FILES: Record<string, string> = {
  "swagger-ui.css": "text/css; charset=utf-8",
  "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
  "favicon-32x32.png": "image/png",
};

function serveReferenceFiles(app: OpenAPIHono<Env>): void {
  const folder = dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));
  app.get("/docs/assets/:file", async (c) => {
    const name = c.req.param("file");
    const contentType = Object.hasOwn(REFERENCE_FILES, name) ? REFERENCE_FILES[name]! : null;
    if (contentType === null) {
      throw new DsecError("NOT_FOUND", `the reference page has no file ${name.slice(0, 100)}`);
    }
    const path = join(folder, name);
    const { size } = await stat(path);
    const headers = {
      "Content-Type": contentType,
      "Content-Length": String(size),
      "Cache-Control": "public, max-age=3600",
    };
    if (c.req.method === "HEAD") return c.body(null, 200, headers);
    return c.body(Readable.toWeb(createReadStream(path)) as ReadableStream, 200, headers);
  });
}
