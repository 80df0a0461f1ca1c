/** Which tools were seen to change state, for recordings in which nobody says so. */
import type { TraceEvent } from "#trace/events/event.ts";
import { ANSWERS } from "#trace/exchange/imported.ts";
import { erred } from "#trace/metrics/tool-calls.ts";

/** By tool: answers that told of a thing, and how many of them showed that it had been changed. */
export type Observed = Map<string, { told: number; changed: number }>;

/**
 * An import makes memory of answers: what is told of each thing, under the thing's id. An answer shows a change where it tells otherwise
 * of a thing than was told before, or of a new thing, whose id did not stand in its call's arguments.
 */
export class ToolObserver {
  readonly observed: Observed = new Map();
  readonly #started = new Map<number, { tool: string; arguments_json: string | null }>();
  /** The call that ended last, which the writes that follow are of. */
  #ended: {
    call: number;
    tool: string;
    arguments_json: string | null;
    shows: "nothing" | "a change";
  } | null = null;

  add(event: TraceEvent): void {
    if (event.type === "tool_call_start" && event.tool !== null) this.#start(event, event.tool);
    else if (event.type === "tool_call_end") this.#end(event);
    else if (event.type === "memory_write" && event.namespace === ANSWERS) this.#write(event);
  }

  #start({ call, arguments_json }: TraceEvent<"tool_call_start">, tool: string): void {
    this.#started.set(call, { tool, arguments_json });
    if (!this.observed.has(tool)) this.observed.set(tool, { told: 0, changed: 0 });
  }

  #end(end: TraceEvent<"tool_call_end">): void {
    const start = this.#started.get(end.call);
    this.#started.delete(end.call);
    this.#ended = null;
    if (start === undefined || erred(end) || !(end.answer?.output_json?.startsWith("{") ?? false)) return;
    this.#ended = { ...start, call: end.call, shows: "nothing" };
    this.observed.get(start.tool)!.told++;
  }

  #write({ call, key, old }: TraceEvent<"memory_write">): void {
    const ended = this.#ended;
    if (ended === null || ended.call !== call || ended.shows === "a change") return;
    const [kind, id] = key.split("/");
    const isNew = kind !== "tool" && id !== undefined && !(ended.arguments_json?.includes(id) ?? false);
    if (old === null && !isNew) return;
    ended.shows = "a change";
    this.observed.get(ended.tool)!.changed++;
  }
}

/** Whether each tool only reads, as far as answers show: most of those of a tool that changes state do. Null where none does. */
export function readOnlyAsObserved(observed: Observed): Map<string, boolean> | null {
  const readOnly = new Map([...observed].map(([tool, { told, changed }]) => [tool, 2 * changed <= told]));
  return [...readOnly.values()].includes(false) ? readOnly : null;
}

/** What a report says of an accuracy for which nobody said which tools change state. */
export function accuracyNote(readOnly: ReadonlyMap<string, boolean> | null): string {
  const wayOut =
    "say which do with --state-changing a,b or as state_changing_tools or read_only_tools in the labels";
  if (readOnly === null) {
    return `tool_call_accuracy counts the calls of every tool, also of those that only read: nothing says which change state; ${wayOut}`;
  }
  const changing = [...readOnly].flatMap(([tool, reads]) => (reads ? [] : [tool])).sort();
  return `tool_call_accuracy counts the calls of ${changing.join(", ")}: nothing says which tools change state, but answers of these told of what was changed or new; where that is wrong, ${wayOut}`;
}
