/** Remembers what was looked up for a moment, so that a burst of calls asks the database once. */
export class Recent<T> {
  readonly #entries = new Map<string, { untilMs: number; value: Promise<T> }>();
  readonly #keepMs: number;

  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  /** Only successes are remembered, and concurrent questions share one look. */
  get(key: string, look: () => Promise<T>): Promise<T> {
    const nowMs = performance.now();
    const known = this.#entries.get(key);
    if (known !== undefined && nowMs < known.untilMs) return known.value;
    if (this.#entries.size >= ENTRIES_MAX) this.#entries.clear();
    const value = look();
    this.#entries.set(key, { untilMs: nowMs + this.#keepMs, value });
    value.catch(() => this.#entries.delete(key));
    return value;
  }
}

const ENTRIES_MAX = 10_000;
