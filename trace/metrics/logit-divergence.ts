/**
 * How far two models, or two versions of one, are from each other in what they would say next. A trace holds the five best
 * candidates of each token, so what is computed is a lower bound of the Kullback-Leibler divergence.
 */
import type { Token } from "#trace/events/event.ts";

export type Divergence = {
  /** Natural units (nats). */
  value: number;
  /** Probability that the lists leave to all other tokens: how much the bound may miss. */
  tail: { p: number; q: number };
};

/** Where a divergence is worth a look. */
export const DIVERGENCE_THRESHOLD = 0.8;

/**
 * Σ p·ln(p/q) over the ids that both lists have, plus everything else as one bin: by the log-sum inequality merging what is
 * not known of both into one bin makes the sum no larger. Null where a list is empty.
 */
export function logitDivergence(p: Candidates, q: Candidates): Divergence | null {
  if (p.top_ids.length === 0 || q.top_ids.length === 0) return null;
  const inQ = new Map(q.top_ids.map((id, at) => [id, q.top_logprobs[at]!]));
  let value = 0;
  let [sharedP, sharedQ] = [0, 0];
  for (const [at, id] of p.top_ids.entries()) {
    const logQ = inQ.get(id);
    if (logQ === undefined) continue;
    const logP = p.top_logprobs[at]!;
    value += Math.exp(logP) * (logP - logQ);
    sharedP += Math.exp(logP);
    sharedQ += Math.exp(logQ);
  }
  const restP = Math.max(0, 1 - sharedP);
  const restQ = Math.max(SMALLEST, 1 - sharedQ);
  if (restP > SMALLEST) value += restP * Math.log(restP / restQ);
  // Log-probabilities are rounded where they were made; a divergence is never negative.
  return { value: Math.max(0, value), tail: { p: tailOf(p), q: tailOf(q) } };
}

export type Candidates = Pick<Token, "top_ids" | "top_logprobs">;

export type Compared = {
  tokens: number;
  mean: number;
  max: Divergence & { at: number };
  over_threshold: number;
};

/**
 * Token by token as long as both have the same context: up to and with the first one that differs, for what comes after it was
 * asked of two different texts. Null where no token can be compared.
 */
export function compareTokens(
  p: readonly Token[],
  q: readonly Token[],
  threshold = DIVERGENCE_THRESHOLD,
): Compared | null {
  let [sum, tokens, over] = [0, 0, 0];
  let max: Compared["max"] | null = null;
  for (let at = 0; at < Math.min(p.length, q.length); at++) {
    const divergence = logitDivergence(p[at]!, q[at]!);
    if (divergence !== null) {
      tokens++;
      sum += divergence.value;
      if (divergence.value > threshold) over++;
      if (max === null || divergence.value > max.value) max = { ...divergence, at };
    }
    if (p[at]!.id !== q[at]!.id) break;
  }
  return max === null ? null : { tokens, mean: sum / tokens, max, over_threshold: over };
}

/** Below the smallest difference from 1 that a double can tell. */
const SMALLEST = 1e-12;

function tailOf({ top_logprobs }: Candidates): number {
  return Math.max(
    0,
    top_logprobs.reduce((left, logprob) => left - Math.exp(logprob), 1),
  );
}
