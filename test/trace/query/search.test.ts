import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { call, failed, type Made, madeTrace, remember } from "#test/trace/made-trace.ts";
import { decodeEvent } from "#trace/events/codec.ts";
import { EVENT_TYPES } from "#trace/events/event.ts";
import { splitEvent } from "#trace/events/place.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { readQuery } from "#trace/query/check.ts";
import { EventView } from "#trace/query/event-view.ts";
import { MEMBERS, type Member } from "#trace/query/members.ts";
import { planFor, search } from "#trace/query/search.ts";
import { excerpt } from "#trace/query/tokens.ts";

async function found(segment: TraceSegment, query: string): Promise<number[]> {
  const seqs: number[] = [];
  for await (const { seq } of search(segment, readQuery(query))) seqs.push(seq);
  return seqs;
}

function refusal(query: string): DsecError {
  try {
    readQuery(query);
  } catch (error) {
    if (error instanceof DsecError) return error;
    throw error;
  }
  throw new Error(`${query.slice(0, 80)} was taken`);
}

const shipping: Made[] = [
  { type: "plan_step", state: "begun", step: 1, name: "track" },
  ...call(1, "get_tracking", { arguments: { id: 7 }, output: { status: "sent" } }), // 2, 3
  remember("shipping_status", '"sent"'), // 4
  ...call(2, "get_tracking", { arguments: { id: 8 }, end: { is_error: true } }), // 5, 6
  remember("shipping_status", "null", '"sent"'), // 7
  ...call(3, "get_tracking", { arguments: { id: 9 }, start: { step: 1 } }), // 8, 9
  ...call(4, "refund", { arguments: { id: 9, why: "it's\tlate" } }), // 10, 11
  { type: "plan_step", state: "ended", step: 1, name: "track", status: "failed" },
  { type: "reward", components: [{ name: "done", value: 0.5, weight: 2, product: 1 }], sum: 1 },
  failed("boom \u{1f600}", { call: 2 }),
];

test("the example of the issue finds the calls that were made while the status was null", async () => {
  for (const flushEvery of [1, 3, 100]) {
    const segment = await madeTrace(shipping, {}, flushEvery);
    const query = 'memory_state.shipping_status == null and tool == "get_tracking"';
    // before it was first written there was no status either; the last is an error of such a call
    expect(await found(segment, query)).toEqual([2, 3, 8, 9, 14]);
    expect(await found(segment, `exists memory_state.shipping_status and ${query}`)).toEqual([8, 9, 14]);
    expect(
      await found(segment, 'memory_state.shipping_status == "sent" and type == "tool_call_end"'),
    ).toEqual([6]);
  }
});

test("names reach members, arguments, answers, calls, steps, rewards, times and labels", async () => {
  const segment = await madeTrace(shipping, { labels_json: '{"task_id":3,"big":9007199254740993}' }, 4);
  const cases: [query: string, seqs: number[]][] = [
    ['type == "reward"', [13]],
    ["arguments.id == 9", [8, 9, 10, 11]],
    ['arguments.id == 9 and type == "tool_call_start" and tool != "refund"', [8]],
    ['answer.status == "sent" or result.status == "lost"', [3]],
    ["is_error", [6]],
    ['tool == "get_tracking" and not is_error and type == "tool_call_end"', [3, 9]],
    ["call == 2 and exists code", [14]],
    ['call == 2 and tool starts_with "get"', [5, 6, 14]],
    ["step == 1 and call == 3", [8, 9]],
    ['section == "memory_state" and step == 1', [4, 7]],
    ["reward == 1 and reward.done == 1 and seq == 2", [2]],
    ['reward < 1 and type == "tool_call_start"', []],
    ["sum >= 1.0", [13]],
    ["labels.task_id == 3 and seq <= 2", [1, 2]],
    ["labels.big == 9007199254740993 and seq == 1", [1]],
    ["labels.big == 9007199254740992", []],
    ["time >= 0.012", [13, 14]],
    ["time < 0.001", [1]],
    ["t_us - 1000 == 2 * 1000", [4]],
    ["seq in [3, 5] or seq > 13", [3, 5, 14]],
    ['old == "sent" and new == null', [7]],
    ['op not in ["get"]', [4, 7]],
    ['components[0].name == "done"', [13]],
    ['arguments.why contains "it\'s\\t"', [10, 11]],
    ['tool matches "get_*ing" and via matches "h??p"', [2, 3, 5, 6, 8, 9]],
    ['any contains "\u{1f600}"', [14]],
    ['trace_id == "made" and wall_us == 1700000000000000', [1]],
  ];
  for (const [query, seqs] of cases) expect(await found(segment, query), query).toEqual(seqs);
});

test("digests are found by their text, also those in lists", async () => {
  const [one, other] = ["ab", "cd"].map((byte): Digest => `sha256:${byte.repeat(32)}`) as [Digest, Digest];
  const segment = await madeTrace([
    ...call(1, "pay", { start: { arguments_digest: one } }),
    { type: "message", op: "send", channel: "orders", items: [{ id: 1, from: null, body_digest: other }] },
  ]);
  for (const operator of ["==", "contains", "starts_with", "ends_with"]) {
    expect(await found(segment, `arguments_digest ${operator} "${one}"`), operator).toEqual([1]);
    expect(await found(segment, `items[0].body_digest ${operator} "${other}"`), operator).toEqual([3]);
  }
  expect(await found(segment, `arguments_digest == "${other}"`)).toEqual([]);
});

test("a comparison with a member that events of the type do not have says nothing, in either direction", async () => {
  const segment = await madeTrace(shipping);
  expect(await found(segment, "is_error == null")).toEqual([]);
  expect(await found(segment, "is_error != true")).toEqual([3, 9, 11]);
  expect(await found(segment, 'status == null and type == "plan_step"')).toEqual([1]);
  expect(await found(segment, "exists sum")).toEqual([13]);
});

test("integers past 2^53 stay apart wherever they stand", async () => {
  const segment = await madeTrace([
    ...call(1, "t", { arguments: '{"id":9007199254740993}', output: "18446744073709551615" }),
    ...call(2, "t", { arguments: '{"id":9007199254740992}', output: "-9223372036854775808" }),
    remember("id", "1234552132131231239"),
  ]);
  expect(await found(segment, 'arguments.id == 9007199254740993 and type == "tool_call_start"')).toEqual([1]);
  expect(await found(segment, "9007199254740992 < arguments.id")).toEqual([1, 2]);
  expect(await found(segment, "answer == 18446744073709551615")).toEqual([2]);
  expect(await found(segment, "answer == -9223372036854775808")).toEqual([4]);
  expect(await found(segment, "answer == -9223372036854775807")).toEqual([]);
  expect(await found(segment, "memory_state.id == 1234552132131231239")).toEqual([5]);
  expect(await found(segment, "memory_state.id == 1234552132131231238")).toEqual([]);
  expect(await found(segment, "arguments.id + 1 == 9007199254740994")).toEqual([1, 2]);
});

test("text that reads like query syntax is found as text", async () => {
  const texts = [
    "status: done",
    'timeout "error',
    "retry OR",
    "multi-agent",
    "gateway/run.py",
    "@nasa",
    "it's",
  ];
  texts.push(
    "50%",
    "a,b",
    "   ",
    "x".repeat(10_000),
    "NEAR(",
    "back\\slash",
    "new\nline",
    "müller",
    "\u0001",
  );
  for (const text of texts) {
    const segment = await madeTrace([
      ...call(1, "note", { arguments: { text: `before ${text} after` } }),
      ...call(2, "note", { arguments: { text: "something else" } }),
      failed(text),
      // the same as escapes that a library may write
      ...call(3, "note", { arguments: `{"text":"${escaped(text)}"}` }),
    ]);
    const literal = JSON.stringify(text);
    const shown = text.slice(0, 20);
    expect(await found(segment, `any contains ${literal}`), shown).toEqual([1, 5, 6]);
    const starts = `arguments.text contains ${literal} and type == "tool_call_start"`;
    expect(await found(segment, starts), shown).toEqual([1, 6]);
    expect(await found(segment, `text == ${literal}`), shown).toEqual([5]);
  }
  expect(refusal("").message).toContain("the query is empty");
  expect(refusal("   ").message).toContain("the query is empty");
});

test("what is no query is refused with the column and the way out", () => {
  const refusals: [query: string, column: number, says: string][] = [
    ['tol == "x"', 1, "is tool meant?"],
    ["memry_state.x == 1", 1, "is memory_state meant?"],
    ['tool = "x"', 6, "write == instead of ="],
    ['tool == "x" && call == 1', 13, "write and instead of &&"],
    ["tool == search", 9, "the name search is not known"],
    ["type == tool_call_start", 9, 'write type == "tool_call_start"'],
    ['type == "tool_call_stert"', 9, "is tool_call_start meant?"],
    ['seq == "3"', 5, "never equal"],
    ["tool", 1, "no condition"],
    ["seq contains", 13, "expected a name or a value, not the end"],
    ["1 < seq < 3", 9, "do not chain"],
    ['tool == "x', 9, "never closed"],
    ['tool == "\\q"', 10, "is no escape"],
    ["(tool == null", 14, "expected )"],
    ["tool == null)", 13, "should end"],
    ["memory_state == null", 1, "needs a key"],
    ['any == "x"', 5, "any contains"],
    ["seq starts_with 3", 5, "compares text"],
    ["seq in 3", 8, "comes a list"],
    ["tool == 1e999", 9, "beyond the largest double"],
    ["(seq == 1) == true", 6, "cannot be compared"],
    ["tool == null #", 14, "has no meaning"],
  ];
  for (const [query, column, says] of refusals) {
    const { code, message, details } = refusal(query);
    expect(code, query).toBe("QUERY_INVALID");
    expect(message, query).toContain(says);
    expect([query, details?.column]).toEqual([query, column]);
  }
  expect(excerpt('tool = "x"', 6)).toEqual(['tool = "x"', "     ^"]);
});

test("10,000 brackets, a million characters and 10,000 parts are refused, not tried", () => {
  const nested = `${"(".repeat(10_000)}seq == 1${")".repeat(10_000)}`;
  expect(refusal(nested)).toMatchObject({ code: "QUERY_INVALID", details: { column: 102 } });
  expect(refusal(nested).message).toContain("nests deeper than 100 levels");
  expect(refusal("not ".repeat(10_000)).message).toContain("nests deeper");
  expect(refusal(`seq == ${"-".repeat(10_000)}1`).message).toContain("nests deeper");
  expect(refusal(`seq == 1${" or seq == 1".repeat(5_000)}`).message).toContain("at most 2000 parts");
  expect(refusal(`seq == 1${" + 1".repeat(10_000)}`).message).toContain("at most 2000 parts");
  expect(refusal(`text == "${"x".repeat(1_000_000)}"`).message).toContain("at most 65536 characters");
  const [line, caret] = excerpt(nested, 102);
  expect(line.length).toBeLessThan(100);
  expect(caret.indexOf("^")).toBe(41);
});

test("values that no double or stack can hold end a comparison, not the search", async () => {
  const deep = `${"[".repeat(20_000)}9007199254740993${"]".repeat(20_000)}`;
  const segment = await madeTrace([
    ...call(1, "t", { arguments: deep, output: deep }),
    ...call(2, "t", { arguments: '{"x":1e400,"__proto__":{"y":1}}', output: '"cut' }),
    remember("long", null),
    { ...remember("long", "1"), new: { value_digest: `sha256:${"ab".repeat(32)}`, bytes: 4000 } } as Made,
  ]);
  // what nests too deep to be read exactly is text
  expect(await found(segment, 'arguments == answer and type == "tool_call_end"')).toEqual([2]);
  expect(await found(segment, "arguments.x > 1 and arguments.y == null")).toEqual([3, 4]);
  expect(await found(segment, 'arguments["__proto__"].y == 1')).toEqual([3, 4]);
  expect(await found(segment, 'answer == "\\"cut"')).toEqual([4]);
  expect(await found(segment, "exists memory_state.long and memory_state.long != 1")).toEqual([6]);
  expect(await found(segment, "memory_state.long == null and seq > 4")).toEqual([5]);
});

test("a glob takes no longer than the text times the pattern", async () => {
  const hostile = `${"a".repeat(50_000)}b`;
  const segment = await madeTrace([failed(hostile)]);
  expect(await found(segment, `text matches "${"*a".repeat(500)}*c"`)).toEqual([]);
  expect(await found(segment, `text matches "${"*a?".repeat(200)}*b"`)).toEqual([1]);
  const globs: [pattern: string, text: string, matches: boolean][] = [
    ["a*b", "ab", true],
    ["a*b", "aXbX", false],
    ["*ab*ab", "ab", false],
    ["*ab*ab", "abab", true],
    ["?", "", false],
    ["a\\*", "a*", true],
    ["", "", true],
    ["*", "", true],
    ["a?c", "abc", true],
  ];
  for (const [pattern, text, matches] of globs) {
    const one = await madeTrace([failed(text)]);
    const seqs = await found(one, `text matches ${JSON.stringify(pattern)}`);
    expect([pattern, text, seqs.length === 1]).toEqual([pattern, text, matches]);
  }
});

test("only sections that can match or are asked for are read", async () => {
  const segment = await madeTrace(shipping, {}, 2);
  const read = async (query: string) => await planFor(segment, readQuery(query));
  expect((await read("sum > 0")).sections).toEqual(["reward_signal"]);
  expect((await read('type == "error"')).sections).toEqual(["error_context"]);
  expect((await read('memory_state.x == 1 and type == "reward"')).sections.sort()).toEqual([
    "memory_state",
    "reward_signal",
  ]);
  expect((await read("reward == 7 and is_error")).tests.size).toBe(0);
  expect((await read('seq > 5 and type == "error"')).range).toEqual({ fromSeq: 5 });
  expect((await read("call == 3")).range).toEqual({ fromSeq: 8 });
  expect((await read("time <= 0.002")).range).toEqual({ toSeq: 3 });
});

test("members lie where the proto file says, and the view reads what decoding reads", async () => {
  const proto = readFileSync(join(import.meta.dirname, "../../../proto/trace.proto"), "utf8");
  const bodies = new Map(
    [...proto.matchAll(/^message (\w+) \{\n([\s\S]*?)^\}/gm)].map(([, name, body]) => [name!, body!]),
  );
  for (const type of EVENT_TYPES) {
    const message = new RegExp(`^ +(\\w+) ${type} = \\d+;`, "m").exec(bodies.get("Event")!)![1]!;
    const fields = [...bodies.get(message)!.matchAll(/^ +(optional |repeated )?(\w+) (\w+) = (\d+);/gm)];
    const declared = fields.map(([, mark, , name, number]) => [name, Number(number), mark?.trim() ?? ""]);
    const ours = Object.entries(MEMBERS[type] as Readonly<Record<string, Member>>).map(([name, member]) => {
      const [field, kind] = member;
      return [name, field, kind.endsWith("?") ? "optional" : kind === "list" ? "repeated" : ""];
    });
    expect(ours, type).toEqual(declared);
  }
  const segment = await madeTrace(shipping);
  const view = new EventView();
  for await (const raw of segment.rawEvents()) {
    view.loadKept({ ...raw, body: splitEvent(raw.bytes).body });
    const event = decodeEvent(raw.bytes, 0) as Record<string, unknown>;
    for (const [name, member] of Object.entries(MEMBERS[view.type] as Readonly<Record<string, Member>>)) {
      if (["integer", "number", "text", "boolean"].includes(member[1].replace("?", "")))
        expect([view.seq, name, view.value(member)]).toEqual([event.seq, name, event[name]]);
    }
  }
});

/** Every character as \uXXXX, as ASCII-only writers do with some. */
function escaped(text: string): string {
  return [...Array(text.length).keys()]
    .map((at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`)
    .join("");
}
