/** The few statistics that reports are made of. All of them are deterministic: chance comes from a fixed seed. */

export type Correlation = {
  /** Spearman's rank correlation; null where one side never varies. */
  rho: number | null;
  /** Of pairs of which both are known. */
  n: number;
  /** Two-sided, by permutation; null below 20 pairs, of which nothing should be concluded. */
  p: number | null;
};

/** Below this nothing is said of an association. */
export const LEAST_PAIRS = 20;

/** Rank correlation of the pairs whose two sides are known; equal values share the mean of their ranks. */
export function spearman(
  x: readonly (number | null)[],
  y: readonly (number | null)[],
  permutations = 9999,
): Correlation {
  const pairs = x.map((value, at) => [value, y[at]]).filter((pair) => pair.every((side) => side != null));
  const [a, b] = [0, 1].map((side) => centredRanks(pairs.map((pair) => pair[side]!))) as [
    Float64Array,
    Float64Array,
  ];
  const n = pairs.length;
  const scale = Math.sqrt(product(a, a) * product(b, b));
  if (n < 2 || scale === 0) return { rho: null, n, p: null };
  const rho = product(a, b) / scale;
  return { rho, n, p: n < LEAST_PAIRS ? null : permutationP(a, b, permutations) };
}

/** Benjamini and Hochberg's adjusted p-values (false discovery rate), in the order given; null stays null. */
export function adjustedP(ps: readonly (number | null)[]): (number | null)[] {
  const known = ps.flatMap((p, at) => (p === null ? [] : [{ p, at }])).sort((one, other) => other.p - one.p);
  const adjusted: (number | null)[] = ps.map(() => null);
  let least = 1;
  for (const [above, { p, at }] of known.entries()) {
    least = Math.min(least, (p * known.length) / (known.length - above));
    adjusted[at] = least;
  }
  return adjusted;
}

/**
 * Fisher's exact test, two-sided, of a table of counts: how probable tables are that are no more probable than this one,
 * were rows and columns independent.
 */
export function fisherP(a: number, b: number, c: number, d: number): number {
  const [row, column, n] = [a + b, a + c, a + b + c + d];
  const logP = (x: number) => logChoose(row, x) + logChoose(n - row, column - x) - logChoose(n, column);
  const observed = logP(a);
  let p = 0;
  for (let x = Math.max(0, column - (n - row)); x <= Math.min(row, column); x++) {
    const log = logP(x);
    if (log <= observed + 1e-7) p += Math.exp(log);
  }
  return Math.min(1, p);
}

/** The value that a share of the samples does not exceed (nearest rank); null without samples. */
export function percentile(sorted: ArrayLike<number>, share: number): number | null {
  if (sorted.length === 0) return null;
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
}

function permutationP(a: Float64Array, b: Float64Array, permutations: number): number {
  const observed = Math.abs(product(a, b)) * (1 - 1e-12);
  const shuffled = b.slice();
  const random = randomFrom(SEED);
  let asFar = 0;
  for (let round = 0; round < permutations; round++) {
    for (let at = shuffled.length - 1; at > 0; at--) {
      const other = Math.floor(random() * (at + 1));
      const value = shuffled[at]!;
      shuffled[at] = shuffled[other]!;
      shuffled[other] = value;
    }
    if (Math.abs(product(a, shuffled)) >= observed) asFar++;
  }
  // With the observed order itself among the permutations p is never 0.
  return (asFar + 1) / (permutations + 1);
}

const SEED = 0x5eed;

/** mulberry32: 32 bits of state, which is enough to shuffle. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function centredRanks(values: readonly number[]): Float64Array {
  const order = values.map((_, at) => at).sort((one, other) => values[one]! - values[other]!);
  const ranks = new Float64Array(values.length);
  for (let from = 0; from < order.length; ) {
    let to = from + 1;
    while (to < order.length && values[order[to]!] === values[order[from]!]) to++;
    for (let at = from; at < to; at++) ranks[order[at]!] = (from + to - 1) / 2 - (values.length - 1) / 2;
    from = to;
  }
  return ranks;
}

function product(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at]! * b[at]!;
  return sum;
}

const logFactorials = [0];

function logChoose(n: number, k: number): number {
  for (let at = logFactorials.length; at <= n; at++)
    logFactorials.push(logFactorials[at - 1]! + Math.log(at));
  return logFactorials[n]! - logFactorials[k]! - logFactorials[n - k]!;
}
