/** The thread that makes traces of long trajectories: it may take seconds, which neither sandboxes nor the collector have. */
import { rm } from "node:fs/promises";
import { parentPort } from "node:worker_threads";
import { DsecError } from "#core/errors.ts";
import { publishWritten, sealTrajectory } from "#trace/node/files.ts";
import { tracePathOf } from "./paths.ts";
import type { SealingAnswer, SealingRequest } from "./sealer.ts";

parentPort!.on("message", async (request: SealingRequest) => {
  parentPort!.postMessage(await answer(request));
});

async function answer({ id, trajectory, sealed }: SealingRequest): Promise<SealingAnswer> {
  try {
    if (sealed !== null) {
      publishWritten(trajectory, tracePathOf(trajectory));
      return { id, trace: sealed };
    }
    const { damage, ...trace } = await sealTrajectory(trajectory, tracePathOf(trajectory));
    await rm(trajectory);
    return { id, trace };
  } catch (error) {
    const code = error instanceof DsecError ? error.code : "INTERNAL";
    return { id, error: { code, message: (error as Error).message } };
  }
}
