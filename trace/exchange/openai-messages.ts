/**
 * Conversations as OpenAI-compatible programs keep them: `{messages: […]}` of chat completions, the items of a response
 * (`input`, `output`), or a bare array of either; with `choices`, `usage` and `logprobs` where the last answer is kept whole.
 */
import type { EventBody } from "#trace/events/event.ts";
import { EXPECTED } from "./import-formats.ts";
import { ConversationBuilder, type ImportedTrace, type ImportOptions, wallUsOf } from "./imported.ts";
import { itemsOf, JsonDocument, type JsonNode, memberOf, stringOf } from "./json-tree.ts";
import type { JsonRecord } from "./records.ts";
import { recordId } from "./trace-names.ts";

const SOURCE = "openai-messages";

/** @throws MALFORMED_JSON, INVALID_REQUEST naming the record and the message */
export async function importMessages(
  record: JsonRecord,
  name: string,
  options: ImportOptions,
): Promise<ImportedTrace> {
  const document = new JsonDocument(record.text, `${name}:${record.line}`);
  const items = messagesOf(document);
  const started = timeOf(document, document.root) ?? firstTime(document, items) ?? 0;
  const conversation = new Conversation(document, started, options);
  for (const [index, item] of items.entries()) await conversation.add(item, `message ${index + 1}`);
  await conversation.addAnswer(document.root);
  return {
    header: {
      trace_id: recordId(document, ["id", "conversation_id", "session_id", "custom_id"], record.line),
      source: SOURCE,
      started_wall_us: started,
      labels_json: labelsOf(document),
    },
    events: conversation.builder.events,
  };
}

/** The members that hold the conversation itself; all others are labels. */
const CONVERSATION = ["messages", "items", "input", "output", "request", "response", "choices"];

function messagesOf(document: JsonDocument): JsonNode[] {
  const { root } = document;
  if (root.kind === "array") return root.items;
  const request = memberOf(root, "request") ?? memberOf(root, "body");
  for (const holder of [root, request]) {
    const messages = memberOf(holder, "messages") ?? memberOf(holder, "items");
    if (messages?.kind === "array") return messages.items;
    const input = memberOf(holder, "input");
    if (input !== null)
      return input.kind === "array" ? [...input.items, ...outputsOf(root)] : [input, ...outputsOf(root)];
  }
  const outputs = outputsOf(root);
  if (outputs.length > 0 || memberOf(root, "choices") !== null) return outputs;
  throw document.refused(`it has no messages; ${EXPECTED["openai-messages"]}`);
}

/** The items that a model of the responses API answered with. */
function outputsOf(root: JsonNode): JsonNode[] {
  return itemsOf(memberOf(root, "output") ?? memberOf(memberOf(root, "response"), "output"));
}

type OpenCall = { id: string | null; tool: string; call: number };

/** Calls without an answer; ids of different turns may be alike. Thousands may be open at once. */
class OpenCalls {
  readonly #open = new Set<OpenCall>();
  /** By id, the newest last; those that were answered go once they are come by. */
  readonly #byId = new Map<string, OpenCall[]>();
  readonly #byTool = new Map<string, Set<OpenCall>>();

  add(call: OpenCall): void {
    this.#open.add(call);
    if (call.id !== null) {
      const calls = this.#byId.get(call.id);
      if (calls === undefined) this.#byId.set(call.id, [call]);
      else calls.push(call);
    }
    this.#byTool.set(call.tool, (this.#byTool.get(call.tool) ?? new Set()).add(call));
  }

  /** The newest of this id. */
  ofId(id: string): OpenCall | undefined {
    const calls = this.#byId.get(id) ?? [];
    while (calls.length > 0 && !this.#open.has(calls.at(-1)!)) calls.pop();
    return calls.at(-1);
  }

  /** The oldest of this tool, or of any. */
  oldest(tool: string | null): OpenCall | undefined {
    const calls = tool === null ? this.#open : this.#byTool.get(tool);
    return calls?.values().next().value;
  }

  delete(call: OpenCall): void {
    this.#open.delete(call);
    this.#byTool.get(call.tool)!.delete(call);
  }
}

class Conversation {
  readonly builder: ConversationBuilder;
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
    switch (type) {
      case "function_call":
      case "custom_tool_call":
        return this.#start(item, memberOf(item, "call_id") ?? memberOf(item, "id"), at, wallUs);
      case "function_call_output":
      case "custom_tool_call_output":
        return this.#answer(
          stringOf(memberOf(item, "call_id")),
          null,
          memberOf(item, "output"),
          at,
          wallUs,
          item,
        );
      case "reasoning":
        return this.builder.observe("assistant", this.#document.textOf(item), wallUs);
    }
    const role = stringOf(memberOf(item, "role"));
    if (role === null) throw this.#document.refused(`${at} has neither a role nor a type that is known`);
    if (role === "tool" || role === "function") {
      const id = stringOf(memberOf(item, "tool_call_id"));
      return this.#answer(id, stringOf(memberOf(item, "name")), memberOf(item, "content"), at, wallUs, item);
    }
    await this.#say(role, item, at, wallUs);
  }

  /** What is kept of the last answer as the model's server gave it. */
  async addAnswer(root: JsonNode): Promise<void> {
    const response = memberOf(root, "response") ?? root;
    const body = memberOf(response, "body") ?? response;
    for (const choice of itemsOf(memberOf(body, "choices"))) {
      const message = memberOf(choice, "message");
      const logprobs = itemsOf(memberOf(memberOf(choice, "logprobs"), "content"));
      if (logprobs.length > 0) this.builder.add(this.#tokens(logprobs));
      if (message !== null) await this.add(message, "the answer's message");
    }
    const completion = this.#completion(body);
    if (completion !== null) this.builder.add(completion);
  }

  async #say(role: string, item: JsonNode, at: string, wallUs: number | null): Promise<void> {
    const content = memberOf(item, "content") ?? memberOf(item, "refusal");
    const reasoning = memberOf(item, "reasoning_content") ?? memberOf(item, "reasoning");
    const source = role === "developer" ? "system" : role;
    if (reasoning !== null) {
      const json = `{"reasoning":${this.#document.textOf(reasoning)}}`;
      this.builder.observe(source, json, wallUs);
    }
    if (content !== null && !(content.kind === "string" && content.value === "" && reasoning === null)) {
      this.builder.observe(source, this.#document.textOf(content), wallUs);
    }
    for (const call of itemsOf(memberOf(item, "tool_calls"))) {
      const called = memberOf(call, "function") ?? memberOf(call, "custom") ?? call;
      await this.#start(called, memberOf(call, "id"), at, wallUs);
    }
    const legacy = memberOf(item, "function_call");
    if (legacy !== null) await this.#start(legacy, null, at, wallUs);
  }

  async #start(called: JsonNode, id: JsonNode | null, at: string, start_us: number | null): Promise<void> {
    const tool = stringOf(memberOf(called, "name"));
    if (tool === null || tool === "") throw this.#document.refused(`${at} calls a tool without a name`);
    const given = memberOf(called, "arguments") ?? memberOf(called, "input");
    // a model writes its arguments as text; what is no JSON is kept as the string that it is
    const arguments_json =
      given === null
        ? "{}"
        : given.kind === "string"
          ? argumentsIn(given.value)
          : this.#document.textOf(given);
    const call = await this.builder.startCall({ tool, arguments_json, start_us });
    this.#open.add({ id: stringOf(id), tool, call });
  }

  #answer(
    id: string | null,
    tool: string | null,
    content: JsonNode | null,
    at: string,
    end_us: number | null,
    item: JsonNode,
  ): void {
    const next = id === null ? this.#open.oldest(tool) : this.#open.ofId(id);
    const text =
      content === null ? "" : content.kind === "string" ? content.value : this.#document.textOf(content);
    if (next === undefined) {
      const named = id === null ? "" : ` to ${JSON.stringify(id).slice(0, 80)}`;
      throw this.#document.refused(`${at} is an answer${named}, but no call before it waits for that`);
    }
    this.#open.delete(next);
    const said = memberOf(item, "is_error");
    const failed = said?.kind === "literal" ? said.value === true : text.startsWith("Error");
    this.builder.endCall(next.call, { text, failed, end_us });
  }

  #completion(body: JsonNode): EventBody<"completion"> | null {
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

function argumentsIn(text: string): string {
  if (text.trim() === "") return "{}";
  try {
    JSON.parse(text);
    return text;
  } catch {
    return JSON.stringify(text);
  }
}

function timeOf(document: JsonDocument, node: JsonNode): number | null {
  for (const name of ["timestamp", "created_at", "created", "at"]) {
    const member = memberOf(node, name);
    if (member === null || (member.kind !== "string" && member.kind !== "number")) continue;
    const wallUs = wallUsOf(document.valueOf(member));
    if (wallUs !== null) return wallUs;
  }
  return null;
}

function firstTime(document: JsonDocument, items: JsonNode[]): number | null {
  for (const item of items) {
    const wallUs = timeOf(document, item);
    if (wallUs !== null) return wallUs;
  }
  return null;
}

function labelsOf(document: JsonDocument): string | null {
  if (document.root.kind !== "object") return null;
  const kept = document.root.members.filter(({ name }) => !CONVERSATION.includes(name));
  const parts = kept.map(({ name, value }) => `${JSON.stringify(name)}:${document.textOf(value)}`);
  return parts.length === 0 ? null : `{${parts.join(",")}}`;
}
