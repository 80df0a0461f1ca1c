/**
 * Redacts content: text, JSON, bytes, argument lists. JSON is edited by its structure, value by value, so that it stays JSON and
 * all that is not secret stays as it was written.
 */
import { bytesOfLatin1, latin1Of } from "#core/bytes.ts";
import { type JsonMember, type JsonNode, stringOf, treeOf } from "#trace/exchange/json-tree.ts";
import { Finder, type Found } from "./finder.ts";
import { isMark, MARK, MemberNames } from "./mark.ts";
import type { Pattern } from "./patterns.ts";

type Edit = { start: number; end: number; text: string };

export class ContentRedactor {
  readonly finder: Finder;
  /** How often something was taken out, by why. Never what. */
  readonly counts = new Map<string, number>();

  constructor(fields: readonly string[], patterns: readonly Pattern[]) {
    this.finder = new Finder(fields, patterns);
  }

  get total(): number {
    let total = 0;
    for (const count of this.counts.values()) total += count;
    return total;
  }

  /** Text of any kind, which may be JSON. */
  text(text: string): string {
    if (looksLikeJson(text)) {
      const tree = treeOf(text);
      if (tree !== null) return this.#edited(text, tree);
    }
    return this.#plain(text);
  }

  /** JSON text; what is none, since a model wrote it, is text. */
  json(text: string): string {
    const tree = treeOf(text);
    return tree === null ? this.#plain(text) : this.#edited(text, tree);
  }

  /** An object from memory keys to values. */
  entries(text: string): string {
    const tree = treeOf(text);
    if (tree?.kind !== "object") return this.json(text);
    const edits: Edit[] = [];
    this.#object(text, tree, edits, (key) => this.finder.fieldOfKey(key));
    return applied(text, edits);
  }

  /** Bytes that are no UTF-8 are looked at as one character a byte, which ASCII secrets are found in. */
  bytes(bytes: Uint8Array): Uint8Array {
    let text: string;
    try {
      text = utf8.decode(bytes);
    } catch {
      return bytesOfLatin1(this.#plain(latin1Of(bytes)));
    }
    const redacted = this.text(text);
    return redacted === text ? bytes : new TextEncoder().encode(redacted);
  }

  /** What stands behind `--field` in an argument list goes, and what is found in any argument. */
  list(items: readonly string[]): string[] {
    const redacted: string[] = [];
    for (const [index, item] of items.entries()) {
      const option = /^--?([A-Za-z][\w.-]*)$/.exec(items[index - 1] ?? "")?.[1];
      const field = option === undefined || item.startsWith("--") ? null : this.finder.fieldOf(option);
      redacted.push(field === null ? this.text(item) : this.whole(item, field));
    }
    return redacted;
  }

  /** A value that goes whole, for the field that it stands under. */
  whole(text: string, field: string): string {
    if (text === "" || isMark(text)) return text;
    this.finder.learn(text);
    this.count(field);
    return MARK;
  }

  /** JSON whose every value goes. */
  wholeJson(text: string, field: string): string {
    const tree = treeOf(text);
    if (tree === null) return this.whole(text, field);
    const edits: Edit[] = [];
    this.#leaves(text, tree, field, edits);
    return applied(text, edits);
  }

  count(why: string): void {
    this.counts.set(why, (this.counts.get(why) ?? 0) + 1);
  }

  #plain(text: string): string {
    return this.#without(text, this.finder.find(text));
  }

  #without(text: string, found: Found[]): string {
    for (const { why } of found) this.count(why);
    return applied(
      text,
      found.map(({ start, end }) => ({ start, end, text: MARK })),
    );
  }

  #edited(text: string, tree: JsonNode): string {
    const edits: Edit[] = [];
    this.#walk(text, tree, edits);
    return applied(text, edits);
  }

  #walk(text: string, node: JsonNode, edits: Edit[]): void {
    switch (node.kind) {
      case "string":
        this.#string(node, edits);
        return;
      case "number":
        this.#number(text, node, edits);
        return;
      case "array":
        this.#array(text, node, edits);
        return;
      case "object":
        this.#object(text, node, edits);
    }
  }

  #object(
    text: string,
    node: JsonNode & { kind: "object" },
    edits: Edit[],
    fieldOf = (name: string) => this.finder.fieldOf(name),
  ): void {
    const named = pairedField(node.members, this.finder);
    const strings: JsonNode[] = [];
    this.#names(node.members, edits);
    for (const { name, value } of node.members) {
      const field = fieldOf(name) ?? (isValueName(name) ? named : null);
      if (field !== null) this.#leaves(text, value, field, edits);
      else if (value.kind === "string") strings.push(value);
      else this.#walk(text, value, edits);
    }
    this.#strings(strings, false, edits);
  }

  #names(members: JsonMember[], edits: Edit[]): void {
    const names = new MemberNames(members.map(({ name }) => name));
    for (const { name, nameStart, nameEnd } of members) {
      const bare = this.#plain(name);
      if (bare === name) continue;
      edits.push({ start: nameStart, end: nameEnd, text: JSON.stringify(names.unique(bare)) });
    }
  }

  #array(text: string, node: JsonNode & { kind: "array" }, edits: Edit[]): void {
    // a header as ["name", "value"]
    const [first, second] = node.items;
    const field = node.items.length === 2 ? this.finder.fieldOf(stringOf(first!) ?? "") : null;
    if (field !== null) {
      this.#leaves(text, second!, field, edits);
      return;
    }
    const strings: JsonNode[] = [];
    for (const item of node.items) {
      if (item.kind === "string") strings.push(item);
      else this.#walk(text, item, edits);
    }
    this.#strings(strings, true, edits);
  }

  /** Strings that stand side by side: each for itself, and what goes from one into the next. */
  #strings(nodes: JsonNode[], inList: boolean, edits: Edit[]): void {
    const given = nodes.map((node) => stringOf(node)!);
    // what has its end in a string must not lose its beginning before, and what is left must hold nothing more
    const each = this.#across(given, inList).map((text) => this.text(text));
    const texts = this.#across(each, inList);
    for (const [index, node] of nodes.entries()) {
      if (texts[index] !== given[index]) {
        edits.push({ start: node.start, end: node.end, text: JSON.stringify(texts[index]) });
      }
    }
  }

  #across(given: string[], inList: boolean): string[] {
    let texts = given;
    for (;;) {
      const found = texts.length < 2 ? [] : this.finder.findAcross(texts.join(""), bordersOf(texts), inList);
      if (found.length === 0) return texts;
      for (const { why } of found) this.count(why);
      texts = cutAcross(texts, found);
    }
  }

  #string(node: JsonNode, edits: Edit[]): void {
    const given = stringOf(node)!;
    const text = this.text(given);
    if (text !== given) edits.push({ start: node.start, end: node.end, text: JSON.stringify(text) });
  }

  #number(text: string, { start, end }: JsonNode, edits: Edit[]): void {
    const found = this.finder.find(text.slice(start, end));
    if (found.length === 0) return;
    this.count(found[0]!.why);
    edits.push({ start, end, text: JSON.stringify(MARK) });
  }

  /** Every value under a field; null says that there is none, and stays. */
  #leaves(text: string, node: JsonNode, field: string, edits: Edit[]): void {
    if (node.kind === "array") for (const item of node.items) this.#leaves(text, item, field, edits);
    else if (node.kind === "object") {
      this.#names(node.members, edits);
      for (const { value } of node.members) this.#leaves(text, value, field, edits);
    } else if (node.kind !== "literal" || node.value !== null) {
      const given = node.kind === "string" ? node.value : text.slice(node.start, node.end);
      const bare = this.whole(given, field);
      if (bare !== given) edits.push({ start: node.start, end: node.end, text: JSON.stringify(bare) });
    }
  }
}

/** The field that an object like `{"name": "Authorization", "value": …}` or `{"key": "user/7/email", "value": …}` is of. */
function pairedField(members: JsonMember[], finder: Finder): string | null {
  const name = members.find((member) =>
    ["name", "key", "header", "field"].includes(member.name.toLowerCase()),
  );
  return name === undefined ? null : finder.fieldOfKey(stringOf(name.value) ?? "");
}

function isValueName(name: string): boolean {
  return ["value", "values"].includes(name.toLowerCase());
}

function bordersOf(texts: string[]): number[] {
  const borders: number[] = [];
  let at = 0;
  for (const text of texts.slice(0, -1)) {
    at += text.length;
    borders.push(at);
  }
  return borders;
}

/** The mark goes where a match begins; its other parts vanish. @param found in order and apart */
function cutAcross(texts: string[], found: Found[]): string[] {
  let from = 0;
  /** The first that does not end before the text. */
  let next = 0;
  return texts.map((text) => {
    const to = from + text.length;
    const edits: Edit[] = [];
    while (next < found.length && found[next]!.end <= from) next++;
    for (let at = next; at < found.length && found[at]!.start < to; at++) {
      const { start, end } = found[at]!;
      edits.push({
        start: Math.max(start, from) - from,
        end: Math.min(end, to) - from,
        text: start >= from ? MARK : "",
      });
    }
    from = to;
    return applied(text, edits);
  });
}

function applied(text: string, edits: Edit[]): string {
  if (edits.length === 0) return text;
  edits.sort((one, other) => one.start - other.start);
  let out = "";
  let at = 0;
  for (const edit of edits) {
    out += text.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  return out + text.slice(at);
}

function looksLikeJson(text: string): boolean {
  return /^\s*[{["]/.test(text);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
