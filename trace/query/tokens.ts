/** The words of a query, each with the column where it begins (counted from 1, in UTF-16 units). */
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";

export type Token = { column: number } & (
  | { kind: "name"; text: string }
  | { kind: "string"; text: string }
  | { kind: "number"; value: number | bigint }
  | { kind: "sign"; text: string }
  | { kind: "end" }
);

/** @throws QUERY_INVALID with the column of what is no word */
export function tokensOf(query: string): Token[] {
  if (query.length > LIMITS.queryChars) {
    throw queryInvalid(query, 1, `a query has at most ${LIMITS.queryChars} characters, not ${query.length}`);
  }
  const tokens: Token[] = [];
  let at = 0;
  while (true) {
    at = next(SPACE, query, at)?.length ? at + next(SPACE, query, at)!.length : at;
    const column = at + 1;
    if (at >= query.length) {
      tokens.push({ kind: "end", column });
      return tokens;
    }
    const char = query[at]!;
    const name = next(NAME, query, at);
    const number = name === null ? next(NUMBER, query, at) : null;
    if (name !== null) {
      tokens.push({ kind: "name", text: name, column });
      at += name.length;
    } else if (number !== null) {
      tokens.push({ kind: "number", value: numberOf(number, query, column), column });
      at += number.length;
    } else if (char === '"' || char === "'") {
      const end = closingQuote(query, at);
      tokens.push({ kind: "string", text: stringOf(query, at, end), column });
      at = end + 1;
    } else {
      const sign = SIGNS.find((candidate) => query.startsWith(candidate, at));
      if (sign === undefined)
        throw queryInvalid(query, column, `${JSON.stringify(char)} has no meaning here`);
      const instead = INSTEAD[sign];
      if (instead !== undefined) throw queryInvalid(query, column, `write ${instead} instead of ${sign}`);
      tokens.push({ kind: "sign", text: sign, column });
      at += sign.length;
    }
  }
}

/** Says where; `details` carry the query and the column, so that a caret can be drawn below. */
export function queryInvalid(query: string, column: number, why: string): DsecError {
  return new DsecError("QUERY_INVALID", `query, column ${column}: ${why}`, { details: { query, column } });
}

/** The piece of a query around a column, and a caret below it: two lines, for a display of fixed width. */
export function excerpt(query: string, column: number): [line: string, caret: string] {
  const from = Math.max(0, column - 1 - 40);
  const line = query.slice(from, column - 1 + 40).replace(/[^\x20-\x7e]/g, "·");
  const before = from > 0 ? "…" : "";
  const after = from + line.length < query.length ? "…" : "";
  return [`${before}${line}${after}`, `${" ".repeat(before.length + column - 1 - from)}^`];
}

const SPACE = /\s+/y;
const NAME = /[\p{L}_][\p{L}\p{N}_]*/uy;
const NUMBER = /\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
/** Longer ones first. */
const SIGNS = [
  "==",
  "!=",
  "<=",
  ">=",
  "<>",
  "&&",
  "||",
  "(",
  ")",
  "[",
  "]",
  "<",
  ">",
  "=",
  "!",
  ",",
  ".",
].concat(["+", "-", "*", "/"]);
/** What other languages write. */
const INSTEAD: Record<string, string> = { "=": "==", "<>": "!=", "&&": "and", "||": "or", "!": "not" };

function next(pattern: RegExp, query: string, at: number): string | null {
  pattern.lastIndex = at;
  return pattern.exec(query)?.[0] ?? null;
}

function numberOf(text: string, query: string, column: number): number | bigint {
  const value = Number(text);
  if (!Number.isFinite(value)) throw queryInvalid(query, column, `${text} is beyond the largest double`);
  return /^\d+$/.test(text) && !Number.isSafeInteger(value) ? BigInt(text) : value;
}

function closingQuote(query: string, start: number): number {
  for (let at = start + 1; at < query.length; at++) {
    if (query[at] === "\\") at++;
    else if (query[at] === query[start]) return at;
  }
  throw queryInvalid(query, start + 1, `this ${query[start]} is never closed`);
}

const ESCAPES: Record<string, string> = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f" };

/** The escapes of JSON, and \' too. */
function stringOf(query: string, start: number, end: number): string {
  let text = "";
  for (let at = start + 1; at < end; at++) {
    if (query[at] !== "\\") {
      text += query[at];
      continue;
    }
    const char = query[++at]!;
    if (`"'\\/`.includes(char)) text += char;
    else if (char in ESCAPES) text += ESCAPES[char];
    else {
      const code = /^u([0-9a-fA-F]{4})/.exec(query.slice(at, at + 5))?.[1];
      if (code === undefined || at + 4 >= end) {
        throw queryInvalid(query, at, `\\${char} is no escape; write \\\\ for a backslash`);
      }
      text += String.fromCharCode(Number.parseInt(code, 16));
      at += 4;
    }
  }
  return text;
}
