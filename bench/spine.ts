/**
 * How long a client waits for the first byte: HTTP submit to the first stdout event on its event stream, one task
 * after another, on embedded defaults (PGlite, the executor in the gateway's process) and on PostgreSQL (the executor
 * over HTTP). The client is a process of its own. Beside it `crun run` of the same command from a static root with the same
 * namespaces, from spawn to its first byte, in the same run: no queue, no gateway, no attestation.
 */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { percentile } from "#bench/support/figures.ts";
import { openGateway } from "#cli/compose.ts";
import { startExecutor } from "#executor/main.ts";
import { startPostgres } from "#test/support/postgres.ts";

const WARM_UP = 20;
const COUNT = 200;
const COMMAND = ["echo", "first byte"];

export async function run(say: (line: string) => void): Promise<Record<string, unknown>> {
  const directory = await mkdtemp(join(tmpdir(), "dsec-bench-spine-"));
  try {
    say(`${COUNT} tasks one after another, each ${JSON.stringify(COMMAND)}, after ${WARM_UP} to warm up`);
    const embedded = await firstBytes(join(directory, "embedded"), "in-process");
    say(`embedded    ${summary(embedded)}`);
    const server = await startPostgres({ durable: true });
    const onPostgres = await firstBytes(join(directory, "postgres"), "http", await server.database()).finally(
      () => server.stop(),
    );
    say(`PostgreSQL  ${summary(onPostgres)}`);
    const crun = await crunFirstBytes(join(directory, "bundle"));
    say(`crun run    ${summary(crun)}`);
    return {
      p50_ms: ms(embedded, 0.5),
      p99_ms: ms(embedded, 0.99),
      n: COUNT,
      postgres_p50_ms: ms(onPostgres, 0.5),
      postgres_p99_ms: ms(onPostgres, 0.99),
      crun_p50_ms: ms(crun, 0.5),
      crun_p99_ms: ms(crun, 0.99),
    };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Milliseconds from each submission to the first byte of its output. */
async function firstBytes(data: string, way: "in-process" | "http", database?: string): Promise<number[]> {
  const log = () => {};
  const { gateway, adminKey, folder, close } = await openGateway({
    data,
    host: "127.0.0.1",
    port: 0,
    database,
    log,
  });
  const executor = await startExecutor({
    gatewayUrl: gateway.url,
    token: adminKey,
    dataDirectory: folder.executor,
    log,
    ...(way === "in-process" ? { fetch: gateway.fetch } : {}),
  });
  try {
    const client = fileURLToPath(import.meta.resolve("#bench/support/spine-client.ts"));
    const given = [client, gateway.url, String(WARM_UP), String(COUNT), ...COMMAND];
    const env = { ...process.env, DSEC_API_KEY: adminKey };
    const { stdout } = await promisify(execFile)(process.execPath, given, { env });
    return JSON.parse(stdout) as number[];
  } finally {
    await executor.close();
    await close();
  }
}

/** What bench/support/crun.ts prints, run where the host's second cgroup hierarchy is out of crun's sight. */
async function crunFirstBytes(bundle: string): Promise<number[]> {
  const sampler = fileURLToPath(import.meta.resolve("#bench/support/crun.ts"));
  const inNamespace = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$0" "$@"';
  const command = [process.execPath, sampler, bundle, String(WARM_UP), String(COUNT), ...COMMAND];
  const { stdout } = await promisify(execFile)("unshare", ["--mount", "sh", "-c", inNamespace, ...command]);
  return JSON.parse(stdout) as number[];
}

function summary(samples: number[]): string {
  return `p50 ${ms(samples, 0.5)} ms  p99 ${ms(samples, 0.99)} ms`;
}

function ms(samples: number[], fraction: number): number {
  return Math.round(percentile(samples, fraction) * 100) / 100;
}
