/** One step of a pattern: `**` for any number of folders, a fixed name, or what a name is matched against. */
export type GlobStep = "**" | { name: string } | { parts: GlobPart[] };

const STAR = Symbol("any run of characters");
/** A star, one fixed character, or a class of characters. */
export type GlobPart = typeof STAR | string | CharacterClass;

/**
 * Compiles a path pattern without braces to its steps from the root. `*` is any run of characters within a name, `?` one
 * character, `[a-z]` and `[!a-z]` a class, `**` as a whole step any number of folders, and a backslash takes the next
 * character as itself. A leading dot is not special: an output must not be missing because of its name.
 * @param base the folder that a relative pattern starts from
 */
export function compileGlob(pattern: string, base: string): GlobStep[] {
  const folders = pattern.startsWith("/") ? [] : stepsOf(base).map((name) => ({ name }));
  return [...folders, ...stepsOf(pattern).map(compileStep)];
}

/**
 * Whether the name matches. There is one backtrack point, the last star: time is at most the product of both lengths.
 * @param name its characters
 * @param spend is told how many comparisons it took
 */
export function matchesName(
  parts: readonly GlobPart[],
  name: readonly string[],
  spend: (comparisons: number) => void,
): boolean {
  let p = 0;
  let n = 0;
  let afterStar = -1;
  let starName = 0;
  let comparisons = 1;
  let isMatch = true;
  while (n < name.length && isMatch) {
    const part = parts[p];
    comparisons += typeof part === "object" ? part.size : 1;
    if (part === STAR) {
      afterStar = ++p;
      starName = n;
    } else if (typeof part === "string" ? part === name[n] : part?.has(name[n]!)) {
      p++;
      n++;
    } else if (afterStar >= 0) {
      p = afterStar;
      n = ++starName;
    } else {
      isMatch = false;
    }
  }
  while (parts[p] === STAR) p++;
  spend(comparisons);
  return isMatch && p === parts.length;
}

function stepsOf(path: string): string[] {
  return path.split("/").filter((step) => step !== "" && step !== ".");
}

function compileStep(step: string): GlobStep {
  if (step === "**") return "**";
  const parts: GlobPart[] = [];
  const characters = [...step];
  for (let i = 0; i < characters.length; i++) {
    const character = characters[i]!;
    const end = character === "[" ? classEnd(characters, i) : -1;
    if (end > 0) {
      parts.push(CharacterClass.of(characters.slice(i + 1, end)));
      i = end;
    } else if (character === "?") {
      parts.push(CharacterClass.ANY);
    } else if (character === "*") {
      // Neighbouring stars mean one: each more would only multiply the work of matching.
      if (parts.at(-1) !== STAR) parts.push(STAR);
    } else {
      if (character === "\\" && i + 1 < characters.length) i++;
      parts.push(characters[i]!);
    }
  }
  if (parts.every((part) => typeof part === "string")) return { name: parts.join("") };
  return { parts };
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

class CharacterClass {
  static readonly ANY = new CharacterClass([], true);
  readonly #ranges: [number, number][];
  readonly #isNegated: boolean;

  private constructor(ranges: [number, number][], isNegated: boolean) {
    this.#ranges = ranges;
    this.#isNegated = isNegated;
  }

  /** @param members what stands between the brackets */
  static of(members: string[]): CharacterClass {
    const isNegated = members[0] === "!" || members[0] === "^";
    const ranges: [number, number][] = [];
    for (let i = isNegated ? 1 : 0; i < members.length; i++) {
      if (members[i] === "\\" && i + 1 < members.length) i++;
      const first = members[i]!.codePointAt(0)!;
      if (members[i + 1] === "-" && i + 2 < members.length) {
        i += members[i + 2] === "\\" && i + 3 < members.length ? 3 : 2;
        ranges.push([first, members[i]!.codePointAt(0)!]);
      } else {
        ranges.push([first, first]);
      }
    }
    return new CharacterClass(ranges, isNegated);
  }

  /** What a look at it costs, in comparisons. */
  get size(): number {
    return 1 + this.#ranges.length;
  }

  has(character: string): boolean {
    const code = character.codePointAt(0)!;
    return this.#ranges.some(([from, to]) => code >= from && code <= to) !== this.#isNegated;
  }
}
