/** The deadline came before what was waited for. */
export const LATE = Symbol("the deadline came first");

/**
 * Resolves with what is waited for, or with LATE where that takes too long. Rejects with its failure, or with the reason of
 * the first signal that aborts, which `onLeave` is told before. There are several signals, for one that is made of them
 * (`AbortSignal.any`) costs as much as all else here.
 */
export async function withinDeadline<T>(
  waitedFor: Promise<T>,
  timeoutMs: number,
  signals: readonly AbortSignal[],
  onLeave: (reason: unknown) => void,
): Promise<T | typeof LATE> {
  const { promise, resolve, reject } = Promise.withResolvers<T | typeof LATE>();
  const timer = setTimeout(resolve, timeoutMs, LATE);
  const leave = ({ target }: Event) => {
    const { reason } = target as AbortSignal;
    onLeave(reason);
    reject(reason);
  };
  for (const signal of signals) signal.addEventListener("abort", leave);
  waitedFor.then(resolve, reject);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    for (const signal of signals) signal.removeEventListener("abort", leave);
  }
}
