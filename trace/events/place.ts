/**
 * An event's encoding has two parts: where it stands (fields 1 to 3 of Event), and what it tells. A block keeps them apart,
 * and joined they are the event's own bytes again.
 */
import { DsecError } from "#core/errors.ts";
import { unzigzag, VARINT, varintBytes, WireReader, writeVarint, zigzag } from "./wire.ts";

/** When an event was: its number, its monotonic time, and how far the wall clock was from where that puts it. */
export type EventPlace = { seq: number; t_us: number; wall_skew_us: number };

/** How many bytes writePlace writes. */
export function placeBytes(seq: number, t_us: number, wallSkewUs: number): number {
  return (
    (seq === 0 ? 0 : 1 + varintBytes(seq)) +
    (t_us === 0 ? 0 : 1 + varintBytes(t_us)) +
    (wallSkewUs === 0 ? 0 : 1 + varintBytes(zigzag(wallSkewUs)))
  );
}

/** What is zero is left out, as everywhere. @return the offset after it */
export function writePlace(
  bytes: Uint8Array,
  at: number,
  seq: number,
  t_us: number,
  wallSkewUs: number,
): number {
  let next = at;
  if (seq !== 0) {
    bytes[next] = SEQ_TAG;
    next = writeVarint(bytes, next + 1, seq);
  }
  if (t_us !== 0) {
    bytes[next] = T_US_TAG;
    next = writeVarint(bytes, next + 1, t_us);
  }
  if (wallSkewUs !== 0) {
    bytes[next] = WALL_SKEW_US_TAG;
    next = writeVarint(bytes, next + 1, zigzag(wallSkewUs));
  }
  return next;
}

/**
 * @param event from encodeEvent
 * @return its place, and a view on the rest of its bytes
 * @throws INTERNAL for bytes that could not be joined again from these
 */
export function splitEvent(event: Uint8Array): { place: EventPlace; body: Uint8Array } {
  const reader = new WireReader(event);
  const seq = numberIf(reader, SEQ_TAG);
  const t_us = numberIf(reader, T_US_TAG);
  const wall_skew_us = unzigzag(numberIf(reader, WALL_SKEW_US_TAG));
  // longer varints, or zeros that are written down, would be lost
  if (placeBytes(seq, t_us, wall_skew_us) !== reader.at) {
    throw new DsecError("INTERNAL", `event ${seq} has not the one encoding of its place`);
  }
  return { place: { seq, t_us, wall_skew_us }, body: event.subarray(reader.at) };
}

/** Whether a field that begins with this tag is one of the place's. */
export function isOfPlace(tag: number): boolean {
  return tag >>> 3 <= WALL_SKEW_US_TAG >>> 3;
}

const SEQ_TAG = (1 << 3) | VARINT;
const T_US_TAG = (2 << 3) | VARINT;
const WALL_SKEW_US_TAG = (3 << 3) | VARINT;

function numberIf(reader: WireReader, tag: number): number {
  if (reader.bytes[reader.at] !== tag) return 0;
  reader.at++;
  return reader.varint();
}
