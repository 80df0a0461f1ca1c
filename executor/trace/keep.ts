/** What of an event is kept, by the task's trace level (core/wire/trace.ts). */
import { hash } from "node:crypto";
import type { TraceSpec } from "#core/wire/trace.ts";
import type { EventBody, EventType } from "#trace/events/event.ts";

/** Decides for one recording. `dynamic` changes its mind at the first error, for what comes after. */
export class Keeper {
  #keeps: "everything" | "structure";
  readonly #turnsAtError: boolean;
  /** How it begins, for the file's header. */
  readonly level: "full" | "error_only" | "dynamic";

  constructor({ level, sample_share }: TraceSpec, taskId: string) {
    const sampled = level === "dynamic" && shareOf(taskId) < sample_share;
    this.level = sampled ? "full" : level;
    this.#keeps = this.level === "full" ? "everything" : "structure";
    this.#turnsAtError = level === "dynamic";
  }

  /** The event as it is to be recorded; null where it says nothing but content. */
  kept(event: EventBody): EventBody | null {
    if (this.#keeps === "everything") return event;
    if (event.type === "error" && this.#turnsAtError) this.#keeps = "everything";
    const withheld = WITHHELD[event.type];
    if (withheld === undefined) return event;
    return withheld === "all" ? null : ({ ...event, ...withheld } as EventBody);
  }
}

/** What is content and no structure: whole events, or members. */
const WITHHELD: { readonly [T in EventType]?: "all" | Partial<EventBody<T>> } = {
  tool_call_start: { arguments_json: null, body: null },
  tool_call_end: { answer: null },
  plan_step: { given_json: null, detail_json: null },
  observation: { content_json: null },
  context: "all",
  output: "all",
  token_logit: "all",
  completion: { tool_calls: [] },
};

/** Between 0 and 1, the same for a task wherever and however often it runs. */
function shareOf(taskId: string): number {
  return hash("sha256", taskId, "buffer").readUInt32BE() / 2 ** 32;
}
