import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { escapedBytes } from "#core/bytes.ts";

/**
 * Programs send bytes outside ASCII in a request-target as they are (`curl http://host/é`). Servers take that for the
 * percent escapes of the bytes, and Node's parser refuses it; so they are escaped before it reads them. Where a body ends
 * its parser alone knows, so that no byte of a body is ever taken for a request's.
 */
export class RequestTargets {
  #state: "line" | "fields" | "body" | "tunnel" = "line";
  /** The first characters of the line that is being read. */
  #begun = "";
  #hasBody = false;
  /** Heads that have passed, and requests that the parser made of them. */
  #heads = 0;
  #requests = 0;
  #last: IncomingMessage | null = null;
  readonly #socket: Duplex;

  /** Of a connection that nobody reads yet. */
  constructor(socket: Duplex) {
    this.#socket = socket;
    const early: Buffer | null = socket.read();
    if (early !== null) socket.unshift(this.#escaped(early));
    const { push } = socket;
    socket.push = (chunk: Buffer | null, encoding) => {
      return push.call(socket, chunk === null ? null : this.#escaped(chunk), encoding);
    };
  }

  /** Once the parser has been put on the connection, which it would otherwise read past its stream. */
  begin(): void {
    const nothing = () => {};
    this.#socket.on("data", nothing).off("data", nothing);
  }

  /** The parser has read the head of a request. */
  came(request: IncomingMessage): void {
    this.#requests++;
    this.#last = request;
  }

  /** What follows is no HTTP. */
  end(): void {
    this.#state = "tunnel";
  }

  #escaped(chunk: Buffer): Buffer {
    if (this.#state === "body" && this.#heads === this.#requests && this.#last?.complete) {
      this.#state = "line";
    }
    const parts: Buffer[] = [];
    let at = 0;
    while (at < chunk.length && (this.#state === "line" || this.#state === "fields")) {
      const newline = chunk.indexOf("\n", at);
      const end = newline < 0 ? chunk.length : newline + 1;
      const part = chunk.subarray(at, end);
      parts.push(this.#state === "line" ? escaped(part) : part);
      if (this.#begun.length < BEGUN_CHARS) this.#begun += part.toString("latin1", 0, BEGUN_CHARS);
      if (newline >= 0) this.#endLine();
      at = end;
    }
    if (at === 0) return chunk;
    parts.push(chunk.subarray(at));
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
  }

  #endLine(): void {
    const line = this.#begun;
    this.#begun = "";
    const isEmpty = /^\r?\n/.test(line);
    if (this.#state === "line") {
      if (isEmpty) return; // allowed before a request (RFC 9112 section 2.2)
      this.#state = /^connect /i.test(line) ? "tunnel" : "fields";
      this.#hasBody = false;
    } else if (isEmpty) {
      this.#heads++;
      this.#state = this.#hasBody ? "body" : "line";
    } else {
      this.#hasBody ||= /^(?:content-length|transfer-encoding|upgrade)[ \t]*:/i.test(line);
    }
  }
}

/** As many as the longest name that is looked for has, with its colon. */
const BEGUN_CHARS = 32;

function escaped(bytes: Buffer): Buffer {
  if (!bytes.some((byte) => byte > 0x7f)) return bytes;
  return Buffer.from(escapedBytes(bytes.toString("latin1")), "latin1");
}
