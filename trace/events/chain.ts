import { canonicalJson } from "#core/json.ts";

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
