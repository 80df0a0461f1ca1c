/** Brace expansion as shells have it: `a{b,c{d,e}}` is ab, acd and ace. A backslash takes the next character as itself. */

/** Text as it stands, and the choices between it. */
type Sequence = (string | Choice)[];
type Choice = { alternatives: Sequence[] };

/** How many texts a pattern stands for, told without making them: a few characters may multiply to billions. */
export function countAlternatives(pattern: string): number {
  return count(parse(pattern));
}

/** The texts that a pattern stands for, in order, escapes as they were. Who calls this has bounded their number. */
export function expandBraces(pattern: string): string[] {
  return expand(parse(pattern));
}

function count(sequence: Sequence): number {
  let product = 1;
  for (const part of sequence) {
    if (typeof part === "string") continue;
    product *= part.alternatives.reduce((sum, alternative) => sum + count(alternative), 0);
  }
  return product;
}

function expand(sequence: Sequence): string[] {
  let texts = [""];
  for (const part of sequence) {
    const ends = typeof part === "string" ? [part] : part.alternatives.flatMap(expand);
    texts = texts.flatMap((text) => ends.map((end) => text + end));
  }
  return texts;
}

/** Reads the pattern once. Braces without a comma, or unclosed, stand for themselves; what is within them does not. */
function parse(pattern: string): Sequence {
  const whole: Sequence = [];
  /** The alternatives of each brace that is open. */
  const open: Sequence[][] = [];
  const current = () => open.at(-1)?.at(-1) ?? whole;
  for (let i = 0; i < pattern.length; i++) {
    const character = pattern[i]!;
    const alternatives = open.at(-1);
    if (character === "{") {
      open.push([[]]);
    } else if (character === "," && alternatives !== undefined) {
      alternatives.push([]);
    } else if (character === "}" && alternatives !== undefined) {
      open.pop();
      if (alternatives.length > 1) current().push({ alternatives });
      else append(current(), "{", ...alternatives[0]!, "}");
    } else {
      append(current(), character === "\\" ? pattern.slice(i, ++i + 1) : character);
    }
  }
  for (let unclosed = open.pop(); unclosed !== undefined; unclosed = open.pop()) {
    const parts = unclosed.flatMap((alternative, at) => (at === 0 ? alternative : [",", ...alternative]));
    append(current(), "{", ...parts);
  }
  return whole;
}

/** Neighbouring texts become one. */
function append(sequence: Sequence, ...parts: Sequence): void {
  for (const part of parts) {
    const last = sequence.at(-1);
    if (typeof part === "string" && typeof last === "string") sequence[sequence.length - 1] = last + part;
    else sequence.push(part);
  }
}
