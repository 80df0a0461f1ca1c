/** What an import makes of one record, and the parts that all formats share. */
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { jsonDigest } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { EventBody, JsonText } from "#trace/events/event.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import type { ImportNote } from "./import-notes.ts";
import { treeOf } from "./json-tree.ts";

/** `t_us` counts from the header's start; both times are 0 throughout where the source has none. */
export type TimedEvent = EventBody & { t_us: number; wall_us: number };

export type ImportedTrace = {
  header: NewTraceHeader;
  events: Iterable<TimedEvent> | AsyncIterable<TimedEvent>;
  /** What could not be taken as what it is. */
  notes?: ImportNote[];
};

export type ImportOptions = {
  /** Tools that change state; the others only read. Null where nobody said. */
  stateChanging: ReadonlySet<string> | null;
  /** Whether answers that are JSON objects become memory_state: what they tell of a thing, as deltas. */
  memoryFromAnswers: boolean;
};

type CallGiven = { tool: string; arguments_json: JsonText | null; step?: number; start_us?: number | null };
type AnswerGiven = {
  /** As the agent was given it; null where the source does not say. */
  text: string | null;
  failed: boolean;
  /** Of a call that failed, where its answer does not say it. */
  why?: string | null;
  end_us?: number | null;
  duration_us?: number | null;
  latest_us?: number | null;
};

/**
 * Events of one conversation in the order in which its source tells them. Calls are numbered; an answer that failed brings
 * an error with the last three payloads and the memory as it was.
 */
export class ConversationBuilder {
  readonly events: TimedEvent[] = [];
  readonly #startedWallUs: number;
  readonly #options: ImportOptions;
  readonly #memory: AnswerMemory;
  readonly #calls = new Map<number, CallGiven>();
  #payloads: { call: number; tool: string; sent: string | null; received: string; truncated: boolean }[] = [];
  #observations = 0;
  #lastCall = 0;
  #lastTUs = 0;
  /** How much memory may still stand beside errors. */
  #memoryChars: number = LIMITS.importErrorMemoryChars;

  constructor(startedWallUs: number, options: ImportOptions) {
    this.#startedWallUs = startedWallUs;
    this.#options = options;
    this.#memory = new AnswerMemory();
  }

  /**
   * @param wallUs since 1970; without one the event is as late as the one before it
   * @param latestUs when what follows happened: an event that is told before it, out of turn, does not hold up its clock
   */
  add(body: EventBody, wallUs: number | null = null, latestUs: number | null = null): void {
    const toldUs = Math.min(wallUs ?? 0, latestUs ?? Number.POSITIVE_INFINITY);
    const t_us = wallUs === null ? this.#lastTUs : Math.max(this.#lastTUs, toldUs - this.#startedWallUs);
    this.#lastTUs = t_us;
    // a source whose times run backwards keeps them as wall times
    this.events.push({ ...body, t_us, wall_us: wallUs ?? this.#startedWallUs + t_us });
  }

  /** @returns the call's number */
  async startCall(given: CallGiven): Promise<number> {
    const call = ++this.#lastCall;
    this.#calls.set(call, given);
    const { tool, arguments_json, step } = given;
    const stateChanging = this.#options.stateChanging;
    this.add(
      {
        type: "tool_call_start",
        call,
        tool,
        kind: "exec",
        via: "import",
        read_only: stateChanging === null ? null : !stateChanging.has(tool),
        arguments_json,
        arguments_digest: await argumentsDigest(arguments_json),
        step: step ?? null,
      },
      given.start_us ?? null,
    );
    return call;
  }

  endCall(call: number, { text, failed, why, end_us, duration_us, latest_us }: AnswerGiven): void {
    const given = this.#calls.get(call)!;
    const sent = given.arguments_json;
    this.#payloads = [...this.#payloads, payloadOf(call, given.tool, sent, text ?? "")].slice(-3);
    const wallUs = end_us ?? null;
    const took = duration_us ?? (wallUs !== null && given.start_us != null ? wallUs - given.start_us : 0);
    this.add(
      {
        type: "tool_call_end",
        call,
        state: "answered",
        tries: 1,
        duration_us: Math.max(0, took),
        is_error: failed,
        output_bytes: text === null ? null : new TextEncoder().encode(text).length,
        answer: text === null ? null : { output_json: outputOf(text) },
      },
      wallUs,
      latest_us,
    );
    if (failed) this.addError(call, text || why || "");
    else if (text !== null && this.#options.memoryFromAnswers) {
      for (const write of this.#memory.learn(call, given, text)) this.add(write);
    }
  }

  addError(call: number, text: string): void {
    const memory = this.#memory.entriesJson(Math.min(LIMITS.recordedMemoryBytes, this.#memoryChars));
    this.#memoryChars -= memory?.length ?? 0;
    this.add({
      type: "error",
      code: "TOOL_FAILED",
      text: text.slice(0, LIMITS.errorTextChars).toWellFormed(),
      via: "import",
      call,
      step: this.#calls.get(call)?.step ?? null,
      payloads: this.#payloads.map((payload) => ({ ...payload, url: null })),
      memory_json: memory,
    });
  }

  observe(source: string, content_json: JsonText, wallUs: number | null = null): void {
    this.add(
      { type: "observation", state: "injected", observation: ++this.#observations, source, content_json },
      wallUs,
    );
  }
}

/** What a text answer is as JSON: itself where it is JSON of any kind but a string, else the string. */
export function outputOf(text: string): JsonText {
  const tree = treeOf(text);
  return tree === null || tree.kind === "string" ? JSON.stringify(text) : text;
}

/** The text that `outputOf` was made of. */
export function textOfOutput(json: JsonText): string {
  const tree = treeOf(json);
  return tree?.kind === "string" ? tree.value : json;
}

/** Null where they are no JSON, or hold what has no RFC 8785 form, such as 1e400. */
export async function argumentsDigest(json: JsonText | null): Promise<Digest | null> {
  if (json === null || treeOf(json) === null) return null;
  try {
    return await jsonDigest(JSON.parse(json));
  } catch (error) {
    if (error instanceof DsecError) return null;
    throw error;
  }
}

/**
 * Microseconds since 1970 of what sources write as a time: ISO 8601 (with microseconds, which Date would drop), or a number of
 * seconds. Null for anything else, and for what is before 1970 or past `LIMITS.traceTimeUs`, such as 0001-01-01, by which programs
 * say that they know none.
 */
export function wallUsOf(given: unknown): number | null {
  if (typeof given === "number") return withinTime(Math.round(given * 1e6));
  if (typeof given !== "string") return null;
  const parts = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?$/.exec(
    given,
  );
  if (parts === null) return null;
  const [, date, time, fraction = "", zone = "Z"] = parts;
  const ms = Date.parse(`${date}T${time!.length === 5 ? `${time}:00` : time}${colonIn(zone)}`);
  return withinTime(ms * 1000 + Number(fraction.padEnd(6, "0").slice(0, 6)));
}

function withinTime(us: number): number | null {
  return us >= 0 && us <= LIMITS.traceTimeUs ? us : null;
}

function colonIn(zone: string): string {
  return /^[+-]\d{4}$/.test(zone) ? `${zone.slice(0, 3)}:${zone.slice(3)}` : zone;
}

function payloadOf(call: number, tool: string, sent: string | null, received: string) {
  const most = LIMITS.importPayloadChars;
  const truncated = (sent?.length ?? 0) > most || received.length > most;
  const cut = (text: string) => text.slice(0, most).toWellFormed();
  return { call, tool, sent: sent === null ? null : cut(sent), received: cut(received), truncated };
}

/** The namespace of what answers have told. */
export const ANSWERS = "answers";

/**
 * What the answers so far have told, member by member: an object that is named by an id (`reservation_id: "OBUT9V"`, in
 * the answer or in the arguments) is `reservation/OBUT9V`, and `reservation/OBUT9V/cabin` holds its cabin. Only what
 * changed is written.
 */
class AnswerMemory {
  readonly #values = new Map<string, JsonText>();
  #chars = 0;
  #version = 0;

  *learn(
    call: number,
    { tool, arguments_json }: CallGiven,
    text: string,
  ): Generator<EventBody<"memory_write">> {
    const tree = treeOf(text);
    if (tree?.kind !== "object") return;
    const thing =
      namedBy(tree) ?? (arguments_json === null ? null : namedBy(treeOf(arguments_json))) ?? `tool/${tool}`;
    for (const { name, value } of tree.members) {
      const key = `${thing}/${name}`;
      const value_json = text.slice(value.start, value.end);
      const old = this.#values.get(key);
      if (old === value_json) continue;
      this.#values.set(key, value_json);
      this.#chars += value_json.length - (old?.length ?? -key.length);
      yield {
        type: "memory_write",
        op: "put",
        namespace: ANSWERS,
        key,
        old: old === undefined ? null : { value_json: old },
        new: { value_json },
        version: ++this.#version,
        origin: `answer of ${tool}`,
        call,
      };
    }
  }

  /** Null where there is nothing, or more than so many characters: its deltas tell it. */
  entriesJson(mostChars: number): JsonText | null {
    if (this.#values.size === 0 || this.#chars > mostChars) return null;
    return `{${[...this.#values].map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(",")}}`;
  }
}

function namedBy(tree: ReturnType<typeof treeOf>): string | null {
  if (tree?.kind !== "object") return null;
  for (const { name, value } of tree.members) {
    const kind = /^(.+)_id$/.exec(name)?.[1];
    if (kind !== undefined && value.kind === "string") return `${kind}/${value.value}`;
  }
  return null;
}
