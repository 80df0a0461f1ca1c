import { join } from "node:path";
import type { MemoryEvent } from "#core/wire/memory.ts";
import { createMemory, type Memory } from "../memory/memory.ts";
import { connectRedisMemoryStore } from "../memory/redis-store.ts";
import { SqliteDatabase } from "../memory/sqlite-database.ts";
import { createSqliteMemoryStore } from "../memory/sqlite-store.ts";
import type { MemoryStore } from "../memory/store.ts";

type Listener = (event: MemoryEvent) => void;

/** What all sandboxes of an executor share: one memory, whose events go to the sandbox they are of. */
export class AgentServices {
  readonly memory: Memory;
  readonly database: SqliteDatabase;
  readonly #store: MemoryStore;
  readonly #listeners = new Map<string, Listener>();

  /**
   * @param options.redisUrl keeps memory in Redis, where several executors see it, in place of the executor's own
   * database
   */
  static async open(options: {
    dataDirectory: string;
    redisUrl?: string | undefined;
  }): Promise<AgentServices> {
    const database = new SqliteDatabase(join(options.dataDirectory, "agents.db"));
    try {
      const store =
        options.redisUrl === undefined
          ? createSqliteMemoryStore(database)
          : await connectRedisMemoryStore({ url: options.redisUrl });
      return new AgentServices(database, store);
    } catch (error) {
      database.close();
      throw error;
    }
  }

  private constructor(database: SqliteDatabase, store: MemoryStore) {
    this.database = database;
    this.#store = store;
    this.memory = createMemory({ store, onEvent: (event) => this.#route(event) });
  }

  /** Gives a sandbox the events of its own reads and writes, and those of its task's namespace that nobody made. */
  follow(sandboxId: string, namespace: string, listener: Listener): () => void {
    this.#listeners.set(sandboxId, listener);
    this.#listeners.set(namespace, listener);
    return () => {
      if (this.#listeners.get(sandboxId) === listener) this.#listeners.delete(sandboxId);
      if (this.#listeners.get(namespace) === listener) this.#listeners.delete(namespace);
    };
  }

  async close(): Promise<void> {
    await this.#store.close();
    this.database.close();
  }

  #route(event: MemoryEvent): void {
    // Names of sandboxes hold no colon and those of namespaces do, so that neither is taken for the other.
    const listener = this.#listeners.get(event.source.sandbox) ?? this.#listeners.get(event.namespace);
    listener?.(event);
  }
}
