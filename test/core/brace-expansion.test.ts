import { expect, test } from "vitest";
import { countAlternatives, expandBraces } from "#core/brace-expansion.ts";

test.each([
  ["a{b,c{d,e}}", ["ab", "acd", "ace"]],
  ["{a,b}{,1}", ["a", "a1", "b", "b1"]],
  ["{one}", ["{one}"]],
  ["{x{a,b}}", ["{xa}", "{xb}"]],
  ["{a,{b,c}", ["{a,b", "{a,c"]],
  ["a}b,c{", ["a}b,c{"]],
  ["{a\\,b,\\}}\\", ["a\\,b\\", "\\}\\"]],
  ["", [""]],
])("%j stands for %j", (pattern, texts) => {
  expect(expandBraces(pattern)).toEqual(texts);
  expect(countAlternatives(pattern)).toBe(texts.length);
});

test("what multiplies without end is counted without being made, and deep nesting is read once", () => {
  expect(countAlternatives("{a,b}".repeat(200))).toBe(2 ** 200);
  expect(countAlternatives("{".repeat(1000))).toBe(1);
  const nested = `${"{a,".repeat(250)}${"}".repeat(250)}`;
  expect(countAlternatives(nested)).toBe(251);
  expect(expandBraces(nested)).toHaveLength(251);
});
