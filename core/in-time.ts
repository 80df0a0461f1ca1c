const WAIT_STEPS = 10;

/**
 * The answer, or what `late` makes where none has come within so many milliseconds; Infinity waits without end. It is
 * waited for in steps: an answer that came while this process itself stood still is read before its time is up.
 */
export async function inTime<T>(answer: PromiseLike<T>, msMax: number, late: () => Error): Promise<T> {
  if (!Number.isFinite(msMax)) return answer;
  const over = Promise.withResolvers<never>();
  let steps = 0;
  const wait = () => setTimeout(onStep, msMax / WAIT_STEPS);
  const onStep = () => {
    if (++steps < WAIT_STEPS) timer = wait();
    else over.reject(late());
  };
  let timer = wait();
  try {
    return await Promise.race([answer, over.promise]);
  } finally {
    clearTimeout(timer);
  }
}
