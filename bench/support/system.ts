import { rm } from "node:fs/promises";
import { startSystem } from "#test/flow/system.ts";

export type BenchSystem = Awaited<ReturnType<typeof startSystem>> & AsyncDisposable;

/** The whole system on a PostgreSQL with a production server's durability. Disposing stops it and removes its folder. */
export async function benchSystem(options: { privateNetworks?: string[] } = {}): Promise<BenchSystem> {
  const system = await startSystem({ ...options, durable: true, detached: true });
  return {
    ...system,
    async [Symbol.asyncDispose]() {
      await system.stop();
      await rm(system.folder, { recursive: true });
    },
  };
}
