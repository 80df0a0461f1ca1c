/** Which tools are called when: by plan step where there are any, else by tenth of the trace's time, or of its calls where it has no times. */
import { erred } from "#trace/metrics/tool-calls.ts";
import type { TraceFacts } from "./facts.ts";
import { toolName } from "./tool-table.ts";

export type Heatmap = {
  columns: string[];
  rows: { tool: string; calls: number[]; errors: number[] }[];
  /** Calls in steps beyond the columns. */
  left_out: number;
};

const MOST_STEPS = 40;
const TENTHS = 10;

export class HeatmapAnalysis {
  readonly #columns = new Map<string, number>();
  readonly #rows = new Map<string, { calls: number[]; errors: number[] }>();
  #leftOut = 0;

  add({ calls, steps, duration_us }: Pick<TraceFacts, "calls" | "steps" | "duration_us">): void {
    const names = new Map(steps.map(({ step, name }) => [step, name]));
    for (const [place, call] of calls.entries()) {
      const share = duration_us === 0 ? place / calls.length : call.t_us / duration_us;
      const tenth = Math.min(TENTHS - 1, Math.floor(TENTHS * share));
      const column =
        steps.length === 0
          ? `${tenth * 10}%`
          : call.step === null
            ? "(none)"
            : (names.get(call.step) ?? "(none)");
      const at = this.#column(column);
      if (at === null) {
        this.#leftOut++;
        continue;
      }
      const tool = toolName(call);
      const row = this.#rows.get(tool) ?? { calls: [], errors: [] };
      row.calls[at] = (row.calls[at] ?? 0) + 1;
      if (erred(call)) row.errors[at] = (row.errors[at] ?? 0) + 1;
      this.#rows.set(tool, row);
    }
  }

  result(): Heatmap {
    // Tenths are numbers, whose order is not that of their first call.
    const columns = [...this.#columns.keys()].sort((one, other) => {
      const [a, b] = [Number.parseInt(one, 10), Number.parseInt(other, 10)];
      return one.endsWith("%") && other.endsWith("%")
        ? a - b
        : this.#columns.get(one)! - this.#columns.get(other)!;
    });
    const places = columns.map((name) => this.#columns.get(name)!);
    const rows = [...this.#rows].map(([tool, { calls, errors }]) => {
      return { tool, calls: places.map((at) => calls[at] ?? 0), errors: places.map((at) => errors[at] ?? 0) };
    });
    const total = ({ calls }: { calls: number[] }) => calls.reduce((sum, count) => sum + count, 0);
    return { columns, rows: rows.sort((one, other) => total(other) - total(one)), left_out: this.#leftOut };
  }

  #column(name: string): number | null {
    const known = this.#columns.get(name);
    if (known !== undefined) return known;
    if (this.#columns.size >= MOST_STEPS) return null;
    this.#columns.set(name, this.#columns.size);
    return this.#columns.size - 1;
  }
}
