/** The ring of `ring/ring.h`: records from whoever has something to record to the one thread that collects them. */
import { type Addon, loadAddon, type RingHandle } from "./addon.ts";

export type RingCounters = {
  /** Records pushed, and their bytes with heads and padding. */
  produced: number;
  producedBytes: number;
  /** Records drained: once the ring is empty as many as were produced. */
  collected: number;
  /** How often a producer had to wait for room, and how long in all. */
  waits: number;
  waitedUs: number;
};

export type RingRecord = { slot: number; kind: number; timeUs: number; bytes: Uint8Array };

/** The producers' end. Pushing is copying into shared memory; it waits, on the calling thread, where there is no room. */
export class Ring {
  readonly #handle: RingHandle;
  readonly #push: Addon["ringPush"];

  /** @param bytes a power of two; no record may be larger than a quarter of it */
  constructor(bytes: number) {
    const { ringCreate, ringPush } = loadAddon();
    this.#handle = ringCreate(bytes);
    this.#push = ringPush;
  }

  /** For the thread or the child process at the other end; it is this ring's, and closed with it. */
  get descriptor(): number {
    return loadAddon().ringDescriptor(this.#handle);
  }

  /** @param urgent wakes a collector that gathers @returns false where nobody collects any more */
  push(slot: number, kind: number, timeUs: number, bytes: Uint8Array, urgent = false): boolean {
    return this.#push(this.#handle, slot, kind, timeUs, bytes, urgent);
  }

  close(): void {
    loadAddon().ringClose(this.#handle);
  }

  counters(): RingCounters {
    return loadAddon().ringCounters(this.#handle);
  }
}

/** The collector's end, for one thread. When that thread ends, however it does, the ring is closed. */
export class RingCollector {
  readonly #handle: RingHandle;
  readonly #out: Buffer;

  /** @param bytes of one batch, at least a quarter of the ring's */
  constructor(descriptor: number, bytes: number) {
    this.#handle = loadAddon().ringCollect(descriptor);
    this.#out = Buffer.alloc(bytes);
  }

  /** Blocks the thread until so many bytes or an urgent record are there, or so long; true where anything is. */
  wait(bytes: number, timeoutMs: number): boolean {
    return loadAddon().ringWait(this.#handle, bytes, Math.max(0, Math.ceil(timeoutMs * 1000)));
  }

  /** What is there, in the order in which it was pushed. A record's bytes are good until the next batch is drained. */
  *drain(): Generator<RingRecord> {
    const end = loadAddon().ringDrain(this.#handle, this.#out);
    for (let at = 0; at < end; ) {
      const size = this.#out.readUInt32LE(at);
      const slot = this.#out.readUInt16LE(at + 4);
      const kind = this.#out.readUInt16LE(at + 6);
      const timeUs = this.#out.readUInt32LE(at + 8) + this.#out.readUInt32LE(at + 12) * 2 ** 32;
      yield { slot, kind, timeUs, bytes: this.#out.subarray(at + HEAD_BYTES, at + HEAD_BYTES + size) };
      at += (HEAD_BYTES + size + 7) & ~7;
    }
  }

  close(): void {
    loadAddon().ringClose(this.#handle);
  }
}

const HEAD_BYTES = 16;
