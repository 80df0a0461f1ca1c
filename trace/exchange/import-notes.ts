/** What an import could not take as what it is. A record may hold millions of such things: like ones are one note. */
import { LIMITS } from "#core/limits.ts";

export type ImportNote = {
  what: string;
  count: number;
  /** Where the first of them stands in the record. */
  first: string;
};

export class ImportNotes {
  readonly #notes = new Map<string, ImportNote>();

  add(what: string, first: string): void {
    const isFull = this.#notes.size >= LIMITS.importNotes && !this.#notes.has(what);
    const key = isFull ? "things of further kinds are kept as observations, as they stand" : what;
    const note = this.#notes.get(key);
    if (note === undefined) this.#notes.set(key, { what: key, count: 1, first });
    else note.count++;
  }

  list(): ImportNote[] {
    return [...this.#notes.values()];
  }
}
