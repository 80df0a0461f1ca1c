/**
 * The gateway's wall clock, read from the `Date` of its answers and carried on by the monotonic clock, so that
 * neither a wrong host clock nor one that is stepped makes this executor's tokens invalid.
 */
export class GatewayClock {
  readonly #monotonicMs: () => number;
  #offsetMs: number;

  /** @param monotonicMs milliseconds that never step, such as `performance.now` */
  constructor(monotonicMs: () => number = () => performance.now(), hostNowMs: number = Date.now()) {
    this.#monotonicMs = monotonicMs;
    this.#offsetMs = hostNowMs - monotonicMs();
  }

  /** Milliseconds since the epoch, as the gateway sees them to within a second. */
  nowMs(): number {
    return this.#monotonicMs() + this.#offsetMs;
  }

  /**
   * Learns from one answer. `Date` (RFC 9110 section 6.6.1) has whole seconds, so the time meant lies in the
   * second after it; the answer was written between sending and receiving.
   */
  observe(date: string | null, sentAtMs: number, receivedAtMs: number): void {
    const dateMs = date === null ? Number.NaN : Date.parse(date);
    if (Number.isNaN(dateMs)) return;
    const earliestOffset = dateMs - receivedAtMs;
    const latestOffset = dateMs + 999 - sentAtMs;
    // An offset that is possible already stays: following every answer would jitter by up to a second.
    if (this.#offsetMs >= earliestOffset && this.#offsetMs <= latestOffset) return;
    this.#offsetMs = (earliestOffset + latestOffset) / 2;
  }
}
