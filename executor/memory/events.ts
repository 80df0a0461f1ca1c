import { LIMITS } from "#core/limits.ts";
import type { MemoryEvent, MemoryShown } from "#core/wire/memory.ts";
import { contentDigest } from "../content-digest.ts";
import type { Entry } from "./store.ts";

export type Happened = Pick<MemoryEvent, "op" | "key" | "old" | "new" | "version">;

/** Numbers and dates what happened, and hands it on. */
export class EventLog {
  readonly #onEvent: (event: MemoryEvent) => void;
  readonly #now: () => number;
  #seq = 0;
  #at = { ms: Number.NaN, text: "" };

  constructor(onEvent: (event: MemoryEvent) => void, now: () => number) {
    this.#onEvent = onEvent;
    this.#now = now;
  }

  report(namespace: string, source: MemoryEvent["source"], happened: Happened): void {
    const { op, key, old, new: now, version } = happened;
    this.#onEvent({ seq: ++this.#seq, namespace, source, at: this.#time(), op, key, old, new: now, version });
  }

  /** Many events share a millisecond; its text is made once. */
  #time(): string {
    const ms = this.#now();
    if (ms !== this.#at.ms) this.#at = { ms, text: new Date(ms).toISOString() };
    return this.#at.text;
  }
}

/** A value as events show it: the text itself where it is short. */
export function shown(text: string): MemoryShown {
  const bytes = Buffer.byteLength(text);
  return bytes <= LIMITS.memoryEventValueBytes ? { json: text } : { digest: contentDigest(text), bytes };
}

/** A page of entries as one JSON object, so that what was read can be told from what was there. */
export function shownPage(entries: Entry[]): MemoryShown {
  return shown(objectText(entries));
}

export function objectText(entries: { key: string; text: string }[]): string {
  return `{${entries.map(({ key, text }) => `${JSON.stringify(key)}:${text}`).join(",")}}`;
}
