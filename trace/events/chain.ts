/**
 * The hash chain over an attempt's event log. The log is JSON lines, each an event's RFC 8785 form; the head after a line
 * is SHA-256(previous head ‖ SHA-256(line)), all as raw bytes, and the first head stands for the attempt itself. Whoever
 * has the log and the attestation sees whether an event was changed, left out, added or taken from another attempt.
 */
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { canonicalJson, digestOf, parseJson, sha256 } from "#core/json.ts";

/**
 * The hash chain over a trace's events: the head after an event is SHA-256(previous head ‖ the event's bytes), and the
 * first head stands for what the trace is of. Whoever has the events and the last head sees whether one was changed, left
 * out, added or taken from another attempt.
 */
export class EventChain {
  #head: Uint8Array;
  #sha256: (bytes: Uint8Array) => Uint8Array;
  #joined = new Uint8Array(4096);

  /** @param head where the chain goes on: for a new one its genesis */
  constructor(head: Uint8Array, sha256: (bytes: Uint8Array) => Uint8Array) {
    this.#head = head;
    this.#sha256 = sha256;
  }

  get head(): Uint8Array {
    return this.#head;
  }

  add(event: Uint8Array): void {
    const length = 32 + event.length;
    if (this.#joined.length < length) this.#joined = new Uint8Array(2 * length);
    this.#joined.set(this.#head);
    this.#joined.set(event, 32);
    this.#head = this.#sha256(this.#joined.subarray(0, length));
  }
}

/** What the first head is the SHA-256 of: the attempt, or for what was imported the trace itself. */
export function genesisText(of: { lease_id: string; fence: number } | { trace_id: string }): string {
  return canonicalJson(
    "lease_id" in of
      ? { profile: "urn:dsec:trace:1", lease_id: of.lease_id, fence: of.fence }
      : { profile: "urn:dsec:trace:1", trace_id: of.trace_id },
  );
}

export type EventsSummary = { count: number; chain_head: Digest };

/** What the first head is the SHA-256 of. */
export function chainGenesis(hold: { lease_id: string; fence: number }): string {
  return canonicalJson({ profile: "urn:dsec:events:1", lease_id: hold.lease_id, fence: hold.fence });
}

/**
 * Reads a log and gives what its attestation must say of it.
 * @throws EVIDENCE_INVALID naming the line that is no event, not canonical or out of order
 */
export async function readEventLog(
  log: Uint8Array,
  hold: { lease_id: string; fence: number },
): Promise<EventsSummary & { events: { seq: number; type: string; [member: string]: unknown }[] }> {
  const events = [];
  let head = await sha256(chainGenesis(hold));
  let start = 0;
  while (start < log.length) {
    const end = log.indexOf(NEWLINE, start);
    if (end < 0) throw invalid(events.length + 1, "is cut off");
    const line = log.subarray(start, end);
    events.push(eventOf(line, events.length + 1));
    head = await nextHead(head, line);
    start = end + 1;
  }
  return { count: events.length, chain_head: head, events };
}

const NEWLINE = 10;

function eventOf(line: Uint8Array, seq: number): { seq: number; type: string } {
  const event = parseJson(line, `event ${seq}`) as { seq?: unknown; type?: unknown };
  if (event?.seq !== seq || typeof event.type !== "string")
    throw invalid(seq, "is not the event of this number");
  return event as { seq: number; type: string };
}

async function nextHead(head: Digest, line: Uint8Array): Promise<Digest> {
  const bytes = new Uint8Array(64);
  bytes.set(rawOf(head));
  bytes.set(new Uint8Array(await crypto.subtle.digest("SHA-256", line as Uint8Array<ArrayBuffer>)), 32);
  return digestOf(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}

function rawOf(digest: Digest): Uint8Array {
  const raw = new Uint8Array(32);
  for (let at = 0; at < 32; at++) raw[at] = Number.parseInt(digest.slice(7 + 2 * at, 9 + 2 * at), 16);
  return raw;
}

function invalid(line: number, why: string): DsecError {
  return new DsecError(
    "EVIDENCE_INVALID",
    `event log: line ${line} ${why}; it is not the log that was attested`,
  );
}
