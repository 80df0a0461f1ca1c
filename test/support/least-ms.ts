/**
 * The least time in ms that one of up to three tries took, ended early by one under `enoughMs`: for promises of waking up
 * instead of looking again later, which takes long in every try, while a busy machine holds up only some.
 */
export async function leastMs(enoughMs: number, tryOnce: () => Promise<number>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < 3 && least >= enoughMs; tries++) least = Math.min(least, await tryOnce());
  return least;
}
