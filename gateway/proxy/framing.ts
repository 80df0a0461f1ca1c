/** The bytes between executor and proxy: a call is its head's length, its head and its body; an answer is frames. */
import { DsecError } from "#core/errors.ts";
import { parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { type CallHead, CallHeadSchema, type FRAME } from "#core/wire/calls.ts";
import { validate } from "../request.ts";

const encoder = new TextEncoder();

/** Reads the head of a call; what follows it in the stream is the body. INVALID_REQUEST, BODY_TOO_LARGE. */
export async function readCallHead(reader: ByteReader): Promise<CallHead> {
  const prefix = await reader.take(4);
  const length = new DataView(prefix.buffer, prefix.byteOffset, 4).getUint32(0);
  if (length > LIMITS.callHeadBytes) {
    throw new DsecError(
      "BODY_TOO_LARGE",
      `the call's head has ${length} bytes, more than ${LIMITS.callHeadBytes}`,
    );
  }
  return validateCallHead(await reader.take(length));
}

export function validateCallHead(bytes: Uint8Array | string): CallHead {
  return validate(CallHeadSchema, parseJson(bytes, "the call's head"), "the call's head");
}

/** One frame of an answer. An object is sent as JSON. */
export type Frame = [type: (typeof FRAME)[keyof typeof FRAME], payload: Uint8Array | object];

/** Frames as they are sent, one after the other: type, length, payload. */
export function framed(...frames: Frame[]): Uint8Array {
  const payloads = frames.map(([, payload]) =>
    payload instanceof Uint8Array ? payload : encoder.encode(JSON.stringify(payload)),
  );
  const whole = new Uint8Array(payloads.reduce((sum, { length }) => sum + 5 + length, 0));
  const view = new DataView(whole.buffer);
  let at = 0;
  for (const [i, payload] of payloads.entries()) {
    view.setUint8(at, frames[i]![0]);
    view.setUint32(at + 1, payload.length);
    whole.set(payload, at + 5);
    at += 5 + payload.length;
  }
  return whole;
}

/** Reads bytes by exact counts first and by whatever comes afterwards. */
export class ByteReader {
  readonly #pieces: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = NOTHING;

  constructor(pieces: AsyncIterator<Uint8Array>) {
    this.#pieces = pieces;
  }

  /** Exactly so many bytes; INVALID_REQUEST where they end before. */
  async take(count: number): Promise<Uint8Array> {
    if (count === 0) return NOTHING;
    const first = (await this.next()) ?? NOTHING;
    if (first.length >= count) {
      this.#rest = first.subarray(count);
      return first.subarray(0, count);
    }
    const bytes = new Uint8Array(count);
    bytes.set(first);
    let filled = first.length;
    while (filled < count) {
      const chunk = await this.next();
      if (chunk === null) {
        throw new DsecError("INVALID_REQUEST", `the call ends after ${filled} of ${count} expected bytes`);
      }
      const used = chunk.subarray(0, count - filled);
      bytes.set(used, filled);
      filled += used.length;
      this.#rest = chunk.subarray(used.length);
    }
    return bytes;
  }

  /** The next bytes, never none of them; null at the end. */
  async next(): Promise<Uint8Array | null> {
    if (this.#rest.length > 0) {
      const rest = this.#rest;
      this.#rest = NOTHING;
      return rest;
    }
    for (;;) {
      const { done, value } = await this.#pieces.next();
      if (done) return null;
      if (value.length > 0) return value;
    }
  }

  /** Lets go of whoever sends; nothing more is read. */
  cancel(): void {
    this.#pieces.return?.().catch(() => {});
  }
}

const NOTHING: Uint8Array = new Uint8Array(0);
