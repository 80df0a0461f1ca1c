import type { IncomingMessage, ServerResponse } from "node:http";
import { DsecError } from "#core/errors.ts";

/** A request from a sandbox, as the routes of its socket see it. */
export type Exchange = {
  readonly method: string;
  /** As it came: escapes stand, and dots are dots. */
  readonly path: string;
  /** What stands behind the question mark; empty where there is none. */
  readonly query: string;
  /** Null where it is absent. @param name in lower case */
  header(name: string): string | null;
  /** The whole body. Rejects with BODY_TOO_LARGE, without waiting for a length that is announced; CALL_CANCELLED. */
  body(maxBytes: number): Promise<Uint8Array>;
  /** Aborts where the client leaves before it has its answer. */
  readonly signal: AbortSignal;
};

/** `body` is JSON text as it is to be sent. HEAD is answered like GET: who sends the answer leaves the body out. */
export type Reply = { status: number; headers: Record<string, string>; body: string | null };

export type Routes = (exchange: Exchange) => Promise<Reply>;

/** An exchange over node:http. Nothing is made before it is asked for: most requests are small, and there are many. */
export class HttpExchange implements Exchange {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  #signal: AbortSignal | null = null;

  /** INVALID_REQUEST for HTTP/0.9, and where the target is neither a path nor a URL (RFC 9112 section 3.2). */
  constructor(request: IncomingMessage, response: ServerResponse) {
    if (request.httpVersionMajor !== 1) {
      throw new DsecError("INVALID_REQUEST", `HTTP/${request.httpVersion} is not spoken here; send HTTP/1.1`);
    }
    this.#request = request;
    this.#response = response;
    this.method = request.method!;
    const target = originForm(request.url!);
    const mark = target.indexOf("?");
    this.path = mark < 0 ? target : target.slice(0, mark);
    this.query = mark < 0 ? "" : target.slice(mark + 1);
  }

  header(name: string): string | null {
    const value = this.#request.headers[name];
    return Array.isArray(value) ? value.join(", ") : (value ?? null);
  }

  body(maxBytes: number): Promise<Uint8Array> {
    const request = this.#request;
    if (Number(request.headers["content-length"]) > maxBytes) return Promise.reject(tooLarge(maxBytes));
    return new Promise((resolve, reject) => {
      const parts: Uint8Array[] = [];
      let size = 0;
      const take = (part: Uint8Array) => {
        size += part.length;
        if (size <= maxBytes) {
          parts.push(part);
          return;
        }
        // Without a listener the rest flows on and is dropped.
        request.off("data", take);
        reject(tooLarge(maxBytes));
      };
      request.on("data", take);
      request.once("end", () => resolve(parts.length === 1 ? parts[0]! : Buffer.concat(parts)));
      request.once("close", () => {
        if (!request.complete) reject(new DsecError("CALL_CANCELLED", "the client left within its request"));
      });
    });
  }

  get signal(): AbortSignal {
    if (this.#signal !== null) return this.#signal;
    const response = this.#response;
    const left = new AbortController();
    this.#signal = left.signal;
    const leave = () => {
      if (!response.writableFinished) left.abort();
    };
    if (response.closed) leave();
    else response.once("close", leave);
    return this.#signal;
  }
}

function originForm(target: string): string {
  // Bytes above ASCII would be read as Latin-1, and so as another name than was meant.
  if (!/^[\x21-\x7e]*$/.test(target)) {
    throw new DsecError(
      "INVALID_REQUEST",
      "the request target holds bytes that are not ASCII; percent-escape them",
    );
  }
  if (target.startsWith("/") || target === "*") return target;
  const url = URL.parse(target);
  if (url === null) throw new DsecError("INVALID_REQUEST", "the request target is neither a path nor a URL");
  return url.pathname + url.search;
}

export function tooLarge(maxBytes: number): DsecError {
  return new DsecError("BODY_TOO_LARGE", `the request body is larger than ${maxBytes} bytes`, {
    details: { max_bytes: maxBytes },
  });
}
