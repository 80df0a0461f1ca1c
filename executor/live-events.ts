import { LIMITS } from "#core/limits.ts";
import type { EventsRequest, Hold } from "#core/wire/leases.ts";
import type { LiveSink } from "./output-stream.ts";

type WireEvent = EventsRequest["events"][number];
type StreamName = "stdout" | "stderr";

/** After a batch was sent, output gathers for this long, unless a stream says its first word. */
const GATHER_MS = 10;
/** That a command runs waits so long for its first word, to go out with it. */
const FIRST_WORD_MS = 20;
/** Raw bytes of one request: in base64 and with its frame it stays under `requestBodyBytes`. */
const BATCH_BYTES = 640 * 1024;

type Pending =
  | { type: "running"; hold: Hold }
  | { type: StreamName; hold: Hold; offset: number; chunks: Uint8Array[]; bytes: number }
  | { type: "truncated"; hold: Hold; stream: StreamName };

/**
 * Sends what all attempts say in batches, one request at a time, so that each stream stays in order. The first
 * bytes of a stream go out at once; all else gathers a few milliseconds, and as long as a request is under way.
 * What waits is bounded by `streamLiveBytes` for each stream.
 */
export class LiveEvents {
  readonly #send: (events: WireEvent[]) => Promise<void>;
  #pending: Pending[] = [];
  #state: "idle" | "scheduled" | "sending" = "idle";
  #scheduledAtMs = 0;
  #cancelSchedule: () => void = () => {};
  #sending: ReadonlySet<string> = new Set();
  #batchEnd = Promise.withResolvers<void>();
  #lastSentAtMs = Number.NEGATIVE_INFINITY;

  /** @param send delivers one batch, trying as long as it makes sense; its rejection drops the batch */
  constructor(send: (events: WireEvent[]) => Promise<void>) {
    this.#send = send;
  }

  /** The command of an attempt runs. To be said before its streams have a sink. */
  running(hold: Hold): void {
    this.#pending.push({ type: "running", hold });
    this.#schedule(performance.now() + FIRST_WORD_MS);
  }

  /** The sink for one stream of one attempt. */
  sink(hold: Hold, stream: StreamName): LiveSink {
    return {
      data: (offset, bytes) => {
        const last = this.#pending.findLast((p) => p.type === stream && p.hold === hold);
        if (last !== undefined && "chunks" in last && last.bytes + bytes.length <= LIMITS.eventDataBytes) {
          last.chunks.push(bytes);
          last.bytes += bytes.length;
        } else {
          for (let at = 0; at < bytes.length; at += LIMITS.eventDataBytes) {
            const part = bytes.subarray(at, at + LIMITS.eventDataBytes);
            this.#pending.push({
              type: stream,
              hold,
              offset: offset + at,
              chunks: [part],
              bytes: part.length,
            });
          }
        }
        this.#schedule(offset === 0 ? AT_ONCE : this.#gathered());
      },
      truncated: () => {
        this.#pending.push({ type: "truncated", hold, stream });
        this.#schedule(this.#gathered());
      },
    };
  }

  /** Drops what waits for a lease that may be written to no more. */
  drop(leaseId: string): void {
    this.#pending = this.#pending.filter((pending) => pending.hold.lease_id !== leaseId);
  }

  /** Resolves once all that waits for the lease has been sent or dropped. */
  async flushed(leaseId: string): Promise<void> {
    while (this.#sending.has(leaseId) || this.#pending.some((pending) => pending.hold.lease_id === leaseId)) {
      this.#schedule(AT_ONCE);
      await this.#batchEnd.promise;
    }
  }

  /** When what came since the last batch has gathered. */
  #gathered(): number {
    return this.#lastSentAtMs + GATHER_MS;
  }

  #schedule(atMs: number): void {
    if (this.#state === "sending" || (this.#state === "scheduled" && this.#scheduledAtMs <= atMs)) return;
    this.#cancelSchedule();
    this.#state = "scheduled";
    this.#scheduledAtMs = atMs;
    const waitMs = atMs - performance.now();
    if (waitMs > 0) {
      const timer = setTimeout(() => this.#flush(), waitMs);
      this.#cancelSchedule = () => clearTimeout(timer);
    } else {
      // An immediate runs after this turn's other reads, so that chunks that came together go together.
      const immediate = setImmediate(() => this.#flush());
      this.#cancelSchedule = () => clearImmediate(immediate);
    }
  }

  async #flush(): Promise<void> {
    this.#state = "sending";
    const batch = this.#takeBatch();
    this.#sending = new Set(batch.map((event) => event.lease_id));
    if (batch.length > 0) {
      try {
        await this.#send(batch);
      } catch {
        // Live output is a convenience; what counts is the kept blob. `send` has reported the failure.
      }
    }
    this.#sending = new Set();
    this.#lastSentAtMs = performance.now();
    this.#state = "idle";
    const batchEnd = this.#batchEnd;
    this.#batchEnd = Promise.withResolvers();
    batchEnd.resolve();
    if (this.#pending.length === 0) return;
    const hasFirst = this.#pending.some((p) => p.type === "running" || ("offset" in p && p.offset === 0));
    this.#schedule(hasFirst ? AT_ONCE : this.#gathered());
  }

  #takeBatch(): WireEvent[] {
    let bytes = 0;
    let count = 0;
    for (const pending of this.#pending) {
      bytes += "bytes" in pending ? pending.bytes : 0;
      if (count === LIMITS.eventsPerBatch || (count > 0 && bytes > BATCH_BYTES)) break;
      count++;
    }
    return this.#pending.splice(0, count).map(toWireEvent);
  }
}

const AT_ONCE = Number.NEGATIVE_INFINITY;

function toWireEvent(pending: Pending): WireEvent {
  const { lease_id, fence } = pending.hold;
  if (pending.type === "running") return { type: "running", lease_id, fence };
  if (pending.type === "truncated") return { type: "truncated", lease_id, fence, stream: pending.stream };
  const data = Buffer.concat(pending.chunks).toString("base64");
  return { type: pending.type, lease_id, fence, offset: pending.offset, data };
}
