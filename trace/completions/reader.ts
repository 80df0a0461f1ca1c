import { LIMITS } from "#core/limits.ts";
import type { Token } from "../events/event.ts";
import { Assembly, type Completion } from "./assembly.ts";
import { GrowingBytes } from "./growing-bytes.ts";
import { ServerSentData } from "./server-sent-events.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** What an answer's body turned out to be. */
export type ReadCompletions = { completions: Completion[]; streamed: boolean };

/** Events of a stream that say nothing of a completion, before it is taken for something else. */
const STRANGE_MAX = 16;

/**
 * Reads along with a body of which nobody knows what it is, and tells in the end whether it was an OpenAI-compatible
 * completion, whole (`{…}`) or streamed (`data: {…}` … `data: [DONE]`), and what it said. It never throws for what a body
 * is, and what it holds is bounded: a whole answer past `completionBytes` is given up, of a stream an event past
 * `completionEventBytes` passed over.
 */
export class CompletionReader {
  readonly #assembly: Assembly;
  #events: ServerSentData | null = null;
  #state: "beginning" | "whole" | "events" | "over" = "beginning";
  readonly #whole = new GrowingBytes();
  #wasStreamed = false;
  #strange = 0;
  #isCompletion = false;

  /** @param onTokens takes tokens with their log-probabilities as they come, in lists of 512 at most */
  constructor(vocabulary: Vocabulary, onTokens: (choice: number, tokens: Token[]) => void) {
    this.#assembly = new Assembly(vocabulary, onTokens);
  }

  get heldBytes(): number {
    return this.#whole.length + (this.#events?.heldBytes ?? 0) + this.#assembly.heldChars;
  }

  push(bytes: Uint8Array): void {
    if (this.#state === "beginning") this.#state = stateFrom(bytes);
    if (this.#state === "events") {
      this.#events ??= new ServerSentData((data) => this.#takeData(data), LIMITS.completionEventBytes);
      this.#events.push(bytes);
    }
    if (this.#state !== "whole") return;
    if (this.#whole.length + bytes.length > LIMITS.completionBytes) this.giveUp();
    else this.#whole.append(bytes);
  }

  /** The body has ended, or was cut off: then what came of it counts. Null where it was no completion. */
  end(): ReadCompletions | null {
    if (this.#state === "events") this.#events?.end();
    else if (this.#state === "whole") this.#takeWhole();
    this.giveUp();
    return this.#isCompletion ? { completions: this.#assembly.end(), streamed: this.#wasStreamed } : null;
  }

  giveUp(): void {
    this.#state = "over";
    this.#events = null;
    this.#whole.clear();
  }

  #takeWhole(): void {
    this.#take(decoder.decode(this.#whole.view()));
  }

  #takeData(data: string): void {
    if (this.#state !== "events" || data === "[DONE]") return;
    this.#wasStreamed = true;
    this.#take(data);
    if (!this.#isCompletion && ++this.#strange >= STRANGE_MAX) this.giveUp();
  }

  #take(text: string): void {
    // Most JSON is no completion, and is not to be parsed for that.
    if (!text.includes('"choices"') && !text.includes('"response')) return;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return; // cut off, or nothing to be read here
    }
    if (this.#assembly.take(value)) this.#isCompletion = true;
  }
}

/** By the first byte that is no space: `{` begins JSON, the name of a field or a colon a stream of events. */
function stateFrom(bytes: Uint8Array): "beginning" | "whole" | "events" | "over" {
  for (const byte of bytes.subarray(0, BLANKS_MAX)) {
    if (SPACE.has(byte)) continue;
    if (byte === 0x7b) return "whole";
    return FIELD.has(byte) ? "events" : "over";
  }
  return bytes.length < BLANKS_MAX ? "beginning" : "over";
}

/** More than any server sends ahead. */
const BLANKS_MAX = 1024;

/** White space of JSON, and the bytes of a byte-order mark. */
const SPACE = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]);
/** How `data`, `event`, `id`, `retry` and comments begin. */
const FIELD = new Set(Array.from("deir:", (char) => char.charCodeAt(0)));
const decoder = new TextDecoder();
