import { LIMITS } from "#core/limits.ts";
import type { EventMembers, Token } from "../events/event.ts";
import { cut, isObject, listIn, type Members } from "./members.ts";
import { type Room, ToolCallDrafts } from "./tool-call-drafts.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** What one choice of an answer says of itself. */
export type Completion = Omit<EventMembers["completion"], "call" | "streamed">;

type Choice = { finish: string | null; calls: ToolCallDrafts; tokens: Token[] };
type Usage = Pick<Completion, "prompt_tokens" | "completion_tokens" | "cached_tokens">;

/** Tokens that wait to be handed on together. */
const TOKENS_HELD = 512;

/**
 * What an OpenAI-compatible answer says, put together from the whole of it or from its chunks: chat completions, text
 * completions, and responses. Each is known by its shape.
 */
export class Assembly {
  readonly #vocabulary: Vocabulary;
  readonly #onTokens: (choice: number, tokens: Token[]) => void;
  readonly #room: Room = { calls: LIMITS.completionToolCalls, chars: LIMITS.completionArgumentsChars };
  readonly #choices = new Map<number, Choice>();
  #model: string | null = null;
  #usage: Usage | null = null;
  #tokens = 0;
  #tokensHeld = 0;

  /** @param onTokens takes the tokens of a choice as they come; they are not kept here */
  constructor(vocabulary: Vocabulary, onTokens: (choice: number, tokens: Token[]) => void) {
    this.#vocabulary = vocabulary;
    this.#onTokens = onTokens;
  }

  /** Of the arguments of tool calls, which grow with the answer. */
  get heldChars(): number {
    return LIMITS.completionArgumentsChars - this.#room.chars;
  }

  /** Returns whether the value is a completion, or a part of one. */
  take(value: unknown): boolean {
    if (!isObject(value)) return false;
    const { choices, object, output, type } = value;
    if (Array.isArray(choices)) return this.#takeChoices(value, choices);
    if (object === "response" && Array.isArray(output)) this.#takeResponse(value);
    else if (typeof type === "string" && type.startsWith("response.")) this.#takeEvent(type, value);
    else return false;
    return true;
  }

  /** One for each choice, the first with the usage of all; the tokens that are left are handed on. */
  end(): Completion[] {
    if (this.#choices.size === 0) this.#choice(0);
    this.#handOn();
    return [...this.#choices]
      .toSorted(([a], [b]) => a - b)
      .map(([, { finish, calls }], at) => {
        const usage = at === 0 ? this.#usage : null;
        return {
          model: this.#model,
          ...(usage ?? { prompt_tokens: null, completion_tokens: null, cached_tokens: null }),
          finish_reason: finish,
          tool_calls: calls.all(),
        };
      });
  }

  #takeChoices(value: Members, choices: unknown[]): boolean {
    const isNamed = typeof value.object === "string" && /^(chat|text)[._]completion/.test(value.object);
    const known = choices.filter(isChoice);
    // A chunk without choices has the usage, or says what a filter made of the prompt.
    if (known.length === 0 && !(choices.length === 0 && (isNamed || isObject(value.usage)))) return false;
    this.#takeHead(value);
    for (const told of known) {
      const draft = this.#choice(told.index);
      if (draft === null) continue;
      if (typeof told.finish_reason === "string") draft.finish = cut(told.finish_reason, NAME_CHARS);
      if (isObject(told.delta)) draft.calls.takeMessage(told.delta, "part");
      else if (isObject(told.message)) draft.calls.takeMessage(told.message, "whole");
      if (isObject(told.logprobs)) this.#takeLogprobs(draft, told.logprobs);
    }
    return true;
  }

  #takeResponse(response: Members): void {
    this.#takeHead(response);
    const draft = this.#choice(0)!;
    const { status, incomplete_details: details, output } = response;
    if (typeof status === "string" && status !== "in_progress" && status !== "queued") {
      const reason = isObject(details) && typeof details.reason === "string" ? details.reason : status;
      draft.finish = cut(reason, NAME_CHARS);
    }
    // They came with the text before, or are in the whole alone.
    const hasTokens = this.#tokens > 0;
    for (const [place, item] of listIn(output).entries()) {
      if (!isObject(item)) continue;
      draft.calls.takeItem(item, place);
      for (const part of hasTokens ? [] : listIn(item.content)) {
        if (isObject(part)) this.#takeTokens(draft, listIn(part.logprobs));
      }
    }
  }

  #takeEvent(type: string, event: Members): void {
    const { response, item, output_index: place, item_id } = event;
    if (isObject(response)) {
      this.#takeResponse(response);
      return;
    }
    const draft = this.#choice(0)!;
    const key = typeof item_id === "string" ? item_id : place;
    if (isObject(item)) draft.calls.takeItem(item, place);
    else if (
      type === "response.function_call_arguments.delta" ||
      type === "response.custom_tool_call_input.delta"
    )
      draft.calls.takeArguments(key, event.delta, "part");
    else if (type === "response.function_call_arguments.done")
      draft.calls.takeArguments(key, event.arguments, "whole");
    else if (type === "response.output_text.delta") this.#takeTokens(draft, listIn(event.logprobs));
  }

  #takeHead({ model, usage }: Members): void {
    if (typeof model === "string" && model !== "") this.#model ??= cut(model, NAME_CHARS);
    if (!isObject(usage)) return;
    const details = usage.prompt_tokens_details ?? usage.input_tokens_details;
    // Some servers tell it with each chunk, growing: the last counts.
    this.#usage = {
      prompt_tokens: countIn(usage.prompt_tokens ?? usage.input_tokens),
      completion_tokens: countIn(usage.completion_tokens ?? usage.output_tokens),
      cached_tokens: isObject(details) ? countIn(details.cached_tokens) : null,
    };
  }

  #takeLogprobs(draft: Choice, logprobs: Members): void {
    if (Array.isArray(logprobs.tokens)) this.#keep(draft, this.#vocabulary.legacyTokens(logprobs));
    this.#takeTokens(draft, listIn(logprobs.content));
    this.#takeTokens(draft, listIn(logprobs.refusal));
  }

  #takeTokens(draft: Choice, told: unknown[]): void {
    this.#keep(
      draft,
      told.flatMap((one) => this.#vocabulary.token(one) ?? []),
    );
  }

  #keep(draft: Choice, tokens: Token[]): void {
    for (const token of tokens.slice(0, LIMITS.completionTokens - this.#tokens)) {
      this.#tokens++;
      draft.tokens.push(token);
      if (++this.#tokensHeld >= TOKENS_HELD) this.#handOn();
    }
  }

  #handOn(): void {
    this.#tokensHeld = 0;
    for (const [index, choice] of this.#choices) {
      if (choice.tokens.length === 0) continue;
      this.#onTokens(index, choice.tokens);
      choice.tokens = [];
    }
  }

  #choice(told: unknown): Choice | null {
    const index = countIn(told) ?? 0;
    const known = this.#choices.get(index);
    if (known !== undefined) return known;
    if (this.#choices.size >= LIMITS.completionChoices) return null;
    const choice: Choice = { finish: null, calls: new ToolCallDrafts(this.#room), tokens: [] };
    this.#choices.set(index, choice);
    return choice;
  }
}

const NAME_CHARS = LIMITS.completionNameChars;

/** Other interfaces have choices too: of polls, of forms. */
function isChoice(value: unknown): value is Members {
  if (!isObject(value)) return false;
  const { delta, message, text } = value;
  return isObject(delta) || isObject(message) || (typeof text === "string" && "finish_reason" in value);
}

function countIn(value: unknown): number | null {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;
}
