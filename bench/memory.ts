/**
 * The memory service in this process, with events and state digests as in use, over SQLite and over a Redis of its own:
 * 32 tasks, one caller each, values of 50 bytes under 500 keys. A mixed operation is a read or a write, in turn. What
 * the socket adds is measured by the channel's benchmark.
 */
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Options } from "#bench/main.ts";
import { closedLoop, median } from "#bench/support/figures.ts";
import { checkpoint } from "#bench/support/interrupt.ts";
import type { TaskId } from "#core/ids.ts";
import { createMemory, type MemoryView } from "#executor/memory/memory.ts";
import { connectRedisMemoryStore } from "#executor/memory/redis-store.ts";
import { SqliteDatabase } from "#executor/memory/sqlite-database.ts";
import { createSqliteMemoryStore } from "#executor/memory/sqlite-store.ts";
import type { MemoryStore } from "#executor/memory/store.ts";
import { startRedis } from "#test/executor/memory/redis-server.ts";

const TASKS = 32;
const KEYS = 500;
const OPERATIONS = 50_000;
const ROUNDS = 5;

const KINDS = {
  put: (view: MemoryView, n: number) => put(view, n),
  get: (view: MemoryView, n: number) => get(view, n),
  mixed: (view: MemoryView, n: number) => (n % 2 === 0 ? put(view, n) : get(view, n)),
};

export async function run(
  say: (line: string) => void,
  { signal }: Options,
): Promise<Record<string, unknown>> {
  await using opened = new AsyncDisposableStack();
  const folder = opened.use(await mkdtempDisposable(join(tmpdir(), "dsec-bench-memory-")));
  const database = new SqliteDatabase(join(folder.path, "memory.db"));
  opened.defer(() => database.close());
  const redis = await startRedis();
  opened.defer(() => redis.stop());
  const redisStore = await connectRedisMemoryStore({ url: redis.url });
  opened.defer(() => redisStore.close());
  return {
    sqlite: await measure("SQLite", createSqliteMemoryStore(database), say, signal),
    redis: await measure("Redis", redisStore, say, signal),
  };
}

async function measure(name: string, store: MemoryStore, say: (line: string) => void, signal: AbortSignal) {
  let events = 0;
  const memory = createMemory({ store, onEvent: () => events++ });
  const views = Array.from({ length: TASKS }, (_, at) =>
    memory.view({ taskId: `task_${at}` as TaskId, sandboxId: `sandbox_${at}`, owner: "bench", grants: [] }),
  );
  // Asked for once, a digest is brought along with every write.
  for (const view of views) await memory.state(view.namespace);
  const figures: Record<string, number> = {};
  for (const [kind, operation] of Object.entries(KINDS)) {
    const rates: number[] = [];
    const cpuUs: number[] = [];
    for (let round = 0; round <= ROUNDS; round++) {
      await checkpoint(signal);
      let n = 0;
      const before = process.cpuUsage();
      const seconds = await closedLoop(TASKS, OPERATIONS, (caller) => operation(views[caller]!, n++));
      const used = process.cpuUsage(before);
      if (round === 0) continue; // warms up
      rates.push(OPERATIONS / seconds);
      cpuUs.push((used.user + used.system) / OPERATIONS);
      say(
        `${name} ${kind}: ${Math.round(rates.at(-1)!)} operations/s, ${cpuUs.at(-1)!.toFixed(1)} µs of CPU each`,
      );
    }
    figures[`${kind}_ops_per_s`] = Math.round(median(rates));
    figures[`${kind}_cpu_us`] = Number(median(cpuUs).toFixed(1));
  }
  if (events !== OPERATIONS * (ROUNDS + 1) * Object.keys(KINDS).length) throw new Error(`${events} events`);
  const startMs = performance.now();
  for (let n = 0; n < 2_000; n++) {
    await put(views[0]!, n);
    await memory.state(views[0]!.namespace);
  }
  figures.put_then_digest_alone_us = Math.round(((performance.now() - startMs) / 2_000) * 1000);
  say(`${name}: a write and the digest after it, alone: ${figures.put_then_digest_alone_us} µs`);
  return figures;
}

async function put(view: MemoryView, n: number): Promise<void> {
  await view.put(`key${n % KEYS}`, `{"step":${n},"note":"look up the reservation first"}`);
}

async function get(view: MemoryView, n: number): Promise<void> {
  await view.get(`key${n % KEYS}`);
}
