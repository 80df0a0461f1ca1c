/** The whole system as its users start it: processes of the `dsec` command over a real PostgreSQL. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { freePort } from "#test/support/free-port.ts";
import { startPostgres } from "#test/support/postgres.ts";
import { startWranglerDev } from "#test/support/wrangler-dev.ts";

const DSEC = resolve(import.meta.dirname, "../../dsec");

/** Leases of a killed executor are over after their time, and a loaded machine is slow. */
export const EXECUTOR_KILL_TIMEOUT_MS = 300_000;

export type System = {
  url: string;
  issuer: string;
  adminKey: string;
  /** Holds the data folders of gateway and executor. */
  folder: string;
  startExecutor(): Promise<void>;
  /** SIGKILL: nothing of its own gets a word in. */
  killExecutor(): Promise<void>;
  stop(): Promise<void>;
};

/**
 * `dsec gateway` on a PostgreSQL of its own, and `dsec executor`. Policies may open `privateNetworks`.
 * @param options.durable see `startPostgres`
 * @param options.detached Ctrl-C reaches only whoever started the system, and has to stop it then
 */
export async function startSystem({
  privateNetworks = [] as string[],
  durable = false,
  detached = false,
} = {}): Promise<System & { emptyDatabase(): Promise<string> }> {
  const postgres = await startPostgres({ durable });
  const folder = mkdtempSync(join(tmpdir(), "dsec-flow-"));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const gatewayData = join(folder, "gateway");
  const gateway = run(
    [
      ...["gateway", "--database", await postgres.database(), "--port", String(port), "--issuer", url],
      ...privateNetworks.flatMap((network) => ["--private-network", network]),
    ],
    { data: gatewayData, detached },
  );
  await saying(gateway, "issuer");
  const adminKey = readFileSync(join(gatewayData, "admin.key"), "utf8").trim();
  const system = await withExecutor({ url, issuer: url, adminKey, folder, detached }, async () => {
    await ended(gateway, "SIGTERM");
    await postgres.stop();
  });
  return { ...system, emptyDatabase: () => postgres.emptyDatabase() };
}

/** The same with the gateway in workerd, as `wrangler dev` serves it. */
export async function startEdgeSystem(): Promise<System> {
  const postgres = await startPostgres();
  const gateway = await startWranglerDev({ postgresUrl: await postgres.database() });
  const { url, adminKey } = gateway;
  const folder = mkdtempSync(join(tmpdir(), "dsec-flow-"));
  return withExecutor({ url, issuer: url, adminKey, folder }, async () => {
    await gateway.stop();
    await postgres.stop();
  });
}

async function withExecutor(
  {
    detached = false,
    ...gateway
  }: Pick<System, "url" | "issuer" | "adminKey" | "folder"> & {
    detached?: boolean;
  },
  stopGateway: () => Promise<void>,
): Promise<System> {
  let executor: ChildProcess;
  const startExecutor = async () => {
    const data = join(gateway.folder, "executor");
    executor = run(["executor", "--gateway", gateway.url], { data, detached, token: gateway.adminKey });
    await saying(executor, "pulls from");
  };
  await startExecutor();
  return {
    ...gateway,
    startExecutor,
    async killExecutor() {
      await ended(executor, "SIGKILL");
    },
    async stop() {
      await ended(executor, "SIGTERM");
      await stopGateway();
    },
  };
}

/** `dsec up` over a data folder; later commands find it there. */
export async function startUp(data: string): Promise<{ url: string; stop(): Promise<void> }> {
  const up = run(["up", "--port", "0"], { data });
  await saying(up, "DSec serves ");
  const { url } = JSON.parse(readFileSync(join(data, "serving.json"), "utf8"));
  return { url, stop: () => ended(up, "SIGTERM") };
}

/** What a stopped system left on the host: processes, mounts, cgroups, and the folders of sandboxes. Removes `folder`. */
export async function leftovers(folder: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const command = readText(`/proc/${pid}/cmdline`).replaceAll("\0", " ");
    if (command.includes(folder) && Number(pid) !== process.pid) found.push(`process ${pid}: ${command}`);
  }
  for (const line of readText("/proc/self/mounts").split("\n"))
    if (line.includes(folder)) found.push(`mount ${line}`);
  for (const path of ["attempts", "launcher/sandboxes"].map((name) =>
    join(folder, "executor/executor", name),
  )) {
    if (existsSync(path)) for (const name of readdirSync(path)) found.push(`folder ${path}/${name}`);
  }
  const ours = `dsec-${fnv1a(join(folder, "executor/executor/launcher"))}-`;
  for (const controller of readdirSync("/sys/fs/cgroup", { withFileTypes: true })) {
    if (!controller.isDirectory()) continue;
    for (const name of readdirSync(join("/sys/fs/cgroup", controller.name))) {
      if (name.startsWith(ours)) found.push(`cgroup ${controller.name}/${name}`);
    }
  }
  rmSync(folder, { recursive: true, force: true });
  return found;
}

function run(
  args: string[],
  { data, token, detached = false }: { data: string; token?: string; detached?: boolean },
): ChildProcess {
  return spawn(DSEC, [...args, "--data", data], {
    detached,
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, ...(token === undefined ? {} : { DSEC_TOKEN: token }) },
  });
}

/** Waits for words on standard error; what a child says afterwards is passed on. */
async function saying(child: ChildProcess, words: string): Promise<void> {
  let said = "";
  await new Promise<void>((resolve, reject) => {
    child.stderr!.on("data", (chunk: Buffer) => {
      process.stderr.write(chunk);
      said += chunk.toString();
      if (said.includes(words)) resolve();
    });
    child.once("exit", (code) =>
      reject(new Error(`dsec ended with ${code} before it said "${words}": ${said}`)),
    );
  });
}

/** Ends a child with the signal; one that is asked in order has to end in order. */
async function ended(child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const exit = once(child, "exit");
    child.kill(signal);
    await exit;
  }
  if (signal === "SIGTERM" && child.exitCode !== 0) {
    throw new Error(`${child.spawnargs.join(" ")} ended with ${child.exitCode ?? child.signalCode}, not 0`);
  }
}

/** The launcher marks its cgroups with the FNV-1a hash of its state folder's path, so that it removes only its own. */
function fnv1a(path: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(path)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  return hash.toString(16).padStart(16, "0");
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
