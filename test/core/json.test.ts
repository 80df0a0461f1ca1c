import { expect, test } from "vitest";
import { parseJson } from "#core/json.ts";

test("a member that is repeated in one object is refused, however it is spelt", () => {
  expect(() => parseJson('{"a":1,"\\u0061":2}', "body")).toThrow(/"a" is repeated/);
  expect(parseJson('{"a":{"a":1},"b":[{"a":2},{"a":3}]}', "body")).toEqual({ a: { a: 1 }, b: [{ a: 2 }, { a: 3 }] });
});
