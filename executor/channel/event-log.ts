import { createHash, type Hash, hash } from "node:crypto";
import { once } from "node:events";
import { createWriteStream, type WriteStream } from "node:fs";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { canonicalJson, digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { chainGenesis } from "#trace/events/chain.ts";

export type EventType =
  | "tool_call_start"
  | "tool_call_end"
  | "tool_call_late"
  | "memory_read"
  | "memory_write"
  | "plan_step"
  | "context"
  | "observation"
  | "reward"
  | "token_logit"
  | "message"
  | "error";

/** What an attempt's evidence says of its events: the log's own content, and the head that its chain ends with. */
export type SealedEvents = { count: number; chain_head: Digest; digest: Digest; size: number };

/**
 * Everything that happened in one sandbox, in order, as JSON lines on disk with a hash chain (trace/events/chain.ts).
 * Appending takes microseconds and never waits; the file follows.
 */
export class EventLog {
  readonly #file: WriteStream;
  readonly #whole: Hash = createHash("sha256");
  readonly #startNs = process.hrtime.bigint();
  #head: Buffer;
  #count = 0;
  #size = 0;
  #waiting: string[] = [];
  #failure: Error | null = null;
  #sealed: Promise<SealedEvents> | null = null;

  /** @param path a file that is not there yet */
  constructor(path: string, hold: { lease_id: string; fence: number }) {
    this.#file = createWriteStream(path, { flags: "wx", mode: 0o600 });
    this.#file.on("error", (error) => (this.#failure = error));
    this.#head = hash("sha256", chainGenesis(hold), "buffer");
  }

  /** Appends an event and returns its number. `t_us` counts microseconds since the log was opened. */
  append(type: EventType, members: { [member: string]: unknown }): number {
    const seq = ++this.#count;
    const t_us = Number((process.hrtime.bigint() - this.#startNs) / 1000n);
    const line = canonicalJson({ ...members, seq, t_us, type });
    this.#head = hash("sha256", Buffer.concat([this.#head, hash("sha256", line, "buffer")]), "buffer");
    this.#size += Buffer.byteLength(line) + 1;
    if (this.#waiting.length === 0) setImmediate(() => this.#flush());
    this.#waiting.push(line);
    return seq;
  }

  get count(): number {
    return this.#count;
  }

  /** The chain after the last event. */
  get head(): Digest {
    return digestOf(this.#head);
  }

  /**
   * Before anything is done whose events there must be room for.
   * @throws EVENT_LOG_FULL; STORE_UNAVAILABLE where the disk refuses
   */
  checkRoom(): void {
    if (this.#failure !== null) throw unwritable(this.#failure);
    if (this.#size < LIMITS.eventLogBytes) return;
    throw new DsecError(
      "EVENT_LOG_FULL",
      `the attempt's event log holds ${this.#size} bytes, at most ${LIMITS.eventLogBytes}; nothing more can be done unrecorded`,
    );
  }

  /** Writes out what waits and closes the file. Rejects with STORE_UNAVAILABLE where it is not whole on disk. */
  seal(): Promise<SealedEvents> {
    this.#sealed ??= this.#seal();
    return this.#sealed;
  }

  async #seal(): Promise<SealedEvents> {
    this.#flush();
    this.#file.end();
    if (this.#failure === null && !this.#file.closed) await once(this.#file, "close").catch(() => {});
    if (this.#failure !== null) throw unwritable(this.#failure);
    return {
      count: this.#count,
      chain_head: this.head,
      digest: digestOf(this.#whole.digest()),
      size: this.#size,
    };
  }

  #flush(): void {
    if (this.#waiting.length === 0) return;
    const text = `${this.#waiting.join("\n")}\n`;
    this.#waiting = [];
    this.#whole.update(text);
    this.#file.write(text);
  }
}

function unwritable(cause: Error): DsecError {
  return new DsecError("STORE_UNAVAILABLE", `the event log cannot be written: ${cause.message}`, { cause });
}
