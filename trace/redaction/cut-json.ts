/** Objects and lists within text that is no JSON as a whole: behind a name in a log, in lines of JSON, cut off at their end. */
import type { Span } from "./mark.ts";

/** A bracket, a separator, a string in either quotes, which may be missing at its end, or a number or a word. */
const TOKEN =
  /\s*(?:([{[])|([}\]])|([,:])|"((?:[^"\\\r\n]|\\.)*)"?|'((?:[^'\\\r\n]|\\.)*)'?|([^\s,:{}[\]"']+))/y;

/**
 * The values in an object or a list, without its members' names and null.
 * @param from where its bracket stands
 * @return `end`: after the bracket that closes it, or where it is none any more
 */
export function valuesFrom(text: string, from: number): { values: Span[]; end: number } {
  const values: Span[] = [];
  /** A string or a word, which may turn out to be a name. */
  let held: Span | null = null;
  let depth = 0;
  TOKEN.lastIndex = from;
  let end = from;
  for (let match = TOKEN.exec(text); match !== null; match = TOKEN.exec(text)) {
    const [, opening, closing, separator, quoted, singleQuoted, word] = match;
    // two values in a row: it was no list, or has ended
    if (held !== null && closing === undefined && separator === undefined) break;
    end = TOKEN.lastIndex;
    if (opening !== undefined) depth++;
    else if (closing !== undefined || separator !== undefined) {
      if (held !== null && separator !== ":") values.push(held);
      held = null;
      if (closing !== undefined && --depth === 0) break;
    } else {
      const value = (quoted ?? singleQuoted ?? word)!;
      const start = match.index + match[0].indexOf(value, match[0].search(/\S/));
      held = value === "" || word === "null" ? null : { start, end: start + value.length };
    }
  }
  if (held !== null) values.push(held);
  return { values, end };
}
