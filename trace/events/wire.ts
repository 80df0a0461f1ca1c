/** The wire format of Protocol Buffers, as far as proto/trace.proto needs it (protobuf.dev/programming-guides/encoding). */
import { DsecError } from "#core/errors.ts";

export const VARINT = 0;
export const FIXED64 = 1;
export const DELIMITED = 2;
const FIXED32 = 5;

/** Reads one message; every read that would pass its end is TRACE_CORRUPT. */
export class WireReader {
  readonly bytes: Uint8Array;
  at: number;
  readonly end: number;

  constructor(bytes: Uint8Array, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }

  /** An unsigned integer up to 2^53 - 1. */
  varint(): number {
    const { bytes } = this;
    const first = bytes[this.at]!;
    if (first < 0x80 && this.at < this.end) {
      this.at++;
      return first;
    }
    let value = 0;
    let scale = 1;
    for (let taken = 0; taken < 10 && this.at < this.end; taken++) {
      const byte = bytes[this.at++]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        if (!Number.isSafeInteger(value)) throw corrupt("holds an integer past 2^53 - 1");
        return value;
      }
      scale *= 128;
    }
    throw corrupt("holds an integer that does not end");
  }

  /** A signed integer as int64 has it, within the safe ones. */
  int64(): number {
    const start = this.at;
    let low = 0n;
    for (let shift = 0n; this.at < this.end && shift < 70n; shift += 7n) {
      const byte = this.bytes[this.at++]!;
      low |= BigInt(byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      const value = Number(BigInt.asIntN(64, low));
      if (!Number.isSafeInteger(value)) throw corrupt("holds an integer past 2^53 - 1");
      return value;
    }
    this.at = start;
    throw corrupt("holds an integer that does not end");
  }

  double(): number {
    if (this.end - this.at < 8) throw corrupt("is cut off");
    for (let at = 0; at < 8; at++) DOUBLE_BYTES[at] = this.bytes[this.at++]!;
    return DOUBLE.getFloat64(0, true);
  }

  string(): string {
    const end = this.delimited();
    const { bytes } = this;
    if (end - this.at < SHORT_CHARS) {
      let text = "";
      let at = this.at;
      for (; at < end && bytes[at]! < 0x80; at++) text += ASCII[bytes[at]!];
      if (at === end) {
        this.at = end;
        return text;
      }
    }
    try {
      return DECODER.decode(bytes.subarray(this.at, end));
    } catch {
      throw corrupt("holds text that is not UTF-8");
    } finally {
      this.at = end;
    }
  }

  /** A view on the message's own bytes. */
  view(): Uint8Array {
    const end = this.delimited();
    const bytes = this.bytes.subarray(this.at, end);
    this.at = end;
    return bytes;
  }

  /** The offset after a length-delimited field, whose first byte `at` is left at. */
  delimited(): number {
    const length = this.varint();
    if (length > this.end - this.at) throw corrupt("holds a length that leads past its end");
    return this.at + length;
  }

  skip(wireType: number): void {
    if (wireType === VARINT) this.#skipVarint();
    else if (wireType === DELIMITED) this.at = this.delimited();
    else if (wireType === FIXED64 || wireType === FIXED32) {
      const width = wireType === FIXED64 ? 8 : 4;
      if (width > this.end - this.at) throw corrupt("is cut off");
      this.at += width;
    } else throw corrupt(`has a field of wire type ${wireType}`);
  }

  #skipVarint(): void {
    for (let taken = 0; taken < 10 && this.at < this.end; taken++) {
      if (this.bytes[this.at++]! < 0x80) return;
    }
    throw corrupt("holds an integer that does not end");
  }
}

/** Writes one message after another. What is written stays where it is: small messages share a block of memory. */
export class WireWriter {
  #bytes = new Uint8Array(BLOCK_BYTES);
  #start = 0;
  #at = 0;

  /** What was written; the next message is another. */
  finish(): Uint8Array {
    const written = this.#bytes.subarray(this.#start, this.#at);
    this.#start = this.#at;
    return written;
  }

  /** Forgets what was written of a message that cannot be. */
  reset(): void {
    this.#at = this.#start;
  }

  /** A non-negative safe integer. */
  varint(value: number): void {
    if (value < 0x80) {
      this.#grow(1);
      this.#bytes[this.#at++] = value;
      return;
    }
    this.#grow(10);
    this.#at = writeVarint(this.#bytes, this.#at, value);
  }

  /** A negative safe integer as int64 has it: two's complement in ten bytes. */
  negative(value: number): void {
    this.#grow(10);
    let rest = BigInt.asUintN(64, BigInt(value));
    for (let at = 0; at < 9; at++, rest >>= 7n) this.#bytes[this.#at++] = Number(rest & 0x7fn) | 0x80;
    this.#bytes[this.#at++] = Number(rest);
  }

  double(value: number): void {
    this.#grow(8);
    DOUBLE.setFloat64(0, value, true);
    this.#bytes.set(DOUBLE_BYTES, this.#at);
    this.#at += 8;
  }

  /** With its length before it. */
  delimited(bytes: Uint8Array): void {
    this.varint(bytes.length);
    this.#grow(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  /** UTF-8 with its length before it, of a well-formed string. */
  string(text: string): void {
    const { length } = text;
    if (length < SHORT_CHARS) {
      this.#grow(1 + length);
      const start = this.#at + 1;
      let at = 0;
      for (let code = 0; at < length; at++) {
        code = text.charCodeAt(at);
        if (code >= 0x80) break;
        this.#bytes[start + at] = code;
      }
      if (at === length) {
        this.#bytes[this.#at] = length;
        this.#at = start + length;
        return;
      }
    }
    const start = this.begin();
    this.#grow(3 * length);
    this.#at += ENCODER.encodeInto(text, this.#bytes.subarray(this.#at)).written;
    this.end(start);
  }

  /** Leaves room for the length of what follows; `end` fills it in. @return for `end` */
  begin(): number {
    this.#grow(1);
    return this.#at++ - this.#start;
  }

  end(begun: number): void {
    const length = this.#at - this.#start - begun - 1;
    const width = varintBytes(length);
    if (width > 1) {
      this.#grow(width);
      const start = this.#start + begun;
      this.#bytes.copyWithin(start + width, start + 1, this.#at);
      this.#at += width - 1;
    }
    writeVarint(this.#bytes, this.#start + begun, length);
  }

  #grow(more: number): void {
    if (this.#at + more > this.#bytes.length) this.#move(more);
  }

  /** The message goes on in a new block. */
  #move(more: number): void {
    const begun = this.#bytes.subarray(this.#start, this.#at);
    this.#bytes = new Uint8Array(Math.max(BLOCK_BYTES, 2 * (begun.length + more)));
    this.#bytes.set(begun);
    this.#at = begun.length;
    this.#start = 0;
  }
}

const BLOCK_BYTES = 32 * 1024;

/** Below, a loop over the characters is faster than the engine's encoder and decoder. */
const SHORT_CHARS = 32;
const ASCII = Array.from({ length: 128 }, (_, code) => String.fromCharCode(code));
const ENCODER = new TextEncoder();
const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const DOUBLE = new DataView(new ArrayBuffer(8));
const DOUBLE_BYTES = new Uint8Array(DOUBLE.buffer);

/** How many bytes a varint of this value has. */
export function varintBytes(value: number): number {
  let count = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) count++;
  return count;
}

/** A signed integer within 2^52 as sint64 has it. */
export function zigzag(value: number): number {
  return value < 0 ? -2 * value - 1 : 2 * value;
}

/** Numbers beyond 32 bits too, which `>>>` would cut. */
export function unzigzag(unsigned: number): number {
  return unsigned % 2 === 0 ? unsigned / 2 : -(unsigned + 1) / 2;
}

/** @return the offset after it */
export function writeVarint(bytes: Uint8Array, at: number, value: number): number {
  let rest = value;
  let next = at;
  while (rest >= 128) {
    bytes[next++] = (rest % 128) | 0x80;
    rest = Math.floor(rest / 128);
  }
  bytes[next++] = rest;
  return next;
}

function corrupt(why: string): DsecError {
  return new DsecError("TRACE_CORRUPT", `the message ${why}`);
}
