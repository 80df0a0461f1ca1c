/** What rewards are made of. */
import type { RewardComponent } from "#trace/events/event.ts";

export type RewardParts = { components: readonly RewardComponent[]; sum: number };

/** What is wrong with a reward's arithmetic, in words; null where products and sum are what they should be. */
export function rewardFault({ components, sum }: RewardParts): string | null {
  for (const { name, value, weight, product } of components) {
    if (!near(product, value * weight)) return `${name}: ${value} × ${weight} is not ${product}`;
  }
  const total = components.reduce((so_far, { product }) => so_far + product, 0);
  return components.length === 0 || near(total, sum)
    ? null
    : `the products sum up to ${total}, not to ${sum}`;
}

/**
 * Of each component Cov(w·r, R)/Var(R) over the rewards: how much of the reward's variation is its. A component that a reward
 * does not name contributed 0 to it. The shares sum up to 1 where R is the sum of the products. Null where R never varies.
 */
export function rewardShares(rewards: readonly RewardParts[]): Record<string, number> | null {
  const meanSum = mean(rewards.map(({ sum }) => sum));
  const variance = mean(rewards.map(({ sum }) => (sum - meanSum) ** 2));
  if (rewards.length < 2 || variance === 0) return null;
  // Σ(x − x̄)(R − R̄) is Σx·(R − R̄): a reward that does not name a component adds nothing to its sum.
  const sums = new Map<string, number>();
  for (const { components, sum } of rewards) {
    for (const { name, product } of components)
      sums.set(name, (sums.get(name) ?? 0) + product * (sum - meanSum));
  }
  return Object.fromEntries(
    [...sums]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, sum]) => [name, sum / rewards.length / variance]),
  );
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Equal but for the rounding of doubles. */
function near(a: number, b: number): boolean {
  return Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b));
}
