/**
 * How many times as much processor time this process spends on `count` as on a tenth of it: about 10 where time is in
 * proportion, 100 where it goes by the square. Of what takes only milliseconds nothing is known, and 20 ms are counted.
 * The least of up to three tries, ended early by one under `enough`: a busy machine spoils only some.
 */
export async function growth(
  count: number,
  work: (count: number) => unknown,
  enough = LINEAR_BELOW,
): Promise<number> {
  const cpuMs = async (share: number) => {
    const before = process.cpuUsage();
    await work(share);
    return process.cpuUsage(before).user / 1_000;
  };
  await cpuMs(count / 20); // it is compiled
  let least = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < 3 && least >= enough; tries++) {
    const few = await cpuMs(count / 10);
    least = Math.min(least, (await cpuMs(count)) / Math.max(20, few));
  }
  return least;
}

/** What `growth` stays below where time is in proportion. */
export const LINEAR_BELOW = 40;
