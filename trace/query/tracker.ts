/** What a search knows of the events before the one that it looks at: calls and their tools, open plan steps, memory. */
import { decodeEvent } from "#trace/events/codec.ts";
import type { EventType, TraceEvent } from "#trace/events/event.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { EventView, type Kept } from "./event-view.ts";
import { MEMBERS, memberOf } from "./members.ts";
import type { Surroundings } from "./names.ts";
import type { Needle } from "./needles.ts";
import { Unshown, type Value, valueOfText } from "./value.ts";

type Tracked = { keys: ReadonlySet<string>; keyNeedles: Needle[] | null; keepsStarts: boolean };

export class Tracker implements Surroundings {
  readonly #startedWallUs: number;
  readonly #tracked: Tracked;
  /** Two numbers and a name are all that is kept of each call: an attempt has at most LIMITS.callsPerAttempt. */
  readonly #calls = new Map<number, { tool: string | null; step: number | null }>();
  /** Starts of calls that have not ended. */
  readonly #starts = new Map<number, Kept>();
  readonly #start = new EventView();
  readonly #tools: string[] = [];
  readonly #toolBytes: Uint8Array[] = [];
  readonly #steps: number[] = [];
  readonly #memory = new Map<string, Value>();
  readonly #keys: string[];
  readonly #keyBytes: Uint8Array[];
  #namespace: Uint8Array | null;

  constructor({ header, startedWallUs }: Pick<TraceSegment, "header" | "startedWallUs">, tracked: Tracked) {
    this.#startedWallUs = startedWallUs;
    this.#tracked = tracked;
    this.#keys = [...tracked.keys];
    this.#keyBytes = this.#keys.map((key) => encoder.encode(key));
    this.#namespace = header.task_id === null ? null : encoder.encode(`task:${header.task_id}`);
  }

  /** Of what happens with the event itself. */
  before(view: EventView): void {
    switch (view.type) {
      case "tool_call_start": {
        const call = view.call() ?? 0;
        this.#calls.set(call, {
          tool: this.#toolIn(view),
          step: view.integer(MEMBERS.tool_call_start.step[0]),
        });
        // The block that it lies in is not kept for its sake.
        if (this.#tracked.keepsStarts) this.#starts.set(call, view.keep());
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
    const kept = this.#starts.get(call);
    if (kept === undefined) return null;
    this.#start.loadKept(kept);
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
    return decodeEvent(view.copy(), this.#startedWallUs);
  }

  toolOfEvent(view: EventView): string | null {
    const own = memberOf(view.type, "tool");
    return own === null ? this.toolOf(view.call() ?? 0) : view.text(own[0]);
  }

  stepOfEvent(view: EventView): number | null {
    const own = memberOf(view.type, "step");
    return (own === null ? null : view.integer(own[0])) ?? this.stepOf(view.call());
  }

  /** A few tools are called again and again: of each there is one text. */
  #toolIn(view: EventView): string | null {
    const [field] = MEMBERS.tool_call_start.tool;
    const known = view.textAmong(field, this.#toolBytes);
    if (known >= 0) return this.#tools[known]!;
    const tool = view.text(field);
    if (tool !== null && tool !== "" && this.#tools.length < MOST_TOOLS) {
      this.#tools.push(tool);
      this.#toolBytes.push(encoder.encode(tool));
    }
    return tool;
  }

  #apply(view: EventView): void {
    const members = MEMBERS[view.type as MemoryType];
    if (this.#namespace === null) this.#adopt(view.text(members.namespace[0]) ?? "");
    if (view.type !== "memory_snapshot" && !this.#mayChange(view)) return;
    if (this.#namespace === null || !view.textIs(members.namespace[0], this.#namespace)) return;
    if (view.type === "memory_snapshot") {
      this.#load(valueOfText(view.text(MEMBERS.memory_snapshot.entries_json[0])));
      return;
    }
    const access = MEMBERS[view.type as "memory_read" | "memory_write"];
    if (view.textIs(access.op[0], CLEAR)) this.#memory.clear();
    const asked = view.textAmong(access.key[0], this.#keyBytes);
    if (asked < 0) return;
    const key = this.#keys[asked]!;
    const op = view.text(access.op[0]);
    // What a read finds tells of memory that was there before the recording.
    const shown = op === "put" ? access.new : op === "get" ? access.old : null;
    if (shown !== null) this.#set(key, view.raw(shown[0]) === null ? undefined : view.value(shown));
    else if (op === "delete" || op === "expire") this.#set(key, undefined);
  }

  /** Most changes are of keys that nobody asks for: the bytes of such an event do not hold one. */
  #mayChange({ content, from, to }: EventView): boolean {
    return this.#tracked.keyNeedles?.some((needle) => needle.held(content, from, to)) ?? true;
  }

  /** An import names its namespace as it likes; what is shared is nobody's own. */
  #adopt(namespace: string): void {
    if (!namespace.startsWith("shared:")) this.#namespace = encoder.encode(namespace);
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

const encoder = new TextEncoder();
const MOST_TOOLS = 32;
const CLEAR = encoder.encode("clear");

type MemoryType = Extract<EventType, `memory_${string}`>;
