/**
 * `task-executor.ts GATEWAY crun BUNDLE` or `… launcher FOLDER COMMAND…`: the executor of an empty chain, which waits in a
 * long poll for a task, starts the command, and sends on what it says.
 */
import { once } from "node:events";
import type { Readable } from "node:stream";
import { Pool } from "undici";
import { startCrun } from "#bench/support/crun.ts";
import { startLauncher } from "#native/index.ts";
import { plan } from "#test/native/sandboxes.ts";
import { exchange, untilInputEnds } from "./http.ts";

type Running = { stdout: Readable; ended: Promise<unknown> };
type Starter = { start(): Running | Promise<Running>; close?(): Promise<void> };

const [gateway, way, folder, ...command] = process.argv.slice(2) as [string, string, string, ...string[]];
const starter: Starter = way === "crun" ? { start: () => startCrun(folder) } : await launching();
const pool = new Pool(gateway, { headersTimeout: 0 });
const ended = untilInputEnds();

/** Null when the program is to end. The task at hand is carried out to its end, so that nothing of it is left. */
const next = () => Promise.race([exchange(pool, "GET", "/next", null), ended]);
for (let task = await next(); task !== null; task = await next()) {
  const running = await starter.start();
  const [first] = (await once(running.stdout, "data")) as [Buffer];
  await exchange(pool, "POST", `/tasks/${task}/output`, first);
  await running.ended;
  await exchange(pool, "POST", `/tasks/${task}/output`, Buffer.alloc(0));
}
await starter.close?.();
process.exit();

async function launching(): Promise<Starter> {
  const launcher = await startLauncher({ stateDirectory: folder });
  return {
    async start() {
      const sandbox = await launcher.launch(plan(command));
      return { stdout: sandbox.stdout, ended: sandbox.ended.then(() => sandbox.destroy()) };
    },
    close: () => launcher.close(),
  };
}
