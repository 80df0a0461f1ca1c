import { describe, expect, test } from "vitest";
import type { EventBody, TraceEvent } from "#trace/events/event.ts";
import { validate } from "#trace/format/validate.ts";
import { eventsIn, importedFrom, OPTIONS } from "./imports.ts";

/** The events of the only trace, without times and without what is null. */
async function eventsOf(record: unknown, format: "openai-messages" | "jsonl" = "openai-messages") {
  const text = typeof record === "string" ? record : JSON.stringify(record);
  const [segment, ...others] = await importedFrom(text, format);
  expect(others).toEqual([]);
  expect(await validate(segment!)).toMatchObject({ problem_count: 0 });
  return eventsIn(segment!);
}

function ofType<T extends EventBody["type"]>(events: TraceEvent[], type: T): TraceEvent<T>[] {
  return events.filter((event): event is TraceEvent & TraceEvent<T> => event.type === type);
}

describe("chat completions", () => {
  const call = (id: string, name: string, args: string) => ({
    id,
    type: "function",
    function: { name, arguments: args },
  });

  test("give messages, calls with exact arguments, and answers to the calls that they name", async () => {
    const events = await eventsOf({
      messages: [
        { role: "system", content: "rules" },
        { role: "user", content: [{ type: "text", text: "go" }] },
        {
          role: "assistant",
          content: null,
          tool_calls: [call("a", "f", '{"id": 9007199254740993}'), call("b", "g", "")],
        },
        { role: "tool", tool_call_id: "b", content: "Error: no" },
        { role: "tool", tool_call_id: "a", content: '{"ok": 1.0}' },
        { role: "assistant", content: "done" },
      ],
    });
    expect(ofType(events, "observation").map(({ source, content_json }) => [source, content_json])).toEqual([
      ["system", '"rules"'],
      ["user", '[{"type":"text","text":"go"}]'],
      ["assistant", '"done"'],
    ]);
    const starts = ofType(events, "tool_call_start");
    expect(starts.map(({ tool, arguments_json }) => [tool, arguments_json])).toEqual([
      ["f", '{"id": 9007199254740993}'],
      ["g", "{}"],
    ]);
    expect(starts[0]!.arguments_digest).toMatch(/^sha256:/);
    const ends = ofType(events, "tool_call_end");
    expect(ends.map(({ call, is_error, answer }) => [call, is_error, answer?.output_json])).toEqual([
      [2, true, '"Error: no"'],
      [1, false, '{"ok": 1.0}'],
    ]);
    const [error] = ofType(events, "error");
    expect(error).toMatchObject({
      call: 2,
      code: "TOOL_FAILED",
      text: "Error: no",
      payloads: [{ call: 2, tool: "g", received: "Error: no" }],
    });
  });

  test("whose ids come again in a later turn are matched turn by turn", async () => {
    const turn = (content: string) => [
      { role: "assistant", tool_calls: [call("call_1", "poll", "{}")] },
      { role: "tool", tool_call_id: "call_1", content },
    ];
    const events = await eventsOf({ messages: [...turn("429"), ...turn("200")] });
    expect(ofType(events, "tool_call_end").map(({ call, answer }) => [call, answer?.output_json])).toEqual([
      [1, "429"],
      [2, "200"],
    ]);
  });

  test("in older and flatter forms are read", async () => {
    const events = await eventsOf([
      { role: "assistant", content: null, function_call: { name: "f", arguments: '{"a":1}' } },
      { role: "function", name: "f", content: "1" },
      { role: "assistant", tool_calls: [{ id: "x", name: "g", arguments: { b: 2 } }] },
      { role: "tool", tool_call_id: "x", content: [{ type: "text", text: "t" }] },
    ]);
    expect(
      ofType(events, "tool_call_start").map(({ tool, arguments_json }) => [tool, arguments_json]),
    ).toEqual([
      ["f", '{"a":1}'],
      ["g", '{"b":2}'],
    ]);
    expect(ofType(events, "tool_call_end")).toHaveLength(2);
  });

  test("that a model wrote no JSON for keep what it wrote", async () => {
    const events = await eventsOf({
      messages: [{ role: "assistant", tool_calls: [call("a", "f", '{"cut')] }],
    });
    expect(ofType(events, "tool_call_start")[0]).toMatchObject({ arguments_json: '"{\\"cut"' });
    expect(ofType(events, "tool_call_end")).toEqual([]);
  });

  test("with the last answer kept whole give usage, tokens and candidates", async () => {
    const events = await eventsOf({
      id: "chat-1",
      model: "m-1",
      messages: [{ role: "user", content: "hi" }],
      choices: [
        {
          finish_reason: "stop",
          message: { role: "assistant", content: "yo" },
          logprobs: {
            content: [
              {
                token: "yo",
                logprob: -0.25,
                top_logprobs: [
                  { token: "yo", logprob: -0.25 },
                  { token: "no", logprob: -1.5 },
                ],
              },
            ],
          },
        },
      ],
      usage: { prompt_tokens: 9, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 4 } },
    });
    expect(ofType(events, "completion")[0]).toMatchObject({
      model: "m-1",
      prompt_tokens: 9,
      completion_tokens: 1,
      cached_tokens: 4,
      finish_reason: "stop",
    });
    expect(ofType(events, "token_logit")[0]!.tokens[0]).toMatchObject({
      text: "yo",
      logprob: -0.25,
      top_texts: ["yo", "no"],
      top_logprobs: [-0.25, -1.5],
    });
  });

  test("keep the times that they have", async () => {
    const events = await eventsOf({
      messages: [
        { role: "user", content: "a", timestamp: "2026-03-01T10:00:00.123456Z" },
        { role: "assistant", tool_calls: [call("a", "f", "{}")], timestamp: "2026-03-01T10:00:01Z" },
        { role: "tool", tool_call_id: "a", content: "x", timestamp: 1772359202.5 },
      ],
    });
    expect(events[0]).toMatchObject({
      t_us: 0,
      wall_us: Date.parse("2026-03-01T10:00:00.123Z") * 1000 + 456,
    });
    expect(ofType(events, "tool_call_end")[0]).toMatchObject({
      wall_us: 1772359202500000,
      duration_us: 1_500_000,
    });
  });

  test("a record without messages, and a message that is no object, are refused by their place", async () => {
    await expect(eventsOf({ id: "x" })).rejects.toThrow(/^input:1: it has no messages/);
    await expect(eventsOf({ messages: [{ role: "user", content: "" }, 7] })).rejects.toThrow(
      /^input:1: message 2 is no object/,
    );
  });
});

test("items of the responses API give the same", async () => {
  const events = await eventsOf({
    input: [{ role: "user", content: [{ type: "input_text", text: "go" }] }],
    output: [
      { type: "reasoning", summary: [] },
      { type: "function_call", call_id: "c1", name: "f", arguments: '{"a":1}' },
      { type: "function_call_output", call_id: "c1", output: "42" },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "ok" }] },
    ],
  });
  expect(ofType(events, "tool_call_start")[0]).toMatchObject({ tool: "f", arguments_json: '{"a":1}' });
  expect(ofType(events, "tool_call_end")[0]).toMatchObject({ answer: { output_json: "42" } });
  expect(ofType(events, "observation").map(({ source }) => source)).toEqual([
    "user",
    "assistant",
    "assistant",
  ]);
});

describe("episodes", () => {
  test("have plans, memory and rewards where their lines say so", async () => {
    const events = await eventsOf(
      {
        id: "e",
        steps: [
          { kind: "plan", name: "outer", state: "begun" },
          { kind: "plan", name: "inner", state: "begun" },
          { kind: "tool", tool: "f", args: { n: 1 }, response: "ok", duration_ms: 1.5 },
          { kind: "plan", name: "inner", state: "ended", status: "failed" },
          { kind: "memory", key: "k", value: { a: 1.0 } },
          { kind: "memory", key: "k", value: null },
          { kind: "memory", key: "k" },
          { kind: "reward", value: { right: { value: 1, weight: 0.25 }, fast: 2 } },
          { kind: "plan", name: "outer", state: "ended" },
        ],
      },
      "jsonl",
    );
    expect(ofType(events, "plan_step").map(({ step, parent, status }) => [step, parent, status])).toEqual([
      [1, null, null],
      [2, 1, null],
      [2, null, "failed"],
      [1, null, "succeeded"],
    ]);
    expect(ofType(events, "tool_call_start")[0]).toMatchObject({ step: 2 });
    expect(ofType(events, "tool_call_end")[0]).toMatchObject({ duration_us: 1500 });
    expect(
      ofType(events, "memory_write").map(({ op, old, new: value }) => [
        op,
        old?.value_json,
        value?.value_json,
      ]),
    ).toEqual([
      ["put", undefined, '{"a":1}'],
      ["put", '{"a":1}', "null"],
      ["delete", "null", undefined],
    ]);
    expect(ofType(events, "reward")[0]).toMatchObject({
      sum: 2.25,
      components: [
        { name: "right", product: 0.25 },
        { name: "fast", product: 2 },
      ],
    });
  });

  test("make memory_state of answers that are objects, as deltas under the thing's id", async () => {
    const answer = (cabin: string) => `{"reservation_id": "R1", "cabin": "${cabin}", "price": 1.0}`;
    const step = (response: string) => ({ kind: "tool", tool: "get", args: {}, response });
    const record = { id: "e", steps: [step(answer("economy")), step(answer("business")), step("Error: x")] };
    const events = await eventsOf(record, "jsonl");
    expect(
      ofType(events, "memory_write").map(({ key, old, new: value, call }) => [
        key,
        old?.value_json,
        value?.value_json,
        call,
      ]),
    ).toEqual([
      ["reservation/R1/reservation_id", undefined, '"R1"', 1],
      ["reservation/R1/cabin", undefined, '"economy"', 1],
      ["reservation/R1/price", undefined, "1.0", 1],
      ["reservation/R1/cabin", '"economy"', '"business"', 2],
    ]);
    expect(JSON.parse(ofType(events, "error")[0]!.memory_json!)["reservation/R1/cabin"]).toBe("business");
    const [without] = await importedFrom(JSON.stringify(record), "jsonl", {
      ...OPTIONS,
      memoryFromAnswers: false,
    });
    expect(ofType(await eventsIn(without!), "memory_write")).toEqual([]);
  });

  test("say which tools change state where they were named", async () => {
    const steps = ["book", "look"].map((tool) => ({ kind: "tool", tool, args: {}, response: "" }));
    const [segment] = await importedFrom(JSON.stringify({ id: "e", steps }), "jsonl", {
      ...OPTIONS,
      stateChanging: new Set(["book"]),
    });
    expect(ofType(await eventsIn(segment!), "tool_call_start").map(({ read_only }) => read_only)).toEqual([
      false,
      true,
    ]);
  });

  test("with a step that is wrong are refused by its number", async () => {
    const refused = (steps: unknown[]) => expect(eventsOf({ id: "e", steps }, "jsonl")).rejects;
    await refused([{ kind: "tool", args: {} }]).toThrow(/^input:1: step 1 has no tool/);
    await refused([{ kind: "user", content: "" }, { kind: "usr" }]).toThrow(
      /step 2 has kind "usr"; known are user/,
    );
    await refused([{ kind: "plan", name: "p", state: "ended" }]).toThrow(
      /step 1: plan step "p" must be begun, then ended/,
    );
    await refused([{ kind: "reward", value: "x" }]).toThrow(
      /step 1: a reward, weight or duration is no number/,
    );
  });
});

describe("event lines", () => {
  const header = '{"type":"trace","version":1,"trace_id":"t","source":"x","started_wall_us":5}\n';
  const line = (members: object) => JSON.stringify({ seq: 1, t_us: 0, wall_us: 5, ...members });
  test.each([
    [
      "without a header",
      line({ type: "rollback", snapshot: 1, reason: "x", duration_us: 1 }),
      /input:1: an event comes before the line of its trace/,
    ],
    ["of an unknown type", header + line({ type: "telepathy" }), /input:2: it has type "telepathy"/],
    [
      "with an unknown member",
      header + line({ type: "rollback", snapshot: 1, reason: "x", duration_us: 1, why: 2 }),
      /input:2: event 1, a rollback: why is not known/,
    ],
    [
      "with a member missing",
      header + line({ type: "rollback", snapshot: 1, reason: "x" }),
      /duration_us is missing/,
    ],
    [
      "with a member of another kind",
      header + line({ type: "rollback", snapshot: "one", reason: "x", duration_us: 1 }),
      /input:2: event 1, a rollback: /,
    ],
    [
      "with a number past 2^53",
      `${header}{"seq":1,"t_us":0,"wall_us":5,"type":"rollback","snapshot":1,"reason":"x","duration_us":9007199254740993}`,
      /duration_us is 9007199254740993, past 2\^53 - 1/,
    ],
    [
      "with a gap",
      header + line({ seq: 2, type: "rollback", snapshot: 1, reason: "x", duration_us: 1 }),
      /input:2: event 2 stands where event 1 must/,
    ],
    ["of another version", header.replace('"version":1', '"version":2'), /of version 2, known here is 1/],
  ])("%s are refused", async (_, text, message) => {
    await expect(importedFrom(text, "jsonl")).rejects.toThrow(message);
  });
});
