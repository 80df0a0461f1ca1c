/**
 * What is looked for by its form. Expressions are RE2's, which take time in proportion to the text: a hostile text cannot
 * make one run for ever (https://github.com/google/re2/wiki/Syntax).
 */
import { RE2JS, RE2Set } from "re2js";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { Span } from "./mark.ts";

export type Pattern = {
  /** For the report: never the expression, which may itself be a secret. */
  name: string;
  expression: RE2JS;
  /** Which parts of a match count, by a check that no expression can make, such as that of a card's last digit. Null: all of it. */
  parts: ((match: string) => Iterable<Span>) | null;
  /** Whether a match that goes over two neighbouring strings is one: for what has a beginning and an end of its own. */
  spansStrings: boolean;
};

const BUILT_IN: Readonly<Record<string, { expression: string; parts?: Pattern["parts"] }>> = {
  email: { expression: "[\\pL\\pN._%+-]{1,64}@[\\pL\\pN-]{1,63}(?:\\.[\\pL\\pN-]{1,63}){1,8}" },
  // with all that is written like more of it: a date or a code behind it, an amount before it
  credit_card: { expression: "\\b\\d(?:[ -]?\\d){11,}\\b", parts: cardNumbers },
  phone: {
    expression:
      "(?:\\+\\d{1,3}[ .-]?(?:\\(\\d{1,4}\\)|\\d{1,4})(?:[ .-]?\\d{2,4}){2,4}|\\(\\d{2,4}\\)[ .-]?\\d{3,4}[ .-]\\d{3,4}|\\b\\d{3}[ .-]\\d{3}[ .-]\\d{4})\\b",
  },
  ipv4: {
    expression: "\\b(?:(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)\\.){3}(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)\\b",
  },
  iban: { expression: "\\b[A-Z]{2}\\d{2}(?: ?[A-Z0-9])+\\b", parts: ibans },
  api_key: {
    expression: [
      "\\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]*[A-Za-z0-9]{16}[A-Za-z0-9_-]*",
      "\\bgh[pousr]_[A-Za-z0-9]{20,}",
      "\\bgithub_pat_[A-Za-z0-9_]{20,}",
      "\\bglpat-[A-Za-z0-9_-]{16,}",
      "\\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
      "\\b(?:AKIA|ASIA)[0-9A-Z]{16}\\b",
      "\\bAIza[0-9A-Za-z_-]{35}",
      "\\bhf_[A-Za-z0-9]{20,}",
      "\\bnpm_[A-Za-z0-9]{30,}",
      "\\bdsk_[A-Za-z0-9]+_[A-Za-z0-9]{16,}",
      // a JSON Web Token
      "\\beyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]*",
      "\\b[Bb]earer [A-Za-z0-9._~+/-]{16,}=*",
    ].join("|"),
  },
  // one that is cut off goes to the end of its text
  pem: { expression: "-----BEGIN [A-Z0-9 ]{1,64}-----(?s:.*?)(?:-----END [A-Z0-9 ]{1,64}-----|\\z)" },
};

/** Those with all letters of the world take a while to compile. */
const compiled = new Map<string, RE2JS>();

export const BUILT_IN_PATTERNS = Object.keys(BUILT_IN);

/**
 * A pattern by its built-in name, or by an expression of its own.
 * @throws INVALID_REQUEST for what is no expression of RE2, and for one that matches nothing at all
 */
export function patternOf(given: string, number: number): Pattern {
  const known = Object.hasOwn(BUILT_IN, given) ? BUILT_IN[given] : undefined;
  if (known !== undefined) {
    const expression = compiled.get(given) ?? RE2JS.compile(known.expression);
    compiled.set(given, expression);
    return { name: given, expression, parts: known.parts ?? null, spansStrings: given === "pem" };
  }
  if (given.length > LIMITS.redactionPatternChars) {
    throw new DsecError(
      "INVALID_REQUEST",
      `pattern ${number} has ${given.length} characters; at most ${LIMITS.redactionPatternChars} are taken`,
    );
  }
  let expression: RE2JS;
  try {
    expression = RE2JS.compile(given);
  } catch (cause) {
    throw new DsecError(
      "INVALID_REQUEST",
      `pattern ${number}, ${JSON.stringify(given).slice(0, 200)}, is neither built in (${BUILT_IN_PATTERNS.join(", ")}) nor an RE2 expression: ${(cause as Error).message}`,
      { cause },
    );
  }
  if (expression.test("")) {
    throw new DsecError(
      "INVALID_REQUEST",
      `pattern ${number}, ${JSON.stringify(given).slice(0, 200)}, matches empty text; make it match at least one character`,
    );
  }
  return { name: `pattern ${number}`, expression, parts: null, spansStrings: false };
}

/** A pattern for each line of a file; blank lines and those that begin with # are passed over. */
export function patternLines(text: string): string[] {
  const lines = text.split(/\r?\n/).map((line) => line.replace(/^\uFEFF/, ""));
  return lines.filter((line) => line.trim() !== "" && !line.startsWith("#"));
}

/** All patterns as one machine, which goes through a text once and tells which of them match somewhere in it. */
export class PatternSet {
  readonly #patterns: readonly Pattern[];
  readonly #set = new RE2Set();

  constructor(patterns: readonly Pattern[]) {
    this.#patterns = patterns;
    for (const { expression } of patterns) this.#set.add(expression.pattern());
    this.#set.compile();
  }

  matching(text: string): Pattern[] {
    return this.#patterns.length === 0 ? [] : this.#set.match(text).map((index) => this.#patterns[index]!);
  }
}

export function* matchesOf(pattern: Pattern, text: string): Generator<Span> {
  const matcher = pattern.expression.matcher(text);
  while (matcher.find()) {
    const [start, end] = [matcher.start(), matcher.end()];
    if (end === start) continue;
    if (pattern.parts === null) yield { start, end };
    else {
      for (const part of pattern.parts(text.slice(start, end))) {
        yield { start: start + part.start, end: start + part.end };
      }
    }
  }
}

/** From one group of characters to another, as many as there are without what separates them. */
function* groupsWithin(run: string, leastChars: number, mostChars: number): Generator<Span> {
  const groups = [...run.matchAll(/[^ -]+/g)].map(({ index, 0: { length } }) => ({ start: index, length }));
  for (const [first, { start }] of groups.entries()) {
    let chars = 0;
    for (let last = first; last < groups.length; last++) {
      const group = groups[last]!;
      chars += group.length;
      if (chars > mostChars) break;
      if (chars >= leastChars) yield { start, end: group.start + group.length };
    }
  }
}

/** Of a run of digits each part that may be one: of parts that overlap nobody knows which is. */
function* cardNumbers(run: string): Generator<Span> {
  for (const { start, end } of groupsWithin(run, 12, 19)) {
    const text = run.slice(start, end);
    // shorter groups stand in tables of numbers, and in a card's only where nothing else is
    const isPlain = text === run || !/(?:^|[ -])\d{1,2}(?:[ -]|$)/.test(text);
    if (isPlain && isCardNumber(text)) yield { start, end };
  }
}

function* ibans(run: string): Generator<Span> {
  for (const { start, end } of groupsWithin(run, 15, 34)) {
    const text = run.slice(start, end);
    if (/^[A-Z]{2}\d{2}/.test(text) && isIban(text)) yield { start, end };
  }
}

/** The Luhn check (ISO/IEC 7812-1). */
function isCardNumber(text: string): boolean {
  const digits = text.replace(/\D/g, "");
  if (/^(\d)\1*$/.test(digits)) return false;
  let sum = 0;
  for (let at = 0; at < digits.length; at++) {
    const digit = Number(digits[digits.length - 1 - at]);
    const doubled = at % 2 === 1 ? 2 * digit : digit;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}

/** The check digits of ISO 13616: the number modulo 97 is 1. */
function isIban(text: string): boolean {
  const plain = text.replace(/ /g, "");
  let rest = 0;
  for (const char of plain.slice(4) + plain.slice(0, 4)) {
    const value = Number.parseInt(char, 36);
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest === 1;
}
