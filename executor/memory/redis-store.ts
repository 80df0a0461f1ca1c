import { createClient } from "redis";
import { DsecError } from "#core/errors.ts";
import { inTime } from "#core/in-time.ts";
import { LIMITS } from "#core/limits.ts";
import { REDIS_SCRIPTS, type ScriptReply } from "./redis-scripts.ts";
import type { Entry, MemoryStore, Removed, Settled } from "./store.ts";

export type RedisMemoryOptions = {
  /** `redis://[user:password@]host[:port][/database]`, `rediss://` for TLS. */
  url: string;
  /** Milliseconds since the epoch, in place of the database's own clock. For tests. */
  now?: () => number;
  /** What a connection's failures are told to; the store goes on trying to connect. */
  onConnectionError?: (error: Error) => void;
  /** How long an answer is waited for, in milliseconds. */
  answerMs?: number;
};

/**
 * Memory in Redis 6.2 or later, for namespaces that several executors share. All keys of a namespace carry one hash
 * tag, so that a cluster keeps them in one slot.
 * @throws STORE_UNAVAILABLE when Redis does not answer: at once where there is no connection, here as later for each
 * operation, and after `answerMs` where one says nothing more; CONFIG_INVALID for a URL of another kind
 */
export async function connectRedisMemoryStore(options: RedisMemoryOptions): Promise<MemoryStore> {
  const { now, onConnectionError = () => {}, answerMs = LIMITS.memoryAnswerMs } = options;
  let connected = false;
  const client = clientOf(options.url, answerMs, (attempts, cause) =>
    connected ? Math.min(50 * 2 ** attempts, 5_000) : cause,
  );
  const answered = <T>(answer: Promise<T>) =>
    inTime(answer, answerMs, () => new Error(`no answer within ${answerMs} ms`));
  // Errors name the server, never the URL: that may hold a password.
  const where = `memory in Redis at ${new URL(options.url).host}`;
  client.on("error", (error: Error) => onConnectionError(error));
  try {
    await answered(client.connect());
    connected = true;
  } catch (cause) {
    client.destroy();
    throw new DsecError("STORE_UNAVAILABLE", `${where}: ${reasonOf(cause)}`, { cause });
  }

  type ScriptName = keyof typeof REDIS_SCRIPTS;

  async function call(name: ScriptName, namespace: string, ...values: string[]): Promise<ScriptReply> {
    const time = now === undefined ? "" : String(now());
    try {
      return await answered(client[name](keysOf(namespace), [time, ...values]) as Promise<ScriptReply>);
    } catch (cause) {
      throw new DsecError(
        "STORE_UNAVAILABLE",
        `${where}: ${reasonOf(cause)}; a write that was under way may have been made: read it again`,
        { cause },
      );
    }
  }

  return {
    async get(namespace, key) {
      const [version, expired, record] = await call("memoryGet", namespace, key);
      return settled(version, expired, { entry: record === null ? null : entryOf(key, record as string) });
    },

    async put(namespace, key, text, { expect, ttlMs, bounds }) {
      const [version, expired, state, first, second] = await call(
        "memoryPut",
        namespace,
        key,
        text,
        String(expect),
        ttlMs === null ? "" : String(ttlMs),
        String(bounds.keys),
        String(bounds.bytes),
      );
      if (state === "conflict")
        return settled(version, expired, { state, current: versionOf(first as string) });
      if (state === "full") return settled(version, expired, { state, axis: first as "keys" | "bytes" });
      const old = first === "" ? null : entryOf(key, first as string);
      const expiresAtMs = second === "" ? null : Number(second);
      const entry = { key, text, version: Number(version), expiresAtMs };
      return settled(version, expired, { state: "stored", old, entry });
    },

    async delete(namespace, key, expect) {
      const [version, expired, state, first] = await call("memoryDelete", namespace, key, String(expect));
      if (state === "conflict")
        return settled(version, expired, { state, current: versionOf(first as string) });
      if (state === "absent") return settled(version, expired, { state });
      return settled(version, expired, { state: "deleted", old: entryOf(key, first as string) });
    },

    async list(namespace, { prefix, after, limit, maxBytes }) {
      const [version, expired, end, found] = await call(
        "memoryList",
        namespace,
        prefix,
        after ?? "",
        String(limit),
        String(maxBytes),
      );
      const entries = pairs(found as string[]).map(([key, record]) => entryOf(key, record));
      return settled(version, expired, { entries, more: end === "more" });
    },

    async clear(namespace) {
      const [version, expired, keys, bytes] = await call("memoryClear", namespace);
      return settled(version, expired, { removedKeys: Number(keys), removedBytes: Number(bytes) });
    },

    async stat(namespace) {
      const [version, expired, keys, bytes] = await call("memoryStat", namespace);
      return settled(version, expired, { keys: Number(keys), bytes: Number(bytes) });
    },

    async dump(namespace) {
      const [version, expired, found] = await call("memoryDump", namespace);
      const entries = pairs(found as string[]).map(([key, record]) => {
        const { text, expiresAtMs } = entryOf(key, record);
        return { key, text, expiresAtMs };
      });
      return settled(version, expired, { entries, mark: 0 });
    },

    // Other executors write there too: only Redis could tell.
    isSame: () => false,

    async close() {
      // Who gave up an answer may have left it under way.
      if (client.isReady) await answered(client.close()).catch(() => {});
      client.destroy();
    },
  };
}

function keysOf(namespace: string): string[] {
  // Escaped, so that a name's own braces cannot end the hash tag.
  const tag = `dsec:memory:{${encodeURIComponent(namespace)}}`;
  return [`${tag}:records`, `${tag}:order`, `${tag}:expiry`, `${tag}:counters`];
}

function settled<Result extends object>(version: string, expired: string[], result: Result): Settled<Result> {
  const removed: Removed[] = [];
  for (let at = 0; at < expired.length; at += 3) {
    removed.push({ entry: entryOf(expired[at]!, expired[at + 1]!), version: Number(expired[at + 2]) });
  }
  return { ...result, version: Number(version), expired: removed };
}

function entryOf(key: string, record: string): Entry {
  const afterVersion = record.indexOf(":");
  const afterExpiry = record.indexOf(":", afterVersion + 1);
  const expiry = record.slice(afterVersion + 1, afterExpiry);
  return {
    key,
    text: record.slice(afterExpiry + 1),
    version: Number(record.slice(0, afterVersion)),
    expiresAtMs: expiry === "" ? null : Number(expiry),
  };
}

function versionOf(text: string): number | null {
  return text === "" ? null : Number(text);
}

function pairs(flat: string[]): [string, string][] {
  const result: [string, string][] = [];
  for (let at = 0; at < flat.length; at += 2) result.push([flat[at]!, flat[at + 1]!]);
  return result;
}

function reasonOf(cause: unknown): string {
  const { message, name } = cause as Error;
  return message || name;
}

function clientOf(
  url: string,
  answerMs: number,
  reconnectStrategy: (attempts: number, cause: Error) => number | Error,
) {
  try {
    return createClient({
      url,
      scripts: REDIS_SCRIPTS,
      // An agent waits for each answer: a refusal now is better than an answer after the outage.
      disableOfflineQueue: true,
      // A connection on which nothing moves is dead: while nobody asks anything it is asked whether it lives.
      pingInterval: answerMs,
      socket: { connectTimeout: 5_000, socketTimeout: 2 * answerMs, reconnectStrategy },
    });
  } catch {
    // Its own error holds the URL, and so the password.
    throw new DsecError(
      "CONFIG_INVALID",
      "the URL of the memory's Redis must be redis://[user:password@]host[:port][/number], or rediss:// for TLS",
    );
  }
}
