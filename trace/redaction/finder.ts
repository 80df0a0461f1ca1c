/**
 * Finds what must go of a text: what a pattern matches, what stands behind a field's name, and values that are known by now, as
 * they are and in every encoding that views.ts reads.
 */
import { LIMITS } from "#core/limits.ts";
import { valuesFrom } from "./cut-json.ts";
import { type Span, unmarked } from "./mark.ts";
import { matchesOf, type Pattern, PatternSet } from "./patterns.ts";
import { SecretValues } from "./values.ts";
import { encodedRunsOf, readingsOf, type View, viewsOf } from "./views.ts";

/** `why` is for the report: a field, a pattern, or a value that was found elsewhere. */
export type Found = Span & { why: string };

export class Finder {
  readonly #set: PatternSet;
  readonly #fields: ReadonlyMap<string, string>;
  readonly #values = new SecretValues();
  /** While learning, what is found becomes a known value, and known values are not looked for yet. */
  learning = true;

  constructor(fields: readonly string[], patterns: readonly Pattern[]) {
    this.#fields = new Map(fields.map((field) => [plainName(field), field]));
    this.#set = new PatternSet(patterns);
  }

  /** The field as it was asked for; null for a name that is none. Case, hyphens, underscores and blanks make no difference. */
  fieldOf(name: string): string | null {
    return this.#fields.size === 0 ? null : (this.#fields.get(plainName(name)) ?? null);
  }

  /** The same of a memory key: `user/7/email` and `user.email` end in the name of what they hold. */
  fieldOfKey(key: string): string | null {
    return this.fieldOf(key) ?? this.fieldOf(key.split(/[/.:]/).at(-1)!);
  }

  /** A value that stands under a field. */
  learn(value: string): void {
    if (!this.learning) return;
    this.#values.add(value);
    // the same token goes by itself elsewhere
    const bare = /^(?:bearer|basic|token) +(.+)$/i.exec(value)?.[1];
    if (bare !== undefined) this.#values.add(bare);
  }

  /** In order and apart from each other, so that what is left between them holds nothing more. */
  find(text: string): Found[] {
    return this.#settled(text, { depth: 0, round: 1 });
  }

  /**
   * What goes over the borders of strings that stand next to each other, of which only their joined text tells.
   * @param borders in order
   * @param inList whether they are items of one list, where a value may well have been cut in pieces
   */
  findAcross(joined: string, borders: readonly number[], inList: boolean): Found[] {
    const found: Found[] = [];
    const crosses = ({ start, end }: Span) => (firstAfter(borders, start) ?? end) < end;
    for (const { start, end } of unmarked(joined)) {
      const piece = joined.slice(start, end);
      const at = (span: Span, why: string) => {
        const moved = { start: span.start + start, end: span.end + start };
        if (crosses(moved)) found.push({ ...moved, why });
      };
      for (const pattern of this.#set.matching(piece)) {
        const isOwn = pattern.name.startsWith("pattern ");
        if (!pattern.spansStrings && !(inList && isOwn)) continue;
        for (const span of matchesOf(pattern, piece)) at(span, pattern.name);
      }
      if (!this.learning) for (const span of this.#values.in(piece, true)) at(span, VALUE);
    }
    return apart(found);
  }

  /**
   * What a second look at the rest would find is found now: else redacting again would change the text again. A text that has
   * something in it each time goes whole, as where an expression for the end of a text makes each end another.
   */
  #settled(text: string, looked: Looked): Found[] {
    const found: Found[] = [];
    for (const { start, end } of unmarked(text)) {
      const piece = text.slice(start, end);
      const first = apart(this.#look(piece, looked));
      if (first.length === 0) continue;
      if (looked.round === LIMITS.redactionRounds) {
        found.push({ start, end, why: first[0]!.why });
        continue;
      }
      const again = { ...looked, round: looked.round + 1 };
      let from = 0;
      for (const one of [...first, null]) {
        const to = one?.start ?? piece.length;
        for (const more of this.#settled(piece.slice(from, to), again)) found.push(moved(more, start + from));
        if (one === null) break;
        found.push(moved(one, start));
        from = one.end;
      }
    }
    return found;
  }

  #look(text: string, looked: Looked): Found[] {
    const found: Found[] = [];
    for (const pattern of this.#set.matching(text)) {
      for (const span of matchesOf(pattern, text)) {
        found.push({ ...span, why: pattern.name });
        this.learn(text.slice(span.start, span.end));
      }
    }
    if (!this.learning) for (const span of this.#values.in(text)) found.push({ ...span, why: VALUE });
    if (this.#fields.size > 0) {
      for (const { field, ...span } of this.#fieldsIn(text)) {
        found.push({ ...span, why: field });
        this.learn(text.slice(span.start, span.end));
      }
    }
    if (looked.depth < LIMITS.redactionNesting) {
      this.#lookDeeper(text, { ...looked, depth: looked.depth + 1 }, found);
    }
    return found;
  }

  /** Into what the text says in another encoding. */
  #lookDeeper(text: string, looked: Looked, found: Found[]): void {
    const look = (view: View) => {
      for (const inner of this.#settled(view.text, looked)) {
        found.push({ ...view.source(inner), why: inner.why });
      }
    };
    for (const view of viewsOf(text)) look(view);
    for (const run of encodedRunsOf(text)) {
      const { start, end, encoding, digits } = run;
      const isKnown =
        !this.learning &&
        (encoding === "base64" ? this.#values.isInBase64(digits) : this.#values.isInHexadecimal(digits));
      if (isKnown) found.push({ start, end, why: VALUE });
      else for (const view of readingsOf(run)) look(view);
    }
  }

  /** Values behind names in text that is no JSON, or JSON that was cut off: `name=value`, `"name": "value"`, `Name: value`, `"name": [` and all in it. */
  *#fieldsIn(text: string): Generator<Span & { field: string }> {
    let nestedEnd = 0;
    for (const { index, 0: all, 1: name } of text.matchAll(NAME)) {
      const field = this.fieldOf(name!);
      // within a value that goes whole names are looked at no more
      if (field === null || index < nestedEnd) continue;
      const isLine = /:[ \t]*$/.test(all) && (index === 0 || text[index - 1] === "\n");
      if (/[{[]/.test(text[index + all.length] ?? "")) {
        const { values, end } = valuesFrom(text, index + all.length);
        for (const span of values) yield { ...span, field };
        nestedEnd = end;
        if (!isLine) continue;
      }
      const value = isLine ? LINE : VALUE_OF_NAME;
      value.lastIndex = index + all.length;
      const match = value.exec(text);
      const given = match?.[1] ?? match?.[2];
      if (match === null || given === undefined || given.trim() === "" || given === "null") continue;
      const start = match.index + match[0].indexOf(given);
      yield { start, end: start + given.length, field };
    }
  }
}

const VALUE = "value found elsewhere";

/** How many encodings deep a text stands, and how often what was left of it has been looked at. */
type Looked = { depth: number; round: number };

/** A name and what leads to its value; behind an option that is a blank. */
const NAME = /(?<![\w.])([A-Za-z_][\w.-]{0,63})(?:["']?[ \t]{0,8}[:=][ \t]{0,8}|(?<=--[\w.-]{1,64}) )/g;
/** In quotes, which may be missing at the end, or up to the next separator. */
const VALUE_OF_NAME = /["']((?:[^"'\\\r\n]|\\.)+)|([^\s,;&"'}\])]+)/y;
/** Of a header that is a line of its own. */
const LINE = /["']((?:[^"'\\\r\n]|\\.)+)|([^\r\n]+)/y;

/** Of numbers in order the first that is larger. */
function firstAfter(numbers: readonly number[], least: number): number | undefined {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! <= least) low = middle + 1;
    else high = middle;
  }
  return numbers[low];
}

function plainName(name: string): string {
  return name.toLowerCase().replace(/[-_ ]/g, "");
}

function moved({ start, end, why }: Found, by: number): Found {
  return { start: start + by, end: end + by, why };
}

/** In order; those that overlap become one. */
function apart(found: Found[]): Found[] {
  found.sort((one, other) => one.start - other.start || other.end - one.end);
  const spans: Found[] = [];
  for (const one of found) {
    const last = spans.at(-1);
    if (last !== undefined && one.start < last.end) last.end = Math.max(last.end, one.end);
    else spans.push({ ...one });
  }
  return spans;
}
