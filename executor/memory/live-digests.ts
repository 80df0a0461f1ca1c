import type { Digest } from "#core/ids.ts";
import { entryHash, StateDigest } from "./state-digest.ts";
import type { Entry } from "./store.ts";

/**
 * The digests of the namespaces whose digest was asked for, brought along with every write that this service made. A
 * version that does not follow on the last one was made by somebody else; then the namespace must be read anew.
 */
export class LiveDigests {
  readonly #live = new Map<string, Live>();

  /** The digest at the version; null where it is not known here. */
  at(namespace: string, version: number): Digest | null {
    const live = this.#live.get(namespace);
    return live?.state === "following" && live.version === version ? live.entries.digest() : null;
  }

  /** What the writes of this service alone would have led to; null where it was never asked for. */
  expected(namespace: string): Digest | null {
    return this.#live.get(namespace)?.entries.digest() ?? null;
  }

  rebuild(namespace: string, entries: { key: string; text: string }[], version: number): Digest {
    const live: Live = { state: "following", version, entries: new StateDigest() };
    for (const { key, text } of entries) live.entries.add(entryHash(key, text));
    this.#live.delete(namespace);
    this.#live.set(namespace, live);
    if (this.#live.size > LIVE_NAMESPACES) this.#live.delete(this.#live.keys().next().value!);
    return live.entries.digest();
  }

  stored(namespace: string, old: Entry | null, entry: Entry): void {
    const live = this.#follow(namespace, entry.version);
    if (live === undefined) return;
    if (old !== null) live.entries.remove(entryHash(old.key, old.text));
    live.entries.add(entryHash(entry.key, entry.text));
  }

  removed(namespace: string, entry: Entry, version: number): void {
    this.#follow(namespace, version)?.entries.remove(entryHash(entry.key, entry.text));
  }

  cleared(namespace: string, version: number): void {
    const live = this.#follow(namespace, version);
    if (live !== undefined) live.entries = new StateDigest();
  }

  #follow(namespace: string, version: number): Live | undefined {
    const live = this.#live.get(namespace);
    if (live === undefined) return undefined;
    if (version !== live.version + 1) live.state = "overtaken";
    live.version = version;
    return live;
  }
}

type Live = { state: "following" | "overtaken"; version: number; entries: StateDigest };

/** The ones asked for longest ago are forgotten and read anew when asked for again. */
const LIVE_NAMESPACES = 4096;
