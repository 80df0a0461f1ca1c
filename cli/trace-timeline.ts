import { summaryOf } from "#trace/analysis/summary.ts";
import type { EventType, TraceEvent } from "#trace/events/event.ts";
import { type Paint, plainLine, type Style } from "./terminal.ts";
import { seconds } from "./trace-segments.ts";

const STYLES: { [T in EventType]?: Style } = {
  tool_call_start: "cyan",
  tool_call_end: "cyan",
  plan_step: "bold",
  reward: "green",
  error: "red",
  rollback: "yellow",
};

/** The events of one recording, in order, as lines for people: plan steps indent what is within them. */
export class Timeline {
  readonly #paint: Paint;
  readonly #tools = new Map<number, string>();
  #depth = 0;

  constructor(paint: Paint) {
    this.#paint = paint;
  }

  line(event: TraceEvent): string {
    if (event.type === "tool_call_start") this.#tools.set(event.call, event.tool ?? event.kind);
    if (event.type === "plan_step" && event.state === "ended") this.#depth = Math.max(0, this.#depth - 1);
    const of = "call" in event ? event.call : null;
    const tool = of === null ? null : (this.#tools.get(of) ?? null);
    const style = isBad(event) ? "red" : (STYLES[event.type] ?? "dim");
    const line =
      `${String(event.seq).padStart(6)} ${this.#paint("dim", seconds(event.t_us))} ${"  ".repeat(Math.min(this.#depth, 20))}` +
      `${this.#paint(style, `${event.type}${of === null ? "" : ` ${of}`}`)} ${plainLine(summaryOf(event, tool))}`;
    if (event.type === "plan_step" && event.state === "begun") this.#depth++;
    if (event.type === "tool_call_end") this.#tools.delete(event.call);
    return line;
  }
}

function isBad(event: TraceEvent): boolean {
  return event.type === "tool_call_end" && (event.is_error === true || event.state !== "answered");
}
