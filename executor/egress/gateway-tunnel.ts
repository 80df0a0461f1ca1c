/** The executor's end of a lease's tunnel: a WebSocket to the gateway that carries one connection (docs/tool-calls.md). */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { Duplex } from "node:stream";
import { type RawData, WebSocket } from "ws";
import { z } from "zod";
import { DsecError, isErrorCode } from "#core/errors.ts";
import { parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { AnswerErrorSchema, AnswerHeadSchema, type CallHead } from "#core/wire/calls.ts";
import { ErrorBodySchema } from "#core/wire/common.ts";
import { CallFailure } from "../channel/proxy-client.ts";

export type GatewayTunnel = {
  /** Of the upstream: 101 where a WebSocket opened, 200 of an opaque connection. */
  status: number;
  headers: [name: string, value: string][];
  /** What the upstream sends and is sent; its failure is that of the connection behind it. */
  connection: Duplex;
  /** The receipt. Rejects as `sendCall` does. */
  ended: Promise<{ receipt: string; bytesUp: number; bytesDown: number }>;
};

const CONNECT_TIMEOUT_MS = 10_000;
/** A gateway that has passed on both ends has a receipt to write, and no more. */
const FAREWELL_MS = LIMITS.callGraceMs;

/**
 * @param url of the lease's tunnel, ws: or wss:
 * @throws the gateway's refusal; CallFailure; GATEWAY_UNREACHABLE
 */
export async function dialTunnel(
  url: string,
  authorization: string,
  head: CallHead,
  signal: AbortSignal,
): Promise<GatewayTunnel> {
  signal.throwIfAborted();
  const socket = new WebSocket(url, {
    headers: { authorization },
    handshakeTimeout: CONNECT_TIMEOUT_MS,
    perMessageDeflate: false,
    maxPayload: LIMITS.callHeadBytes,
  });
  const leave = () => socket.terminate();
  signal.addEventListener("abort", leave, { once: true });
  try {
    await opened(socket);
    socket.send(JSON.stringify(head));
    const tunnel = new Tunnel(socket);
    const first = await tunnel.answered;
    return { ...first, connection: tunnel, ended: tunnel.ended };
  } catch (error) {
    socket.terminate();
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

async function opened(socket: WebSocket): Promise<void> {
  const refusal = new Promise<never>((_, reject) => {
    socket.once("unexpected-response", (_request, response) => refusalIn(response).then(reject, reject));
  });
  try {
    await Promise.race([once(socket, "open"), refusal]);
  } catch (error) {
    throw error instanceof DsecError ? error : broken((error as Error).message, error);
  }
}

async function refusalIn(response: IncomingMessage): Promise<DsecError> {
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  const parsed = ErrorBodySchema.safeParse(parseJson(Buffer.concat(parts), "error answer"));
  if (parsed.success) return new DsecError(parsed.data.error.code, parsed.data.error.message);
  return broken(`status ${response.statusCode} without an error of this protocol`);
}

const HeadSchema = z.object({
  type: z.literal("head"),
  ...AnswerHeadSchema.pick({ status: true, headers: true }).shape,
});
const EndSchema = z.object({
  type: z.literal("end"),
  receipt: z.string(),
  bytes_up: z.number(),
  bytes_down: z.number(),
});
const ErrorSchema = z.object({
  type: z.literal("error"),
  ...AnswerErrorSchema.shape,
  /** null where the call was refused before it was signed: then there is no receipt, and never will be */
  call_signature: z.string().nullable(),
});
const MessageSchema = z.discriminatedUnion("type", [
  HeadSchema,
  EndSchema,
  ErrorSchema,
  z.object({ type: z.literal("eof") }),
]);

/** Binary messages are the connection's bytes; text is about it. */
class Tunnel extends Duplex {
  readonly #socket: WebSocket;
  readonly #answered = Promise.withResolvers<Pick<GatewayTunnel, "status" | "headers">>();
  readonly #ended = Promise.withResolvers<Awaited<GatewayTunnel["ended"]>>();
  readonly answered = this.#answered.promise;
  readonly ended = this.#ended.promise;

  constructor(socket: WebSocket) {
    super({ allowHalfOpen: true });
    this.#socket = socket;
    this.answered.catch(() => {});
    this.ended.catch(() => {});
    // Both tell it. Until somebody has the connection nobody else listens, and an error that nobody hears ends this process.
    this.on("error", () => {});
    socket.on("message", (data, isBinary) => this.#onMessage(data, isBinary));
    socket.once("close", () => this.#fail(broken("it broke off")));
    socket.on("error", (error) => this.#fail(broken(error.message, error)));
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    if (isBinary) {
      if (!this.push(data as Buffer)) this.#socket.pause();
      return;
    }
    const message = messageIn(data as Buffer);
    switch (message?.type) {
      case undefined:
        this.#fail(broken("a message is not of this protocol"));
        break;
      case "head":
        this.#answered.resolve(message);
        break;
      case "eof":
        this.push(null);
        break;
      case "end":
        this.#ended.resolve({
          receipt: message.receipt,
          bytesUp: message.bytes_up,
          bytesDown: message.bytes_down,
        });
        // An upstream that is gone altogether ends without a word of its own.
        if (!this.readableEnded) this.push(null);
        break;
      case "error":
        this.#fail(failureOf(message));
        break;
    }
  }

  #fail(error: DsecError): void {
    this.#answered.reject(error);
    this.#ended.reject(error);
    if (!this.destroyed && !this.readableEnded) this.destroy(error);
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#socket.readyState !== WebSocket.OPEN) done(broken("it is closed"));
    else this.#socket.send(chunk, { binary: true }, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.#socket.readyState !== WebSocket.OPEN) done();
    else this.#socket.send('{"type":"eof"}', done);
  }

  /** Where both sides have ended, the receipt is still to come. Where one broke off, nobody waits for anything. */
  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.resume();
    if (error === null && this.readableEnded && this.writableFinished) {
      const timer = setTimeout(() => this.#socket.terminate(), FAREWELL_MS);
      this.#socket.once("close", () => clearTimeout(timer));
    } else {
      this.#ended.reject(new DsecError("CALL_CANCELLED", "the client left before its connection ended"));
      this.#socket.terminate();
    }
    done(error);
  }
}

function messageIn(data: Buffer): z.infer<typeof MessageSchema> | null {
  try {
    return MessageSchema.parse(parseJson(data, "a message of the gateway's tunnel"));
  } catch {
    return null;
  }
}

function failureOf(error: z.infer<typeof ErrorSchema>): DsecError {
  const { call_signature, code } = error;
  if (call_signature === null)
    return new DsecError(isErrorCode(code) ? code : "UPSTREAM_FAILED", error.message);
  return new CallFailure({ ...error, call_signature });
}

function broken(why: string, cause?: unknown): DsecError {
  return new DsecError("GATEWAY_UNREACHABLE", `the gateway's tunnel: ${why}`, { cause });
}
