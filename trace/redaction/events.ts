/**
 * Redacts events, member by member. Numbers, times and states stay. A digest of what may have been taken out would let anybody
 * confirm a guess, so it is made anew of what is left, or dropped where that is not at hand.
 */
import { latin1Of } from "#core/bytes.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf, sha256 } from "#core/json.ts";
import type { Answer, EventBody, Shown, Token, TraceEvent } from "#trace/events/event.ts";
import { entryHash, StateDigest } from "#trace/events/state-digest.ts";
import { argumentsDigest } from "#trace/exchange/imported.ts";
import { treeOf } from "#trace/exchange/json-tree.ts";
import type { ContentRedactor } from "./content.ts";
import type { Found } from "./finder.ts";
import { isMark, MARK } from "./mark.ts";
import { StreamCuts, StreamScanner } from "./streams.ts";

type Sha256 = (bytes: Uint8Array) => Uint8Array;

export class EventRedactor {
  readonly #content: ContentRedactor;
  readonly #sha256: Sha256;
  readonly #streams = new Map<string, StreamCuts>();
  readonly #scanners = new Map<string, StreamScanner>();
  #cutsCandidates = false;
  /** Where the tokens of a text have got to. */
  readonly #tokenOffsets = new Map<string, number>();
  /** Of a context before and after, for the calls that name it. */
  readonly #contexts = new Map<Digest, Digest>();

  constructor(content: ContentRedactor, sha256: Sha256) {
    this.#content = content;
    this.#sha256 = sha256;
  }

  /** First reading: what is secret is learned. */
  async learn(event: TraceEvent): Promise<void> {
    if (event.type === "output" || event.type === "token_logit") this.#scan(event);
    else await this.#redacted(event);
  }

  /** Second reading: where in streams it stands, for that is known only once the whole stream was seen. */
  scan(event: TraceEvent): void {
    if (event.type === "output" || event.type === "token_logit") this.#scan(event);
  }

  /** After the first and the second reading. */
  endScan(): void {
    for (const scanner of this.#scanners.values()) scanner.end();
    this.#scanners.clear();
    this.#tokenOffsets.clear();
  }

  /** What the first reading found in streams is looked for again with what it taught. */
  forgetCuts(): void {
    this.#streams.clear();
  }

  /** Third reading. Only called where something is to be taken out of this trace. */
  async redact(event: TraceEvent): Promise<EventBody> {
    const { seq, t_us, wall_us, ...given } = event;
    if (event.type === "output") return this.#output(event);
    if (event.type === "token_logit") return this.#tokens(event);
    const body = await this.#redacted(event);
    return this.#withDigests(given as EventBody, body);
  }

  async #redacted(event: TraceEvent): Promise<EventBody> {
    const { seq, t_us, wall_us, type, ...members } = event;
    const content = this.#content;
    if (event.type === "memory_read" || event.type === "memory_write") {
      const field = content.finder.fieldOfKey(event.key);
      const { old, new: written, ...rest } = members as typeof event;
      return {
        type,
        ...(this.#members(rest) as object),
        old: this.#shown(old, field),
        new: this.#shown(written, field),
      } as EventBody;
    }
    const seen = event.type === "tool_call_end" ? { ...members, answer: this.#seen(event.answer) } : members;
    return { type, ...(this.#members(seen) as object) } as EventBody;
  }

  /** A body in content codings cannot be looked into, and what it decodes to may be anything: it goes whole. */
  #seen(answer: Answer | null): Answer | null {
    if (answer === null || answer.body === null || !isCoded(answer.head_json)) return answer;
    const { body } = answer;
    if (body.length === 0 || isMark(latin1Of(body.subarray(0, MARK.length + 1)))) return answer;
    this.#content.count("answers in content codings");
    return { ...answer, body: new TextEncoder().encode(MARK) };
  }

  #shown(shown: Shown | null, field: string | null): Shown | null {
    if (shown === null || shown.value_json === null) return shown;
    const { value_json } = shown;
    const redacted =
      field === null ? this.#content.json(value_json) : this.#content.wholeJson(value_json, field);
    return { ...shown, value_json: redacted };
  }

  #members(value: unknown, name = ""): unknown {
    if (typeof value === "string") return this.#text(value, name);
    if (value instanceof Uint8Array) return this.#content.bytes(value);
    if (Array.isArray(value)) {
      if (name === "argv") return this.#content.list(value as string[]);
      return value.map((item) => this.#members(item, name));
    }
    if (typeof value !== "object" || value === null) return value;
    const members: Record<string, unknown> = {};
    for (const [member, part] of Object.entries(value)) members[member] = this.#members(part, member);
    return members;
  }

  #text(text: string, name: string): string {
    if (FIXED.has(name) || name.endsWith("_digest")) return text;
    if (ENTRIES.has(name)) return this.#content.entries(text);
    return name.endsWith("_json") ? this.#content.json(text) : this.#content.text(text);
  }

  /** `given` and `body` are of one type: the digests of what differs are not those of `body` any more. */
  async #withDigests(given: EventBody, body: EventBody): Promise<EventBody> {
    switch (body.type) {
      case "tool_call_start": {
        const {
          arguments_json = null,
          body: sent = null,
          arguments_digest = null,
          context_digest = null,
        } = body;
        const ofArguments = arguments_json === null ? null : await argumentsDigest(arguments_json);
        const digest = ofArguments ?? (sent === null ? null : digestOf(this.#sha256(sent)));
        const same =
          sameIn(given, body, ["arguments_json", "body"]) && (arguments_json !== null || sent !== null);
        return {
          ...body,
          arguments_digest: arguments_digest === null ? null : same ? arguments_digest : digest,
          context_digest:
            context_digest === null ? null : (this.#contexts.get(context_digest as Digest) ?? null),
          memory_digest: null,
        };
      }
      case "tool_call_end": {
        const kept = body.answer != null && sameIn(given, body, ["answer"]);
        const { body_digest = null, json_digest = null, output_digest = null } = body;
        const digests = kept ? { body_digest, json_digest, output_digest } : NO_ANSWER_DIGESTS;
        return { ...body, ...digests, memory_digest: null };
      }
      case "tool_call_late":
        return { ...body, output_digest: null };
      case "context": {
        const before = (given as EventBody<"context">).context_digest;
        const changed = !sameIn(given, body, ["context_json"]);
        const after = changed ? await this.#contextDigest(body.context_json) : before;
        this.#contexts.set(before as Digest, after as Digest);
        return { ...body, context_digest: after };
      }
      case "message":
        // a message's body is not in the trace: what stands for it is the mark
        return { ...body, items: body.items.map((item) => ({ ...item, body_digest: this.#markDigest() })) };
      case "snapshot":
        return { ...body, state_digest: null };
      case "memory_read":
      case "memory_write": {
        const before = given as EventBody<"memory_write">;
        return {
          ...body,
          old: await this.#shownDigest(before.old as Shown | null, body.old as Shown | null),
          new: await this.#shownDigest(before.new as Shown | null, body.new as Shown | null),
        };
      }
      case "memory_snapshot":
        // Nothing is replayed of what is redacted, and its keys may be names.
        return { ...body, state_digest: this.#stateDigest(body.entries_json), lifetimes_json: null };
      case "error":
        return { ...body, memory_digest: null, expected_digest: null, actual_digest: null };
      default:
        return body;
    }
  }

  async #shownDigest(before: Shown | null, after: Shown | null): Promise<Shown | null> {
    if (after === null || after.value_digest === null) return after;
    if (after.value_json === null) return { ...after, value_digest: null };
    if (after.value_json === before?.value_json) return after;
    return { ...after, value_digest: await argumentsDigest(after.value_json) };
  }

  async #contextDigest(json: string): Promise<Digest> {
    return (await argumentsDigest(json)) ?? (await sha256(json));
  }

  #stateDigest(entries_json: string): Digest {
    const tree = treeOf(entries_json);
    const state = new StateDigest(this.#sha256);
    for (const { name, value } of tree?.kind === "object" ? tree.members : []) {
      state.add(entryHash(name, entries_json.slice(value.start, value.end), this.#sha256));
    }
    return state.digest();
  }

  #markDigest(): Digest {
    return digestOf(this.#sha256(new TextEncoder().encode(MARK)));
  }

  #scan(event: TraceEvent<"output"> | TraceEvent<"token_logit">): void {
    const key = streamOf(event);
    const cuts = this.#streams.get(key) ?? new StreamCuts();
    this.#streams.set(key, cuts);
    const scanner =
      this.#scanners.get(key) ?? new StreamScanner(this.#content.finder, (one) => cuts.cuts.push(one));
    this.#scanners.set(key, scanner);
    if (event.type === "output") {
      scanner.add(latin1Of(event.data), event.offset);
      return;
    }
    const text = event.tokens.map((token) => token.text ?? "").join("");
    const offset = this.#tokenOffsets.get(key) ?? 0;
    scanner.add(text, offset);
    this.#tokenOffsets.set(key, offset + text.length);
    this.#cutsCandidates ||= event.tokens.some((token) => this.#candidatesTell(token));
  }

  /** Whether any stream has something to be taken out. */
  get cutsStreams(): boolean {
    return this.#cutsCandidates || [...this.#streams.values()].some(({ cuts }) => cuts.length > 0);
  }

  /** Whether what the model might have said in a token's place must go. */
  #candidatesTell({ top_texts }: Token): boolean {
    return top_texts.some((text) => this.#content.finder.find(text).length > 0);
  }

  #output(event: TraceEvent<"output">): EventBody<"output"> {
    const cuts = this.#streams.get(streamOf(event))!;
    const { piece, offset, cut } = cuts.apply(event.data, event.offset, joinedBytes, (data, from, to) =>
      data.subarray(from, to),
    );
    for (let i = 0; i < cut; i++) this.#content.count(`output to ${event.stream}`);
    return { type: "output", stream: event.stream, offset, data: piece };
  }

  /** Of a token that is part of what must go, its id and the other candidates would tell it too. */
  #tokens(event: TraceEvent<"token_logit">): EventBody<"token_logit"> {
    const key = streamOf(event);
    const cuts = this.#streams.get(key)!.cuts;
    let at = this.#tokenOffsets.get(key) ?? 0;
    const tokens = event.tokens.map((token) => {
      const text = token.text ?? "";
      const [start, end] = [at, at + text.length];
      at = end;
      const alone = { ...token, top_ids: [], top_logprobs: [], top_texts: [] };
      const unseen = { ...alone, id: 0 };
      // an id without a text cannot be looked into
      if (token.text === null) return unseen;
      const cut = firstAfter(cuts, start);
      if (cut === undefined || cut.start >= end) {
        if (!this.#candidatesTell(token)) return token;
        this.#content.count("candidates of tokens");
        return alone;
      }
      if (cut.start < start) return { ...unseen, text: "" };
      this.#content.count("tokens");
      return { ...unseen, text: MARK };
    });
    this.#tokenOffsets.set(key, at);
    return { type: "token_logit", source: event.source, call: event.call, tokens };
  }
}

function isCoded(head_json: string | null): boolean {
  const head = head_json === null ? null : treeOf(head_json);
  const headers = head?.kind === "object" ? (JSON.parse(head_json!) as { headers?: unknown }).headers : null;
  if (!Array.isArray(headers)) return false;
  return headers.some((field) => {
    if (!Array.isArray(field)) return false;
    const [name, value] = field.map(String);
    return name?.toLowerCase() === "content-encoding" && !/^\s*(?:identity)?\s*$/i.test(value ?? "");
  });
}

/** Members whose text is one of a few words, never content. */
const FIXED: ReadonlySet<string> = new Set([
  "state",
  "kind",
  "via",
  "where",
  "passage",
  "op",
  "stream",
  "levels",
]);

/** Members whose JSON has memory keys for names. */
const ENTRIES: ReadonlySet<string> = new Set(["entries_json", "memory_json"]);

const NO_ANSWER_DIGESTS = { body_digest: null, json_digest: null, output_digest: null } as const;

function streamOf(event: TraceEvent<"output"> | TraceEvent<"token_logit">): string {
  return event.type === "output" ? event.stream : JSON.stringify([event.source, event.call]);
}

function joinedBytes(parts: (Uint8Array | string)[]): Uint8Array {
  const all = parts.map((part) => (typeof part === "string" ? new TextEncoder().encode(part) : part));
  const bytes = new Uint8Array(all.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of all) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Of cuts in order the first that ends after the place. */
function firstAfter(cuts: readonly Found[], at: number): Found | undefined {
  let [low, high] = [0, cuts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (cuts[middle]!.end <= at) low = middle + 1;
    else high = middle;
  }
  return cuts[low];
}

function sameIn(one: EventBody, other: EventBody, names: string[]): boolean {
  return names.every((name) => isSame((one as never)[name], (other as never)[name]));
}

function isSame(one: unknown, other: unknown): boolean {
  if (one instanceof Uint8Array && other instanceof Uint8Array) {
    return one.length === other.length && one.every((byte, at) => byte === other[at]);
  }
  if (typeof one !== "object" || one === null || typeof other !== "object" || other === null) {
    return (one ?? null) === (other ?? null);
  }
  return Object.keys(other).every((name) => isSame((one as never)[name], (other as never)[name]));
}
