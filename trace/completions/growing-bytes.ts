/** Bytes that come in pieces, however small, in one buffer of at most twice their size. */
export class GrowingBytes {
  #buffer = new Uint8Array();
  length = 0;

  append(bytes: Uint8Array): void {
    const length = this.length + bytes.length;
    if (length > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(length, 2 * this.#buffer.length, SMALLEST_BYTES));
      larger.set(this.#buffer.subarray(0, this.length));
      this.#buffer = larger;
    }
    this.#buffer.set(bytes, this.length);
    this.length = length;
  }

  /** What has come. Good until more does. */
  view(): Uint8Array {
    return this.#buffer.subarray(0, this.length);
  }

  /** Forgets it; a small buffer is kept for what comes next. */
  clear(): void {
    this.length = 0;
    if (this.#buffer.length > KEPT_BYTES) this.#buffer = new Uint8Array();
  }
}

const SMALLEST_BYTES = 512;
const KEPT_BYTES = 16 * 1024;
