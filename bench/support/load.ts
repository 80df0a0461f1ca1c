/** The measuring client (load.cc), on the host or inside a sandbox of a running system. */
import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { PolicyRequest } from "#core/wire/policy.ts";
import type { Client } from "#sdk/client.ts";

export type Measured = { seconds: number; us: number[] };

export type Load = {
  onHost(words: string[]): Promise<Measured>;
  /** With the sandbox's own socket as the target `$SOCKET` stands for. */
  inSandbox(words: string[], options?: { policy?: PolicyRequest }): Promise<Measured>;
};

export async function buildLoad(client: Client): Promise<Load> {
  const directory = await mkdtemp(join(tmpdir(), "dsec-load-"));
  const program = join(directory, "load");
  const run = promisify(execFile);
  let artifact: string;
  try {
    const source = fileURLToPath(import.meta.resolve("#bench/support/load.cc"));
    await run("g++", ["-std=c++20", "-O2", "-static", "-pthread", source, "-o", program]);
    artifact = (await client.artifacts.put(await readFile(program))).artifact;
  } finally {
    process.once("exit", () => rmSync(directory, { recursive: true, force: true }));
  }
  return {
    async onHost(words) {
      const { stdout } = await run(program, words, { maxBuffer: 64 * 1024 * 1024 });
      return JSON.parse(stdout) as Measured;
    },
    async inSandbox(words, { policy = {} } = {}) {
      const { id } = await client.tasks.submit({
        command: ["/load/load", ...words.map((word) => word.replace("$SOCKET", "unix:/run/dsec/tool.sock"))],
        inputs: [{ artifact, mount_path: "/load/load" }],
        policy,
        resources: { cpu_cores: 2, memory_mb: 256, pids: 128, disk_mb: 16 },
      });
      const task = await client.tasks.wait(id);
      if (task.state !== "succeeded") {
        const said = new TextDecoder().decode(await client.tasks.stream(id, "stderr"));
        throw new Error(`the load in ${id} is ${task.state}: ${said.slice(0, 2000)}`);
      }
      return JSON.parse(new TextDecoder().decode(await client.tasks.stream(id, "stdout"))) as Measured;
    },
  };
}
