import { LIMITS } from "#core/limits.ts";
import type { EventLog } from "../channel/event-log.ts";
import type { Memory, MemorySnapshot } from "../memory/memory.ts";

/**
 * Records a task's whole memory where deltas alone would not tell: what an earlier attempt left, and every so many writes,
 * so that a reader need not begin at the beginning. A namespace past `recordedMemoryBytes` is told by its deltas alone.
 */
export class MemorySnapshots {
  readonly #memory: Pick<Memory, "snapshot">;
  readonly #namespace: string;
  readonly #log: EventLog;
  readonly #interval: number;
  #writes = 0;
  #last: Promise<void> = Promise.resolve();

  /** @param interval in writes; 0 is never */
  constructor(memory: Pick<Memory, "snapshot">, namespace: string, log: EventLog, interval: number) {
    this.#memory = memory;
    this.#namespace = namespace;
    this.#log = log;
    this.#interval = interval;
  }

  /** Where there is something already: deltas count from here. */
  async begin(): Promise<void> {
    this.#record(await this.#read());
  }

  /** A write was recorded. The snapshot follows, with the version that it is of. */
  wrote(): void {
    if (this.#interval === 0 || ++this.#writes % this.#interval !== 0) return;
    this.#last = this.#last.then(async () => {
      // Where memory cannot be read now, the deltas tell what it is.
      this.#record(await this.#read().catch(() => null));
    });
    this.#last.catch(() => {}); // `close` tells
  }

  /** Resolves once the snapshots that were due are recorded. */
  async close(): Promise<void> {
    await this.#last;
  }

  #read(): Promise<MemorySnapshot | null> {
    return this.#memory.snapshot(this.#namespace, LIMITS.recordedMemoryBytes);
  }

  #record(snapshot: MemorySnapshot | null): void {
    if (snapshot === null) return;
    const { version, digest: state_digest, json: entries_json, lifetimesJson: lifetimes_json } = snapshot;
    const members = { version, state_digest, entries_json, lifetimes_json };
    this.#log.append("memory_snapshot", { namespace: this.#namespace, ...members });
  }
}
