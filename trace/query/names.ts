/**
 * What the names of a query mean, for each type of event:
 *
 * - a member by its name in proto/trace.proto; of a `X_json` member `X` is the value that the text says, with a path into it;
 * - `arguments` of a call (of the agent's own, its body), `answer` or `result` of a call's end, `answer_head`;
 * - `tool`, `step`, `kind`, `via`, `method`, `url`, `read_only` and `arguments` of whatever belongs to a call: as its start says;
 *   `step` of everything else: the innermost plan step that is open;
 * - `memory_state.KEY`: the value in the task's own namespace after the event;
 * - `reward`: the sum of the trace's last reward, `reward.NAME`: that component's product in it;
 * - `labels.NAME`, `trace_id`, `task_id`, `attempt` from the file's header;
 * - `type`, `section`, `seq`, `t_us`, `wall_us`, and `time` in seconds since the log was opened;
 * - `any`, for `any contains "…"`: some text of the event, also within JSON.
 */
import {
  EVENT_TYPES,
  type EventType,
  type Section,
  sectionOf,
  type TraceEvent,
} from "#trace/events/event.ts";
import type { EventView } from "./event-view.ts";
import { MEMBERS, memberOf } from "./members.ts";
import type { Name } from "./parse.ts";
import { partOf, type Value, valueOfText } from "./value.ts";

/** What a search knows beside the event it looks at. */
export type Surroundings = {
  /** Value of a key of the task's namespace after the event, or undefined where it has none. */
  memory(key: string): Value;
  /** The start of a call that is under way, or ended just now; what is kept of older ones is their tool and step. */
  startOf(call: number): EventView | null;
  toolOf(call: number): string | null;
  stepOf(call: number | null): number | null;
  /** The event decoded, for what the view does not read. */
  whole(view: EventView): TraceEvent;
};

/** What is the same for all events of a segment. */
export type Constants = {
  started_wall_us: number;
  trace_id: string;
  task_id: string | null;
  attempt: number | null;
  labels: Value;
  reward: { sum: number; components: Record<string, number> } | null;
};

export type Shape = "number" | "text" | "boolean" | "list" | "any";
export type Read = (view: EventView, around: Surroundings) => Value;

export type Meaning =
  | { state: "constant"; value: Value }
  /**
   * `text`: the field where the text lies as it is. `elsewhere`: the event's bytes do not hold it as text or JSON, for another
   * event says it, or it is a digest, whose bytes are no text.
   */
  | { state: "read"; shape: Shape; read: Read; text: number | null; elsewhere: boolean };

/** What a search must keep track of for a name, beside the sections where its events are. */
export type Need = "calls" | "starts" | "steps" | "memory" | "reward";

/** What the name means in events of this type; null where they have no such member. */
export function meaningOf(name: Name, type: EventType, constants: Constants): Meaning | null {
  const [first, ...path] = name.path;
  const given = SPECIAL[first]?.(type, path, constants);
  if (given !== undefined) return given;
  return memberMeaning(first, path, type) ?? linkedMeaning(first, path, type);
}

export function needsOf(name: Name, type: EventType): Need[] {
  const [first] = name.path;
  if (first === "memory_state") return ["memory"];
  if (first === "reward") return ["reward"];
  if (isOwn(first, type)) return [];
  if (first === "step") return ["calls", "steps"];
  if (!LINKED.has(first) || !hasCall(type)) return [];
  return first === "tool" ? ["calls"] : ["calls", "starts"];
}

/** Names that a query may begin with. */
export function knownNames(): string[] {
  const names = new Set<string>([...Object.keys(SPECIAL), ...LINKED, "memory_state", "any"]);
  for (const type of EVENT_TYPES) {
    for (const member of Object.keys(MEMBERS[type])) {
      names.add(member);
      if (member.endsWith("_json")) names.add(member.slice(0, -"_json".length));
    }
  }
  return [...names].sort();
}

const START_ALIASES = ["arguments"];
const LINKED = new Set(["tool", "step", "kind", "via", "method", "url", "read_only", "arguments"]);

type Special = (
  type: EventType,
  path: (string | number)[],
  constants: Constants,
) => Meaning | null | undefined;

const SPECIAL: Readonly<Record<string, Special>> = {
  type: (type) => constant(type),
  section: (type) => constant(sectionOf(type) satisfies Section),
  seq: () => number((view) => view.seq),
  t_us: () => number((view) => view.t_us),
  time: () => number((view) => view.t_us / 1e6),
  wall_us: (_type, _path, { started_wall_us }) =>
    number((view) => started_wall_us + view.t_us + view.wall_skew_us),
  trace_id: (_type, _path, { trace_id }) => constant(trace_id),
  task_id: (_type, _path, { task_id }) => constant(task_id),
  attempt: (_type, _path, { attempt }) => constant(attempt),
  labels: (_type, path, { labels }) => constant(path.reduce(partOf, labels)),
  reward: (_type, path, { reward }) => {
    if (path.length === 0) return constant(reward?.sum ?? null);
    return constant(partOf(reward?.components ?? null, path[0]!));
  },
  memory_state: (_type, [key, ...path]) => ({
    ...anyOf((_view, around) => path.reduce(partOf, around.memory(String(key)) ?? null)),
    elsewhere: true,
  }),
  answer: (type, path) => answerMeaning(type, path),
  result: (type, path) => answerMeaning(type, path),
  answer_head: (type, path) => {
    if (type !== "tool_call_end") return null;
    const [field] = MEMBERS.tool_call_end.answer;
    return anyOf((view) => path.reduce(partOf, view.answerHead(field)));
  },
  arguments: (type, path) => {
    if (type !== "tool_call_start") return undefined;
    const [json] = MEMBERS.tool_call_start.arguments_json;
    const [body] = MEMBERS.tool_call_start.body;
    return anyOf((view) => path.reduce(partOf, valueOfText(view.text(json) ?? view.text(body))));
  },
};

function answerMeaning(type: EventType, path: (string | number)[]): Meaning | null {
  if (type !== "tool_call_end") return null;
  const [field] = MEMBERS.tool_call_end.answer;
  return anyOf((view) => {
    const answer = view.answer(field);
    // Many tools answer JSON as text.
    const within = path.length > 0 && typeof answer === "string" ? valueOfText(answer) : answer;
    return path.reduce(partOf, within);
  });
}

function listOf(event: TraceEvent, member: string): Value {
  return event[member as keyof TraceEvent] as unknown as Value;
}

function memberMeaning(name: string, path: (string | number)[], type: EventType): Meaning | null {
  const member = memberOf(type, name);
  if (member === null) {
    const json = memberOf(type, `${name}_json`);
    if (json === null) return null;
    return anyOf((view) => path.reduce(partOf, valueOfText(view.text(json[0]))));
  }
  const kind = member[1].replace("?", "");
  if (kind === "list") {
    const shape = path.length === 0 ? "list" : "any";
    // Items of some lists have digests.
    const read = anyOf((view, around) => path.reduce(partOf, listOf(around.whole(view), name)));
    return { ...read, shape, elsewhere: true };
  }
  if (kind === "shown" || kind === "timing") return anyOf((view) => path.reduce(partOf, view.value(member)));
  if (path.length > 0) return constant(null);
  const shape = SHAPES[kind] ?? "any";
  const text = kind === "text" ? member[0] : null;
  return { state: "read", shape, read: (view) => view.value(member), text, elsewhere: kind === "digest" };
}

/** What the start of the call says, for whatever belongs to one. */
function linkedMeaning(name: string, path: (string | number)[], type: EventType): Meaning | null {
  if (name === "step") {
    return { ...number((view, around) => around.stepOf(view.call())), elsewhere: true };
  }
  if (!LINKED.has(name) || !hasCall(type)) return null;
  if (name === "tool") {
    const read: Read = (view, around) => around.toolOf(view.call() ?? 0);
    return { state: "read", shape: "text", read, text: null, elsewhere: true };
  }
  const of = START_ALIASES.includes(name)
    ? SPECIAL[name]!("tool_call_start", path, NO_CONSTANTS)!
    : memberMeaning(name, path, "tool_call_start")!;
  if (of.state === "constant") return of;
  const read: Read = (view, around) => {
    const start = around.startOf(view.call() ?? 0);
    return start === null ? null : of.read(start, around);
  };
  return { state: "read", shape: of.shape, read, text: null, elsewhere: true };
}

function isOwn(name: string, type: EventType): boolean {
  return memberOf(type, name) !== null || (name === "arguments" && type === "tool_call_start");
}

function hasCall(type: EventType): boolean {
  return memberOf(type, "call") !== null;
}

const SHAPES: Readonly<Record<string, Shape>> = {
  integer: "number",
  number: "number",
  text: "text",
  bytes: "text",
  digest: "text",
  boolean: "boolean",
};

export const NO_CONSTANTS: Constants = {
  started_wall_us: 0,
  trace_id: "",
  task_id: null,
  attempt: null,
  labels: null,
  reward: null,
};

function constant(value: Value): Meaning {
  return { state: "constant", value };
}

function number(read: Read): Extract<Meaning, { state: "read" }> {
  return { state: "read", shape: "number", read, text: null, elsewhere: false };
}

function anyOf(read: Read): Extract<Meaning, { state: "read" }> {
  return { state: "read", shape: "any", read, text: null, elsewhere: false };
}
