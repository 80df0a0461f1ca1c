/**
 * The grammar of queries, by precedence climbing:
 *
 *     condition  := condition "or" condition | condition "and" condition | "not" condition
 *                 | "exists" name | comparison
 *     comparison := sum [ ( == != < <= > >= contains starts_with ends_with matches in "not in" ) sum ]
 *     sum        := sum ( + - * / ) sum | - sum | ( condition ) | name | literal | list
 *     name       := word { . word | [ "any text" ] | [ integer ] }
 *     literal    := "text" | 'text' | number | true | false | null
 *     list       := [ literal, … ]
 *
 * What a name means is decided in names.ts.
 */
import { LIMITS } from "#core/limits.ts";
import { queryInvalid, type Token, tokensOf } from "./tokens.ts";
import type { Value } from "./value.ts";

export type Operator = (typeof COMPARISONS)[number];

export type Expression =
  | { kind: "and" | "or"; of: Expression[]; column: number }
  | { kind: "not"; of: Expression; column: number }
  | { kind: "exists"; of: Name; column: number }
  | { kind: "compare"; operator: Operator; left: Expression; right: Expression; column: number }
  | {
      kind: "arithmetic";
      operator: "+" | "-" | "*" | "/";
      left: Expression;
      right: Expression;
      column: number;
    }
  | { kind: "literal"; value: Exclude<Value, undefined>; column: number }
  | Name;

export type Name = { kind: "name"; path: [string, ...(string | number)[]]; column: number };

const COMPARISONS = [
  ...(["==", "!=", "<", "<=", ">", ">="] as const),
  ...(["contains", "starts_with", "ends_with", "matches", "in", "not in"] as const),
] as const;

/** @throws QUERY_INVALID, with the column, where the text is no query or is beyond its bounds */
export function parse(query: string): Expression {
  return new Parser(query).whole();
}

const WORDS = new Set<string>(["and", "or", "not", "exists", "true", "false", "null", ...COMPARISONS]);

class Parser {
  readonly #query: string;
  readonly #tokens: Token[];
  #at = 0;
  #depth = 0;
  #nodes = 0;

  constructor(query: string) {
    this.#query = query;
    this.#tokens = tokensOf(query);
  }

  whole(): Expression {
    if (this.#token().kind === "end")
      throw this.#invalid('the query is empty; write one such as tool == "search"');
    const condition = this.#either("or");
    if (this.#token().kind !== "end") throw this.#invalid(`the query should end before ${this.#shown()}`);
    return condition;
  }

  #either(word: "or" | "and"): Expression {
    const { column } = this.#token();
    const part = () => (word === "or" ? this.#either("and") : this.#negated());
    const of = [part()];
    while (this.#takesWord(word)) of.push(part());
    return of.length === 1 ? of[0]! : this.#node({ kind: word, of, column });
  }

  #negated(): Expression {
    const { column } = this.#token();
    if (this.#takesWord("not")) {
      return this.#within(() => this.#node({ kind: "not", of: this.#negated(), column }));
    }
    if (this.#takesWord("exists")) return this.#exists(column);
    return this.#comparison();
  }

  #exists(column: number): Expression {
    const open = this.#takesSign("(");
    const of = this.#name();
    if (open) this.#expectSign(")");
    return this.#node({ kind: "exists", of, column });
  }

  #comparison(): Expression {
    const left = this.#sum(0);
    const { column } = this.#token();
    const negated = this.#isWord("not");
    if (negated) {
      this.#at++;
      if (!this.#isWord("in")) throw this.#invalid(`only "in" may follow "not" here, not ${this.#shown()}`);
    }
    const token = this.#token();
    const text = token.kind === "sign" || token.kind === "name" ? token.text : "";
    const operator = COMPARISONS.find((candidate) => candidate === (negated ? "not in" : text));
    if (operator === undefined) return left;
    this.#at++;
    const right = this.#sum(0);
    const compared = this.#node({ kind: "compare", operator, left, right, column });
    const again = this.#token();
    if ((again.kind === "sign" || again.kind === "name") && COMPARISONS.includes(again.text as Operator)) {
      throw this.#invalid(`comparisons do not chain; join them with "and"`);
    }
    return compared;
  }

  /** @param least binding power: 0 for + and -, 1 for * and / */
  #sum(least: 0 | 1 | 2): Expression {
    let left = this.#term();
    while (true) {
      const { column } = this.#token();
      const sign = (["+", "-", "*", "/"] as const).find((candidate) => this.#isSign(candidate));
      const power = sign === "+" || sign === "-" ? 0 : 1;
      if (sign === undefined || power < least) return left;
      this.#at++;
      const right = this.#sum(power === 0 ? 1 : 2);
      left = this.#node({ kind: "arithmetic", operator: sign, left, right, column });
    }
  }

  #term(): Expression {
    const token = this.#token();
    const { column } = token;
    if (this.#takesSign("(")) {
      return this.#within(() => {
        const inner = this.#either("or");
        this.#expectSign(")");
        return inner;
      });
    }
    if (this.#takesSign("-")) {
      return this.#within(() => {
        const of = this.#term();
        if (of.kind === "literal" && (typeof of.value === "number" || typeof of.value === "bigint"))
          return { ...of, value: -of.value, column };
        const zero: Expression = { kind: "literal", value: 0, column };
        return this.#node({ kind: "arithmetic", operator: "-", left: zero, right: of, column });
      });
    }
    if (this.#isSign("[")) return this.#node({ kind: "literal", value: this.#list(), column });
    const constant = this.#constant();
    if (constant !== undefined) return this.#node({ kind: "literal", value: constant, column });
    return this.#name();
  }

  #list(): Value[] {
    this.#expectSign("[");
    const items: Value[] = [];
    while (!this.#takesSign("]")) {
      if (items.length > 0) this.#expectSign(",");
      const negative = this.#takesSign("-");
      const item = this.#constant();
      if (item === undefined) throw this.#invalid(`a list holds literals, not ${this.#shown()}`);
      if (negative && typeof item !== "number" && typeof item !== "bigint")
        throw this.#invalid("only a number can be negative");
      items.push(negative ? -(item as number) : item);
      this.#count();
    }
    return items;
  }

  #constant(): Exclude<Value, undefined> | undefined {
    const token = this.#token();
    if (token.kind === "string") {
      this.#at++;
      return token.text;
    }
    if (token.kind === "number") {
      this.#at++;
      return token.value;
    }
    if (this.#takesWord("true")) return true;
    if (this.#takesWord("false")) return false;
    if (this.#takesWord("null")) return null;
    return undefined;
  }

  #name(): Name {
    const first = this.#token();
    if (first.kind !== "name" || WORDS.has(first.text)) {
      throw this.#invalid(`expected a name or a value, not ${this.#shown()}`);
    }
    this.#at++;
    const path: Name["path"] = [first.text];
    while (true) {
      if (this.#takesSign(".")) {
        const part = this.#token();
        if (part.kind !== "name") throw this.#invalid(`expected a name after the dot, not ${this.#shown()}`);
        this.#at++;
        path.push(part.text);
      } else if (this.#isSign("[") && this.#touchesPrevious()) {
        this.#at++;
        const negative = this.#takesSign("-");
        const part = this.#token();
        if (part.kind === "string" && !negative) path.push(part.text);
        else if (part.kind === "number" && Number.isSafeInteger(part.value))
          path.push(negative ? -Number(part.value) : Number(part.value));
        else throw this.#invalid(`expected ["member"] or [0], not ${this.#shown()}`);
        this.#at++;
        this.#expectSign("]");
      } else return this.#node({ kind: "name", path, column: first.column });
      this.#count();
    }
  }

  /** `tool in ["a"]` is a comparison with a list, `payloads[0]` an item. */
  #touchesPrevious(): boolean {
    return !/\s/.test(this.#query[this.#token().column - 2] ?? "");
  }

  #token(): Token {
    return this.#tokens[this.#at]!;
  }

  #isWord(word: string): boolean {
    const token = this.#token();
    return token.kind === "name" && token.text === word;
  }

  #takesWord(word: string): boolean {
    const taken = this.#isWord(word);
    if (taken) this.#at++;
    return taken;
  }

  #isSign(sign: string): boolean {
    const token = this.#token();
    return token.kind === "sign" && token.text === sign;
  }

  #takesSign(sign: string): boolean {
    const taken = this.#isSign(sign);
    if (taken) this.#at++;
    return taken;
  }

  #expectSign(sign: string): void {
    if (!this.#takesSign(sign)) throw this.#invalid(`expected ${sign}, not ${this.#shown()}`);
  }

  #within<T>(part: () => T): T {
    if (++this.#depth > LIMITS.queryDepth)
      throw this.#invalid(
        `it nests deeper than ${LIMITS.queryDepth} levels; leave out brackets that say nothing`,
      );
    const result = part();
    this.#depth--;
    return result;
  }

  #node<E extends Expression>(expression: E): E {
    this.#count();
    return expression;
  }

  #count(): void {
    if (++this.#nodes > LIMITS.queryNodes)
      throw this.#invalid(
        `a query has at most ${LIMITS.queryNodes} parts; use "in" with a list, or several queries`,
      );
  }

  #shown(): string {
    const token = this.#token();
    if (token.kind === "end") return "the end";
    if (token.kind === "number") return String(token.value);
    return token.kind === "string" ? JSON.stringify(token.text.slice(0, 40)) : token.text.slice(0, 40);
  }

  #invalid(why: string) {
    return queryInvalid(this.#query, this.#token().column, why);
  }
}
