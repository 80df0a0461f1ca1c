import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DsecError } from "#core/errors.ts";
import { canonicalJson, jsonDigest, parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { sharedPath } from "#test/support/shared.ts";

const refusal = (input: Uint8Array | string): DsecError => {
  try {
    parseJson(input, "body");
  } catch (error) {
    if (error instanceof DsecError) return error;
    throw error;
  }
  throw new Error("it was accepted");
};

test("a member that is repeated in one object is refused, however it is spelt", () => {
  expect(() => parseJson('{"a":1,"\\u0061":2}', "body")).toThrow(/"a" is repeated at offset 7/);
  expect(() => parseJson('{"":1,"":2}', "body")).toThrow(/"" is repeated/);
  expect(() => parseJson('[{"x":{"deep":[1,{"k":1,"v":"}","k":2}]}}]', "body")).toThrow(/"k" is repeated/);
  expect(() => parseJson('{"__proto__":1,"__proto__":2}', "body")).toThrow(/repeated/);
  expect(parseJson('{"a":{"a":1},"b":[{"a":2},{"a":3}]}', "body")).toEqual({
    a: { a: 1 },
    b: [{ a: 2 }, { a: 3 }],
  });
});

test("a name such as __proto__ is a plain member and changes no prototype", () => {
  const value = parseJson('{"__proto__":{"admin":true}}', "body") as { admin?: boolean };
  expect(value.admin).toBeUndefined();
  expect(Object.keys(value)).toEqual(["__proto__"]);
});

test("brackets, quotes and commas inside strings are text", () => {
  const value = { 'a"b,{[': "]}\\", c: ['\\"', '{"c":1,"c":2}', "\\"], "\\": 1 };
  expect(parseJson(JSON.stringify(value), "body")).toEqual(value);
});

test("nesting is bounded before anything recurses", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  expect(parseJson(nested(LIMITS.jsonDepth), "body")).toBeInstanceOf(Array);
  expect(refusal(nested(LIMITS.jsonDepth + 1)).message).toMatch(/deeper than 64 levels at offset 64/);
  expect(refusal("[".repeat(100_000)).code).toBe("MALFORMED_JSON");
  expect(refusal('{"a":'.repeat(100_000)).code).toBe("MALFORMED_JSON");
  expect(refusal("]".repeat(100_000)).code).toBe("MALFORMED_JSON");
});

test("bytes that are not UTF-8, a byte-order mark and lone surrogates are refused", () => {
  expect(refusal(Uint8Array.of(0x22, 0xc0, 0x80, 0x22)).message).toMatch(/not UTF-8/);
  expect(refusal(new TextEncoder().encode("\uFEFF{}")).message).toMatch(/byte-order mark/);
  expect(refusal('["\\ud800"]').message).toMatch(/lone surrogate in the string at offset 1/);
  expect(refusal('{"\\udc00":1}').message).toMatch(/lone surrogate/);
  expect(refusal('["\ud800"]').message).toMatch(/lone surrogate/);
  expect(parseJson('["\\ud83d\\ude00"]', "body")).toEqual(["😀"]);
});

test("what does not parse is named but never quoted, for it may be a secret", () => {
  for (const text of [
    "hunter2",
    '{"pin": hunter2}',
    '{"pin":"hunter2",}',
    '"hunter2',
    '"hunter2" x',
    "undefined",
  ]) {
    const error = refusal(text);
    expect(error.code).toBe("MALFORMED_JSON");
    expect(error.message).toMatch(/^body is not valid JSON: ./);
    expect(`${error.message}${error.cause}`).not.toContain("hunter2");
  }
});

test("whatever the engine writes is read back, and a repeated name never is", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
      const text = JSON.stringify(value);
      // the engine writes -0 as 0, and JSON text may hold lone surrogates, which we refuse
      fc.pre(!/\\ud[89a-f]/i.test(text));
      expect(parseJson(text, "body")).toEqual(JSON.parse(text));
    }),
    { numRuns: 500, verbose: 1 },
  );
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.jsonValue({ maxDepth: 3 }), (name, value) => {
      const member = `${JSON.stringify(name)}:${JSON.stringify(value)}`;
      fc.pre(!/\\ud[89a-f]/i.test(member));
      expect(refusal(`{${member},${member}}`).message).toMatch(/is repeated/);
    }),
    { numRuns: 300, verbose: 1 },
  );
});

const parsing = sharedPath("data/vectors/json-parsing");
describe.runIf(parsing)("the JSON parsing vectors of nst/JSONTestSuite", () => {
  /** Valid by RFC 8259 and refused by us as I-JSON (RFC 7493 section 2.3) has it: equal names in one object. */
  const OURS = new Set(["y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"]);
  const names = readdirSync(parsing ?? ".").filter((name) => name.endsWith(".json"));
  const read = (name: string) => new Uint8Array(readFileSync(join(parsing!, name)));
  const accepted = (name: string) => {
    try {
      parseJson(read(name), name);
      return true;
    } catch (error) {
      expect(error).toBeInstanceOf(DsecError);
      expect(error).toMatchObject({ code: "MALFORMED_JSON", message: expect.stringContaining(name) });
      return false;
    }
  };

  test("every valid text is read, but for those with a repeated name", () => {
    const valid = names.filter((name) => name.startsWith("y_"));
    expect(valid.length).toBeGreaterThanOrEqual(90);
    expect(valid.filter((name) => !accepted(name)).sort()).toEqual([...OURS].sort());
  });

  test("every invalid text is refused with a code and its name", () => {
    const invalid = names.filter((name) => name.startsWith("n_"));
    expect(invalid.length).toBeGreaterThanOrEqual(180);
    expect(invalid.filter(accepted)).toEqual([]);
  });

  test("of the texts that a parser may take or not we take the numbers alone", () => {
    const either = names.filter((name) => name.startsWith("i_"));
    expect(either.length).toBeGreaterThanOrEqual(30);
    expect(either.filter(accepted).filter((name) => !name.startsWith("i_number_"))).toEqual([]);
  });
});

const jcs = sharedPath("data/vectors/jcs");
test.runIf(jcs)("canonical JSON has the exact bytes of the JCS vectors", () => {
  const names = readdirSync(join(jcs!, "input"));
  expect(names.length).toBe(6);
  for (const name of names) {
    const input = JSON.parse(readFileSync(join(jcs!, "input", name), "utf8"));
    const expected = readFileSync(join(jcs!, "output", name));
    expect(Buffer.from(canonicalJson(input)).equals(expected), name).toBe(true);
  }
});

test("equal values have one canonical form whatever the order of their members", async () => {
  expect(await jsonDigest({ b: [1, { d: 4, c: 3 }], a: "é" })).toBe(
    await jsonDigest({ a: "é", b: [1, { c: 3, d: 4 }] }),
  );
  expect(canonicalJson({ "\u20ac": 1, "\r": 2, "1": 3, "\ud83d\ude00": 4, "\ufb33": 5, ö: 6 })).toBe(
    '{"\\r":2,"1":3,"ö":6,"€":1,"😀":4,"\ufb33":5}',
  );
});

test("what JSON cannot carry is refused with a code", () => {
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;
  for (const value of [
    Number.NaN,
    Number.POSITIVE_INFINITY,
    JSON.parse("1e400"),
    ["\ud800"],
    { "\udc00": 1 },
    undefined,
    () => 1,
    cycle,
    1n,
  ]) {
    expect(() => canonicalJson(value)).toThrow(expect.objectContaining({ code: "INVALID_REQUEST" }));
  }
});
