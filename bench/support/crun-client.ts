/** `crun-client.ts BUNDLE WARM_UP COUNT`: prints, as JSON, the milliseconds from each spawn of `crun run` to its first byte. */
import { once } from "node:events";
import { startCrun } from "#bench/support/crun.ts";
import { printSamples } from "#bench/support/figures.ts";

const [bundle, warmUp, count] = process.argv.slice(2) as [string, string, string];
await printSamples({ warmUp, count }, async () => {
  const startedMs = performance.now();
  const { stdout, ended } = startCrun(bundle);
  await once(stdout, "data");
  const firstMs = performance.now() - startedMs;
  await ended;
  return firstMs;
});
