/** How near the plan that was followed is to the one that was expected. */
import { LIMITS } from "#core/limits.ts";

/**
 * 2·LCS(P,G)/(|P|+|G|) over the names of plan steps in the order in which they began, LCS being the length of their longest
 * common subsequence; 1 where both are empty, null where either is too long to be compared.
 */
export function planStepF1(followed: readonly string[], expected: readonly string[]): number | null {
  const total = followed.length + expected.length;
  if (total === 0) return 1;
  if (followed.length * expected.length > LIMITS.alignedPairs) return null;
  return (2 * longestCommon(followed, expected).length) / total;
}

/** The pairs of places of a longest common subsequence, in order. Takes a byte for each pair of items. */
export function longestCommon<Item>(a: readonly Item[], b: readonly Item[]): [inA: number, inB: number][] {
  const width = b.length + 1;
  const from = new Uint8Array((a.length + 1) * width);
  let above = new Uint32Array(width);
  for (let i = 1; i <= a.length; i++) {
    const row = new Uint32Array(width);
    for (let j = 1; j <= b.length; j++) {
      if (a[i - 1] === b[j - 1]) {
        row[j] = above[j - 1]! + 1;
        from[i * width + j] = BOTH;
      } else if (above[j]! >= row[j - 1]!) {
        row[j] = above[j]!;
        from[i * width + j] = FROM_A;
      } else {
        row[j] = row[j - 1]!;
        from[i * width + j] = FROM_B;
      }
    }
    above = row;
  }
  const pairs: [number, number][] = [];
  for (let i = a.length, j = b.length; i > 0 && j > 0; ) {
    const step = from[i * width + j];
    if (step === BOTH) pairs.push([--i, --j]);
    else if (step === FROM_A) i--;
    else j--;
  }
  return pairs.reverse();
}

const [BOTH, FROM_A, FROM_B] = [1, 2, 3];
