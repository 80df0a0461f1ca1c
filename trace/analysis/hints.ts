/**
 * What goes together with failure, over many traces: of each feature Fisher's exact test, of each metric Spearman's rank
 * correlation with the reward by permutation. All tests together are adjusted for their number (Benjamini-Hochberg), and
 * the wording never says more than "associated with".
 */
import { adjustedP, type Correlation, fisherP, LEAST_PAIRS } from "#trace/metrics/statistics.ts";
import { countFeatures, type Featured, tellingFeatures } from "./clusters.ts";
import type { Hint, Metric } from "./report-data.ts";

export type Judged = Featured & { failed: boolean };

const MOST_P = 0.05;
const MOST_HINTS = 20;

/** @returns hints, the strongest first, and the adjusted p of each correlation in the order given */
export function hintsOf(
  correlations: readonly (Correlation & { metric: Metric })[],
  judged: readonly Judged[],
): { hints: Hint[]; adjusted: (number | null)[] } {
  const tables = judged.length < LEAST_PAIRS ? [] : tablesOf(judged);
  const ps = adjustedP([
    ...correlations.map(({ p }) => p),
    ...tables.map(({ failedWith, countWith, failed, count }) =>
      fisherP(
        failedWith,
        countWith - failedWith,
        failed - failedWith,
        count - countWith - failed + failedWith,
      ),
    ),
  ]);
  const adjusted = ps.slice(0, correlations.length);
  const hints: Hint[] = [];
  for (const [at, { metric, rho, n }] of correlations.entries()) {
    const p = adjusted[at]!;
    if (p === null || rho === null || p > MOST_P) continue;
    const text = `${metric} is associated with the reward (Spearman ${rho.toFixed(2)}, n=${n}, adjusted p=${shownP(p)})`;
    hints.push({ text, n, adjusted_p: p, strength: Math.abs(rho) });
  }
  for (const [at, table] of tables.entries()) {
    const p = ps[correlations.length + at]!;
    if (p !== null && p <= MOST_P) hints.push(hintOf(table, p));
  }
  hints.sort((one, other) => other.strength - one.strength || one.adjusted_p - other.adjusted_p);
  return { hints: hints.slice(0, MOST_HINTS), adjusted };
}

type Table = { feature: string; failedWith: number; countWith: number; failed: number; count: number };

/** Of features that enough traces have and enough have not: of others no test could ever say anything. */
function tablesOf(judged: readonly Judged[]): Table[] {
  const count = judged.length;
  const failed = judged.filter((trace) => trace.failed).length;
  const failedWith = countFeatures(judged.filter((trace) => trace.failed));
  const telling = tellingFeatures(judged);
  return [...countFeatures(judged)]
    .filter(([feature]) => telling.has(feature))
    .filter(([, countWith]) => countWith >= LEAST && count - countWith >= LEAST)
    .map(([feature, countWith]) => {
      return { feature, failedWith: failedWith.get(feature) ?? 0, countWith, failed, count };
    });
}

const LEAST = 5;

function hintOf({ feature, failedWith, countWith, failed, count }: Table, p: number): Hint {
  const [without, failedWithout] = [count - countWith, failed - failedWith];
  const [here, there] = [failedWith / countWith, failedWithout / without];
  const what = here > there ? "failure" : "success";
  const text =
    `${feature} is associated with ${what}: ${failedWith} of ${countWith} traces with it failed, ` +
    `and ${failedWithout} of ${without} without it (n=${count}, adjusted p=${shownP(p)})`;
  return { text, n: count, adjusted_p: p, strength: Math.abs(here - there) };
}

function shownP(p: number): string {
  return p < 0.0001 ? "<0.0001" : p.toFixed(4);
}
