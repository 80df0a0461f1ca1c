/**
 * Where memory is kept. A store knows namespaces, keys and texts; who may do what, what a value may be, and what is
 * reported are the service's (memory.ts). Every method is atomic. Before each, entries of the namespace whose time is
 * over are removed and reported in `expired`, so that nobody reads or counts them.
 */
export type MemoryStore = {
  get(namespace: string, key: string): Promise<Settled<{ entry: Entry | null }>>;
  /** Writes if the expectation holds. A lifetime counts from now; null is without end, `keep` is what was left. */
  put(namespace: string, key: string, text: string, options: PutOptions): Promise<Settled<PutResult>>;
  delete(namespace: string, key: string, expect: Expectation): Promise<Settled<DeleteResult>>;
  /** Entries in the byte order of their keys, beginning with the prefix, after the key `after`. */
  list(namespace: string, query: ListQuery): Promise<Settled<{ entries: Entry[]; more: boolean }>>;
  /** Removes every entry of this namespace and of no other, and counts on from its version. */
  clear(namespace: string): Promise<Settled<{ removedKeys: number; removedBytes: number }>>;
  stat(namespace: string): Promise<Settled<Size>>;
  /** All entries at one moment, which `mark` stands for. */
  dump(namespace: string): Promise<Settled<{ entries: Dumped[]; mark: number }>>;
  /** Whether a dump would be the same as the one of this mark, whoever wrote; false where only reading it could tell. */
  isSame(namespace: string, mark: number): boolean;
  close(): Promise<void>;
};

/** A result, what expired before it, and the namespace's version after it. */
export type Settled<Result> = Result & { version: number; expired: Removed[] };

export type Entry = {
  key: string;
  /** The value's exact JSON text. */
  text: string;
  /** The namespace's version when this was written: it grows with every write, so no entry has one twice. */
  version: number;
  expiresAtMs: number | null;
};

/** An entry among all of its namespace. */
export type Dumped = Omit<Entry, "version">;

/** An entry that is gone, and the namespace's version since. */
export type Removed = { entry: Entry; version: number };

/** What must hold of the entry for the write to happen; a number is its version. */
export type Expectation = "anything" | "absent" | "present" | number;

export type Bounds = { keys: number; bytes: number };
export type Size = { keys: number; bytes: number };

export type Lifetime = number | null | "keep";

export type PutOptions = { expect: Expectation; ttlMs: Lifetime; bounds: Bounds };

export type PutResult =
  | { state: "stored"; old: Entry | null; entry: Entry }
  | { state: "conflict"; current: number | null }
  | { state: "full"; axis: "keys" | "bytes" };

export type DeleteResult =
  | { state: "deleted"; old: Entry }
  | { state: "absent" }
  | { state: "conflict"; current: number | null };

export type ListQuery = { prefix: string; after: string | null; limit: number; maxBytes: number };

/** Bytes that an entry counts for. */
export function entryBytes(key: string, text: string): number {
  return Buffer.byteLength(key) + Buffer.byteLength(text);
}

export function holds(expect: Expectation, current: Entry | null): boolean {
  if (expect === "anything") return true;
  if (expect === "absent") return current === null;
  if (expect === "present") return current !== null;
  return current?.version === expect;
}
