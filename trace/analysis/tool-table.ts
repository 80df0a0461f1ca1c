import { erred } from "#trace/metrics/tool-calls.ts";
import type { CallFacts } from "./facts.ts";
import type { ToolRow } from "./report-data.ts";

/** Calls by tool; a call of the agent's own goes by its kind. */
export class ToolTable {
  readonly #tools = new Map<string, ToolRow>();

  add(call: CallFacts): void {
    const tool = toolName(call);
    const row = this.#tools.get(tool) ?? { tool, calls: 0, errors: 0, duration_us: 0 };
    row.calls++;
    if (erred(call)) row.errors++;
    row.duration_us += call.duration_us ?? 0;
    this.#tools.set(tool, row);
  }

  /** The most used first. */
  rows(): ToolRow[] {
    return [...this.#tools.values()].sort(
      (one, other) => other.calls - one.calls || (one.tool < other.tool ? -1 : 1),
    );
  }
}

export function toolName({ tool, kind }: Pick<CallFacts, "tool" | "kind">): string {
  return tool ?? `(${kind})`;
}
