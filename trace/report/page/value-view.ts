/**
 * A recorded text: JSON laid out by its tokens, never parsed into numbers, so that 9007199254740993 and 1.0 stay what they were;
 * strings with lines in them as those lines; anything else as what a terminal would show. One press shows it as recorded.
 */
import type { CutText } from "#trace/analysis/report-data.ts";
import { button, type Child, h } from "./dom.ts";
import { terminalText } from "./terminal-text.ts";
import { count } from "./words.ts";

export function valueView(text: CutText | string | null, absent = "not recorded"): HTMLElement {
  if (text === null) return h("p", { class: "none" }, absent);
  const { text: recorded, chars } = typeof text === "string" ? { text, chars: text.length } : text;
  if (recorded === "") return h("p", { class: "none" }, "empty");
  const laidOut = layOut(recorded);
  const pre = h("pre", { class: "value", tabindex: 0 });
  const show = (raw: boolean) =>
    pre.replaceChildren(raw || laidOut === null ? terminalText(recorded) : laidOut());
  const notes: Child[] = [];
  if (laidOut !== null) {
    const toggle = button("as recorded", () => {
      const raw = toggle.getAttribute("aria-pressed") !== "true";
      toggle.setAttribute("aria-pressed", String(raw));
      show(raw);
    });
    toggle.setAttribute("aria-pressed", "false");
    toggle.className = "small";
    notes.push(toggle);
  }
  if (chars > recorded.length) {
    notes.push(
      h(
        "span",
        { class: "cut" },
        `the first ${count(recorded.length, "character")} of ${count(chars, "character")}`,
      ),
    );
  }
  show(false);
  return h("div", { class: "value-view" }, h("div", { class: "value-notes" }, ...notes), pre);
}

/** Null for what is no JSON; what was cut is laid out as far as it goes. */
function layOut(text: string): (() => Node) | null {
  const first = /^\s*(.)/.exec(text)?.[1];
  if (first === '"') {
    const inner = stringIn(text.trim());
    if (inner === null) return null;
    const laidOut = /^\s*[[{]/.test(inner) ? layOut(inner) : null;
    return laidOut ?? (() => terminalText(inner));
  }
  if (first !== "{" && first !== "[") return null;
  const tokens = text.match(TOKENS) ?? [];
  return isTooDeep(tokens) || tokens.join("").length < text.replace(/\s+/g, "").length * 0.5
    ? null
    : () => lines(tokens);
}

/** Of a cut string what there is. */
function stringIn(text: string): string | null {
  for (const end of ["", '"']) {
    try {
      const value: unknown = JSON.parse(text + end);
      if (typeof value === "string") return value;
    } catch {
      // not whole, or cut
    }
  }
  return null;
}

const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"?|[[\]{}:,]|[^\s[\]{}:,"]+/gs;
/** Beyond this nothing is gained by indenting. */
const MOST_DEPTH = 40;

function isTooDeep(tokens: readonly string[]): boolean {
  let depth = 0;
  for (const token of tokens) {
    if (token === "{" || token === "[") depth++;
    else if (token === "}" || token === "]") depth--;
    if (depth > MOST_DEPTH || depth < 0) return true;
  }
  return false;
}

function lines(tokens: readonly string[]): DocumentFragment {
  const out = document.createDocumentFragment();
  let depth = 0;
  const newLine = () => out.append(`\n${"  ".repeat(depth)}`);
  for (const [at, token] of tokens.entries()) {
    const next = tokens[at + 1];
    if (token === "{" || token === "[") {
      out.append(token);
      depth++;
      if (next !== "}" && next !== "]") newLine();
    } else if (token === "}" || token === "]") {
      depth--;
      const before = tokens[at - 1];
      if (before !== "{" && before !== "[") newLine();
      out.append(token);
    } else if (token === ",") {
      // a block of lines has ended its own line
      if (out.lastElementChild === out.lastChild && out.lastElementChild?.className === "block") {
        out.append("  ".repeat(depth));
        continue;
      }
      out.append(token);
      newLine();
    } else if (token === ":") out.append(": ");
    else out.append(scalar(token, next === ":", depth));
  }
  return out;
}

function scalar(token: string, isKey: boolean, depth: number): Node {
  if (!token.startsWith('"')) return h("span", { class: /^[-\d]/.test(token) ? "number" : "literal" }, token);
  if (isKey) return h("span", { class: "key" }, terminalText(token));
  // lines of a program's output are read as lines
  const inner = /\\[nu]/.test(token) ? stringIn(token) : null;
  if (inner !== null && (inner.includes("\n") || inner.includes("\u001b"))) {
    const block = h("span", { class: "block" }, terminalText(inner.replace(/\n$/, "")));
    block.style.setProperty("--depth", String(depth));
    return block;
  }
  return h("span", { class: "string" }, terminalText(token));
}
