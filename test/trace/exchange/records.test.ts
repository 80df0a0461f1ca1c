import { describe, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { growth, LINEAR_BELOW } from "#test/support/growth.ts";
import { readRecords } from "#trace/exchange/records.ts";
import { SeenIds, traceFileName } from "#trace/exchange/trace-names.ts";
import { eventsIn, importedFrom } from "./imports.ts";

async function records(input: string | Uint8Array, chunkBytes = Number.POSITIVE_INFINITY) {
  const bytes = typeof input === "string" ? new TextEncoder().encode(input) : input;
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
    if (bytes.length === 0) yield bytes;
  }
  const found = [];
  for await (const record of readRecords(chunks(), "set.jsonl")) found.push(record);
  return found;
}

const TWO = [
  { line: 1, text: '{"id":1}' },
  { line: 2, text: '{"id":2}' },
];

describe("no record is lost or merged", () => {
  test.each([
    ["with a byte-order mark", '\uFEFF{"id":1}\n{"id":2}\n', TWO],
    ["with CRLF", '{"id":1}\r\n{"id":2}\r\n', TWO],
    ["without a last line end", '{"id":1}\n{"id":2}', TWO],
    [
      "with blank lines between and after",
      '{"id":1}\n\n   \t\n{"id":2}\n\n\n\n',
      [TWO[0], { line: 4, text: '{"id":2}' }],
    ],
    [
      "with a mark, CRLF and a lone blank line at the start",
      '\uFEFF\r\n{"id":1}\r\n',
      [{ line: 2, text: '{"id":1}' }],
    ],
    ["as one array on a line", '[{"id":1},{"id":2}]', [TWO[0], { line: 1, text: '{"id":2}' }]],
    [
      "as one array over lines",
      '[\n{"id":1},\n{"id":2}\n]\n',
      [
        { line: 2, text: '{"id":1}' },
        { line: 3, text: '{"id":2}' },
      ],
    ],
    ["as one object over lines", '{\n  "id": 1\n}\n', [{ line: 1, text: '{\n  "id": 1\n}' }]],
    ["with U+2028, which is no line end", '{"id":"a\u2028b"}\n', [{ line: 1, text: '{"id":"a\u2028b"}' }]],
  ])("%s, however the bytes arrive", async (_, input, expected) => {
    const trimmed = (found: { line: number; text: string }[]) =>
      found.map(({ line, text }) => ({ line, text: text.trim() }));
    for (const chunkBytes of [1, 2, 3, 7, Number.POSITIVE_INFINITY]) {
      expect(trimmed(await records(input, chunkBytes))).toEqual(expected);
    }
  });

  test.each([
    [
      "two values on a line",
      '{"id":1}\n{"id":2} {"id":3}\n',
      /^set\.jsonl:2: two values stand on one line at column 10/,
    ],
    ["a lone carriage return between values", '{"id":1}\r{"id":2}\n', /^set\.jsonl:1: two values/],
    [
      "half a line in the middle",
      '{"id":1}\n\n{"id":\n{"id":3}\n',
      /^set\.jsonl:3: the text ends before the value does/,
    ],
    ["half a line at the end", '{"id":1}\n{"id":2', /^set\.jsonl:2: the text ends before/],
    ["an array that is cut off", '[\n{"id":1},\n{"id"', /^set\.jsonl:3: /],
    ["a line that is no JSON", "id,name\n1,x\n", /^set\.jsonl:1: unexpected character at column 1/],
    [
      "text that goes on after an array",
      '[\n{"id":1}\n]\n{"id":2}\n',
      /^set\.jsonl:4: text follows the value/,
    ],
  ])("%s is refused with its line", async (_, input, message) => {
    for (const chunkBytes of [1, 5, Number.POSITIVE_INFINITY]) {
      await expect(records(input, chunkBytes)).rejects.toThrow(message);
    }
  });

  test.each([
    ["UTF-16 with a mark", new Uint8Array(Buffer.from('\uFEFF{"id":1}\n', "utf16le")), /is UTF-16/],
    ["UTF-16 without one", new Uint8Array(Buffer.from('{"id":1}\n', "utf16le")), /is UTF-16/],
    [
      "Latin-1",
      Uint8Array.of(...Buffer.from('{"id":1}\n{"a":"'), 0xe9, 0x22, 0x7d, 0x0a),
      /^set\.jsonl:\d+ is not UTF-8/,
    ],
  ])("%s is refused", async (_, bytes, message) => {
    for (const chunkBytes of [1, 3, Number.POSITIVE_INFINITY]) {
      await expect(records(bytes, chunkBytes)).rejects.toThrow(message);
    }
  });

  test("nesting is bounded, and a member that is given twice refused", async () => {
    await expect(records(`${"[".repeat(100_000)}\n`)).rejects.toThrow(/nests deeper than 64 levels/);
    await expect(importedFrom('{"id":"x","steps":[],"steps":[]}', "jsonl")).rejects.toThrow(
      /input:1: member "steps" is repeated at column 22/,
    );
  });
});

describe("ids", () => {
  test("that are alike are refused naming both lines", () => {
    const seen = new SeenIds();
    seen.add("a", "set.jsonl:1");
    seen.add("a ", "set.jsonl:2");
    expect(() => seen.add("a", "set.jsonl:9")).toThrow(
      /^set\.jsonl:9: id "a" was given at set\.jsonl:1 already/,
    );
  });

  test('1 and "1" are one, and a record without one goes by its line', async () => {
    const ids = (await importedFrom('{"id":1,"steps":[]}\n{"steps":[]}\n{"id":"1","steps":[]}', "jsonl")).map(
      ({ header }) => header.trace_id,
    );
    expect(ids).toEqual(["1", "line-2", "1"]);
  });

  test("never lead out of the folder, and each has a file of its own", async () => {
    const ids = [
      "a",
      "a ",
      "A",
      "__proto__",
      "../x",
      "a/b",
      "a\\b",
      "..",
      ".",
      "",
      "x".repeat(300),
      "é",
      "e\u0301",
      "a.b",
      "con\u0000",
      "-rf",
    ];
    const names = await Promise.all(ids.map(traceFileName));
    expect(new Set(names).size).toBe(ids.length);
    for (const name of names) {
      expect(name).toMatch(/^[A-Za-z0-9_.-]+\.trace$/);
      expect(name.length).toBeLessThan(140);
      expect(name).not.toMatch(/^\./);
    }
    expect(names[0]).toBe("a.trace");
  });

  test("of the form that an odd id's file has cannot take that file", async () => {
    const odd = await traceFileName("a/b");
    expect(await traceFileName(odd.replace(/\.trace$/, ""))).not.toBe(odd);
  });
});

describe("what an import takes grows with its input and no faster", () => {
  test("a document of many records over many lines is gone through once", async () => {
    const read = async (count: number) => {
      const each = Array.from({ length: count }, (_, at) => `{\n"id":${at}\n}`);
      const found = await records(`[\n${each.join(",\n")}\n]`);
      expect(found).toHaveLength(count);
      expect(found.at(-1)).toEqual({ line: 2 + 3 * (count - 1), text: each.at(-1) });
    };
    expect(await growth(50_000, read)).toBeLessThan(LINEAR_BELOW);
  });

  test.each([
    ["by id", (id: string) => ({ role: "tool", tool_call_id: id, content: id })],
    ["in their order", (id: string) => ({ role: "tool", content: id })],
  ])("answers to thousands of calls at once find theirs %s", async (_, answer) => {
    const read = async (count: number) => {
      const ids = Array.from({ length: count }, (_, at) => `c${at}`);
      const tool_calls = ids.map((id) => ({ id, function: { name: "look", arguments: "{}" } }));
      const messages = [{ role: "assistant", tool_calls }, ...ids.map(answer)];
      const [segment] = await importedFrom(JSON.stringify({ id: "many", messages }), "openai-messages");
      const ends = (await eventsIn(segment!)).filter((event) => event.type === "tool_call_end");
      expect(ends.map(({ call, answer }) => [call, answer!.output_json])).toEqual(
        ids.map((id, at) => [at + 1, JSON.stringify(id)]),
      );
    };
    expect(await growth(16_000, read)).toBeLessThan(LINEAR_BELOW);
  });

  test("memory stands beside errors within bounds, for its deltas tell it", async () => {
    const answer = (id: string, chars: number) => {
      return { kind: "tool", tool: "get", args: {}, response: { thing_id: id, text: "x".repeat(chars) } };
    };
    const failure = { kind: "tool", tool: "get", args: {}, response: "Error: no" };
    const fits = [answer("a", 200_000), ...Array<object>(1_000).fill(failure)];
    const [bounded] = await importedFrom(JSON.stringify({ id: "fits", steps: fits }), "jsonl");
    const kept = (await eventsIn(bounded!)).flatMap((event) =>
      event.type === "error" && event.memory_json !== null ? [event.memory_json.length] : [],
    );
    expect(kept[0]).toBeGreaterThan(200_000);
    const total = kept.reduce((sum, length) => sum + length, 0);
    expect(total).toBeLessThanOrEqual(LIMITS.importErrorMemoryChars);
    // Larger than any event may be.
    const large = [...Array.from({ length: 6 }, (_, at) => answer(`${at}`, 3_000_000)), failure];
    const [one] = await importedFrom(JSON.stringify({ id: "large", steps: large }), "jsonl");
    const error = (await eventsIn(one!)).find((event) => event.type === "error");
    expect(error).toMatchObject({ code: "TOOL_FAILED", memory_json: null });
  });

  test("a record of more values than memory has room for is refused with its line", async () => {
    const values = `[${"0,".repeat(LIMITS.importRecordValues)}0]`;
    await expect(records(`{"id":1}\n{"a":${values}}\n`)).rejects.toThrow(
      /^set\.jsonl:2: it holds more than 4000000 values; split it at column \d+$/,
    );
  });
});

test("a time by which a program says that it knows none is no time", async () => {
  for (const timestamp of ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1850-01-01T00:00:00Z", 1e15]) {
    const messages = [
      { role: "user", content: "a", timestamp: "2026-01-01T00:00:00Z" },
      { role: "assistant", content: "b", timestamp },
    ];
    const [segment] = await importedFrom(JSON.stringify({ id: "t", messages }), "openai-messages");
    expect((await eventsIn(segment!)).map(({ t_us }) => t_us)).toEqual([0, 0]);
  }
});
