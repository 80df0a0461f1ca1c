/** The report on many traces, which are added one at a time: what is kept of each is a row of numbers and its features. */
import type { ErrorCode } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { type RewardParts, rewardFault, rewardShares } from "#trace/metrics/rewards.ts";
import { adjustedP, spearman } from "#trace/metrics/statistics.ts";
import { type ClusterOptions, cluster, type Featured } from "./clusters.ts";
import { featuresOf } from "./features.ts";
import { hintsOf, type Judged } from "./hints.ts";
import type { Measured } from "./metrics.ts";
import { accuracyNote, type Observed, readOnlyAsObserved } from "./observed-tools.ts";
import {
  type ManyReport,
  METRICS,
  type Metric,
  type MetricPair,
  type ToolRow,
  type TraceRow,
} from "./report-data.ts";
import { ToolTable } from "./tool-table.ts";

export type ManyOptions = { clusterBy: "memory_state" | null; pairs?: boolean } & ClusterOptions;

export class ManyReportBuilder {
  readonly #options: ManyOptions;
  readonly #rows: TraceRow[] = [];
  readonly #judged: Judged[] = [];
  readonly #values = new Map<Metric, (number | null)[]>(METRICS.map((metric) => [metric, []]));
  readonly #outcomes: ManyReport["outcomes"] = { succeeded: 0, failed: 0, unknown: 0 };
  readonly #rewards: RewardParts[] = [];
  readonly #tools = new ToolTable();
  /** Of tools that some trace declares, and of traces that wait for what others say of theirs. */
  readonly #declared = new Map<string, boolean>();
  readonly #observed: Observed = new Map();
  #unsaid = 0;
  readonly #unsettled: {
    at: number;
    row: TraceRow;
    accuracyWith: Exclude<Measured["accuracyWith"], null>;
  }[] = [];
  readonly #words = new Map<string, string>();
  readonly #refused: ManyReport["refused"] = [];
  #rewardFaults = 0;
  #refusedCount = 0;

  constructor(options: ManyOptions) {
    this.#options = options;
  }

  add({ facts, row, declared, observed, accuracyWith, accuracyNote }: Measured): void {
    for (const [tool, readOnly] of declared) this.#declared.set(tool, readOnly);
    for (const [tool, { told, changed }] of observed) {
      const so_far = this.#observed.get(tool) ?? { told: 0, changed: 0 };
      this.#observed.set(tool, { told: so_far.told + told, changed: so_far.changed + changed });
    }
    if (accuracyNote !== null) this.#unsaid++;
    if (accuracyWith !== null) {
      this.#unsettled.push({ at: this.#values.get("reward")!.length, row, accuracyWith });
    }
    if (this.#rows.length < LIMITS.reportTraces) this.#rows.push(row);
    this.#outcomes[row.outcome]++;
    for (const metric of METRICS) this.#values.get(metric)!.push(row.metrics[metric]);
    const reward = facts.rewards.at(-1);
    if (reward !== undefined) {
      this.#rewards.push({ components: reward.components, sum: reward.sum });
      if (facts.rewards.some((one) => rewardFault(one) !== null)) this.#rewardFaults++;
    }
    for (const call of facts.calls) this.#tools.add(call);
    if (row.outcome === "unknown" || this.#judged.length >= 2 * LIMITS.clusteredTraces) return;
    // Thousands of traces have the same few features: each is kept as text once.
    const features = new Set([...featuresOf(facts)].map((feature) => this.#word(feature)));
    this.#judged.push({
      file: row.file,
      group: facts.labels.task ?? row.task_id ?? row.trace_id,
      features,
      failed: row.outcome === "failed",
    });
  }

  refuse(file: string, { code, message }: { code: ErrorCode; message: string }): void {
    this.#refusedCount++;
    if (this.#refused.length < LIMITS.reportTraces) this.#refused.push({ file, code, message });
  }

  async result(): Promise<ManyReport> {
    const known = { declared: this.#declared, observed: readOnlyAsObserved(this.#observed) };
    for (const { at, row, accuracyWith } of this.#unsettled) {
      row.metrics.tool_call_accuracy = await accuracyWith(known);
      this.#values.get("tool_call_accuracy")![at] = row.metrics.tool_call_accuracy;
    }
    const rewards = this.#values.get("reward")!;
    const correlations = METRICS.filter((metric) => metric !== "reward").map((metric) => ({
      metric,
      ...spearman(this.#values.get(metric)!, rewards),
    }));
    const { hints, adjusted } = hintsOf(correlations, this.#judged);
    const [failed, successful] = [true, false].map((side): Featured[] =>
      this.#judged.filter((trace) => trace.failed === side),
    ) as [Featured[], Featured[]];
    return {
      version: 1,
      kind: "many",
      traces: this.#rows,
      count: rewards.length,
      outcomes: this.#outcomes,
      means: Object.fromEntries(
        METRICS.map((metric) => [metric, meanOf(this.#values.get(metric)!)]),
      ) as ManyReport["means"],
      correlations: correlations.map((one, at) => ({ ...one, adjusted_p: adjusted[at]! })),
      pairs: this.#options.pairs === true ? this.#pairs() : null,
      // A trace without a call says nothing of tools, and the others have said it.
      accuracy_note: this.#unsaid > 0 && this.#declared.size === 0 ? accuracyNote(known.observed) : null,
      reward_shares: rewardShares(this.#rewards),
      reward_faults: this.#rewardFaults,
      tools: this.#tools.rows() satisfies ToolRow[],
      clustering: this.#options.clusterBy === null ? null : cluster(failed, successful, this.#options),
      hints,
      refused: this.#refused,
      refused_count: this.#refusedCount,
    };
  }

  /** Of thousands of traces fewer permutations are drawn: those tell p to a thousandth, as well as it need be known. */
  #pairs(): MetricPair[] {
    const permutations = Math.round(Math.min(9999, Math.max(999, 3e6 / this.#values.get("reward")!.length)));
    const pairs = METRICS.flatMap((one, at) =>
      METRICS.slice(at + 1).map((other) => {
        const of: [Metric, Metric] = [one, other];
        return { of, ...spearman(this.#values.get(one)!, this.#values.get(other)!, permutations) };
      }),
    );
    const adjusted = adjustedP(pairs.map(({ p }) => p));
    return pairs.map((pair, at) => ({ ...pair, adjusted_p: adjusted[at]! }));
  }

  #word(text: string): string {
    const known = this.#words.get(text);
    if (known === undefined) this.#words.set(text, text);
    return known ?? text;
  }
}

function meanOf(values: readonly (number | null)[]): { mean: number | null; n: number } {
  const known = values.filter((value) => value !== null);
  const sum = known.reduce((so_far, value) => so_far + value, 0);
  return { mean: known.length === 0 ? null : sum / known.length, n: known.length };
}
