import { DsecError } from "#core/errors.ts";

/** One step of a pattern: `**` for any number of folders, a fixed name, or a test for a name. */
export type GlobStep = "**" | { name: string } | { matches: (name: string) => boolean };

/** So many alternatives may the braces of one pattern multiply to. */
const ALTERNATIVES_MAX = 256;

/**
 * Compiles a path pattern to its alternatives, each a list of steps from the root. `*` is any run of characters
 * within a name, `?` one character, `[a-z]` and `[!a-z]` a class, `**` as a whole step any number of folders,
 * `{a,b}` either, and a backslash takes the next character as itself. A leading dot is not special: an output
 * must not be missing because of its name.
 * @param base the folder that a relative pattern starts from
 */
export function compileGlob(pattern: string, base: string): GlobStep[][] {
  const absolute = pattern.startsWith("/") ? pattern : `${escapeGlob(base)}/${pattern}`;
  return expandBraces(absolute).map((alternative) =>
    alternative
      .split("/")
      .filter((step) => step !== "" && step !== ".")
      .map(compileStep),
  );
}

function escapeGlob(path: string): string {
  return path.replace(/[\\*?[\]{},]/g, "\\$&");
}

function compileStep(step: string): GlobStep {
  if (step === "**") return "**";
  const parts: Part[] = [];
  const characters = [...step];
  for (let i = 0; i < characters.length; i++) {
    const character = characters[i]!;
    const end = character === "[" ? classEnd(characters, i) : -1;
    if (end > 0) {
      parts.push(compileClass(characters.slice(i + 1, end)));
      i = end;
    } else if (character === "?") {
      parts.push(() => true);
    } else if (character === "*") {
      // Neighbouring stars mean one: each more would only multiply the work of matching.
      if (parts.at(-1) !== STAR) parts.push(STAR);
    } else {
      if (character === "\\" && i + 1 < characters.length) i++;
      parts.push(characters[i]!);
    }
  }
  if (parts.every((part) => typeof part === "string")) return { name: parts.join("") };
  return { matches: (name) => matchParts(parts, [...name]) };
}

const STAR = Symbol("any run of characters");
/** A star, one fixed character, or a test for one character. */
type Part = typeof STAR | string | ((character: string) => boolean);

/** Matches with one backtrack point, the last star: time is at most the product of the two lengths. */
function matchParts(parts: Part[], name: string[]): boolean {
  let p = 0;
  let n = 0;
  let afterStar = -1;
  let starName = 0;
  while (n < name.length) {
    const part = parts[p];
    if (part === STAR) {
      afterStar = ++p;
      starName = n;
    } else if (part !== undefined && (typeof part === "string" ? part === name[n] : part(name[n]!))) {
      p++;
      n++;
    } else if (afterStar >= 0) {
      p = afterStar;
      n = ++starName;
    } else {
      return false;
    }
  }
  while (parts[p] === STAR) p++;
  return p === parts.length;
}

/** Index of the bracket that closes the class opened at `start`, or -1. A bracket that comes first is a member. */
function classEnd(characters: string[], start: number): number {
  let i = start + 1;
  if (characters[i] === "!" || characters[i] === "^") i++;
  if (characters[i] === "]") i++;
  for (; i < characters.length; i++) {
    if (characters[i] === "\\") i++;
    else if (characters[i] === "]") return i;
  }
  return -1;
}

function compileClass(members: string[]): (character: string) => boolean {
  const negated = members[0] === "!" || members[0] === "^";
  const ranges: [number, number][] = [];
  for (let i = negated ? 1 : 0; i < members.length; i++) {
    if (members[i] === "\\" && i + 1 < members.length) i++;
    const first = members[i]!.codePointAt(0)!;
    if (members[i + 1] === "-" && i + 2 < members.length) {
      i += members[i + 2] === "\\" && i + 3 < members.length ? 3 : 2;
      ranges.push([first, members[i]!.codePointAt(0)!]);
    } else {
      ranges.push([first, first]);
    }
  }
  return (character) => {
    const code = character.codePointAt(0)!;
    return ranges.some(([from, to]) => code >= from && code <= to) !== negated;
  };
}

/** `a{b,c{d,e}}` becomes ab, acd, ace. Braces without a comma, or unclosed, stand for themselves. */
function expandBraces(pattern: string): string[] {
  const done: string[] = [];
  const pending = [pattern];
  while (pending.length > 0) {
    const next = pending.pop()!;
    const braces = firstBraces(next);
    if (braces === null) {
      done.push(next);
    } else {
      const { start, end, alternatives } = braces;
      for (const alternative of alternatives.reverse()) {
        pending.push(next.slice(0, start) + alternative + next.slice(end + 1));
      }
    }
    if (done.length + pending.length > ALTERNATIVES_MAX) {
      throw new DsecError(
        "INVALID_REQUEST",
        `output pattern ${JSON.stringify(pattern.slice(0, 200))} has more than ${ALTERNATIVES_MAX} alternatives; ` +
          "use several patterns or a wildcard",
      );
    }
  }
  return done;
}

function firstBraces(text: string): { start: number; end: number; alternatives: string[] } | null {
  for (let start = 0; start < text.length; start++) {
    if (text[start] === "\\") start++;
    else if (text[start] === "{") {
      const braces = bracesAt(text, start);
      if (braces !== null) return braces;
    }
  }
  return null;
}

function bracesAt(
  text: string,
  start: number,
): { start: number; end: number; alternatives: string[] } | null {
  const alternatives: string[] = [];
  let depth = 0;
  let from = start + 1;
  for (let i = start + 1; i < text.length; i++) {
    const character = text[i];
    if (character === "\\") i++;
    else if (character === "{") depth++;
    else if (character === "}" && depth > 0) depth--;
    else if (character === "," && depth === 0) {
      alternatives.push(text.slice(from, i));
      from = i + 1;
    } else if (character === "}") {
      if (alternatives.length === 0) return null;
      alternatives.push(text.slice(from, i));
      return { start, end: i, alternatives };
    }
  }
  return null;
}
