import { ByteQueue } from "#core/byte-queue.ts";
import { LIMITS } from "#core/limits.ts";
import { CompletionReader } from "#trace/completions/reader.ts";
import { Vocabulary } from "#trace/completions/vocabulary.ts";
import type { Token } from "#trace/events/event.ts";
import { decodedBody } from "#trace/node/decode.ts";
import type { EventLog } from "../channel/event-log.ts";

/** Takes the body of an answer as it passes; after its end, which waits for what is still decoded, it takes nothing. */
export type CompletionTap = { push(bytes: Uint8Array): void; end(): void | Promise<void> };

/**
 * What the models that an agent calls say of themselves: where an answer is an OpenAI-compatible completion, its usage, its
 * tool calls and its tokens' log-probabilities become events. They are read along with what passes, which waits for
 * nothing here and is never changed; what cannot be read is nobody's failure.
 */
export class Completions {
  readonly #log: Pick<EventLog, "append" | "checkRoom">;
  readonly #vocabulary = new Vocabulary();
  readonly #open = new Set<CompletionTap>();
  #heldBytes = 0;

  constructor(log: Pick<EventLog, "append" | "checkRoom">) {
    this.#log = log;
  }

  /**
   * Null where the answer cannot be one: a completion is asked for by POST, and comes with success.
   * @param call its number in the event log
   * @param codings that the body still has, as its Content-Encoding fields say
   */
  follow(
    call: number,
    method: string,
    status: number,
    codings: readonly string[] = [],
  ): CompletionTap | null {
    if (method !== "POST" || status < 200 || status > 299) return null;
    const reader = new CompletionReader(this.#vocabulary, (choice, tokens) =>
      this.#recordTokens(call, choice, tokens),
    );
    let held = 0;
    const settle = () => {
      this.#heldBytes += reader.heldBytes - held;
      held = reader.heldBytes;
    };
    const tap: CompletionTap = {
      push: (bytes) => {
        if (!this.#open.has(tap)) return;
        quietly(() => reader.push(bytes));
        settle();
        if (this.#heldBytes <= LIMITS.completionsHeldBytes) return;
        reader.giveUp();
        settle();
      },
      end: () => {
        if (!this.#open.delete(tap)) return;
        quietly(() => this.#record(call, reader));
        this.#heldBytes -= held;
      },
    };
    this.#open.add(tap);
    return decodedBefore(tap, status, codings);
  }

  /** Before the log is sealed: of what is still passing, what has come by now. Nothing is recorded after it. */
  close(): void {
    for (const tap of this.#open) tap.end();
  }

  #record(call: number, reader: CompletionReader): void {
    const read = reader.end();
    if (read === null) return;
    this.#log.checkRoom();
    for (const completion of read.completions) {
      this.#log.append("completion", { call, ...completion, streamed: read.streamed });
    }
  }

  #recordTokens(call: number, choice: number, tokens: Token[]): void {
    // One answer may bring more of them than the log has room for.
    this.#log.checkRoom();
    const source = choice === 0 ? "assistant" : `assistant, choice ${choice}`;
    this.#log.append("token_logit", { source, call, tokens });
  }
}

/** A tap for a body in content codings, before one for what it decodes to. */
function decodedBefore(tap: CompletionTap, status: number, codings: readonly string[]): CompletionTap {
  const nothing = () => {};
  const coded = new ByteQueue({ pause: nothing, resume: nothing, stop: nothing });
  let waitingBytes = 0;
  async function* taken(): AsyncGenerator<Uint8Array> {
    for await (const bytes of coded) {
      waitingBytes -= bytes.length;
      yield bytes;
    }
  }
  const decoded = decodedBody(taken(), status, codings);
  if (decoded === null) return tap;
  const reading = (async () => {
    let bytes = 0;
    for await (const piece of decoded as AsyncIterable<Uint8Array>) {
      tap.push(piece);
      bytes += piece.length;
      // A gateway need not know the coding, and so may not have bounded what it decodes to.
      if (bytes > LIMITS.completionDecodedBytes) break;
    }
  })().catch(nothing);
  return {
    push(bytes) {
      waitingBytes += bytes.length;
      // What passes waits for nothing here: decoding that falls behind is given up.
      if (waitingBytes > LIMITS.completionBytes) coded.fail(new Error("the decoding is too slow"));
      else coded.push(bytes);
    },
    async end() {
      coded.end();
      await reading;
      await tap.end();
    },
  };
}

/** A log that is full or cannot be written says so at the call's own end. */
function quietly(act: () => void): void {
  try {
    act();
  } catch {}
}
