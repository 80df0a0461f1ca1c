/** API keys: `dsk_<ulid of the key id>_<256 random bits>`, kept as SHA-256 only. */
import { DsecError } from "#core/errors.ts";
import { type KeyId, newId } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { API_KEY } from "#core/wire/keys.ts";
import type { CryptoEngine, KeyRecord, Store } from "./ports.ts";

/** A key that was found, is in force, and whose secret was right. */
export type KeyCaller = { kind: "key"; key: KeyRecord };

/**
 * A new key: give `id` and `secretHash` to the store and show `secret` once. A plain hash is enough (no salt, no
 * stretching) because the secret is 256 random bits, which nobody can guess from its hash.
 */
export async function mintKey(): Promise<{ id: KeyId; secret: string; secretHash: Uint8Array }> {
  const id = newId("key");
  const random = crypto.getRandomValues(new Uint8Array(32));
  const secret = `dsk_${id.slice("key_".length)}_${base64url(random)}`;
  return { id, secret, secretHash: await hashSecret(secret) };
}

/** SHA-256 over the whole secret as the client sends it. */
export async function hashSecret(secret: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret)));
}

/** How long a key that was read is trusted without reading it again: a revocation is seen within this time. */
const CACHE_MS = 1_000;
const CACHE_MAX = 10_000;

/**
 * Checks API keys against the store, with a cache that also remembers ids that do not exist, so that a flood of
 * wrong keys costs one statement a second for each id. Values are cached, never promises: on Cloudflare a
 * promise belongs to the request that made it.
 */
export class KeyCheck {
  readonly #store: Pick<Store, "findKey">;
  readonly #now: () => number;
  readonly #sha256: CryptoEngine["sha256"];
  readonly #cache = new Map<KeyId, { record: KeyRecord | null; readAtMs: number }>();

  constructor(options: {
    store: Pick<Store, "findKey">;
    now: () => number;
    sha256: CryptoEngine["sha256"];
  }) {
    this.#store = options.store;
    this.#now = options.now;
    this.#sha256 = options.sha256;
  }

  /** UNAUTHENTICATED, or KEY_REVOKED for a secret that was right once. No message repeats what was sent. */
  async check(secret: string): Promise<KeyCaller> {
    const match = API_KEY.exec(secret);
    if (match === null) {
      throw new DsecError(
        "UNAUTHENTICATED",
        "the API key is malformed: dsk_, 26 characters, _ and 43 characters were expected; was it cut when copied?",
      );
    }
    const id = `key_${match[1]}` as KeyId;
    const [record, digest] = await Promise.all([this.#find(id), this.#sha256(secret)]);
    // An unknown id and a wrong secret read the same, so that ids cannot be probed.
    if (record === null || !equalInConstantTime(digestOf(record.secret_hash), digest)) {
      throw new DsecError(
        "UNAUTHENTICATED",
        "no such API key; check it, or ask an administrator for a new one (POST /v1/keys)",
      );
    }
    if (record.revoked_at !== null) {
      throw new DsecError("KEY_REVOKED", `${id} was revoked at ${record.revoked_at}; use another key`);
    }
    if (record.expires_at !== null && Date.parse(record.expires_at) <= this.#now()) {
      throw new DsecError("UNAUTHENTICATED", `${id} expired at ${record.expires_at}; use another key`);
    }
    return { kind: "key", key: record };
  }

  /** Reads the key again at its next use, as after a revocation in this process. */
  forget(id: KeyId): void {
    this.#cache.delete(id);
  }

  async #find(id: KeyId): Promise<KeyRecord | null> {
    // Counted from before the read: what the store answered may be older than its answer.
    const readAtMs = this.#now();
    const cached = this.#cache.get(id);
    if (cached !== undefined && Math.abs(readAtMs - cached.readAtMs) < CACHE_MS) return cached.record;
    const record = await this.#store.findKey(id);
    this.#cache.delete(id);
    if (this.#cache.size >= CACHE_MAX) this.#cache.delete(this.#cache.keys().next().value!);
    this.#cache.set(id, { record, readAtMs });
    return record;
  }
}

function equalInConstantTime(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return difference === 0;
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}
