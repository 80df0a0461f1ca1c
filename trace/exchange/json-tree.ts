/**
 * JSON read with the place of every value in its text, so that what is taken out of it is the text that was given:
 * parsed into doubles, 9007199254740993 and 1.0 would become other numbers.
 */
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";

export type JsonMember = { name: string; nameStart: number; nameEnd: number; value: JsonNode };

/** `start` and `end` bound the value's own text, without blanks around it. */
export type JsonNode = { start: number; end: number } & (
  | { kind: "object"; members: JsonMember[] }
  | { kind: "array"; items: JsonNode[] }
  | { kind: "string"; value: string }
  | { kind: "number" }
  | { kind: "literal"; value: boolean | null }
);

/** Why a text is no JSON value, and where. */
export class JsonSyntaxError extends Error {
  override readonly name = "JsonSyntaxError";
  readonly offset: number;
  constructor(reason: string, offset: number) {
    super(reason);
    this.offset = offset;
  }
}

/**
 * One value and nothing after it (RFC 8259, nested at most `LIMITS.jsonDepth` levels, of at most `LIMITS.importRecordValues` values).
 * @throws JsonSyntaxError
 */
export function parseTree(text: string): JsonNode {
  const parser = new Parser(text);
  const node = parser.value(0);
  parser.blanks();
  if (parser.at < text.length) throw new JsonSyntaxError("text follows the value", parser.at);
  return node;
}

/** The value's tree, or null where the text is no JSON. */
export function treeOf(text: string): JsonNode | null {
  try {
    return parseTree(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) return null;
    throw error;
  }
}

/**
 * A document with what is needed to take exact parts out of it. Two members of one name are refused: two readers may see
 * two different records.
 * @param what names the record in errors
 */
export class JsonDocument {
  readonly text: string;
  readonly root: JsonNode;
  readonly what: string;

  constructor(text: string, what: string) {
    this.text = text;
    this.what = what;
    try {
      this.root = parseTree(text);
    } catch (cause) {
      if (!(cause instanceof JsonSyntaxError)) throw cause;
      throw new DsecError("MALFORMED_JSON", `${what}: ${cause.message} at column ${cause.offset + 1}`, {
        cause,
      });
    }
    this.#refuseRepeatedNames(this.root);
  }

  /** The exact text of a value. */
  textOf(node: JsonNode): string {
    return this.text.slice(node.start, node.end);
  }

  /** As `JSON.parse` gives it: for values whose numbers are known to be small. */
  valueOf(node: JsonNode): unknown {
    return JSON.parse(this.textOf(node));
  }

  refused(why: string): DsecError {
    return new DsecError("INVALID_REQUEST", `${this.what}: ${why}`);
  }

  #refuseRepeatedNames(node: JsonNode): void {
    if (node.kind === "array") for (const item of node.items) this.#refuseRepeatedNames(item);
    if (node.kind !== "object") return;
    const names = new Set<string>();
    for (const { name, nameStart, value } of node.members) {
      if (names.has(name)) {
        const shown = JSON.stringify(name).slice(0, 80);
        throw new DsecError(
          "MALFORMED_JSON",
          `${this.what}: member ${shown} is repeated at column ${nameStart + 1}`,
        );
      }
      names.add(name);
      this.#refuseRepeatedNames(value);
    }
  }
}

/** The member's value; null where the object has no such member, its value is null, or the node is no object. */
export function memberOf(node: JsonNode | null, name: string): JsonNode | null {
  if (node?.kind !== "object") return null;
  const found = node.members.find((member) => member.name === name)?.value ?? null;
  return found?.kind === "literal" && found.value === null ? null : found;
}

export function stringOf(node: JsonNode | null): string | null {
  return node?.kind === "string" ? node.value : null;
}

export function itemsOf(node: JsonNode | null): JsonNode[] {
  return node?.kind === "array" ? node.items : [];
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;

class Parser {
  readonly text: string;
  at = 0;
  #values = 0;

  constructor(text: string) {
    this.text = text;
  }

  blanks(): void {
    for (; ; this.at++) {
      const code = this.text.charCodeAt(this.at);
      if (code !== 0x20 && code !== 0x09 && code !== 0x0a && code !== 0x0d) return;
    }
  }

  value(depth: number): JsonNode {
    if (depth > LIMITS.jsonDepth) {
      throw new JsonSyntaxError(`it nests deeper than ${LIMITS.jsonDepth} levels`, this.at);
    }
    if (++this.#values > LIMITS.importRecordValues) {
      throw new JsonSyntaxError(`it holds more than ${LIMITS.importRecordValues} values; split it`, this.at);
    }
    this.blanks();
    const start = this.at;
    switch (this.text[start]) {
      case "{":
        return this.object(depth);
      case "[":
        return this.array(depth);
      case '"':
        return { kind: "string", value: this.string(), start, end: this.at };
      case "t":
        return this.literal("true", true);
      case "f":
        return this.literal("false", false);
      case "n":
        return this.literal("null", null);
    }
    NUMBER.lastIndex = start;
    if (!NUMBER.test(this.text)) throw this.unexpected();
    this.at = NUMBER.lastIndex;
    return { kind: "number", start, end: this.at };
  }

  object(depth: number): JsonNode {
    const start = this.at++;
    const members: JsonMember[] = [];
    this.blanks();
    if (this.text[this.at] === "}") return { kind: "object", members, start, end: ++this.at };
    for (;;) {
      this.blanks();
      if (this.text.charCodeAt(this.at) !== QUOTE) throw this.unexpected();
      const nameStart = this.at;
      const name = this.string();
      const nameEnd = this.at;
      this.blanks();
      if (this.text[this.at] !== ":") throw this.unexpected();
      this.at++;
      members.push({ name, nameStart, nameEnd, value: this.value(depth + 1) });
      if (this.ends("}")) return { kind: "object", members, start, end: this.at };
    }
  }

  array(depth: number): JsonNode {
    const start = this.at++;
    const items: JsonNode[] = [];
    this.blanks();
    if (this.text[this.at] === "]") return { kind: "array", items, start, end: ++this.at };
    for (;;) {
      items.push(this.value(depth + 1));
      if (this.ends("]")) return { kind: "array", items, start, end: this.at };
    }
  }

  /** Passes over what stands after a member or an item, and tells whether it was the last. */
  ends(closing: string): boolean {
    this.blanks();
    const next = this.text[this.at];
    if (next !== "," && next !== closing) throw this.unexpected();
    this.at++;
    return next === closing;
  }

  string(): string {
    const start = this.at;
    let escaped = false;
    for (let at = start + 1; at < this.text.length; at++) {
      const code = this.text.charCodeAt(at);
      if (code === BACKSLASH) {
        escaped = true;
        at++;
      } else if (code === QUOTE) {
        this.at = at + 1;
        return escaped ? this.unescaped(start) : this.text.slice(start + 1, at);
      } else if (code < 0x20) throw new JsonSyntaxError("a control character stands in a string", at);
    }
    throw new JsonSyntaxError("the text ends within a string", this.text.length);
  }

  unescaped(start: number): string {
    let value: string;
    try {
      value = JSON.parse(this.text.slice(start, this.at)) as string;
    } catch {
      throw new JsonSyntaxError("a string has a bad escape", start);
    }
    if (!value.isWellFormed()) throw new JsonSyntaxError("a string holds a lone surrogate", start);
    return value;
  }

  literal(word: string, value: boolean | null): JsonNode {
    if (!this.text.startsWith(word, this.at)) throw this.unexpected();
    const start = this.at;
    this.at += word.length;
    return { kind: "literal", value, start, end: this.at };
  }

  unexpected(): JsonSyntaxError {
    return this.at >= this.text.length
      ? new JsonSyntaxError("the text ends before the value does", this.at)
      : new JsonSyntaxError("unexpected character", this.at);
  }
}
