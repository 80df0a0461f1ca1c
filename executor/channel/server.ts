import { randomUUID } from "node:crypto";
import { chmodSync, closeSync, openSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { closeGently, endOnceRead } from "../lingering-close.ts";
import { failureReply } from "../memory/http.ts";
import { Connection, type ConnectionOptions } from "./connection.ts";
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
    (request, response) => take(share, routes, request, response),
  );
  server.maxConnections = LIMITS.channelConnections;
  const options = { ...connectionOptions(routes, share, patience), toNode: takenFromNode(server) };
  server.on("connection", (socket) => {
    share.follow(socket);
    new Connection(socket, options);
  });
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
    server.close();
    closeSync(folder);
    throw error;
  }
  return {
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      share.end();
      await closed;
      closeSync(folder);
    },
  };
}

/** Connections come to node:http by its own listener alone, which then is given those that are for it. */
function takenFromNode(server: Server): (socket: Socket) => void {
  const [listener] = server.listeners("connection") as ((this: Server, socket: Socket) => void)[];
  server.off("connection", listener!);
  return (socket) => listener!.call(server, socket);
}

function connectionOptions(
  routes: Routes,
  share: Share,
  { headerMs, idleMs }: Patience,
): Omit<ConnectionOptions, "toNode"> {
  return {
    answer: (request) => routes(request).catch(failed),
    enter() {
      const refusal = share.refusal(0);
      if (refusal !== null) return busy(refusal);
      share.requests++;
      return null;
    },
    leave() {
      share.requests--;
    },
    headerMs,
    idleMs,
    tooSlow: answerNonsense,
  };
}

async function answer(routes: Routes, request: IncomingMessage, response: ServerResponse): Promise<void> {
  let reply: Reply;
  try {
    reply = await routes(new HttpExchange(request, response));
  } catch (error) {
    reply = failed(error);
  }
  send(reply, request, response);
}

function failed(error: unknown): Reply {
  return failureReply(error, `req_${randomUUID()}`);
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
  /** Being worked on. */
  requests = 0;
  #bodyBytes = 0;

  follow(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
  }

  /** Why a request with a body of up to so many bytes to come is not taken; null where it is. */
  refusal(bytes: number): string | null {
    let unread = 0;
    for (const socket of this.#sockets) unread += socket.writableLength;
    if (this.requests >= LIMITS.channelRequests)
      return `${this.requests} requests are being worked on already`;
    if (unread + this.#bodyBytes + bytes > LIMITS.channelBufferedBytes)
      return "read the answers that wait before asking more";
    return null;
  }

  /** Counts a request of node:http until it is left. */
  enter(socket: Socket, bytes: number): void {
    this.requests++;
    this.#bodyBytes += bytes;
    this.#workedFor.set(socket, (this.#workedFor.get(socket) ?? 0) + 1);
  }

  leave(socket: Socket, bytes: number): void {
    this.requests--;
    this.#bodyBytes -= bytes;
    const left = this.#workedFor.get(socket)! - 1;
    if (left === 0) this.#workedFor.delete(socket);
    else this.#workedFor.set(socket, left);
  }

  isWorkedFor(socket: Socket): boolean {
    return this.#workedFor.has(socket);
  }

  end(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

function take(share: Share, routes: Routes, request: IncomingMessage, response: ServerResponse): void {
  const announced = Number(request.headers["content-length"] ?? Number.NaN);
  const hasBody = request.headers["transfer-encoding"] !== undefined;
  const bytes = hasBody ? LIMITS.channelBodyBytes : Math.min(announced || 0, LIMITS.channelBodyBytes);
  const refusal = share.refusal(bytes);
  if (refusal !== null) {
    // Closed too: the connection's further requests would only wait behind this one.
    response.shouldKeepAlive = false;
    send(busy(refusal), request, response);
    return;
  }
  const { socket } = request;
  share.enter(socket, bytes);
  response.once("close", () => share.leave(socket, bytes));
  void answer(routes, request, response);
}

function busy(why: string): Reply {
  return failed(new DsecError("CHANNEL_BUSY", `this sandbox has too much under way: ${why}`));
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
