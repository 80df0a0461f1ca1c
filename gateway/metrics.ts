/**
 * Counters, gauges and histograms in the Prometheus text format 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/), small enough to run on the edge.
 */

/** Upper bounds in seconds. Long polls and streams are counted, but not timed: their length is the client's choice. */
const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

type Labels = Record<string, string>;
type Histogram = { buckets: number[]; sum: number; count: number };

export class Metrics {
  readonly #counters = new Map<string, { help: string; series: Map<string, number> }>();
  readonly #gauges = new Map<string, { help: string; series: Map<string, number> }>();
  readonly #histograms = new Map<string, { help: string; series: Map<string, Histogram> }>();

  /** Adds to a counter; the name ends in `_total`. */
  count(name: string, help: string, labels: Labels = {}, by = 1): void {
    const series = family(this.#counters, name, help);
    const key = labelText(labels);
    series.set(key, (series.get(key) ?? 0) + by);
  }

  set(name: string, help: string, labels: Labels, value: number): void {
    family(this.#gauges, name, help).set(labelText(labels), value);
  }

  /** Moves a gauge up or down, as for what is open now. */
  move(name: string, help: string, labels: Labels, by: number): void {
    const series = family(this.#gauges, name, help);
    const key = labelText(labels);
    series.set(key, (series.get(key) ?? 0) + by);
  }

  observe(name: string, help: string, labels: Labels, seconds: number): void {
    const series = family(this.#histograms, name, help);
    const key = labelText(labels);
    let histogram = series.get(key);
    if (histogram === undefined) {
      histogram = { buckets: BUCKETS_S.map(() => 0), sum: 0, count: 0 };
      series.set(key, histogram);
    }
    const at = BUCKETS_S.findIndex((bound) => seconds <= bound);
    if (at >= 0) histogram.buckets[at]! += 1;
    histogram.sum += seconds;
    histogram.count += 1;
  }

  /** The whole exposition; families and series in the order they first appeared. */
  text(): string {
    const lines: string[] = [];
    for (const [kind, families] of [
      ["counter", this.#counters],
      ["gauge", this.#gauges],
    ] as const) {
      for (const [name, { help, series }] of families) {
        lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`);
        for (const [labels, value] of series) lines.push(`${name}${braces(labels)} ${value}`);
      }
    }
    for (const [name, { help, series }] of this.#histograms) {
      lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} histogram`);
      for (const [labels, histogram] of series) {
        let below = 0;
        const with_ = labels === "" ? "" : `${labels},`;
        for (const [i, bound] of BUCKETS_S.entries()) {
          below += histogram.buckets[i]!;
          lines.push(`${name}_bucket{${with_}le="${bound}"} ${below}`);
        }
        lines.push(
          `${name}_bucket{${with_}le="+Inf"} ${histogram.count}`,
          `${name}_sum${braces(labels)} ${histogram.sum}`,
          `${name}_count${braces(labels)} ${histogram.count}`,
        );
      }
    }
    return `${lines.join("\n")}\n`;
  }
}

function family<V>(
  families: Map<string, { help: string; series: Map<string, V> }>,
  name: string,
  help: string,
) {
  let found = families.get(name);
  if (found === undefined) {
    found = { help, series: new Map() };
    families.set(name, found);
  }
  return found.series;
}

function labelText(labels: Labels): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}="${value.replace(/[\\"\n]/g, escaped)}"`)
    .join(",");
}

function escaped(character: string): string {
  return character === "\n" ? "\\n" : `\\${character}`;
}

function braces(labels: string): string {
  return labels === "" ? "" : `{${labels}}`;
}
