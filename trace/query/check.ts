/** What can be said of a query before any event is seen: names that nobody knows, and comparisons that no event could pass. */

import type { DsecError } from "#core/errors.ts";
import { nearest } from "#core/nearest-name.ts";
import { EVENT_TYPES, SECTIONS } from "#trace/events/event.ts";
import { knownNames, meaningOf, type Need, NO_CONSTANTS, needsOf, type Shape } from "./names.ts";
import { type Expression, type Name, parse } from "./parse.ts";
import { queryInvalid } from "./tokens.ts";
import { isNumber, type Value } from "./value.ts";

export type Query = { text: string; expression: Expression };

/** @throws QUERY_INVALID with the column, and where a name is misspelt with the one that is nearest */
export function readQuery(text: string): Query {
  const query = { text, expression: parse(text) };
  new Checker(text).condition(query.expression);
  return query;
}

/** What must be kept track of to judge events of these types. */
export function trackedFor({ expression }: Query, types: readonly (typeof EVENT_TYPES)[number][]): Set<Need> {
  const needs = new Set<Need>();
  for (const name of namesIn(expression))
    for (const type of types) for (const need of needsOf(name, type)) needs.add(need);
  return needs;
}

export function namesIn(expression: Expression): Name[] {
  switch (expression.kind) {
    case "name":
      return [expression];
    case "and":
    case "or":
      return expression.of.flatMap(namesIn);
    case "not":
    case "exists":
      return namesIn(expression.of);
    case "compare":
    case "arithmetic":
      return [...namesIn(expression.left), ...namesIn(expression.right)];
    case "literal":
      return [];
  }
}

const TEXT_OPERATORS = ["starts_with", "ends_with", "matches"];
const ORDER_OPERATORS = ["<", "<=", ">", ">="];

class Checker {
  readonly #query: string;

  constructor(query: string) {
    this.#query = query;
  }

  condition(expression: Expression): void {
    switch (expression.kind) {
      case "and":
      case "or":
        for (const part of expression.of) this.condition(part);
        return;
      case "not":
        this.condition(expression.of);
        return;
      case "exists":
        this.#name(expression.of);
        return;
      case "compare":
        this.#comparison(expression);
        return;
      case "name": {
        const shapes = this.#name(expression);
        if (shapes.has("boolean") || shapes.has("any")) return;
        const what = [...shapes].join(" or ");
        throw this.#invalid(
          expression,
          `${shown(expression)} is ${what}, no condition; compare it with something`,
        );
      }
      case "literal":
        if (typeof expression.value === "boolean") return;
        throw this.#invalid(expression, "a value alone is no condition; compare it with a name");
      case "arithmetic":
        throw this.#invalid(expression, "a number is no condition; compare it with something");
    }
  }

  #comparison(compared: Extract<Expression, { kind: "compare" }>): void {
    const { operator, left, right } = compared;
    if (left.kind === "name" && left.path[0] === "any") {
      const text = right.kind === "literal" && typeof right.value === "string" && right.value !== "";
      if (operator === "contains" && text && left.path.length === 1) return;
      throw this.#invalid(
        compared,
        'any stands only before contains and some text, as in any contains "refund"',
      );
    }
    const leftShapes = this.#operand(left);
    const rightShapes = this.#operand(right);
    this.#knownWord(left, right);
    this.#knownWord(right, left);
    if (operator === "in" || operator === "not in") {
      if (right.kind === "literal" && !Array.isArray(right.value))
        throw this.#invalid(right, 'after "in" comes a list, such as ["a", "b"]');
      return;
    }
    if (TEXT_OPERATORS.includes(operator)) {
      for (const [side, shapes] of [
        [left, leftShapes],
        [right, rightShapes],
      ] as const) {
        if (!shapes.has("text") && !shapes.has("any"))
          throw this.#invalid(compared, `${operator} compares text, and ${shown(side)} is none`);
      }
      return;
    }
    if (operator === "contains") return;
    if (ORDER_OPERATORS.includes(operator)) {
      for (const [side, shapes] of [
        [left, leftShapes],
        [right, rightShapes],
      ] as const) {
        if (!["number", "text", "any"].some((shape) => shapes.has(shape as Shape)))
          throw this.#invalid(
            compared,
            `${operator} compares numbers or text, and ${shown(side)} is neither`,
          );
      }
    }
    const isNull = [left, right].some((side) => side.kind === "literal" && side.value === null);
    if (isNull || leftShapes.has("any") || rightShapes.has("any")) return;
    if ([...leftShapes].some((shape) => rightShapes.has(shape))) return;
    throw this.#invalid(
      compared,
      `${shown(left)} is ${[...leftShapes].join(" or ")} and ${shown(right)} is ${[...rightShapes].join(" or ")}: they are never equal`,
    );
  }

  #operand(expression: Expression): Set<Shape> {
    switch (expression.kind) {
      case "name":
        return this.#name(expression);
      case "literal":
        return new Set([shapeOf(expression.value)]);
      case "arithmetic": {
        for (const side of [expression.left, expression.right]) {
          const shapes = this.#operand(side);
          if (!shapes.has("number") && !shapes.has("any"))
            throw this.#invalid(
              expression,
              `${expression.operator} takes numbers, and ${shown(side)} is none`,
            );
        }
        return new Set(["number"]);
      }
      default:
        throw this.#invalid(expression, "a condition cannot be compared; join conditions with and, or, not");
    }
  }

  /** What the name may be, over all types of events. */
  #name(name: Name): Set<Shape> {
    const [first, ...path] = name.path;
    if (first === "any")
      throw this.#invalid(name, 'any stands only before contains, as in any contains "refund"');
    const known = knownNames();
    if (!known.includes(first)) throw this.#unknown(name, known);
    if (first === "memory_state" && path.length === 0)
      throw this.#invalid(
        name,
        'memory_state needs a key, as in memory_state.status or memory_state["a key"]',
      );
    const shapes = new Set<Shape>();
    for (const type of EVENT_TYPES) {
      const meaning = meaningOf(name, type, NO_CONSTANTS);
      if (meaning === null) continue;
      // What is constant in one file is another thing in the next.
      if (meaning.state === "read") shapes.add(meaning.shape);
      else shapes.add(CONSTANT_SHAPES[first] ?? "any");
    }
    return shapes;
  }

  #unknown(name: Name, known: string[]): DsecError {
    const [first] = name.path;
    if ((EVENT_TYPES as string[]).includes(first))
      return this.#invalid(name, `${first} is a type of event; write type == "${first}"`);
    const near = nearest(first, known);
    const hint =
      near === undefined
        ? 'text stands in quotes, and any contains "…" looks everywhere'
        : `is ${near} meant?`;
    return this.#invalid(name, `the name ${first.slice(0, 60)} is not known; ${hint}`);
  }

  /** Types and sections are few: one that is misspelt would never be found. */
  #knownWord(name: Expression, other: Expression): void {
    if (name.kind !== "name" || other.kind !== "literal" || name.path.length > 1) return;
    const words = name.path[0] === "type" ? EVENT_TYPES : name.path[0] === "section" ? SECTIONS : null;
    if (words === null) return;
    for (const value of Array.isArray(other.value) ? other.value : [other.value]) {
      if (typeof value !== "string" || (words as readonly string[]).includes(value)) continue;
      const near = nearest(value, words);
      const hint = near === undefined ? `there are ${words.join(", ")}` : `is ${near} meant?`;
      throw this.#invalid(
        other,
        `no ${name.path[0]} is called ${JSON.stringify(value.slice(0, 60))}; ${hint}`,
      );
    }
  }

  #invalid({ column }: Expression, why: string): DsecError {
    return queryInvalid(this.#query, column, why);
  }
}

const CONSTANT_SHAPES: Readonly<Record<string, Shape>> = {
  type: "text",
  section: "text",
  trace_id: "text",
  task_id: "text",
  attempt: "number",
  reward: "number",
};

function shapeOf(value: Value): Shape {
  if (isNumber(value)) return "number";
  if (typeof value === "string") return "text";
  if (typeof value === "boolean") return "boolean";
  return Array.isArray(value) ? "list" : "any";
}

function shown(expression: Expression): string {
  if (expression.kind === "name") {
    return expression.path
      .map((part, at) => (at === 0 ? part : `.${part}`))
      .join("")
      .slice(0, 80);
  }
  if (expression.kind !== "literal") return "that";
  const { value } = expression;
  return typeof value === "bigint" ? value.toString() : JSON.stringify(value)!.slice(0, 80);
}
