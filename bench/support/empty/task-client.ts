/**
 * `task-client.ts GATEWAY WARM_UP COUNT`: submits one task after another to an empty chain and prints, as JSON, the
 * milliseconds from each submission to the first byte of the task's output.
 */
import { Pool } from "undici";
import { printSamples } from "#bench/support/figures.ts";
import { exchange } from "./http.ts";

const [gateway, warmUp, count] = process.argv.slice(2) as [string, string, string];
const pool = new Pool(gateway);
await printSamples({ warmUp, count }, async () => {
  const startedMs = performance.now();
  const task = await exchange(pool, "POST", "/tasks", Buffer.from("a task"));
  let firstMs: number | null = null;
  await exchange(pool, "GET", `/tasks/${task}/events`, null, () => {
    firstMs ??= performance.now() - startedMs;
  });
  if (firstMs === null) throw new Error(`task ${task} gave no output`);
  return firstMs;
});
await pool.close();
