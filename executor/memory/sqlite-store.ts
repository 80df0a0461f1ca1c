import type { SqliteDatabase } from "./sqlite-database.ts";
import { type Entry, entryBytes, holds, type MemoryStore, type Removed, type Settled } from "./store.ts";

/**
 * Memory in the executor's database. `now` gives milliseconds since the epoch and decides what has expired. Entries that
 * were read or written lately are known without asking the database; `dump` asks it, so that an audit sees what is there.
 */
export function createSqliteMemoryStore(database: SqliteDatabase, now: () => number = Date.now): MemoryStore {
  const sql = prepare(database);
  const namespaces = new Namespaces(database);

  /** Runs in the next transaction, after what is over has been removed. */
  function settle<Result extends object>(
    name: string,
    work: (space: Namespace, atMs: number) => Result,
  ): Promise<Settled<Result>> {
    return database.run(() => {
      const space = namespaces.find(name);
      const atMs = now();
      const expired = space.nextExpiryMs <= atMs ? sweep(space, atMs) : NOTHING_EXPIRED;
      const result = work(space, atMs);
      return { ...result, version: space.version, expired };
    });
  }

  function find(space: Namespace, key: string): Entry | null {
    const known = space.entries.get(key);
    if (known !== undefined) return known;
    const row = sql.get.get(space.id, key) as Row | undefined;
    if (row === undefined) return null;
    const entry = entryOf(key, row);
    namespaces.remember(space, entry);
    return entry;
  }

  function remove(space: Namespace, entry: Entry): void {
    sql.delete.run(space.id, entry.key);
    space.entries.delete(entry.key);
    space.keys--;
    space.bytes -= entryBytes(entry.key, entry.text);
    space.version++;
    namespaces.changed(space);
  }

  function sweep(space: Namespace, atMs: number): Removed[] {
    const removed = (sql.due.all(space.id, atMs) as KeyedRow[]).map((row) => {
      const entry = entryOf(row.key, row);
      remove(space, entry);
      return { entry, version: space.version };
    });
    space.nextExpiryMs =
      (sql.nextExpiry.get(space.id) as { at: number | null }).at ?? Number.POSITIVE_INFINITY;
    return removed;
  }

  return {
    get(name, key) {
      const space = database.isAtRest ? namespaces.known(name) : undefined;
      const entry = space?.entries.get(key);
      // What is known is what is stored, unless something waits to change it or its time is over.
      if (entry === undefined || space!.nextExpiryMs <= now()) {
        return settle(name, (space) => ({ entry: find(space, key) }));
      }
      return Promise.resolve({ entry, version: space!.version, expired: NOTHING_EXPIRED });
    },

    put: (name, key, text, { expect, ttlMs, bounds }) =>
      settle(name, (space, atMs) => {
        const old = find(space, key);
        if (!holds(expect, old)) return { state: "conflict", current: old?.version ?? null };
        const keys = space.keys + (old === null ? 1 : 0);
        const bytes = space.bytes + entryBytes(key, text) - (old === null ? 0 : entryBytes(key, old.text));
        if (keys > bounds.keys && keys > space.keys) return { state: "full", axis: "keys" };
        if (bytes > bounds.bytes && bytes > space.bytes) return { state: "full", axis: "bytes" };
        const expiresAtMs =
          ttlMs === "keep" ? (old?.expiresAtMs ?? null) : ttlMs === null ? null : atMs + ttlMs;
        sql.put.run(space.id, key, text, space.version + 1, expiresAtMs);
        space.version++;
        space.keys = keys;
        space.bytes = bytes;
        if (expiresAtMs !== null) space.nextExpiryMs = Math.min(space.nextExpiryMs, expiresAtMs);
        namespaces.changed(space);
        const entry: Entry = { key, text, version: space.version, expiresAtMs };
        namespaces.remember(space, entry);
        return { state: "stored", old, entry };
      }),

    delete: (name, key, expect) =>
      settle(name, (space) => {
        const old = find(space, key);
        if (!holds(expect, old)) return { state: "conflict", current: old?.version ?? null };
        if (old === null) return { state: "absent" };
        remove(space, old);
        return { state: "deleted", old };
      }),

    list: (name, { prefix, after, limit, maxBytes }) =>
      settle(name, (space) => {
        const entries: Entry[] = [];
        let bytes = 0;
        // Keys with one prefix stand together in byte order, so no pattern is needed and none can be injected.
        const rows = after === null ? sql.from.iterate(space.id, prefix) : sql.after.iterate(space.id, after);
        for (const row of rows as Iterable<KeyedRow>) {
          if (!row.key.startsWith(prefix)) break;
          bytes += Buffer.byteLength(row.value);
          if (entries.length === limit || (entries.length > 0 && bytes > maxBytes))
            return { entries, more: true };
          entries.push(entryOf(row.key, row));
        }
        return { entries, more: false };
      }),

    clear: (name) =>
      settle(name, (space) => {
        const { keys: removedKeys, bytes: removedBytes } = space;
        sql.clear.run(space.id);
        space.entries.clear();
        space.keys = 0;
        space.bytes = 0;
        space.version++;
        space.nextExpiryMs = Number.POSITIVE_INFINITY;
        namespaces.changed(space);
        return { removedKeys, removedBytes };
      }),

    stat: (name) => settle(name, (space) => ({ keys: space.keys, bytes: space.bytes })),

    dump: (name) =>
      settle(name, (space) => ({
        entries: (sql.from.all(space.id, "") as KeyedRow[]).map(
          ({ key, value: text, expires_at_ms: expiresAtMs }) => ({ key, text, expiresAtMs }),
        ),
        mark: database.changes,
      })),

    isSame(name, mark) {
      const space = database.isAtRest ? namespaces.known(name) : undefined;
      return space !== undefined && space.nextExpiryMs > now() && database.changes === mark;
    },

    // The database is shared with the messages; who opened it closes it.
    close: async () => {},
  };
}

type Row = { value: string; version: number; expires_at_ms: number | null };
type KeyedRow = Row & { key: string };

const NOTHING_EXPIRED: Removed[] = [];

function entryOf(key: string, row: Row): Entry {
  return { key, text: row.value, version: row.version, expiresAtMs: row.expires_at_ms };
}

function prepare({ connection }: SqliteDatabase) {
  const columns = "key, value, version, expires_at_ms";
  return {
    get: connection.prepare(
      "select value, version, expires_at_ms from entry where namespace_id = ? and key = ?",
    ),
    put: connection.prepare(
      `insert into entry (namespace_id, key, value, version, expires_at_ms) values (?, ?, ?, ?, ?)
       on conflict do update set value = excluded.value, version = excluded.version,
         expires_at_ms = excluded.expires_at_ms`,
    ),
    delete: connection.prepare("delete from entry where namespace_id = ? and key = ?"),
    from: connection.prepare(`select ${columns} from entry where namespace_id = ? and key >= ? order by key`),
    after: connection.prepare(`select ${columns} from entry where namespace_id = ? and key > ? order by key`),
    clear: connection.prepare("delete from entry where namespace_id = ?"),
    due: connection.prepare(
      `select ${columns} from entry where namespace_id = ? and expires_at_ms <= ? order by expires_at_ms, key`,
    ),
    nextExpiry: connection.prepare(
      "select min(expires_at_ms) as at from entry where namespace_id = ? and expires_at_ms is not null",
    ),
  };
}

type Namespace = {
  id: number;
  name: string;
  version: number;
  keys: number;
  bytes: number;
  nextExpiryMs: number;
  /** Some of those in the table, as they are there. */
  entries: Map<string, Entry>;
};

/**
 * The counters of namespaces in use, and their entries. The counters change with every write, and go to their table once a
 * transaction.
 */
class Namespaces {
  readonly #known = new Map<string, Namespace>();
  /** Of all that was remembered since all was forgotten last. */
  #rememberedBytes = 0;
  readonly #changed = new Set<Namespace>();
  readonly #sql;

  constructor(database: SqliteDatabase) {
    const { connection } = database;
    this.#sql = {
      find: connection.prepare(
        `select id, name, version, keys, bytes,
           (select min(expires_at_ms) from entry
            where namespace_id = namespace.id and expires_at_ms is not null) as next_expiry_ms
         from namespace where name = ?`,
      ),
      add: connection.prepare(
        "insert into namespace (name, version, keys, bytes) values (?, 0, 0, 0) returning id",
      ),
      update: connection.prepare("update namespace set version = ?, keys = ?, bytes = ? where id = ?"),
    };
    database.join({
      beforeCommit: () => {
        for (const space of this.#changed) {
          this.#sql.update.run(space.version, space.keys, space.bytes, space.id);
        }
        this.#changed.clear();
        // Between transactions nothing here is ahead of the table, so it may be forgotten.
        if (this.#known.size > KNOWN_NAMESPACES || this.#rememberedBytes > REMEMBERED_BYTES) this.#forget();
      },
      afterRollback: () => {
        this.#changed.clear();
        this.#forget();
      },
    });
  }

  #forget(): void {
    this.#known.clear();
    this.#rememberedBytes = 0;
  }

  known(name: string): Namespace | undefined {
    return this.#known.get(name);
  }

  remember(space: Namespace, entry: Entry): void {
    space.entries.set(entry.key, entry);
    this.#rememberedBytes += ENTRY_BYTES + entry.key.length + entry.text.length;
  }

  find(name: string): Namespace {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const row = this.#sql.find.get(name) as
      | (Omit<Namespace, "nextExpiryMs" | "entries"> & { next_expiry_ms: number | null })
      | undefined;
    const space: Namespace =
      row === undefined
        ? {
            id: (this.#sql.add.get(name) as { id: number }).id,
            name,
            version: 0,
            keys: 0,
            bytes: 0,
            nextExpiryMs: Number.POSITIVE_INFINITY,
            entries: new Map(),
          }
        : {
            id: row.id,
            name,
            version: row.version,
            keys: row.keys,
            bytes: row.bytes,
            nextExpiryMs: row.next_expiry_ms ?? Number.POSITIVE_INFINITY,
            entries: new Map(),
          };
    this.#known.set(name, space);
    return space;
  }

  changed(space: Namespace): void {
    this.#changed.add(space);
  }
}

const KNOWN_NAMESPACES = 10_000;
const REMEMBERED_BYTES = 64 * 1024 * 1024;
/** About what an entry takes beside its texts. */
const ENTRY_BYTES = 200;
