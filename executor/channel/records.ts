/** What an agent tells about itself: its context, its rewards, the tokens it was given. */
import { hash } from "node:crypto";
import type { z } from "zod";
import type { Digest } from "#core/ids.ts";
import { canonicalJson, digestOf } from "#core/json.ts";
import type { LogitsSchema, RewardSchema } from "#core/wire/channel.ts";
import type { EventLog } from "./event-log.ts";

export class AgentRecords {
  readonly #log: EventLog;
  #context: Digest | null = null;

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** Of the context that the agent sent last; tool calls name it. */
  get context(): Digest | null {
    return this.#context;
  }

  /** Keeps the agent's own context, whole: a replay begins with it. */
  saveContext(context: unknown): { seq: number; digest: Digest } {
    this.#log.checkRoom();
    const digest = digestOf(hash("sha256", canonicalJson(context), "buffer"));
    // Said again unchanged it is the same context.
    if (digest !== this.#context) this.#log.append("context", { digest, context });
    this.#context = digest;
    return { seq: this.#log.count, digest };
  }

  reward({ components, weights }: z.output<typeof RewardSchema>): { seq: number; sum: number } {
    this.#log.checkRoom();
    let sum = 0;
    for (const [name, value] of Object.entries(components)) sum += value * (weights[name] ?? 1);
    return { seq: this.#log.append("reward", { components, weights, sum }), sum };
  }

  logits({ source, tokens }: z.output<typeof LogitsSchema>): { seq: number } {
    this.#log.checkRoom();
    return { seq: this.#log.append("token_logit", { source, tokens }) };
  }
}
