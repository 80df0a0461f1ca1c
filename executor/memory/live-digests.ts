import type { Digest } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { type EntryHash, entryHash, StateDigest } from "#trace/events/state-digest.ts";
import { nodeEngine } from "#trace/node/engine.ts";

/**
 * The digests of the namespaces whose digest was asked for, brought along with every write that this service made. A
 * version that does not follow on the last one was made by somebody else; then the namespace must be read anew.
 */
export class LiveDigests {
  /** In the order in which they were last asked for. */
  readonly #live = new Map<string, Live>();
  readonly #followers = new Map<string, number>();
  readonly #maxKeys: number;
  #keys = 0;

  /** @param maxKeys whose hashes are kept, over all namespaces; the namespace asked for last may have more by itself */
  constructor(maxKeys = LIVE_KEYS) {
    this.#maxKeys = maxKeys;
  }

  /** What it returns ends it, and the last end forgets the digest. */
  follow(namespace: string): () => void {
    this.#followers.set(namespace, (this.#followers.get(namespace) ?? 0) + 1);
    let state: "following" | "ended" = "following";
    return () => {
      if (state === "ended") return;
      state = "ended";
      const others = this.#followers.get(namespace)! - 1;
      if (others > 0) {
        this.#followers.set(namespace, others);
      } else {
        this.#followers.delete(namespace);
        this.#forget(namespace);
      }
    };
  }

  /** The digest at the version; null where it is not known here. */
  at(namespace: string, version: number): Digest | null {
    const live = this.#live.get(namespace);
    if (live?.state !== "following" || live.version !== version) return null;
    this.#live.delete(namespace);
    this.#live.set(namespace, live);
    return this.#digestOf(live);
  }

  /** What the writes of this service alone would have led to; null where it was never asked for. */
  expected(namespace: string): Digest | null {
    const live = this.#live.get(namespace);
    return live === undefined ? null : this.#digestOf(live);
  }

  rebuild(namespace: string, entries: { key: string; text: string }[], version: number): Digest {
    const live = nothingAt(version);
    for (const { key, text } of entries) live.changed.set(key, text);
    this.#forget(namespace);
    this.#live.set(namespace, live);
    const digest = this.#digestOf(live);
    this.#keepBounds();
    return digest;
  }

  stored(namespace: string, key: string, text: string, version: number): void {
    this.#written(namespace, version)?.changed.set(key, text);
  }

  removed(namespace: string, key: string, version: number): void {
    this.#written(namespace, version)?.changed.set(key, null);
  }

  cleared(namespace: string, version: number): void {
    const live = this.#written(namespace, version);
    if (live === undefined) return;
    this.#keys -= live.hashes.size;
    this.#live.set(namespace, { ...nothingAt(version), state: live.state });
  }

  #written(namespace: string, version: number): Live | undefined {
    const live = this.#live.get(namespace);
    if (live === undefined) return undefined;
    if (version !== live.version + 1) live.state = "overtaken";
    live.version = version;
    if (live.changed.size >= CHANGES_UNHASHED) {
      this.#settle(live);
      this.#keepBounds();
    }
    return live;
  }

  #digestOf(live: Live): Digest {
    this.#settle(live);
    return live.tree.digest();
  }

  #settle(live: Live): void {
    const before = live.hashes.size;
    settle(live);
    this.#keys += live.hashes.size - before;
  }

  /** The ones asked for longest ago are forgotten, and read anew when asked for again. */
  #keepBounds(): void {
    for (const namespace of this.#live.keys()) {
      const isWithin = this.#live.size <= LIVE_NAMESPACES && this.#keys <= this.#maxKeys;
      if (isWithin || this.#live.size === 1) return;
      this.#forget(namespace);
    }
  }

  #forget(namespace: string): void {
    this.#keys -= this.#live.get(namespace)?.hashes.size ?? 0;
    this.#live.delete(namespace);
  }
}

type Live = {
  state: "following" | "overtaken";
  version: number;
  /** What was written since the last digest, null for removed: a key that is written again and again is hashed once. */
  changed: Map<string, string | null>;
  hashes: Map<string, EntryHash>;
  tree: StateDigest;
};

const LIVE_NAMESPACES = 4096;
/** About 400 bytes of memory each. */
const LIVE_KEYS = 16 * LIMITS.memoryKeys;
const CHANGES_UNHASHED = 256;

function nothingAt(version: number): Live {
  const tree = new StateDigest(nodeEngine.sha256);
  return { state: "following", version, changed: new Map(), hashes: new Map(), tree };
}

function settle({ changed, hashes, tree }: Live): void {
  for (const [key, text] of changed) {
    const old = hashes.get(key);
    if (old !== undefined) tree.remove(old);
    if (text === null) {
      hashes.delete(key);
    } else {
      const entry = entryHash(key, text, nodeEngine.sha256);
      hashes.set(key, entry);
      tree.add(entry);
    }
  }
  changed.clear();
}
