import { expect, test } from "vitest";
import type { Json } from "#core/json.ts";
import { compileSchema } from "#core/json-schema.ts";

const judge = (schema: Json, value: Json) => compileSchema(schema, "channel c")(value);

test("each keyword takes what JSON Schema 2020-12 says it takes", () => {
  const cases: [schema: Json, valid: Json[], invalid: Json[]][] = [
    [true, [1, null], []],
    [false, [], [1, null]],
    [{}, [1, "a"], []],
    [{ type: "integer" }, [1, 1.0, -3], [1.5, "1", null, true]],
    [{ type: "number" }, [1, 1.5], ["1", true]],
    [{ type: ["null", "boolean"] }, [null, true], [0, "", []]],
    [{ type: "object" }, [{}], [[], null]],
    [{ type: "array" }, [[]], [{}, null, "a"]],
    [{ enum: [1, "a", { b: [1], a: 2 }] }, [1, "a", { a: 2, b: [1] }], ["1", { a: 2 }, [1]]],
    [{ const: null }, [null], [0, false, ""]],
    [
      { required: ["a", "__proto__"] },
      [JSON.parse('{"a":1,"__proto__":2}'), "not an object"],
      [{ a: 1 }, {}],
    ],
    [{ properties: { a: { type: "string" } } }, [{ a: "x" }, { b: 1 }, [1]], [{ a: 1 }]],
    [{ properties: { a: {} }, additionalProperties: { type: "number" } }, [{ a: "x", b: 1 }], [{ b: "x" }]],
    [{ additionalProperties: false }, [{}, 1], [{ a: 1 }, JSON.parse('{"__proto__":1}')]],
    [{ items: { type: "number" } }, [[], [1, 2], "ab"], [[1, "2"]]],
    [{ minItems: 1, maxItems: 2 }, [[1], [1, 2], "abc"], [[], [1, 2, 3]]],
    [{ minLength: 2, maxLength: 2 }, ["ab", "😀😀", 5], ["a", "abc", "😀"]],
    [{ minimum: 1, exclusiveMaximum: 2 }, [1, 1.9, "5"], [0.9, 2]],
    [{ exclusiveMinimum: 1, maximum: 2 }, [1.1, 2], [1, 2.1]],
  ];
  for (const [schema, valid, invalid] of cases) {
    const what = JSON.stringify(schema);
    for (const value of valid) expect(judge(schema, value), `${what} ${JSON.stringify(value)}`).toBeNull();
    for (const value of invalid)
      expect(judge(schema, value), `${what} ${JSON.stringify(value)}`).not.toBeNull();
  }
});

test("a refusal names the place as a JSON Pointer", () => {
  const schema: Json = { properties: { "a/b": { items: { properties: { "~": { type: "string" } } } } } };
  expect(judge(schema, { "a/b": [{}, { "~": 1 }] })).toBe("/a~1b/1/~0 must be string");
});

test("a schema that says what this subset does not know is refused when it is declared", () => {
  const bad: [Json, RegExp][] = [
    [1, /must be a schema/],
    [null, /must be a schema/],
    [[], /must be a schema/],
    [{ typ: "string" }, /keyword "typ" is not known/],
    [{ pattern: "(a+)+$" }, /"pattern" is not known/],
    [{ $ref: "#" }, /"\$ref" is not known/],
    [{ constructor: {} }, /"constructor" is not known/],
    [{ type: "text" }, /\/type must be among/],
    [{ type: "toString" }, /\/type must be among/],
    [{ enum: 1 }, /\/enum must be an array/],
    [{ properties: [] }, /\/properties must be an object/],
    [{ properties: { a: { items: { tpye: 1 } } } }, /\/properties\/a\/items keyword "tpye"/],
    [{ required: "a" }, /\/required must be an array/],
    [{ minLength: -1 }, /\/minLength must be an integer/],
    [{ minLength: 1.5 }, /\/minLength must be an integer/],
    [{ maximum: "1" }, /\/maximum must be a number/],
    [
      { properties: Object.fromEntries(Array.from({ length: 1001 }, (_, at) => [`p${at}`, true])) },
      /more than 1000/,
    ],
  ];
  for (const [schema, why] of bad) expect(() => compileSchema(schema, "channel c")).toThrow(why);
});
