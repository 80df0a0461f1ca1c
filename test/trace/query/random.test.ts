import fc from "fast-check";
import { expect, test } from "vitest";
import { DsecError } from "#core/errors.ts";
import { call, type Made, madeTrace, remember } from "#test/trace/made-trace.ts";
import { nodeIndexOf } from "#trace/node/engine.ts";
import { type Query, readQuery } from "#trace/query/check.ts";
import { search } from "#trace/query/search.ts";

const WORDS = [
  ..."( ) [ ] , . + - * / == != < <= > >= = ! # and or not in exists contains starts_with matches".split(" "),
  ..."true false null 0 1 2.5 1e400 9007199254740993 tool step call type seq time any reward labels".split(
    " ",
  ),
  ..."memory_state arguments answer timing old payloads is_error status gpu_us x".split(" "),
  ...['"a"', "'b'", '"\\u0000"', '"unclosed', '"tool_call_start"', '"*a?*"'],
];

const TRACE: Made[] = [
  ...call(1, "a", { arguments: '{"x":9007199254740993,"b":["a",null]}', output: '{"a":"b"}' }),
  ...call(2, "b", { arguments: "[1,2.5]", end: { is_error: true, timing: { gpu_us: 5 } } }),
  { type: "reward", components: [{ name: "x", value: 1, weight: 1, product: 1 }], sum: 1 },
];

test("whatever is asked is answered or refused with its column, and both searches for bytes find the same", async () => {
  const segment = await madeTrace(TRACE, { labels_json: '{"x":"a"}' }, 2);
  let [taken, matched] = [0, 0];
  await fc.assert(
    fc.asyncProperty(fc.array(fc.constantFrom(...WORDS), { maxLength: 9 }), async (words) => {
      let query: Query;
      try {
        query = readQuery(words.join(" "));
      } catch (error) {
        if (!(error instanceof DsecError)) throw error;
        expect(error.code).toBe("QUERY_INVALID");
        expect(error.details?.column).toBeGreaterThan(0);
        return;
      }
      taken++;
      const [portable, native]: number[][] = [[], []];
      for await (const { seq } of search(segment, query)) portable!.push(seq);
      for await (const { seq } of search(segment, query, nodeIndexOf)) native!.push(seq);
      expect(native).toEqual(portable);
      matched += portable!.length;
    }),
    { numRuns: 20_000 },
  );
  // most random words are no query; enough of them are for the rest to mean something
  expect(taken).toBeGreaterThan(50);
  expect(matched).toBeGreaterThan(0);
});

test("a search finds what a plain filter over decoded events finds", async () => {
  const text = fc.constantFrom("a", "b", "ä", "a\\b", 'say "a"', "\u2028", "");
  const event = fc.record({ tool: fc.constantFrom("a", "b"), text, number: fc.integer({ min: -2, max: 2 }) });
  await fc.assert(
    fc.asyncProperty(
      fc.array(event, { minLength: 1, maxLength: 20 }),
      fc.constantFrom("a", "b"),
      text,
      fc.integer({ min: -2, max: 2 }),
      fc.integer({ min: 1, max: 50 }),
      async (events, tool, wanted, number, flushEvery) => {
        const made = events.flatMap((given, at) =>
          call(at + 1, given.tool, { arguments: { text: given.text, number: given.number } }),
        );
        const segment = await madeTrace(made, {}, flushEvery);
        const condition = `(arguments.text contains ${JSON.stringify(wanted)} or arguments.number < ${number})`;
        const query = readQuery(`type == "tool_call_end" and tool == "${tool}" and ${condition}`);
        const found: number[] = [];
        for await (const match of search(segment, query)) found.push(match.call!);
        const expected = events.flatMap((given, at) =>
          given.tool === tool && (given.text.includes(wanted) || given.number < number) ? [at + 1] : [],
        );
        expect(found).toEqual(expected);
      },
    ),
    { numRuns: 200 },
  );
});

test("memory is at each event what the changes before it leave, whatever the keys are", async () => {
  const key = fc.constantFrom("a", "clear", "", "ä/b", "x".repeat(40), "x".repeat(41));
  const change = fc.record({ op: fc.constantFrom("put", "delete", "clear", "other"), key });
  await fc.assert(
    fc.asyncProperty(
      fc.array(change, { minLength: 1, maxLength: 20 }),
      key,
      fc.integer({ min: 1, max: 30 }),
      async (changes, asked, flushEvery) => {
        let holds = false;
        const expected: number[] = [];
        const made = changes.flatMap(({ op, key }, at): Made[] => {
          if (op === "clear" || (op === "delete" && key === asked)) holds = false;
          if (op === "put" && key === asked) holds = true;
          if (holds) expected.push(at + 1);
          return [changeOf(op, key), ...call(at + 1, "t")];
        });
        const segment = await madeTrace(made, {}, flushEvery);
        const query = readQuery(`memory_state[${JSON.stringify(asked)}] == 1 and type == "tool_call_start"`);
        for (const indexOf of [undefined, nodeIndexOf]) {
          const found: number[] = [];
          for await (const match of search(segment, query, indexOf)) found.push(match.call!);
          expect(found).toEqual(expected);
        }
      },
    ),
    { numRuns: 200 },
  );
});

/** `other`: a put into memory that is not the task's. */
function changeOf(op: string, key: string): Made {
  const made = remember(key, op === "delete" ? null : "1") as Made & { type: "memory_write" };
  if (op === "clear") return { ...made, op: "clear", key: "", new: null };
  return op === "other" ? { ...made, namespace: "shared:all" } : made;
}
