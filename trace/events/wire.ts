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

/** How many bytes a varint of this value has. */
export function varintBytes(value: number): number {
  let count = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) count++;
  return count;
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
