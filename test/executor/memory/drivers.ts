import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectRedisMemoryStore } from "#executor/memory/redis-store.ts";
import { SqliteDatabase } from "#executor/memory/sqlite-database.ts";
import { createSqliteMemoryStore } from "#executor/memory/sqlite-store.ts";
import type { MemoryStore } from "#executor/memory/store.ts";
import { startRedis } from "./redis-server.ts";

/** The stores, opened for real and empty: SQLite in a folder of its own, Redis as a process of its own. */
export type Driver = { open(now: () => number): Promise<{ store: MemoryStore; close(): Promise<void> }> };

export const drivers: Record<string, Driver> = {
  SQLite: {
    async open(now) {
      const folder = await mkdtemp(join(tmpdir(), "dsec-memory-"));
      const database = new SqliteDatabase(join(folder, "memory.db"));
      return {
        store: createSqliteMemoryStore(database, now),
        async close() {
          database.close();
          await rm(folder, { recursive: true });
        },
      };
    },
  },
  Redis: {
    async open(now) {
      const server = await startRedis();
      const store = await connectRedisMemoryStore({ url: server.url, now });
      return {
        store,
        async close() {
          await store.close();
          await server.stop();
        },
      };
    },
  },
};
