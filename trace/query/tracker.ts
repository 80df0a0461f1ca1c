/** What a search knows of the events before the one that it looks at: calls and their tools, open plan steps, memory. */
import { decodeEvent } from "#trace/events/codec.ts";
import type { EventType, TraceEvent } from "#trace/events/event.ts";
import { WireReader } from "#trace/events/wire.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { EventView } from "./event-view.ts";
import { MEMBERS, memberOf } from "./members.ts";
import type { Surroundings } from "./names.ts";
import { Unshown, type Value, valueOfText } from "./value.ts";

type Tracked = { keys: ReadonlySet<string>; keepsStarts: boolean };

export class Tracker implements Surroundings {
  readonly #startedWallUs: number;
  readonly #tracked: Tracked;
  /** Two numbers and a name are all that is kept of each call: an attempt has at most LIMITS.callsPerAttempt. */
  readonly #calls = new Map<number, { tool: string | null; step: number | null }>();
  /** Starts of calls that have not ended. */
  readonly #starts = new Map<number, Uint8Array>();
  readonly #start = new EventView();
  readonly #steps: number[] = [];
  readonly #memory = new Map<string, Value>();
  #namespace: string | null;

  constructor({ header, startedWallUs }: Pick<TraceSegment, "header" | "startedWallUs">, tracked: Tracked) {
    this.#startedWallUs = startedWallUs;
    this.#tracked = tracked;
    this.#namespace = header.task_id === null ? null : `task:${header.task_id}`;
  }

  /** Of what happens with the event itself. */
  before(view: EventView): void {
    switch (view.type) {
      case "tool_call_start": {
        const call = view.call() ?? 0;
        const { tool, step } = MEMBERS.tool_call_start;
        this.#calls.set(call, { tool: view.text(tool[0]), step: view.integer(step[0]) });
        // The block that it lies in is not kept for its sake.
        if (this.#tracked.keepsStarts) this.#starts.set(call, view.copy());
        return;
      }
      case "plan_step": {
        const { state, step } = MEMBERS.plan_step;
        if (view.text(state[0]) === "begun") this.#steps.push(view.integer(step[0]) ?? 0);
        return;
      }
      case "memory_read":
      case "memory_write":
      case "memory_snapshot":
        this.#apply(view);
        return;
    }
  }

  /** Of what the event is the last of. */
  after(view: EventView): void {
    if (view.type === "tool_call_end") this.#starts.delete(view.call() ?? 0);
    if (view.type !== "plan_step") return;
    const { state, step } = MEMBERS.plan_step;
    if (view.text(state[0]) === "begun") return;
    const at = this.#steps.lastIndexOf(view.integer(step[0]) ?? 0);
    // Steps within it are over with it.
    if (at >= 0 && view.text(state[0]) === "ended") this.#steps.length = at;
  }

  memory(key: string): Value {
    return this.#memory.get(key);
  }

  startOf(call: number): EventView | null {
    const bytes = this.#starts.get(call);
    if (bytes === undefined) return null;
    this.#start.load(new WireReader(bytes), 0, bytes.length);
    return this.#start;
  }

  toolOf(call: number): string | null {
    return this.#calls.get(call)?.tool ?? null;
  }

  stepOf(call: number | null): number | null {
    const known = call === null ? undefined : this.#calls.get(call);
    return known === undefined ? (this.#steps.at(-1) ?? null) : known.step;
  }

  whole(view: EventView): TraceEvent {
    return decodeEvent(view.content.subarray(view.from, view.to), this.#startedWallUs);
  }

  toolOfEvent(view: EventView): string | null {
    const own = memberOf(view.type, "tool");
    return own === null ? this.toolOf(view.call() ?? 0) : view.text(own[0]);
  }

  stepOfEvent(view: EventView): number | null {
    const own = memberOf(view.type, "step");
    return (own === null ? null : view.integer(own[0])) ?? this.stepOf(view.call());
  }

  #apply(view: EventView): void {
    const members = MEMBERS[view.type as MemoryType];
    const namespace = view.text(members.namespace[0]) ?? "";
    // An import names its namespace as it likes; what is shared is nobody's own.
    if (this.#namespace === null && !namespace.startsWith("shared:")) this.#namespace = namespace;
    if (namespace !== this.#namespace) return;
    if (view.type === "memory_snapshot") {
      this.#load(valueOfText(view.text(MEMBERS.memory_snapshot.entries_json[0])));
      return;
    }
    const access = MEMBERS[view.type as "memory_read" | "memory_write"];
    const op = view.text(access.op[0]);
    if (op === "clear") this.#memory.clear();
    const key = view.text(access.key[0]) ?? "";
    if (!this.#tracked.keys.has(key)) return;
    if (op === "put" || op === "get")
      this.#set(key, view.raw(access.new[0]) === null ? undefined : view.value(access.new));
    else if (op === "delete" || op === "expire") this.#set(key, undefined);
  }

  #set(key: string, value: Value): void {
    if (value === undefined) this.#memory.delete(key);
    else this.#memory.set(key, value);
  }

  #load(entries: Value): void {
    if (typeof entries !== "object" || entries === null || entries instanceof Unshown) return;
    for (const key of this.#tracked.keys) {
      const has = Object.hasOwn(entries, key);
      this.#set(key, has ? (entries as Record<string, Value>)[key] : undefined);
    }
  }
}

type MemoryType = Extract<EventType, `memory_${string}`>;
