/** The measuring client (load.cc), on the host or inside a sandbox of a running system. */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { compile } from "#bench/support/programs.ts";
import type { PolicyRequest } from "#core/wire/policy.ts";
import type { Client } from "#sdk/client.ts";

export type Measured = { seconds: number; us: number[] };

export type Load = {
  onHost(words: string[]): Promise<Measured>;
  /** With the sandbox's own socket as the target `$SOCKET` stands for. */
  inSandbox(words: string[], options?: { policy?: PolicyRequest }): Promise<Measured>;
};

/** @param folder takes the program; the signal ends what is being measured, and rejects it */
export async function buildLoad(client: Client, folder: string, signal: AbortSignal): Promise<Load> {
  const program = await compile("load", folder);
  const { artifact } = await client.artifacts.put(await readFile(program));
  return {
    async onHost(words) {
      const { stdout } = await promisify(execFile)(program, words, { maxBuffer: 64 * 1024 * 1024, signal });
      return JSON.parse(stdout) as Measured;
    },
    async inSandbox(words, { policy = {} } = {}) {
      const { id } = await client.tasks.submit({
        command: ["/load/load", ...words.map((word) => word.replace("$SOCKET", "unix:/run/dsec/tool.sock"))],
        inputs: [{ artifact, mount_path: "/load/load" }],
        policy,
        resources: { cpu_cores: 2, memory_mb: 256, pids: 128, disk_mb: 16 },
      });
      const task = await client.tasks.wait(id, { signal }).catch(async (error) => {
        // An executor that is stopped waits for what it runs.
        await client.tasks.cancel(id);
        throw error;
      });
      if (task.state !== "succeeded") {
        const said = new TextDecoder().decode(await client.tasks.stream(id, "stderr"));
        throw new Error(`the load in ${id} is ${task.state}: ${said.slice(0, 2000)}`);
      }
      return JSON.parse(new TextDecoder().decode(await client.tasks.stream(id, "stdout"))) as Measured;
    },
  };
}
