/** From an expression to a test for events of one type. What is the same for all of them is decided once. */
import type { EventType } from "#trace/events/event.ts";
import type { EventView } from "./event-view.ts";
import { globOf } from "./glob.ts";
import { type Constants, type Meaning, meaningOf, type Read, type Surroundings } from "./names.ts";
import { anyContains, type Haystack } from "./needles.ts";
import type { Expression, Operator } from "./parse.ts";
import { equal, isNumber, type Value } from "./value.ts";

/** A boolean where no event of the type can change it. */
export type Test = boolean | ((view: EventView, around: Surroundings) => boolean);

export function compile(
  expression: Expression,
  type: EventType,
  constants: Constants,
  haystack: Haystack,
): Test {
  switch (expression.kind) {
    case "and":
      return every(expression.of.map((part) => compile(part, type, constants, haystack)));
    case "or": {
      const negated = every(expression.of.map((part) => not(compile(part, type, constants, haystack))));
      return not(negated);
    }
    case "not":
      return not(compile(expression.of, type, constants, haystack));
    case "exists": {
      const meaning = meaningOf(expression.of, type, constants);
      if (meaning === null) return false;
      if (expression.of.path[0] === "memory_state") return existsInMemory(expression.of.path);
      if (meaning.state === "constant") return isThere(meaning.value);
      return (view, around) => isThere(meaning.read(view, around));
    }
    case "compare":
      return compare(expression, type, constants, haystack);
    case "name":
    case "literal":
    case "arithmetic": {
      const operand = operandOf(expression, type, constants);
      if (operand.state === "constant") return operand.value === true;
      return (view, around) => operand.read(view, around) === true;
    }
  }
}

function every(tests: Test[]): Test {
  if (tests.includes(false)) return false;
  const left = tests.filter((test) => typeof test === "function");
  if (left.length === 0) return true;
  if (left.length === 1) return left[0]!;
  return (view, around) => {
    for (const test of left) if (!test(view, around)) return false;
    return true;
  };
}

function not(test: Test): Test {
  return typeof test === "boolean" ? !test : (view, around) => !test(view, around);
}

function compare(
  { operator, left, right }: Extract<Expression, { kind: "compare" }>,
  type: EventType,
  constants: Constants,
  haystack: Haystack,
): Test {
  if (left.kind === "name" && left.path[0] === "any") {
    return anyContains((right as { value: string }).value, haystack);
  }
  const a = operandOf(left, type, constants);
  const b = operandOf(right, type, constants);
  if (a.state === "constant" && b.state === "constant") return holds(operator, a.value, b.value);
  if (operator === "==" && a.state === "read" && b.state === "constant") {
    if (a.text !== null && typeof b.value === "string") return textTest(a.text, b.value);
  }
  if (operator === "matches" && b.state === "constant" && typeof b.value === "string") {
    const glob = globOf(b.value);
    const read = readOf(a);
    return (view, around) => {
      const text = read(view, around);
      return typeof text === "string" && glob(text);
    };
  }
  const [readA, readB] = [readOf(a), readOf(b)];
  return (view, around) => holds(operator, readA(view, around), readB(view, around));
}

/** Most comparisons are of a short member with a word: its bytes are compared where they lie. */
function textTest(field: number, wanted: string): Test {
  // No UTF-8 is equal to a lone surrogate.
  if (!wanted.isWellFormed()) return false;
  const bytes = new TextEncoder().encode(wanted);
  return (view) => view.textIs(field, bytes);
}

function holds(operator: Operator, a: Value, b: Value): boolean {
  // The event has no such member: nothing is said of it, not even that it differs.
  if (a === undefined || b === undefined) return false;
  switch (operator) {
    case "==":
      return equal(a, b);
    case "!=":
      return !equal(a, b);
    case "<":
    case "<=":
    case ">":
    case ">=":
      return ordered(operator, a, b);
    case "contains":
      return contains(a, b);
    case "in":
      return contains(b, a);
    case "not in":
      return !contains(b, a);
    case "starts_with":
      return typeof a === "string" && typeof b === "string" && a.startsWith(b);
    case "ends_with":
      return typeof a === "string" && typeof b === "string" && a.endsWith(b);
    case "matches":
      return typeof a === "string" && typeof b === "string" && globOf(b)(a);
  }
}

function ordered(operator: "<" | "<=" | ">" | ">=", a: Value, b: Value): boolean {
  const numbers = isNumber(a) && isNumber(b);
  if (!numbers && !(typeof a === "string" && typeof b === "string")) return false;
  const [x, y] = [a as number, b as number];
  if (operator === "<") return x < y;
  if (operator === "<=") return x <= y;
  return operator === ">" ? x > y : x >= y;
}

/** Text within text, an item of a list, a member of an object. */
function contains(whole: Value, part: Value): boolean {
  if (typeof whole === "string") return typeof part === "string" && whole.includes(part);
  if (Array.isArray(whole)) return whole.some((item) => equal(item, part));
  return (
    typeof whole === "object" && whole !== null && typeof part === "string" && Object.hasOwn(whole, part)
  );
}

function isThere(value: Value): boolean {
  return value !== null && value !== undefined;
}

/** A key that holds null is there; a member that was not recorded is not. */
function existsInMemory([, key, ...path]: (string | number)[]): Test {
  return (_view, around) => {
    let value = around.memory(String(key));
    for (const part of path) {
      if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return false;
      value = (value as Record<string | number, Value>)[part];
    }
    return value !== undefined;
  };
}

type Operand = Exclude<Meaning, null>;

function operandOf(expression: Expression, type: EventType, constants: Constants): Operand {
  if (expression.kind === "literal") return { state: "constant", value: expression.value };
  if (expression.kind === "name") {
    return meaningOf(expression, type, constants) ?? { state: "constant", value: undefined };
  }
  if (expression.kind !== "arithmetic") throw new Error(`a ${expression.kind} is no value`);
  const { operator } = expression;
  const a = operandOf(expression.left, type, constants);
  const b = operandOf(expression.right, type, constants);
  if (a.state === "constant" && b.state === "constant") {
    return { state: "constant", value: calculate(operator, a.value, b.value) };
  }
  const [readA, readB] = [readOf(a), readOf(b)];
  const read: Read = (view, around) => calculate(operator, readA(view, around), readB(view, around));
  return { state: "read", shape: "number", read, text: null, elsewhere: false };
}

function readOf(operand: Operand): Read {
  return operand.state === "read" ? operand.read : () => operand.value;
}

/** Exact on integers but for division, which gives a double; null where a side is no number or the result is none. */
function calculate(operator: "+" | "-" | "*" | "/", a: Value, b: Value): Value {
  if (a === undefined || b === undefined) return undefined;
  if (!isNumber(a) || !isNumber(b)) return null;
  if (operator === "/") {
    const quotient = Number(a) / Number(b);
    return Number.isFinite(quotient) ? quotient : null;
  }
  const [x, y] = [Number(a), Number(b)];
  const double = operator === "+" ? x + y : operator === "-" ? x - y : x * y;
  if (Number.isSafeInteger(double) && typeof a === "number" && typeof b === "number") return double;
  if (!isInteger(a) || !isInteger(b)) return Number.isFinite(double) ? double : null;
  const [m, n] = [BigInt(a), BigInt(b)];
  const exact = operator === "+" ? m + n : operator === "-" ? m - n : m * n;
  return bitLength(exact) > 4096 ? null : exact;
}

function isInteger(value: number | bigint): boolean {
  return typeof value === "bigint" || Number.isInteger(value);
}

/** Products of products could grow without end. */
function bitLength(value: bigint): number {
  return value.toString(16).length * 4;
}
