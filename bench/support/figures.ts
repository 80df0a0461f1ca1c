/** The value that a fraction of the samples do not exceed (nearest rank). */
export function percentile(samples: readonly number[], fraction: number): number {
  if (samples.length === 0) throw new Error("no samples");
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(fraction * sorted.length) - 1)]!;
}

export function median(samples: readonly number[]): number {
  return percentile(samples, 0.5);
}

/** A value for each name. */
export function recordOf<Name extends string, Value>(
  names: readonly Name[],
  value: (name: Name) => Value,
): Record<Name, Value> {
  return Object.fromEntries(names.map((name) => [name, value(name)])) as Record<Name, Value>;
}

/** Runs `count` calls of `work` from `callers` callers at once, each one after another; seconds it took. */
export async function closedLoop(
  callers: number,
  count: number,
  work: (caller: number) => Promise<void>,
): Promise<number> {
  let left = count;
  const startMs = performance.now();
  await Promise.all(
    Array.from({ length: callers }, async (_, caller) => {
      while (left-- > 0) await work(caller);
    }),
  );
  return (performance.now() - startMs) / 1000;
}

/** Prints, as JSON, what `sample` gives `count` times, after `warmUp` times that do not count. */
export async function printSamples(
  { warmUp, count }: { warmUp: string; count: string },
  sample: () => Promise<number>,
): Promise<void> {
  const samples: number[] = [];
  for (let left = Number(warmUp); left > 0; left--) await sample();
  for (let left = Number(count); left > 0; left--) samples.push(await sample());
  console.log(JSON.stringify(samples));
}
