import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { httpDate } from "#core/http-date.ts";
import { closeGently } from "../lingering-close.ts";
import type { Reply } from "./exchange.ts";
import { readWholeRequest, WHOLE_BYTES, type WholeRequest } from "./whole-request.ts";

export type ConnectionOptions = {
  /** Counts a request that is taken; the refusal, where it is not. */
  enter: () => Reply | null;
  /** Must not reject. */
  answer: (request: WholeRequest) => Promise<Reply>;
  /** Counts a request no longer. */
  leave: () => void;
  /** Gives the connection to node:http, with the bytes that wait in it. */
  toNode: (socket: Socket) => void;
  /** Tells a client that its request did not come in time, and closes. */
  tooSlow: (socket: Socket) => void;
  /** Milliseconds for the first request, and without movement. */
  headerMs: number;
  idleMs: number;
};

/**
 * A connection whose requests come whole, one after the other: they are answered here, at a third of what node:http takes
 * for each. With the first that is anything else, node:http has the connection, and keeps it.
 */
export class Connection {
  readonly #socket: Socket;
  readonly #options: ConnectionOptions;
  readonly #leaving = () => this.#signal();
  #state: "new" | "idle" | "answering" = "new";
  /** What came while there is an answer to wait for, or of a request whose rest is missing. */
  #held: Buffer | null = null;
  /** Held of those that came while there is an answer to wait for. */
  #pieces = 0;
  /** Of the request that is being answered, if it asked. */
  #left: AbortController | null = null;

  constructor(socket: Socket, options: ConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    socket.setTimeout(options.headerMs);
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("timeout", this.#onTimeout);
    socket.on("close", () => this.#left?.abort());
    socket.on("error", () => {}); // it closes too
  }

  #onData = (bytes: Buffer): void => {
    const held = this.#held;
    if (held !== null) bytes = Buffer.concat([held, bytes]);
    if (this.#state !== "answering") this.#read(bytes, held === null);
    else {
      this.#held = bytes;
      // Not at once: while it is read the client is seen to leave.
      if (++this.#pieces === HELD_PIECES || bytes.length > WHOLE_BYTES) this.#socket.pause();
    }
  };

  /** @param isFirst whether a second piece may follow these */
  #read(bytes: Buffer, isFirst: boolean): void {
    this.#held = null;
    this.#pieces = 0;
    const request = readWholeRequest(bytes, this.#leaving);
    if (request === "begun" && isFirst) this.#held = bytes;
    else if (typeof request === "string") this.#handOver(bytes);
    else this.#take(request);
  }

  #take(request: WholeRequest): void {
    const { answer, enter, idleMs } = this.#options;
    const socket = this.#socket;
    const refusal = enter();
    if (refusal !== null) {
      this.#letGo();
      socket.write(textOf(refusal, request, true));
      closeGently(socket);
      return;
    }
    if (this.#state === "new" && !request.isLast) socket.setTimeout(idleMs);
    this.#state = "answering";
    void answer(request).then((reply) => this.#send(reply, request));
  }

  #send(reply: Reply, request: WholeRequest): void {
    const socket = this.#socket;
    const held = this.#held;
    this.#options.leave();
    this.#state = "idle";
    this.#left = null;
    // The client has left.
    if (!socket.writable) return;
    socket.write(textOf(reply, request, request.isLast));
    const isWritten = socket.writableLength === 0;
    if (request.isLast) {
      // Where nothing waits to be written there is nothing to shut down first.
      if (isWritten) socket.destroy();
      else socket.destroySoon();
    }
    // Who does not read is for node:http to wait for.
    else if (!isWritten) this.#handOver(held);
    else if (held !== null) {
      socket.resume();
      this.#read(held, true);
    }
  }

  #handOver(bytes: Buffer | null): void {
    const socket = this.#socket;
    this.#letGo();
    socket.pause();
    if (bytes !== null) socket.unshift(bytes);
    this.#options.toNode(socket);
    // Within this turn of the event loop: what waits here is read before what waits in the kernel.
    socket.resume();
  }

  #letGo(): void {
    this.#held = null;
    this.#socket.off("data", this.#onData);
    this.#socket.off("end", this.#onEnd);
    this.#socket.off("timeout", this.#onTimeout);
  }

  #onEnd = (): void => {
    this.#socket.end();
  };

  #onTimeout = (): void => {
    // One that waits for its answer is not idle.
    if (this.#state === "answering") return;
    if (this.#state === "idle" && this.#held === null) this.#socket.destroy();
    else {
      this.#letGo();
      this.#options.tooSlow(this.#socket);
    }
  };

  #signal(): AbortSignal {
    this.#left ??= new AbortController();
    if (this.#socket.destroyed) this.#left.abort();
    return this.#left.signal;
  }
}

/** Joining what is held costs as much as there is, for each piece. */
const HELD_PIECES = 16;

/** Head and body go out in one write. */
function textOf({ status, headers, body }: Reply, { method }: WholeRequest, isLast: boolean): string {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
  for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
  // RFC 9110 section 8.6: no length where there can be no body.
  if (status !== 204 && status !== 304) {
    head += `content-length: ${body === null ? 0 : Buffer.byteLength(body)}\r\n`;
  }
  head += `date: ${httpDate(Date.now())}\r\n${isLast ? "connection: close\r\n" : ""}\r\n`;
  return body === null || method === "HEAD" ? head : head + body;
}
