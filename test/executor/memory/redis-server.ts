import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "#test/support/free-port.ts";

export type RedisServer = { url: string; port: number; stop(): Promise<void> };

/**
 * A Redis of the test's own, on a free or the given port of 127.0.0.1, that keeps nothing. Debian package `redis-server`.
 * With a password, its URL holds it.
 */
export async function startRedis(samePort?: number, password?: string): Promise<RedisServer> {
  const folder = await mkdtemp(join(tmpdir(), "dsec-redis-"));
  const port = samePort ?? (await freePort());
  const settings = [
    "--port",
    String(port),
    "--bind",
    "127.0.0.1",
    "--dir",
    folder,
    "--save",
    "",
    "--appendonly",
    "no",
    ...(password === undefined ? [] : ["--requirepass", password]),
  ];
  const server = spawn("/usr/bin/redis-server", settings, { stdio: ["ignore", "pipe", "inherit"] });
  await ready(server).catch(async (error) => {
    await rm(folder, { recursive: true });
    throw error;
  });
  return {
    url: `redis://${password === undefined ? "" : `:${password}@`}127.0.0.1:${port}`,
    port,
    async stop() {
      const exit = once(server, "exit");
      if (server.kill("SIGTERM")) await exit;
      await rm(folder, { recursive: true });
    },
  };
}

async function ready(server: ChildProcess): Promise<void> {
  let log = "";
  for await (const chunk of server.stdout!) {
    log += chunk;
    if (log.includes("Ready to accept connections")) {
      server.stdout!.destroy();
      return;
    }
  }
  throw new Error(`redis-server ended before it was ready:\n${log}`);
}
