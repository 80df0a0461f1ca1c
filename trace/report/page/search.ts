/** A plain substring, looked for in all that is recorded of each row, in slices so that the page goes on answering. */
import type { CallEntry, CutText } from "#trace/analysis/report-data.ts";
import type { Row } from "./trace-model.ts";

export type Found = { rows: Row[]; matches: number };

export class Search {
  readonly #rows: readonly Row[];
  readonly #texts: (string | undefined)[] = [];
  #turn = 0;

  constructor(rows: readonly Row[]) {
    this.#rows = rows;
  }

  /** Null where another search has begun since. */
  async find(words: string): Promise<Found | null> {
    const turn = ++this.#turn;
    const wanted = words.toLowerCase();
    const found: Found = { rows: [], matches: 0 };
    if (wanted === "") return found;
    let sliceEnds = performance.now() + SLICE_MS;
    for (const [at, row] of this.#rows.entries()) {
      const text = this.#texts[at] ?? textOf(row).toLowerCase();
      this.#texts[at] = text;
      const matches = occurrences(text, wanted);
      if (matches > 0) {
        found.rows.push(row);
        found.matches += matches;
      }
      if (performance.now() < sliceEnds) continue;
      await new Promise((resolve) => setTimeout(resolve));
      if (turn !== this.#turn) return null;
      sliceEnds = performance.now() + SLICE_MS;
    }
    return turn === this.#turn ? found : null;
  }
}

const SLICE_MS = 12;

/** Marks what is found in the text of elements, without changing them (CSS Custom Highlight API). */
export function highlight(elements: readonly Element[], words: string): void {
  if (!("highlights" in CSS)) return;
  CSS.highlights.delete("found");
  const wanted = words.toLowerCase();
  if (wanted === "") return;
  const ranges: Range[] = [];
  for (const element of elements) {
    const nodes: [Text, start: number][] = [];
    let text = "";
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      nodes.push([node as Text, text.length]);
      text += (node as Text).data;
    }
    const lower = text.toLowerCase();
    // a few letters change their length with their case; positions would be off
    const haystack = lower.length === text.length ? lower : text;
    let node = 0;
    for (
      let at = haystack.indexOf(wanted);
      at >= 0 && ranges.length < MOST_RANGES;
      at = haystack.indexOf(wanted, at + wanted.length)
    ) {
      while (nodes[node + 1] !== undefined && nodes[node + 1]![1] <= at) node++;
      let last = node;
      while (nodes[last + 1] !== undefined && nodes[last + 1]![1] < at + wanted.length) last++;
      const range = document.createRange();
      range.setStart(nodes[node]![0], at - nodes[node]![1]);
      range.setEnd(nodes[last]![0], at + wanted.length - nodes[last]![1]);
      ranges.push(range);
    }
  }
  if (ranges.length > 0) CSS.highlights.set("found", new Highlight(...ranges));
}

const MOST_RANGES = 5_000;

function occurrences(text: string, wanted: string): number {
  let count = 0;
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) count++;
  return count;
}

function textOf(row: Row): string {
  const parts: (string | null | undefined)[] = [row.name, ...row.faults];
  for (const { code, text, stack, memory, payloads } of row.errors) {
    parts.push(code, text, stack?.text, memory?.text);
    for (const { tool, url, sent, received } of payloads) parts.push(tool, url, sent?.text, received?.text);
  }
  switch (row.kind) {
    case "step":
      parts.push(row.entry.status);
      break;
    case "call":
      parts.push(...callTexts(row.entry));
      break;
    case "observation":
      parts.push(row.entry.content?.text);
      break;
    case "reward":
      parts.push(row.entry.source, row.entry.fault, ...row.entry.components.map(({ name }) => name));
      break;
    case "other":
      parts.push(row.entry.type, row.entry.text?.text);
      break;
  }
  return parts.filter((part) => part != null).join("\n");
}

function callTexts(call: CallEntry): (string | null | undefined)[] {
  const text = (cut: CutText | null) => cut?.text;
  return [
    ...[call.state, call.code, call.text, text(call.arguments), text(call.answer)],
    ...call.memory.flatMap(({ op, key, old, new: now, origin }) => [op, key, old, now, origin]),
    // tokens of one text read on
    call.tokens.map((token) => token.text ?? "").join(""),
    ...call.completions.map(({ model }) => model),
  ];
}
