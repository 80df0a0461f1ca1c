/** How long calls take, by tool: all of their time, or what of it went into messages on the channel. */
import type { CallFacts } from "./facts.ts";
import { Samples, type Summary } from "./samples.ts";
import { toolName } from "./tool-table.ts";

/** Microseconds. `share` of the calls' whole time, where it is known. */
export type LatencyRow = { tool: string } & Summary & { share: number | null };

export class LatencyAnalysis {
  readonly #of: (call: CallFacts) => number | null;
  readonly #tools = new Map<string, { samples: Samples; wholeUs: number }>();

  /** @param of the time of a call that is looked at, in microseconds; null where it is not known */
  constructor(of: (call: CallFacts) => number | null) {
    this.#of = of;
  }

  add(calls: readonly CallFacts[]): void {
    for (const call of calls) {
      const time = this.#of(call);
      if (time === null) continue;
      const tool = toolName(call);
      const row = this.#tools.get(tool) ?? { samples: new Samples(), wholeUs: 0 };
      row.samples.add(time);
      row.wholeUs += call.duration_us ?? 0;
      this.#tools.set(tool, row);
    }
  }

  /** Where most time went first. */
  result(): LatencyRow[] {
    return [...this.#tools]
      .map(([tool, { samples, wholeUs }]) => {
        const summary = samples.summary();
        return { tool, ...summary, share: wholeUs === 0 ? null : summary.sum / wholeUs };
      })
      .sort((one, other) => other.sum - one.sum);
  }
}
