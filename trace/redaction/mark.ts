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

/** Gives the members of one object names that no other has. */
export class MemberNames {
  readonly #taken: Set<string>;
  /** All marks up to this one's number are taken. */
  #number = 1;

  constructor(taken: Iterable<string>) {
    this.#taken = new Set(taken);
  }

  unique(name: string): string {
    let unique = name;
    while (this.#taken.has(unique)) unique = `[redacted ${++this.#number}]`;
    this.#taken.add(unique);
    return unique;
  }
}
