/** What stands where something was taken out. It says neither what nor how long it was. */
export const MARK = "[redacted]";

/** The mark, or the numbered one that keeps two names of one object apart. */
const MARKS = /\[redacted(?: \d+)?\]/g;

export type Span = { start: number; end: number };

/** The text between marks: what is a mark is never looked into, so that redacting again changes nothing. */
export function* unmarked(text: string): Generator<Span> {
  let start = 0;
  if (!text.includes("[redacted")) {
    if (text !== "") yield { start, end: text.length };
    return;
  }
  for (const { index, 0: mark } of text.matchAll(MARKS)) {
    if (index > start) yield { start, end: index };
    start = index + mark.length;
  }
  if (start < text.length) yield { start, end: text.length };
}

export function isMark(text: string): boolean {
  return /^\[redacted(?: \d+)?\]$/.test(text);
}

/** A name that no other member of its object has. */
export function markedName(text: string, taken: ReadonlySet<string>): string {
  if (!taken.has(text)) return text;
  for (let number = 2; ; number++) {
    const name = `[redacted ${number}]`;
    if (!taken.has(name)) return name;
  }
}
