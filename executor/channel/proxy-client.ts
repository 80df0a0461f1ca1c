/** The executor's end of the proxy framing: a head and a body go to the gateway, frames of the answer come back. */
import type { z } from "zod";
import { DsecError, type ErrorCode, isErrorCode } from "#core/errors.ts";
import { faultText, readAs } from "#core/schema-faults.ts";
import {
  type AnswerEnd,
  AnswerEndSchema,
  type AnswerError,
  AnswerErrorSchema,
  type AnswerHead,
  AnswerHeadSchema,
  AnswerReceiptSchema,
  type CallHead,
  FRAME,
} from "#core/wire/calls.ts";
import type { Hold } from "#core/wire/leases.ts";

/** Sends a proxied call and gives the frames of its answer as they come; refusals reject with the gateway's code. */
export type ProxyTransport = {
  proxy(
    hold: Hold,
    request: Blob | Uint8Array<ArrayBuffer>,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>>;
};

export type ProxiedAnswer = {
  head: AnswerHead;
  /** The decoded body as it comes. Ends where the answer is whole; throws a `CallFailure` where it is not. */
  body: AsyncIterable<Uint8Array>;
  /** What was said at its end; null until the body has ended. */
  end(): AnswerEnd | null;
  /** Follows the end: resolves once the gateway has kept it, or with null where that was not heard. */
  receipt(): Promise<string | null>;
};

/** A call that came to nothing, or to an answer that is not whole. Its receipt says so too, where there is one. */
export class CallFailure extends DsecError {
  readonly receipt: string | null;
  readonly partial: boolean;

  constructor(error: AnswerError) {
    const code: ErrorCode = isErrorCode(error.code) ? error.code : "UPSTREAM_FAILED";
    super(code, error.message, { details: { partial: error.partial } });
    this.receipt = error.receipt;
    this.partial = error.partial;
  }
}

/**
 * @throws the gateway's refusal (policy, budget, lease) where nothing was sent; CallFailure; GATEWAY_UNREACHABLE
 * where it is not known what became of the call
 */
export async function sendCall(
  transport: ProxyTransport,
  hold: Hold,
  head: CallHead,
  body: Blob | Uint8Array,
  signal: AbortSignal,
): Promise<ProxiedAnswer> {
  const stream = await transport.proxy(hold, framedRequest(head, body), head.timeout_ms, signal);
  const frames = new Frames(stream);
  let end: AnswerEnd | null = null;
  let receipt: Promise<string | null> = Promise.resolve(null);
  try {
    const first = await frames.next();
    if (first === null) throw broken("it ended before its head");
    if (first.type === FRAME.error) {
      frames.finish();
      throw new CallFailure(parse(AnswerErrorSchema, first.payload));
    }
    if (first.type !== FRAME.head) throw broken(`it began with a frame of type ${first.type}`);
    return {
      head: parse(AnswerHeadSchema, first.payload),
      body: bodyOf(frames, (said) => {
        end = said;
        receipt = receiptOf(frames);
      }),
      end: () => end,
      receipt: () => receipt,
    };
  } catch (error) {
    frames.leave();
    throw error;
  }
}

/** A big-endian length, that many bytes of JSON, the body. */
function framedRequest(head: CallHead, body: Blob | Uint8Array): Blob | Uint8Array<ArrayBuffer> {
  const json = JSON.stringify(head);
  const jsonBytes = Buffer.byteLength(json);
  const inMemory = body instanceof Blob ? NOTHING : body;
  const framed = Buffer.allocUnsafe(4 + jsonBytes + inMemory.length);
  framed.writeUInt32BE(jsonBytes);
  framed.write(json, 4);
  framed.set(inMemory, 4 + jsonBytes);
  return body instanceof Blob ? new Blob([framed, body]) : framed;
}

async function* bodyOf(frames: Frames, onEnd: (end: AnswerEnd) => void): AsyncGenerator<Uint8Array> {
  let isWhole = false;
  try {
    for (;;) {
      const next = await frames.next();
      if (next === null) throw broken("it ended without its last frame");
      const { type, payload } = next;
      if (type === FRAME.data) yield payload;
      else if (type === FRAME.error) {
        frames.finish();
        throw new CallFailure(parse(AnswerErrorSchema, payload));
      } else if (type === FRAME.end) {
        const end = parse(AnswerEndSchema, payload);
        isWhole = true;
        return onEnd(end);
      } else throw broken(`a frame of type ${type} came within its body`);
    }
  } finally {
    // Whoever reads no further lets go of the connection, and so of the upstream.
    if (!isWhole) frames.leave();
  }
}

async function receiptOf(frames: Frames): Promise<string | null> {
  try {
    const next = await frames.next();
    return next?.type === FRAME.receipt ? parse(AnswerReceiptSchema, next.payload).receipt : null;
  } catch {
    return null; // the gateway's own record tells
  } finally {
    frames.finish();
  }
}

type Frame = { type: number; payload: Buffer };

/** More than a gateway ever puts into one frame. */
const FRAME_BYTES_MAX = 16 * 1024 * 1024;

class Frames {
  readonly #bytes: AsyncIterator<Uint8Array>;
  #pending: Buffer = NOTHING;
  #isOver = false;

  constructor(bytes: AsyncIterable<Uint8Array>) {
    this.#bytes = bytes[Symbol.asyncIterator]();
  }

  /** Null at the end. GATEWAY_UNREACHABLE where it comes within a frame, or the connection breaks. */
  async next(): Promise<Frame | null> {
    for (;;) {
      const pending = this.#pending;
      if (pending.length >= 5) {
        const length = pending.readUInt32BE(1);
        if (length > FRAME_BYTES_MAX) throw broken(`a frame has ${length} bytes`);
        if (pending.length - 5 >= length) {
          this.#pending = pending.subarray(5 + length);
          return { type: pending[0]!, payload: pending.subarray(5, 5 + length) };
        }
      }
      const value = await this.#read();
      if (value === null) {
        if (pending.length > 0) throw broken("it broke off within a frame");
        return null;
      }
      this.#pending =
        pending.length === 0
          ? Buffer.from(value.buffer as ArrayBuffer, value.byteOffset, value.length)
          : Buffer.concat([pending, value]);
    }
  }

  /** Lets go of the connection. */
  leave(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#bytes.return?.().catch(() => {});
  }

  /** After the last frame, of which nobody waits for the end: a connection that is read to it serves the next call. */
  finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#bytes.next().then(
      ({ done }) => {
        if (!done) this.#bytes.return?.().catch(() => {});
      },
      () => {},
    );
  }

  async #read(): Promise<Uint8Array | null> {
    try {
      const { done, value } = await this.#bytes.next();
      if (!done) return value;
      this.#isOver = true;
      return null;
    } catch (error) {
      this.#isOver = true;
      throw error instanceof DsecError ? error : broken("the connection broke", error);
    }
  }
}

const NOTHING: Buffer = Buffer.alloc(0);

/** What our own gateway wrote holds nothing that two readers would read differently. */
function parse<S extends z.ZodType>(schema: S, payload: Buffer): z.output<S> {
  let value: unknown;
  try {
    value = JSON.parse(payload.toString("utf8"));
  } catch (cause) {
    throw broken("a frame is no JSON", cause);
  }
  const read = readAs(schema, value);
  if (read.ok) return read.value;
  throw broken(`a frame is not of this protocol: ${faultText(read.faults[0])}`);
}

function broken(why: string, cause?: unknown): DsecError {
  return new DsecError("GATEWAY_UNREACHABLE", `the gateway's answer to a call: ${why}`, { cause });
}
