/** Names that were probably meant, for members and values that are not known. */

/** The candidate that differs least: at most a third of its letters (case and separators apart), or undefined. */
export function nearest(name: string, candidates: readonly string[]): string | undefined {
  if (name.length > 64) return undefined;
  const plain = fold(name);
  let best: { candidate: string; distance: number } | undefined;
  for (const candidate of candidates) {
    const distance = editDistance(plain, fold(candidate));
    if (distance <= Math.max(1, candidate.length / 3) && (best === undefined || distance < best.distance)) {
      best = { candidate, distance };
    }
  }
  return best?.candidate;
}

function fold(name: string): string {
  return name.toLowerCase().replaceAll(/[-_ ]/g, "");
}

/** Levenshtein's distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
