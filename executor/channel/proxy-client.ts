/** The executor's end of the proxy framing: a head and a body go to the gateway, frames of the answer come back. */
import type { z } from "zod";
import { DsecError, type ErrorCode, isErrorCode } from "#core/errors.ts";
import { parseJson } from "#core/json.ts";
import {
  type AnswerEnd,
  AnswerEndSchema,
  type AnswerError,
  AnswerErrorSchema,
  type AnswerHead,
  AnswerHeadSchema,
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
  ): Promise<ReadableStream<Uint8Array>>;
};

export type ProxiedAnswer = {
  head: AnswerHead;
  /** The decoded body as it comes. Ends where the answer is whole; throws a `CallFailure` where it is not. */
  body: AsyncIterable<Uint8Array>;
  /** What the last frame said; null until the body has ended. */
  end(): AnswerEnd | null;
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
  const frames = readFrames(stream);
  const first = await frames.next();
  if (first.done) throw broken("it ended before its head");
  if (first.value.type === FRAME.error) throw new CallFailure(parse(AnswerErrorSchema, first.value.payload));
  if (first.value.type !== FRAME.head) throw broken(`it began with a frame of type ${first.value.type}`);
  let end: AnswerEnd | null = null;
  return {
    head: parse(AnswerHeadSchema, first.value.payload),
    body: bodyOf(frames, (last) => {
      end = last;
    }),
    end: () => end,
  };
}

/** A big-endian length, that many bytes of JSON, the body. */
function framedRequest(head: CallHead, body: Blob | Uint8Array): Blob | Uint8Array<ArrayBuffer> {
  const json = Buffer.from(JSON.stringify(head));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(json.length);
  return body instanceof Blob ? new Blob([length, json, body]) : Buffer.concat([length, json, body]);
}

async function* bodyOf(
  frames: AsyncGenerator<Frame>,
  onEnd: (end: AnswerEnd) => void,
): AsyncGenerator<Uint8Array> {
  try {
    for (;;) {
      const next = await frames.next();
      if (next.done) throw broken("it ended without its last frame");
      const { type, payload } = next.value;
      if (type === FRAME.data) yield payload;
      else if (type === FRAME.error) throw new CallFailure(parse(AnswerErrorSchema, payload));
      else if (type === FRAME.end) return onEnd(parse(AnswerEndSchema, payload));
      else throw broken(`a frame of type ${type} came within its body`);
    }
  } finally {
    // Whoever reads no further lets go of the connection, and so of the upstream.
    await frames.return(undefined);
  }
}

type Frame = { type: number; payload: Uint8Array };

/** More than a gateway ever puts into one frame. */
const FRAME_BYTES_MAX = 16 * 1024 * 1024;

async function* readFrames(stream: ReadableStream<Uint8Array>): AsyncGenerator<Frame> {
  let pending: Buffer = Buffer.alloc(0);
  const reader = stream.getReader();
  try {
    for (;;) {
      let offset = 0;
      while (pending.length - offset >= 5) {
        const length = pending.readUInt32BE(offset + 1);
        if (length > FRAME_BYTES_MAX) throw broken(`a frame has ${length} bytes`);
        if (pending.length - offset - 5 < length) break;
        yield { type: pending[offset]!, payload: pending.subarray(offset + 5, offset + 5 + length) };
        offset += 5 + length;
      }
      pending = pending.subarray(offset);
      const { done, value } = await reader.read();
      if (done) {
        if (pending.length > 0) throw broken("it broke off within a frame");
        return;
      }
      pending =
        pending.length === 0
          ? Buffer.from(value.buffer, value.byteOffset, value.length)
          : Buffer.concat([pending, value]);
    }
  } catch (error) {
    throw error instanceof DsecError ? error : broken("the connection broke", error);
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function parse<S extends z.ZodType>(schema: S, payload: Uint8Array): z.output<S> {
  const parsed = schema.safeParse(parseJson(payload, "a frame of the gateway"));
  if (parsed.success) return parsed.data;
  throw broken(`a frame is not of this protocol: ${parsed.error.issues[0]!.message}`);
}

function broken(why: string, cause?: unknown): DsecError {
  return new DsecError("GATEWAY_UNREACHABLE", `the gateway's answer to a call: ${why}`, { cause });
}
