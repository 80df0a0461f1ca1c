import { randomUUID } from "node:crypto";
import { chmodSync, closeSync, openSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { closeGently, endOnceRead } from "../lingering-close.ts";
import { failureReply } from "../memory/http.ts";
import { HttpExchange, type Reply, type Routes } from "./exchange.ts";

export type SocketServer = { close(): Promise<void> };

/** How long a client may take, in milliseconds. */
export type Patience = { headerMs: number; requestMs: number; idleMs: number; checkEveryMs: number };

const PATIENCE: Patience = {
  headerMs: LIMITS.channelHeaderTimeoutMs,
  requestMs: LIMITS.channelRequestTimeoutMs,
  idleMs: LIMITS.channelIdleTimeoutMs,
  checkEveryMs: 1_000,
};

/**
 * Serves HTTP/1.1 on a Unix socket for one sandbox, which may be hostile: connections, headers, bodies, requests at once
 * and time are bounded, so that it can use up its own share and nobody else's. Who sends what is no HTTP is answered 400
 * and closed. Descriptors that are sent along are dropped by the kernel: this end reads without asking for any.
 * @param directory a private folder; the socket is `name` in it, and anybody who can see it may connect
 */
export async function serveSocket(
  directory: string,
  name: string,
  routes: Routes,
  patience: Patience = PATIENCE,
): Promise<SocketServer> {
  const share = new Share();
  const server = createServer(
    {
      maxHeaderSize: LIMITS.channelHeaderBytes,
      headersTimeout: patience.headerMs,
      requestTimeout: patience.requestMs,
      keepAliveTimeout: patience.idleMs,
      connectionsCheckingInterval: patience.checkEveryMs,
      noDelay: false,
    },
    (request, response) => {
      const refusal = share.enter(request, response);
      if (refusal === null) void answer(routes, request, response);
      else refuse(request, response, refusal);
    },
  );
  server.maxConnections = LIMITS.channelConnections;
  server.on("connection", (socket) => share.follow(socket));
  server.on("clientError", (_error: Error, socket) => answerNonsense(socket as Socket));
  // A client that neither reads what it is sent nor sends what it announced. One that waits for its answer is not idle.
  server.setTimeout(patience.idleMs, (socket) => {
    if (socket.writableLength > 0 || !share.isWorkedFor(socket)) socket.destroy();
  });
  // Bound through the folder's descriptor: the path itself may be longer than the 107 bytes of unix(7).
  const folder = openSync(directory, "r");
  try {
    await listen(server, `/proc/self/fd/${folder}/${name}`);
    chmodSync(`/proc/self/fd/${folder}/${name}`, 0o666);
  } catch (error) {
    closeSync(folder);
    throw error;
  }
  return {
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
      closeSync(folder);
    },
  };
}

async function answer(routes: Routes, request: IncomingMessage, response: ServerResponse): Promise<void> {
  let reply: Reply;
  try {
    reply = await routes(new HttpExchange(request, response));
  } catch (error) {
    reply = failureReply(error, `req_${randomUUID()}`);
  }
  send(reply, request, response);
}

function send({ status, headers, body }: Reply, request: IncomingMessage, response: ServerResponse): void {
  if (body !== null) headers = { ...headers, "content-length": String(Buffer.byteLength(body)) };
  response.writeHead(status, headers);
  // A string goes out with the head in one write.
  if (request.complete || response.shouldKeepAlive) {
    response.end(body ?? undefined);
    return;
  }
  response.write(body ?? "");
  endOnceRead(request, response);
}

/** What one sandbox has of the executor at this moment. */
class Share {
  readonly #sockets = new Set<Socket>();
  readonly #workedFor = new Map<Socket, number>();
  #requests = 0;
  #bodyBytes = 0;

  follow(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
  }

  /** Counts a request until its answer is done; null, or why it is not taken. */
  enter(request: IncomingMessage, response: ServerResponse): string | null {
    let unread = 0;
    for (const socket of this.#sockets) unread += socket.writableLength;
    const announced = Number(request.headers["content-length"] ?? Number.NaN);
    const hasBody = request.headers["transfer-encoding"] !== undefined;
    const bytes = hasBody ? LIMITS.channelBodyBytes : Math.min(announced || 0, LIMITS.channelBodyBytes);
    if (this.#requests >= LIMITS.channelRequests)
      return `${this.#requests} requests are being worked on already`;
    if (unread + this.#bodyBytes + bytes > LIMITS.channelBufferedBytes)
      return "read the answers that wait before asking more";
    const { socket } = request;
    this.#requests++;
    this.#bodyBytes += bytes;
    this.#workedFor.set(socket, (this.#workedFor.get(socket) ?? 0) + 1);
    response.once("close", () => {
      this.#requests--;
      this.#bodyBytes -= bytes;
      const left = this.#workedFor.get(socket)! - 1;
      if (left === 0) this.#workedFor.delete(socket);
      else this.#workedFor.set(socket, left);
    });
    return null;
  }

  isWorkedFor(socket: Socket): boolean {
    return this.#workedFor.has(socket);
  }
}

/** Closes the connection too: its further requests would only wait behind this one. */
function refuse(request: IncomingMessage, response: ServerResponse, why: string): void {
  const error = new DsecError("CHANNEL_BUSY", `this sandbox has too much under way: ${why}`);
  const reply = failureReply(error, `req_${randomUUID()}`);
  response.shouldKeepAlive = false;
  send(reply, request, response);
}

/** Not HTTP, too large a head, or too slow a client (llhttp's errors, and those of Node's own time limits). */
function answerNonsense(socket: Socket): void {
  // Said already: more of it has come while the client was given time to read the answer.
  if (!socket.writable) return;
  const message = "the request is not HTTP/1.1, its head is too large, or it did not come in time";
  const text = JSON.stringify({ error: { code: "INVALID_REQUEST", message, request_id: "none" } });
  socket.write(
    `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\nconnection: close\r\n\r\n${text}`,
  );
  closeGently(socket);
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, () => {
      server.off("error", reject);
      resolve();
    });
  });
}
