import { DatabaseSync, type StatementSync } from "node:sqlite";
import { DsecError } from "#core/errors.ts";

/**
 * The executor's own database: the memory of its sandboxes. One process has it open at a time and takes
 * the file's lock for as long as it runs; what must be seen by several executors belongs in Redis.
 *
 * Operations that come in one turn of the event loop share one transaction, in their order: a commit costs as much
 * as ten writes. Their answers wait for the commit. With the write-ahead log and `synchronous=normal` a committed write
 * survives the end of the process, and a power cut may take the last ones but never leaves half of one
 * (sqlite.org/pragma.html#pragma_synchronous).
 */
export class SqliteDatabase {
  readonly connection: DatabaseSync;
  readonly #path: string;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  readonly #changes: StatementSync;
  readonly #participants: Participant[] = [];
  #waiting: Operation[] = [];
  #state: "idle" | "scheduled" | "closed" = "idle";

  /** @param path a file that is made when absent; CONFIG_INVALID where another process has it open */
  constructor(path: string) {
    this.#path = path;
    try {
      this.connection = new DatabaseSync(path, { timeout: 1_000 });
      this.connection.exec(PRAGMAS);
      this.#migrate();
      this.#begin = this.connection.prepare("begin");
      this.#commit = this.connection.prepare("commit");
      this.#changes = this.connection.prepare("select total_changes() as rows");
    } catch (cause) {
      throw new DsecError("CONFIG_INVALID", `memory database ${path}: ${explain(cause)}`, { cause });
    }
  }

  /** Caches over the tables join here: written out before each commit, dropped after a rollback. */
  join(participant: Participant): void {
    this.#participants.push(participant);
  }

  /**
   * Runs a synchronous operation in the next transaction. It must depend on nothing but the database and the
   * participants' caches: when the transaction fails, each operation is run again alone. A `DsecError` that it throws
   * before it wrote refuses this operation and leaves the others be.
   * @throws STORE_UNAVAILABLE when the database refuses (disk full, file damaged) or is closed
   */
  run<Value>(work: () => Value): Promise<Value> {
    if (this.#state === "closed") return Promise.reject(this.#closed());
    return new Promise<Value>((resolve, reject) => {
      this.#waiting.push({ work, resolve: resolve as (result: unknown) => void, reject });
      this.#schedule();
    });
  }

  /** Whether nothing waits for a transaction: what is in the tables then is what was answered last. */
  get isAtRest(): boolean {
    return this.#state !== "closed" && this.#waiting.length === 0;
  }

  /** Rows that were ever written here, by whomever: nobody else can write while this process has the file's lock. */
  get changes(): number {
    return this.#changes.get()!.rows as number;
  }

  /** Finishes what waits, then lets go of the file. */
  close(): void {
    if (this.#state === "closed") return;
    while (this.#waiting.length > 0) this.#flush();
    this.#state = "closed";
    this.connection.close();
  }

  #schedule(): void {
    if (this.#state !== "idle") return;
    this.#state = "scheduled";
    // After this turn's input has been read, so that requests which came together are committed together.
    setImmediate(() => {
      if (this.#state === "closed") return;
      this.#state = "idle";
      this.#flush();
      if (this.#waiting.length > 0) this.#schedule();
    });
  }

  #flush(): void {
    const batch = this.#waiting.splice(0, BATCH_OPERATIONS);
    const results = this.#transaction(batch);
    if (!(results instanceof Error)) {
      for (const [at, operation] of batch.entries()) settle(operation, results[at]!);
      return;
    }
    for (const operation of batch) {
      // One operation that fails must not take the others down with it.
      const alone = batch.length === 1 ? results : this.#transaction([operation]);
      if (alone instanceof Error) operation.reject(this.#failed(alone));
      else settle(operation, alone[0]!);
    }
  }

  #transaction(batch: Operation[]): Result[] | Error {
    try {
      this.#begin.run();
      const results = batch.map(attempt);
      for (const participant of this.#participants) participant.beforeCommit();
      this.#commit.run();
      return results;
    } catch (error) {
      if (this.connection.isTransaction) this.connection.exec("rollback");
      for (const participant of this.#participants) participant.afterRollback();
      return error as Error;
    }
  }

  #migrate(): void {
    // The lock is taken before the version is read: of several that start at once, one migrates.
    this.connection.exec("begin immediate");
    try {
      const { user_version: version } = this.connection.prepare("pragma user_version").get() as {
        user_version: number;
      };
      if (version > MIGRATIONS.length) {
        throw new Error(`it is of version ${version}, newer than this program knows; use the newer program`);
      }
      for (const migration of MIGRATIONS.slice(version)) this.connection.exec(migration);
      this.connection.exec(`pragma user_version = ${MIGRATIONS.length}; commit`);
    } catch (error) {
      this.connection.exec("rollback");
      throw error;
    }
  }

  #failed(cause: Error): DsecError {
    return new DsecError("STORE_UNAVAILABLE", `memory database ${this.#path}: ${explain(cause)}`, { cause });
  }

  #closed(): DsecError {
    return new DsecError("STORE_UNAVAILABLE", `memory database ${this.#path} is closed`);
  }
}

type Participant = { beforeCommit(): void; afterRollback(): void };
type Operation = { work: () => unknown; resolve(result: unknown): void; reject(error: unknown): void };
type Result = { value: unknown } | { refusal: DsecError };

function attempt(operation: Operation): Result {
  try {
    return { value: operation.work() };
  } catch (error) {
    if (error instanceof DsecError) return { refusal: error };
    throw error;
  }
}

function settle(operation: Operation, result: Result): void {
  if ("refusal" in result) operation.reject(result.refusal);
  else operation.resolve(result.value);
}

/** Bounds how long one transaction holds up the event loop: some milliseconds. */
const BATCH_OPERATIONS = 512;

const PRAGMAS = `
  -- values are small and scattered, and the log takes whole pages: half a page is half the writing
  pragma page_size = 2048;
  pragma locking_mode = exclusive;
  pragma journal_mode = wal;
  pragma synchronous = normal;
  -- 32 MiB between checkpoints: pages that are written again and again go to the file, and to fsync(2), once
  pragma wal_autocheckpoint = 16384;
  pragma foreign_keys = on;
`;

/** Applied in order, each once; a released one is never edited. */
const MIGRATIONS = [
  `create table namespace (
     id integer primary key,
     name text not null unique,
     version integer not null,
     keys integer not null,
     bytes integer not null
   ) strict;
   create table entry (
     namespace_id integer not null references namespace (id) on delete cascade,
     key text not null,
     value text not null,
     version integer not null,
     expires_at_ms integer,
     primary key (namespace_id, key)
   ) strict, without rowid;
   create index entry_expiry on entry (namespace_id, expires_at_ms) where expires_at_ms is not null;`,
];

function explain(cause: unknown): string {
  const message = (cause as Error).message;
  return /locked|busy/.test(message)
    ? "another process has it open; give each executor its own folder"
    : message;
}
