/**
 * The agents' memory: kept on the host, so that it survives the sandbox, and reported read by read and write by
 * write, so that a trace can say where a value came from. Every sandbox has its task's own namespace and those shared
 * ones that it was granted.
 */
import { DsecError } from "#core/errors.ts";
import type { Digest, TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { MemoryEvent, MemoryGrant } from "#core/wire/memory.ts";
import { entryHash, StateDigest } from "#trace/events/state-digest.ts";
import { nodeEngine } from "#trace/node/engine.ts";
import { EventLog, type Happened, objectText, shown, shownPage } from "./events.ts";
import { exactJson, type Strictness } from "./exact-json.ts";
import { checkKey, checkPrefix, checkSize, checkTtl, cursorOf, keyOfCursor, quote } from "./keys.ts";
import { LiveDigests } from "./live-digests.ts";
import { searchEntries } from "./search.ts";
import {
  type Bounds,
  type Dumped,
  type Entry,
  type Expectation,
  entryBytes,
  type Lifetime,
  type MemoryStore,
  type Removed,
  type Size,
} from "./store.ts";

export type MemoryOptions = {
  store: MemoryStore;
  /** Called in the order in which the store did it, before the caller has its answer; must not throw. */
  onEvent?: (event: MemoryEvent) => void;
  /** Milliseconds since the epoch, for the events' times and what is left of lifetimes. */
  now?: () => number;
  /** `exact` (the default) refuses numbers that a double cannot hold. */
  strictness?: Strictness;
  bounds?: Partial<Bounds>;
};

/** Whose memory it is. The tool channel knows it from the socket; nothing of it comes from the sandbox. */
export type MemoryIdentity = {
  taskId: TaskId;
  /** Names the sandbox in events. */
  sandboxId: string;
  /** The tenant: shared namespaces of one are out of sight for every other. */
  owner: string;
  grants: readonly MemoryGrant[];
};

/** One caller's view of one namespace; every method reports what it did. */
export type MemoryView = {
  readonly namespace: string;
  /** Null where there is no such key. */
  get(key: string): Promise<Entry | null>;
  /**
   * Stores a JSON text with its types as they are.
   * @throws MALFORMED_JSON, MEMORY_VALUE_REFUSED, BODY_TOO_LARGE for the value; MEMORY_VERSION_CONFLICT where
   * `expect` does not hold; MEMORY_FULL
   */
  put(
    key: string,
    json: Uint8Array | string,
    options?: PutOptions,
  ): Promise<{ old: Entry | null; entry: Entry }>;
  /** @throws MEMORY_NOT_FOUND, MEMORY_VERSION_CONFLICT */
  delete(key: string, options?: { expect?: Expectation }): Promise<Entry>;
  /** Entries in the byte order of their keys, beginning with the prefix taken literally. */
  list(query?: ListQuery): Promise<Page>;
  /** Entries that hold the text, taken literally, in their key, in a string or as a number. A page may be empty. */
  search(query: SearchQuery): Promise<Page>;
  /** Empties the namespace and says how many keys it had. */
  clear(): Promise<number>;
};

export type PutOptions = {
  expect?: Expectation /** Milliseconds from now; null (the default) is without end, `keep` changes nothing. */;
  ttlMs?: Lifetime;
};
export type ListQuery = { prefix?: string; cursor?: string | undefined; limit?: number };
export type SearchQuery = { text: string; cursor?: string | undefined; limit?: number };
export type Page = { entries: Entry[]; nextCursor: string | null };

/** The memory hash, for the events around a tool call. */
export type MemoryState = Size & { digest: Digest; version: number };
/** What a namespace is, and what the recorded writes would have made it. `mark` is the store's, of that moment. */
export type MemoryAudit = { expected: Digest; actual: Digest; version: number; bytes: number; mark: number };
/** `lifetimesJson` has the milliseconds that each key with an end has left; null where none has. */
export type MemorySnapshot = { digest: Digest; version: number; json: string; lifetimesJson: string | null };

export type Memory = {
  /**
   * @param name a shared namespace, or null for the task's own
   * @param origin where in the sandbox's program this happens, in the program's words
   * @throws FORBIDDEN without a grant (reading needs `read`, writing `write`)
   */
  view(identity: MemoryIdentity, name?: string | null, origin?: string | null): MemoryView;
  /**
   * Says that a namespace is in use, until what it returns is called: with its last user goes what is kept of its digest,
   * which is read anew where it is asked for again.
   */
  follow(namespace: string): () => void;
  /** The digest of a namespace as it is now; kept up to date with each write, so that asking costs microseconds. */
  state(namespace: string): Promise<MemoryState>;
  /**
   * Reads everything anew and compares with what the recorded writes explain. `expected` differs from `actual` where
   * somebody wrote past this service; in a shared namespace that may be another executor, which recorded it itself.
   */
  audit(namespace: string): Promise<MemoryAudit>;
  /** Whether another audit would find what this one did, known without reading anything; false where it is not. */
  isSame(namespace: string, audit: MemoryAudit): boolean;
  /** All entries at one moment as the text of one JSON object; null where they have more than `maxBytes`. */
  snapshot(namespace: string, maxBytes: number): Promise<MemorySnapshot | null>;
};

export function taskNamespace(taskId: TaskId): string {
  return `task:${taskId}`;
}

export function sharedNamespace(owner: string, name: string): string {
  // Both are escaped, so that no choice of names makes one pair look like another.
  return `shared:${encodeURIComponent(owner)}:${encodeURIComponent(name)}`;
}

export function createMemory(options: MemoryOptions): Memory {
  const { store, strictness = "exact" } = options;
  const bounds: Bounds = { keys: LIMITS.memoryKeys, bytes: LIMITS.memoryNamespaceBytes, ...options.bounds };
  const now = options.now ?? Date.now;
  const events = new EventLog(options.onEvent ?? (() => {}), now);
  const digests = new LiveDigests();

  /** Before what a call did comes what time did; that is nobody's call. */
  function settled(namespace: string, { expired }: { expired: Removed[] }): void {
    for (const { entry, version } of expired) {
      digests.removed(namespace, entry.key, version);
      const happened: Happened = { op: "expire", key: entry.key, old: shown(entry.text), new: null, version };
      events.report(namespace, { sandbox: HOST, origin: null }, happened);
    }
  }

  async function state(namespace: string): Promise<MemoryState> {
    const { keys, bytes, version, expired } = await store.stat(namespace);
    settled(namespace, { expired });
    const digest = digests.at(namespace, version);
    if (digest !== null) return { digest, version, keys, bytes };
    return (await readAnew(namespace)).state;
  }

  async function readAnew(
    namespace: string,
  ): Promise<{ expected: Digest | null; state: MemoryState; mark: number }> {
    const dump = await store.dump(namespace);
    settled(namespace, dump);
    const { entries, version, mark } = dump;
    const expected = digests.expected(namespace);
    const digest = digests.rebuild(namespace, entries, version);
    const bytes = entries.reduce((sum, { key, text }) => sum + entryBytes(key, text), 0);
    return { expected, state: { digest, version, keys: entries.length, bytes }, mark };
  }

  return {
    view(identity, name = null, origin = null) {
      const grant = identity.grants.find((candidate) => candidate.name === name);
      if (name !== null && grant === undefined) throw notGranted(identity, name);
      const access: MemoryGrant["access"] = grant?.access ?? "write";
      const namespace =
        name === null ? taskNamespace(identity.taskId) : sharedNamespace(identity.owner, name);
      const source = { sandbox: identity.sandboxId, origin };
      const report = (happened: Happened) => events.report(namespace, source, happened);

      function mayWrite(): void {
        if (access !== "write") throw readOnly(identity, name!);
      }

      return {
        namespace,

        async get(key) {
          checkKey(key);
          const result = await store.get(namespace, key);
          settled(namespace, result);
          const { entry } = result;
          const read = entry === null ? null : shown(entry.text);
          report({ op: "get", key, old: read, new: read, version: entry?.version ?? 0 });
          return entry;
        },

        async put(key, json, { expect = "anything", ttlMs = null } = {}) {
          mayWrite();
          checkKey(key);
          checkTtl(ttlMs);
          checkSize(key, typeof json === "string" ? Buffer.byteLength(json) : json.length);
          const { text } = exactJson(json, `the memory value of ${quote(key)}`, strictness);
          const result = await store.put(namespace, key, text, { expect, ttlMs, bounds });
          settled(namespace, result);
          if (result.state === "conflict") throw conflict(key, expect, result.current);
          if (result.state === "full") throw full(namespace, key, bounds, result.axis);
          const { old, entry } = result;
          digests.stored(namespace, key, text, entry.version);
          const before = old === null ? null : shown(old.text);
          report({ op: "put", key, old: before, new: shown(text), version: entry.version });
          return { old, entry };
        },

        async delete(key, { expect = "anything" } = {}) {
          mayWrite();
          checkKey(key);
          const result = await store.delete(namespace, key, expect);
          settled(namespace, result);
          if (result.state === "conflict") throw conflict(key, expect, result.current);
          if (result.state === "absent") throw notFound(key);
          const { old, version } = result;
          digests.removed(namespace, key, version);
          report({ op: "delete", key, old: shown(old.text), new: null, version });
          return old;
        },

        async list({ prefix = "", cursor, limit = LIMITS.pageDefault } = {}) {
          checkPrefix(prefix);
          const after = cursor === undefined ? null : keyOfCursor(cursor, prefix);
          const result = await store.list(namespace, {
            prefix,
            after,
            limit,
            maxBytes: LIMITS.memoryPageBytes,
          });
          settled(namespace, result);
          const { entries, more, version } = result;
          const read = shownPage(entries);
          report({ op: "list", key: prefix, old: read, new: read, version });
          return { entries, nextCursor: more ? cursorOf(entries.at(-1)!.key) : null };
        },

        async search({ text, cursor, limit = LIMITS.pageDefault }) {
          const first = cursor === undefined ? null : keyOfCursor(cursor, "");
          const result = await searchEntries(text, limit, first, async (after) => {
            const page = await store.list(namespace, { ...SEARCH_PAGE, after });
            settled(namespace, page);
            return page;
          });
          const read = shownPage(result.entries);
          report({ op: "search", key: text, old: read, new: read, version: result.version });
          return {
            entries: result.entries,
            nextCursor: result.after === null ? null : cursorOf(result.after),
          };
        },

        async clear() {
          mayWrite();
          // Makes the digest known, so that the event can say what was removed.
          await state(namespace);
          const result = await store.clear(namespace);
          settled(namespace, result);
          const { removedKeys, removedBytes, version } = result;
          // Unknown only where another executor wrote in between, which then has recorded it.
          const digest = digests.at(namespace, version - 1);
          digests.cleared(namespace, version);
          const old = digest === null ? null : { digest, bytes: removedBytes };
          report({ op: "clear", key: "", old, new: null, version });
          return removedKeys;
        },
      };
    },

    follow: (namespace) => digests.follow(namespace),

    state,

    async audit(namespace) {
      const { expected, state, mark } = await readAnew(namespace);
      const { digest: actual, version, bytes } = state;
      return { expected: expected ?? actual, actual, version, bytes, mark };
    },

    isSame: (namespace, { mark }) => store.isSame(namespace, mark),

    async snapshot(namespace, maxBytes) {
      if ((await state(namespace)).bytes > maxBytes) return null;
      const dump = await store.dump(namespace);
      settled(namespace, dump);
      // Of its own: the digest that the recorded writes lead to is for `audit` to compare.
      const digest = new StateDigest(nodeEngine.sha256);
      for (const { key, text } of dump.entries) digest.add(entryHash(key, text, nodeEngine.sha256));
      return {
        ...{ digest: digest.digest(), version: dump.version, json: objectText(dump.entries) },
        lifetimesJson: lifetimesText(dump.entries, now()),
      };
    },
  };
}

function lifetimesText(entries: Dumped[], nowMs: number): string | null {
  const lifetimes = entries.flatMap(({ key, expiresAtMs }) =>
    // At least one: by the store's own clock its time was not over.
    expiresAtMs === null ? [] : [{ key, text: String(Math.max(1, expiresAtMs - nowMs)) }],
  );
  return lifetimes.length === 0 ? null : objectText(lifetimes);
}

/** The source of what happens by itself. */
const HOST = "host";

const SEARCH_PAGE = { prefix: "", limit: LIMITS.pageMax, maxBytes: LIMITS.memoryPageBytes };

function notGranted(identity: MemoryIdentity, name: string): DsecError {
  return new DsecError(
    "FORBIDDEN",
    `task ${identity.taskId} was not granted the shared memory ${quote(name)}; name it in the task`,
  );
}

function readOnly(identity: MemoryIdentity, name: string): DsecError {
  return new DsecError(
    "FORBIDDEN",
    `task ${identity.taskId} may only read the shared memory ${quote(name)}; grant it access "write" in the task`,
  );
}

function notFound(key: string): DsecError {
  return new DsecError("MEMORY_NOT_FOUND", `memory key ${quote(key)} is not there`);
}

function conflict(key: string, expect: Expectation, current: number | null): DsecError {
  const there = current === null ? "it is not there" : `it has version ${current}`;
  const wanted = typeof expect === "number" ? `version ${expect}` : expect;
  return new DsecError(
    "MEMORY_VERSION_CONFLICT",
    `memory key ${quote(key)}: expected ${wanted}, but ${there}; read it again and repeat the change`,
    { details: { version: current } },
  );
}

function full(namespace: string, key: string, bounds: Bounds, axis: keyof Bounds): DsecError {
  return new DsecError(
    "MEMORY_FULL",
    `memory ${namespace}: no room for ${quote(key)}, at most ${bounds[axis]} ${axis}; delete what is not needed`,
    { details: { axis, max: bounds[axis] } },
  );
}
