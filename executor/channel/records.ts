/** What an agent tells about itself: its context, its rewards, the tokens it was given. */
import type { z } from "zod";
import type { Digest } from "#core/ids.ts";
import { canonicalJson } from "#core/json.ts";
import type { LogitsSchema, RewardSchema } from "#core/wire/channel.ts";
import { contentDigest } from "../content-digest.ts";
import type { EventLog } from "./event-log.ts";

export class AgentRecords {
  readonly #log: EventLog;
  #context: Digest | null = null;
  /** Of the last reward that named the component. */
  readonly #weights = new Map<string, number>();

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
    const context_json = canonicalJson(context);
    const digest = contentDigest(context_json);
    // Said again unchanged it is the same context.
    if (digest !== this.#context) this.#log.append("context", { context_digest: digest, context_json });
    this.#context = digest;
    return { seq: this.#log.count, digest };
  }

  reward({ components, weights }: z.output<typeof RewardSchema>): { seq: number; sum: number } {
    this.#log.checkRoom();
    let sum = 0;
    const recorded = Object.entries(components).map(([name, value]) => {
      const weight = weights[name] ?? 1;
      const product = value * weight;
      sum += product;
      const before = this.#weights.get(name);
      this.#weights.set(name, weight);
      return { name, value, weight, weight_change: before === undefined ? null : weight - before, product };
    });
    return { seq: this.#log.append("reward", { components: recorded, sum }), sum };
  }

  logits({ source, tokens }: z.output<typeof LogitsSchema>): { seq: number } {
    this.#log.checkRoom();
    const recorded = tokens.map(({ id, logprob, top, log_sum_exp }) => {
      const best = top.toSorted((a, b) => b.logprob - a.logprob);
      const top_ids = best.map((candidate) => candidate.id);
      const top_logprobs = best.map((candidate) => candidate.logprob);
      return { id, logprob, top_ids, top_logprobs, top_texts: [], log_sum_exp };
    });
    return { seq: this.#log.append("token_logit", { source, tokens: recorded }) };
  }
}
