import { LIMITS } from "#core/limits.ts";
import type { Entry } from "./store.ts";

type Source = (after: string | null) => Promise<{ entries: Entry[]; more: boolean; version: number }>;

/**
 * Entries that hold the text, page after page of the source. Reads at most `memorySearchEntries`, so that no search
 * keeps the executor busy, and says after which key to go on; null when all was read.
 */
export async function searchEntries(text: string, limit: number, first: string | null, source: Source) {
  const entries: Entry[] = [];
  let after = first;
  for (let examined = 0; ; ) {
    const page = await source(after);
    for (const entry of page.entries) {
      if (entries.length === limit || examined === LIMITS.memorySearchEntries) {
        return { entries, after, version: page.version };
      }
      if (matches(entry, text)) entries.push(entry);
      after = entry.key;
      examined++;
    }
    if (!page.more) return { entries, after: null, version: page.version };
  }
}

/**
 * Whether an entry holds a text in its key, in any string or member name, or as a number or literal as it is written.
 * The same code judges for every store, and nothing in the text is an operator, so that `-`, `"`, `*` or `NEAR(` find
 * what they say.
 */
function matches(entry: Entry, text: string): boolean {
  if (entry.key.includes(text)) return true;
  // An escape hides what the string says; without one the text is as good as the value.
  if (!entry.text.includes("\\") && !SYNTAX.test(text)) return entry.text.includes(text);
  for (const [token] of entry.text.matchAll(TOKEN)) {
    const said = token.startsWith('"') ? (JSON.parse(token) as string) : token;
    if (said.includes(text)) return true;
  }
  return false;
}

/** Characters that stand in a JSON text without being part of what it says, or that are escaped there. */
const SYNTAX = /["\\[\]{},:\p{Cc}]/u;
/** A string, or a number or literal, of a JSON text without space between its tokens. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[^"[\]{},:]+/g;
