/**
 * The HTTP(S) proxy on a sandbox's own loopback, for programs that know nothing of DSec: what they ask for in any form
 * is judged by the task's policy and becomes a call through the gateway. Nothing is resolved or contacted from here.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { Allowed, Decision, Denied } from "#core/policy/decide.ts";
import { type Arrival, decideRequest, type RequestHead } from "#core/policy/request.ts";
import type { Authority } from "./authority.ts";
import type { CallPort, EgressCall, Fields } from "./call-port.ts";
import { fieldsOf, forwardedAnswer, forwardedRequest, valuesOf } from "./fields.ts";
import { responseOn, sendAnswer, sendError, sendRawError } from "./reply.ts";
import { RequestTargets } from "./request-targets.ts";
import { join, joinOpaque, openTunnel } from "./tunnel.ts";

export class LoopbackProxy {
  readonly #calls: CallPort;
  readonly #authority: Authority;
  readonly #server: Server;
  readonly #sockets = new Set<Duplex>();
  /** Connections inside a tunnel; all others came to the proxy itself. */
  readonly #arrivals = new WeakMap<Duplex, Arrival>();
  readonly #targets = new WeakMap<Duplex, RequestTargets>();
  readonly #queues = new WeakMap<Duplex, { length: number; last: Promise<void> }>();

  /**
   * @param listener the descriptor of a listening socket (`Sandbox.listeners`), which is closed with the proxy, or an
   * address of this host
   * @param authority whose certificate the sandbox trusts
   */
  static async start(
    listener: { fd: number } | { host: string; port: number },
    authority: Authority,
    calls: CallPort,
  ): Promise<LoopbackProxy> {
    const proxy = new LoopbackProxy(authority, calls);
    await new Promise<void>((resolve, reject) => {
      proxy.#server.once("error", reject);
      proxy.#server.listen(listener, resolve);
    });
    return proxy;
  }

  private constructor(authority: Authority, calls: CallPort) {
    this.#authority = authority;
    this.#calls = calls;
    const server = createServer({
      maxHeaderSize: LIMITS.callHeaderBytes,
      headersTimeout: LIMITS.egressHeadMs,
      requestTimeout: LIMITS.egressRequestMs,
      keepAliveTimeout: LIMITS.egressKeepAliveMs,
      connectionsCheckingInterval: 1_000,
      // Judged with the rest of the head, so that its refusal looks like every other.
      requireHostHeader: false,
      // Any other upgrade is an ordinary request (RFC 9110 section 7.8).
      shouldUpgradeCallback: (request) => isWebSocketOpening(request),
    });
    server.maxConnections = LIMITS.egressConnections;
    server.maxHeadersCount = 0; // beyond a number Node would drop fields without a word; their size is bounded
    server.on("connection", (socket) => this.#track(socket));
    server.on("request", (request, response) => this.#onRequest(request, response, "sends"));
    server.on("checkContinue", (request, response) => this.#onRequest(request, response, "waits"));
    server.on("connect", (request, socket, head) => {
      this.#targets.get(socket)?.end();
      this.#inTurn(request, () => this.#connect(request, socket, head));
    });
    server.on("upgrade", (request, socket, head) => {
      this.#targets.get(socket)?.end();
      this.#inTurn(request, () => this.#openWebSocket(request, socket, head));
    });
    server.on("clientError", (error, socket) => this.#onUnreadable(error, socket));
    this.#server = server;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /**
   * Ends every connection, and with it every call that was made for one. Of a sandbox that has ended, the ends of its
   * connections are there to be read: a client that was done is no client that broke off.
   */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    await Promise.race([
      Promise.all([...this.#sockets].map(ended)),
      sleep(LIMITS.egressCloseMs, undefined, { ref: false }),
    ]);
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #track(socket: Duplex): void {
    if (!this.#targets.has(socket)) this.#targets.set(socket, new RequestTargets(socket));
    this.#targets.get(socket)!.begin();
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    // Once a connection has left HTTP, nobody else listens.
    socket.on("error", () => socket.destroy());
  }

  #onRequest(request: IncomingMessage, response: ServerResponse, body: "sends" | "waits"): void {
    this.#inTurn(request, () => this.#serve(request, response, body));
  }

  async #serve(request: IncomingMessage, response: ServerResponse, body: "sends" | "waits"): Promise<void> {
    await answering(response, async (signal) => {
      const { target } = await this.#judge(request);
      // Whoever calls has the whole body before anything is sent, so nobody but us can answer this in time (B40).
      if (body === "waits") response.writeContinue();
      const content = hasBody(request) ? request.iterator({ destroyOnReturn: false }) : null;
      const answer = await this.#calls.call(callOf(request, target.url, content), signal);
      await sendAnswer(answer, response);
    });
  }

  async #openWebSocket(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const response = responseOn(request, socket);
    await answering(response, async (signal) => {
      const { target } = await this.#judge(request);
      const answer = await this.#calls.openWebSocket(callOf(request, target.url, null), signal);
      if (answer.kind === "answer") return sendAnswer(answer, response);
      response.detachSocket(socket as Parameters<ServerResponse["detachSocket"]>[0]);
      socket.write(switchingProtocols(answer.headers), "latin1");
      if (head.length > 0) answer.connection.write(head);
      join(socket, answer.connection);
    });
  }

  async #connect(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const response = responseOn(request, socket);
    await answering(response, async (signal) => {
      const tunnel = await this.#judge(request);
      const isOpaque = tunnel.passage === "opaque";
      // Before the tunnel stands, so that what the gateway refuses is still a status that the client can read.
      const connection = isOpaque ? await this.#calls.openTunnel(tunnel.target, signal) : null;
      response.detachSocket(socket as Parameters<ServerResponse["detachSocket"]>[0]);
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      if (connection !== null) {
        const joined = await joinOpaque(tunnel, socket, head, connection);
        if (joined.kind === "joined") return;
        connection.destroy();
        this.#tell(joined.decision);
        return;
      }
      const opening = await openTunnel(tunnel, socket, head, this.#authority);
      if (opening.kind === "refused") return this.#tell(opening.decision);
      this.#arrivals.set(opening.connection, { kind: "tunnel", scheme: opening.kind, tunnel });
      this.#targets.set(opening.connection, new RequestTargets(opening.connection));
      this.#server.emit("connection", opening.connection);
    });
  }

  /** @throws DsecError of the refusal */
  async #judge(request: IncomingMessage): Promise<Allowed> {
    const head = headOf(request);
    const arrival = this.#arrivals.get(request.socket) ?? { kind: "proxy" };
    const known = decideRequest(this.#calls.policy(), head, arrival).decision;
    if (known.allowed) return known;
    const { decision } = decideRequest(await this.#calls.renewedPolicy(), head, arrival);
    if (decision.allowed) return decision;
    this.#tell(decision);
    throw new DsecError(decision.code, decision.message);
  }

  #tell(decision: Decision): void {
    if (!decision.allowed) this.#calls.refused(decision satisfies Denied);
  }

  /**
   * One request of a connection after another, as they came: a client that pipelines means an order, and one that
   * pipelines without end must not be read without end.
   */
  #inTurn(request: IncomingMessage, work: () => Promise<void>): void {
    const { socket } = request;
    this.#targets.get(socket)?.came(request);
    const queue = this.#queues.get(socket) ?? { length: 0, last: Promise.resolve() };
    this.#queues.set(socket, queue);
    if (queue.length > LIMITS.egressPipelined) {
      socket.destroy();
      return;
    }
    queue.length++;
    queue.last = queue.last.then(async () => {
      // Every failure has become an answer by then; what is left is a fault of ours, and costs this client alone.
      if (!socket.destroyed) await work().catch(() => socket.destroy());
      queue.length--;
    });
  }

  #onUnreadable(error: NodeJS.ErrnoException, socket: Duplex): void {
    // An answer that is under way must not have another put into it.
    if (!socket.writable || (this.#queues.get(socket)?.length ?? 0) > 0 || error.code === "ECONNRESET") {
      socket.destroy();
      return;
    }
    const why = UNREADABLE[error.code ?? ""] ?? "it is not HTTP/1.1 as RFC 9112 has it";
    sendRawError(new DsecError("INVALID_REQUEST", `request: ${why}`), socket);
  }
}

const UNREADABLE: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: `its head is larger than ${LIMITS.callHeaderBytes} bytes`,
  ERR_HTTP_REQUEST_TIMEOUT: `it did not arrive within the time for a head (${LIMITS.egressHeadMs} ms) or a whole request`,
};

/** Runs what answers a request, under a signal that fires when the client leaves; every failure becomes its answer. */
async function answering(
  response: ServerResponse,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const leaving = new AbortController();
  const closed = new Promise<void>((resolve) => response.once("close", resolve));
  const leave = () => leaving.abort(new DsecError("CALL_CANCELLED", "the client left"));
  response.req.socket.once("close", leave);
  try {
    await work(leaving.signal);
    if (response.writableEnded) await closed;
  } catch (error) {
    // An answer that was not read to its end is a call that still runs.
    leaving.abort(error);
    // The connection has left HTTP: nothing that we could say would be understood.
    if (response.socket === null) return void response.req.socket.destroy();
    sendError(error, response);
    if (!response.destroyed) await closed;
  } finally {
    response.req.socket.off("close", leave);
  }
}

function headOf(request: IncomingMessage): RequestHead {
  const fields = fieldsOf(request.rawHeaders);
  const upgrade = valuesOf(fields, "upgrade");
  return {
    method: request.method ?? "",
    target: request.url ?? "",
    hosts: valuesOf(fields, "host"),
    upgrade: upgrade.length === 0 ? null : upgrade.join(", "),
  };
}

function isWebSocketOpening(request: IncomingMessage): boolean {
  return request.method === "GET" && headOf(request).upgrade?.trim().toLowerCase() === "websocket";
}

function callOf(request: IncomingMessage, url: string, body: EgressCall["body"]): EgressCall {
  return { method: request.method!, url, headers: forwardedRequest(fieldsOf(request.rawHeaders)), body };
}

/** RFC 9112 section 6.3. */
function hasBody(request: IncomingMessage): boolean {
  const { "content-length": length, "transfer-encoding": coding } = request.headers;
  return coding !== undefined || Number(length ?? 0) > 0;
}

function switchingProtocols(headers: Fields): string {
  const fields: Fields = [["Connection", "Upgrade"], ["Upgrade", "websocket"], ...forwardedAnswer(headers)];
  return `HTTP/1.1 101 Switching Protocols\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
}

async function ended(socket: Duplex): Promise<void> {
  if (socket.readableEnded || socket.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const event of ["end", "close"]) socket.once(event, resolve);
  await promise;
}
