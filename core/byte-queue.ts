/** Where a queue's bytes come from: it is slowed while they wait unread, and stopped where nobody reads on. */
export type ByteSource = { pause(): void; resume(): void; stop(): void };

/** More than this waits unread only by the one piece that went over it. */
const HIGH_BYTES = 64 * 1024;

/**
 * Bytes that are pushed on one side and pulled on the other, by one reader. What web streams do too, at a tenth of their
 * cost for a body of one piece. Whoever stops reading before the end stops the source.
 */
export class ByteQueue implements AsyncIterableIterator<Uint8Array, undefined> {
  readonly #source: ByteSource;
  readonly #pieces: Uint8Array[] = [];
  #bytes = 0;
  #reader: {
    resolve(result: IteratorResult<Uint8Array, undefined>): void;
    reject(error: unknown): void;
  } | null = null;
  #state: "open" | "ended" | { failure: unknown } = "open";

  constructor(source: ByteSource) {
    this.#source = source;
  }

  /** Nothing more will come: what is read next is there already, or the end. */
  get hasCome(): boolean {
    return this.#state !== "open";
  }

  push(piece: Uint8Array): void {
    if (this.#state !== "open" || piece.length === 0) return;
    const reader = this.#takeReader();
    if (reader !== null) {
      reader.resolve({ done: false, value: piece });
      return;
    }
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    if (this.#bytes >= HIGH_BYTES) this.#source.pause();
  }

  end(): void {
    if (this.#state !== "open") return;
    this.#state = "ended";
    this.#takeReader()?.resolve(DONE);
  }

  /** The reader gets what has come, and then this. */
  fail(failure: unknown): void {
    if (this.#state !== "open") return;
    this.#state = { failure };
    this.#takeReader()?.reject(failure);
  }

  next(): Promise<IteratorResult<Uint8Array, undefined>> {
    const value = this.#pieces.shift();
    if (value !== undefined) {
      const wasHigh = this.#bytes >= HIGH_BYTES;
      this.#bytes -= value.length;
      if (wasHigh && this.#bytes < HIGH_BYTES) this.#source.resume();
      return Promise.resolve({ done: false, value });
    }
    if (this.#state === "ended") return Promise.resolve(DONE);
    if (this.#state !== "open") return Promise.reject(this.#state.failure);
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject };
    });
  }

  return(): Promise<IteratorResult<Uint8Array, undefined>> {
    const wasOpen = this.#state === "open";
    this.#state = "ended";
    this.#pieces.length = 0;
    if (wasOpen) this.#source.stop();
    this.#takeReader()?.resolve(DONE);
    return Promise.resolve(DONE);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #takeReader() {
    const reader = this.#reader;
    this.#reader = null;
    return reader;
  }
}

const DONE = { done: true, value: undefined } as const;
