/**
 * `spine-client.ts GATEWAY WARM_UP COUNT COMMAND…`: submits one task after another and prints, as JSON, the milliseconds
 * from each submission to the first byte of the task's output. A program of its own, as every client is: in the gateway's
 * process it would take its turns from what it measures. The API key comes in DSEC_API_KEY.
 */
import { printSamples } from "#bench/support/figures.ts";
import { createClient } from "#sdk/client.ts";

const [gateway, warmUp, count, ...command] = process.argv.slice(2) as [string, string, string, ...string[]];
const client = createClient({ gateway, apiKey: process.env.DSEC_API_KEY! });
await printSamples({ warmUp, count }, async () => {
  const startedMs = performance.now();
  const { task, events } = await client.tasks.follow({ command });
  let firstMs: number | null = null;
  // To the end of the stream: the next task is not to share the machine with the rest of this one.
  for await (const event of events) {
    if (event.type === "stdout") firstMs ??= performance.now() - startedMs;
  }
  if (firstMs === null) throw new Error(`task ${task.id} gave no output`);
  return firstMs;
});
