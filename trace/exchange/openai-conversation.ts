/** What was said and called, message by message and item by item. What cannot be read as either is kept as it stands, and noted. */
import { LIMITS } from "#core/limits.ts";
import type { EventBody } from "#trace/events/event.ts";
import { ImportNotes } from "./import-notes.ts";
import { ConversationBuilder, type ImportOptions, wallUsOf } from "./imported.ts";
import { itemsOf, type JsonDocument, type JsonNode, memberOf, stringOf } from "./json-tree.ts";
import { OpenCalls } from "./open-calls.ts";
import { answerIn, callIn, failedBy, type GivenAnswer, textIn } from "./openai-items.ts";

const AS_IT_STANDS = "is kept as an observation, as it stands";

export class Conversation {
  readonly builder: ConversationBuilder;
  readonly notes = new ImportNotes();
  readonly #document: JsonDocument;
  readonly #open = new OpenCalls();

  constructor(document: JsonDocument, startedWallUs: number, options: ImportOptions) {
    this.#document = document;
    this.builder = new ConversationBuilder(startedWallUs, options);
  }

  async add(item: JsonNode, at: string): Promise<void> {
    if (item.kind === "string") return this.builder.observe("user", JSON.stringify(item.value));
    if (item.kind !== "object") throw this.#document.refused(`${at} is no object`);
    const wallUs = timeOf(this.#document, item);
    const type = stringOf(memberOf(item, "type"));
    const role = stringOf(memberOf(item, "role"));
    if (type === "function_call" || type === "custom_tool_call") {
      return this.#start(item, memberOf(item, "call_id") ?? memberOf(item, "id"), item, at, wallUs);
    }
    if (type === "reasoning") return this.builder.observe("assistant", this.#document.textOf(item), wallUs);
    if (role === "tool" || role === "function") {
      const content = memberOf(item, "content");
      const text = content === null ? "" : textIn(this.#document, content);
      const id = stringOf(memberOf(item, "tool_call_id"));
      const found = id === null ? this.#open.oldest(stringOf(memberOf(item, "name"))) : this.#open.ofId(id);
      return this.#answer(found, { text, failed: failedBy(item, text) }, item, at, wallUs);
    }
    if (role !== null) return this.#say(role, item, at, wallUs);
    if (type?.endsWith("_call")) return this.#addCall(type, item, at, wallUs);
    if (type?.endsWith("_output")) return this.#addOutput(type, item, at, wallUs);
    const isReference = type === null ? isOnlyAnId(item) : type === "item_reference";
    if (isReference) {
      const what = "an item that is only referred to is not in the file, and left out";
      this.#keep("item_reference", what, item, at, wallUs);
    } else if (type === null) {
      this.#keep("item", `an item with neither a role nor a type ${AS_IT_STANDS}`, item, at, wallUs);
    } else {
      const named = JSON.stringify(type.slice(0, 80).toWellFormed());
      this.#keep(type, `an item of type ${named} ${AS_IT_STANDS}`, item, at, wallUs);
    }
  }

  /** What is kept of the last answer as the model's server gave it. @returns whether it was any that is known */
  async addAnswer(body: JsonNode | null): Promise<boolean> {
    const choices = itemsOf(memberOf(body, "choices"));
    for (const choice of choices) {
      const message = memberOf(choice, "message");
      const text = memberOf(choice, "text");
      const logprobs = itemsOf(memberOf(memberOf(choice, "logprobs"), "content"));
      if (logprobs.length > 0) this.builder.add(this.#tokens(logprobs));
      if (message !== null) await this.add(message, "the answer's message");
      else if (text !== null) this.builder.observe("assistant", this.#document.textOf(text));
    }
    const completion = this.#completion(body);
    if (completion !== null) this.builder.add(completion);
    return choices.length > 0 || memberOf(body, "output") !== null;
  }

  /** An answer of an endpoint that holds no conversation. */
  addOther(body: JsonNode): void {
    const what = `an answer without a message ${AS_IT_STANDS}`;
    this.#keep("answer", what, body, "the answer", null);
  }

  /** A request that failed: what its server says, or the line of a batch. */
  fail(given: JsonNode, status: number | null): void {
    const code = memberOf(given, "code") ?? memberOf(given, "type");
    const said = code?.kind === "number" ? this.#document.textOf(code) : stringOf(code);
    const message = stringOf(given) ?? stringOf(memberOf(given, "message"));
    this.builder.add({
      type: "error",
      code: (said || "REQUEST_FAILED").slice(0, 100).toWellFormed(),
      text: (message ?? (status === null ? "" : `status ${status}`))
        .slice(0, LIMITS.errorTextChars)
        .toWellFormed(),
      via: "import",
      call: null,
      payloads: [],
      detail_json: this.#document.textOf(given),
    });
  }

  #keep(source: string, what: string, item: JsonNode, at: string, wallUs: number | null): void {
    this.builder.observe(source.slice(0, 80).toWellFormed(), this.#document.textOf(item), wallUs);
    this.notes.add(what, at);
  }

  async #say(role: string, item: JsonNode, at: string, wallUs: number | null): Promise<void> {
    const content = memberOf(item, "content") ?? memberOf(item, "refusal");
    const reasoning = memberOf(item, "reasoning_content") ?? memberOf(item, "reasoning");
    const source = role === "developer" ? "system" : role;
    if (reasoning !== null) {
      const json = `{"reasoning":${this.#document.textOf(reasoning)}}`;
      this.builder.observe(source, json, wallUs);
    }
    const calls = itemsOf(memberOf(item, "tool_calls"));
    const legacy = memberOf(item, "function_call");
    if (content !== null && !(content.kind === "string" && content.value === "" && reasoning === null)) {
      this.builder.observe(source, this.#document.textOf(content), wallUs);
    } else if (reasoning === null && legacy === null && calls.length === 0 && holdsMore(item)) {
      // such as an answer that is audio
      this.builder.observe(source, this.#document.textOf(item), wallUs);
    }
    for (const call of calls) {
      const called = memberOf(call, "function") ?? memberOf(call, "custom") ?? call;
      await this.#start(called, memberOf(call, "id"), call, at, wallUs);
    }
    if (legacy !== null) await this.#start(legacy, null, legacy, at, wallUs);
  }

  /** @param whole what is kept where the call has no name */
  async #start(
    called: JsonNode,
    id: JsonNode | null,
    whole: JsonNode,
    at: string,
    start_us: number | null,
  ): Promise<void> {
    const tool = stringOf(memberOf(called, "name"));
    if (tool === null || tool === "") {
      const what = `a call of a tool without a name ${AS_IT_STANDS}`;
      return this.#keep("function_call", what, whole, at, start_us);
    }
    const given = memberOf(called, "arguments") ?? memberOf(called, "input");
    const arguments_json = given === null ? "{}" : argumentsIn(this.#document, given);
    const call = await this.builder.startCall({ tool, arguments_json, start_us });
    this.#open.add({ id: stringOf(id), tool, call });
  }

  /** A call of a tool of the model's host, which holds its answer too, or of one that the caller runs. */
  async #addCall(type: string, item: JsonNode, at: string, wallUs: number | null): Promise<void> {
    const read = callIn(this.#document, item, type);
    if (read === null) {
      return this.#keep(type, `a call of a tool without a name ${AS_IT_STANDS}`, item, at, wallUs);
    }
    const { tool, id, answer } = read;
    const given = memberOf(item, "arguments");
    const arguments_json = given === null ? read.rest_json : argumentsIn(this.#document, given);
    const call = await this.builder.startCall({ tool, arguments_json, start_us: wallUs });
    if (answer === "comes") this.#open.add({ id, tool, call });
    else if (answer !== "never") this.builder.endCall(call, { ...answer, end_us: wallUs });
  }

  #addOutput(type: string, item: JsonNode, at: string, wallUs: number | null): void {
    const { callId, itemId, tool, answer } = answerIn(this.#document, item, type);
    const byItem = itemId === null ? undefined : this.#open.ofId(itemId);
    const found = callId === null ? (byItem ?? this.#open.oldest(tool)) : this.#open.ofId(callId);
    this.#answer(found, answer, item, at, wallUs);
  }

  #answer(
    found: ReturnType<OpenCalls["oldest"]>,
    answer: GivenAnswer,
    item: JsonNode,
    at: string,
    end_us: number | null,
  ): void {
    if (found === undefined) {
      const what = `an answer to a call that is not in the file, or was answered before, ${AS_IT_STANDS}`;
      this.#keep("tool", what, item, at, end_us);
      return;
    }
    this.#open.delete(found);
    this.builder.endCall(found.call, { ...answer, end_us });
  }

  #completion(body: JsonNode | null): EventBody<"completion"> | null {
    const usage = memberOf(body, "usage");
    if (usage === null) return null;
    const count = (within: JsonNode | null, ...names: string[]) => {
      for (const name of names) {
        const node = memberOf(within, name);
        const value = node === null ? Number.NaN : Number(this.#document.valueOf(node));
        if (Number.isSafeInteger(value) && value >= 0) return value;
      }
      return null;
    };
    const details = memberOf(usage, "prompt_tokens_details") ?? memberOf(usage, "input_tokens_details");
    return {
      type: "completion",
      call: null,
      model: stringOf(memberOf(body, "model")),
      prompt_tokens: count(usage, "prompt_tokens", "input_tokens"),
      completion_tokens: count(usage, "completion_tokens", "output_tokens"),
      cached_tokens: count(details, "cached_tokens"),
      finish_reason: stringOf(memberOf(itemsOf(memberOf(body, "choices"))[0] ?? null, "finish_reason")),
      tool_calls: [],
    };
  }

  #tokens(nodes: JsonNode[]): EventBody<"token_logit"> {
    const vocabulary = new Map<string, number>();
    const idOf = (text: string) => {
      if (!vocabulary.has(text)) vocabulary.set(text, vocabulary.size);
      return vocabulary.get(text)!;
    };
    const logprobOf = (node: JsonNode) => {
      const value = memberOf(node, "logprob");
      return value?.kind === "number" ? Number(this.#document.textOf(value)) : Number.NaN;
    };
    const tokens = nodes.map((node) => {
      const text = stringOf(memberOf(node, "token")) ?? "";
      const top = itemsOf(memberOf(node, "top_logprobs")).slice(0, 5);
      const texts = top.map((candidate) => stringOf(memberOf(candidate, "token")) ?? "");
      return {
        id: idOf(text),
        logprob: logprobOf(node),
        text,
        top_ids: texts.map(idOf),
        top_logprobs: top.map(logprobOf),
        top_texts: texts,
      };
    });
    return { type: "token_logit", source: "assistant", call: null, tokens };
  }
}

/** A model writes its arguments as text; what is no JSON is kept as the string that it is. */
function argumentsIn(document: JsonDocument, given: JsonNode): string {
  if (given.kind !== "string") return document.textOf(given);
  if (given.value.trim() === "") return "{}";
  try {
    JSON.parse(given.value);
    return given.value;
  } catch {
    return JSON.stringify(given.value);
  }
}

function isOnlyAnId(item: JsonNode & { kind: "object" }): boolean {
  return item.members.length === 1 && stringOf(memberOf(item, "id")) !== null;
}

function holdsMore(item: JsonNode): boolean {
  if (item.kind !== "object") return false;
  return item.members.some(
    ({ value }) =>
      (value.kind === "object" && value.members.length > 0) ||
      (value.kind === "array" && value.items.length > 0),
  );
}

export function timeOf(document: JsonDocument, node: JsonNode): number | null {
  for (const name of ["timestamp", "created_at", "created", "at"]) {
    const member = memberOf(node, name);
    if (member === null || (member.kind !== "string" && member.kind !== "number")) continue;
    const wallUs = wallUsOf(document.valueOf(member));
    if (wallUs !== null) return wallUs;
  }
  return null;
}
