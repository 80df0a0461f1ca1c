import type { Digest } from "#core/ids.ts";
import { type EntryHash, entryHash, StateDigest } from "#trace/events/state-digest.ts";
import { nodeEngine } from "#trace/node/engine.ts";

/**
 * The digests of the namespaces whose digest was asked for, brought along with every write that this service made. A
 * version that does not follow on the last one was made by somebody else; then the namespace must be read anew.
 */
export class LiveDigests {
  readonly #live = new Map<string, Live>();

  /** The digest at the version; null where it is not known here. */
  at(namespace: string, version: number): Digest | null {
    const live = this.#live.get(namespace);
    return live?.state === "following" && live.version === version ? digestOf(live) : null;
  }

  /** What the writes of this service alone would have led to; null where it was never asked for. */
  expected(namespace: string): Digest | null {
    const live = this.#live.get(namespace);
    return live === undefined ? null : digestOf(live);
  }

  rebuild(namespace: string, entries: { key: string; text: string }[], version: number): Digest {
    const live = nothingAt(version);
    for (const { key, text } of entries) live.changed.set(key, text);
    this.#live.delete(namespace);
    this.#live.set(namespace, live);
    if (this.#live.size > LIVE_NAMESPACES) this.#live.delete(this.#live.keys().next().value!);
    return digestOf(live);
  }

  stored(namespace: string, key: string, text: string, version: number): void {
    this.#follow(namespace, version)?.changed.set(key, text);
  }

  removed(namespace: string, key: string, version: number): void {
    this.#follow(namespace, version)?.changed.set(key, null);
  }

  cleared(namespace: string, version: number): void {
    const live = this.#follow(namespace, version);
    if (live !== undefined) this.#live.set(namespace, { ...nothingAt(version), state: live.state });
  }

  #follow(namespace: string, version: number): Live | undefined {
    const live = this.#live.get(namespace);
    if (live === undefined) return undefined;
    if (version !== live.version + 1) live.state = "overtaken";
    live.version = version;
    if (live.changed.size >= CHANGES_UNHASHED) settle(live);
    return live;
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

/** The ones asked for longest ago are forgotten and read anew when asked for again. */
const LIVE_NAMESPACES = 4096;
const CHANGES_UNHASHED = 256;

function nothingAt(version: number): Live {
  const tree = new StateDigest(nodeEngine.sha256);
  return { state: "following", version, changed: new Map(), hashes: new Map(), tree };
}

function digestOf(live: Live): Digest {
  settle(live);
  return live.tree.digest();
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
