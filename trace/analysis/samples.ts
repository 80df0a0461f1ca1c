/** Numbers of which percentiles are wanted, however many there are. */
import { percentile } from "#trace/metrics/statistics.ts";

const MOST = 65_536;

/** Keeps all up to 65,536; of more every second, then every fourth and so on, evenly over the whole run. */
export class Samples {
  #kept: number[] = [];
  #every = 1;
  count = 0;
  sum = 0;
  max = 0;

  add(value: number): void {
    if (this.count++ % this.#every === 0) this.#kept.push(value);
    this.sum += value;
    this.max = Math.max(this.max, value);
    if (this.#kept.length <= MOST) return;
    this.#kept = this.#kept.filter((_, at) => at % 2 === 0);
    this.#every *= 2;
  }

  /** Null without samples. `every`: 1 where the percentiles are of all samples, n where they are of each nth. */
  summary(): Summary {
    const sorted = Float64Array.from(this.#kept).sort();
    const [p50, p90, p99] = [0.5, 0.9, 0.99].map((share) => percentile(sorted, share));
    return {
      count: this.count,
      sum: this.sum,
      p50: p50!,
      p90: p90!,
      p99: p99!,
      max: this.max,
      every: this.#every,
    };
  }
}

export type Summary = {
  count: number;
  sum: number;
  p50: number | null;
  p90: number | null;
  p99: number | null;
  max: number;
  every: number;
};
