/** What is understood of answers that may be completions, in whatever pieces and damage they come. */
import { randomInt } from "node:crypto";
import { describe, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { CompletionReader, type ReadCompletions } from "#trace/completions/reader.ts";
import { Vocabulary } from "#trace/completions/vocabulary.ts";
import type { Token } from "#trace/events/event.ts";
import {
  CHAT,
  delta,
  finish,
  logprob,
  RESPONSE,
  RESPONSE_EVENTS,
  sse,
  TOOL_CALLS,
  TOOL_STREAM,
  USAGE,
  usageChunk,
} from "./answers.ts";

type Read = { read: ReadCompletions | null; tokens: Map<number, Token[]>; lists: number; peakBytes: number };

function readPieces(pieces: Iterable<Uint8Array>, vocabulary = new Vocabulary()): Read {
  const tokens = new Map<number, Token[]>();
  let lists = 0;
  const reader = new CompletionReader(vocabulary, (choice, more) => {
    lists++;
    tokens.set(choice, [...(tokens.get(choice) ?? []), ...more]);
  });
  let peakBytes = 0;
  for (const piece of pieces) {
    reader.push(piece);
    peakBytes = Math.max(peakBytes, reader.heldBytes);
  }
  return { read: reader.end(), tokens, lists, peakBytes };
}

const bytesOf = (body: unknown) => Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
const read = (body: unknown) => readPieces([bytesOf(body)]);
const NO_USAGE = { prompt_tokens: null, completion_tokens: null, cached_tokens: null };
const USED = { prompt_tokens: 19, completion_tokens: 10, cached_tokens: 8 };

describe("a chat completion", () => {
  test("that comes whole tells its usage, its end and its tool calls", () => {
    const { completions, streamed } = read(CHAT).read!;
    expect(streamed).toBe(false);
    expect(completions).toEqual([
      {
        ...{ model: "gpt-4o-mini", ...USED, finish_reason: "tool_calls" },
        tool_calls: [
          { id: "call_abc", name: "get_weather", arguments_json: '{\n"location": "Boston, MA"\n}' },
        ],
      },
    ]);
  });

  test("that is streamed has its tool calls put together, and its usage where one was sent", () => {
    const without = read(sse(...TOOL_STREAM, "[DONE]")).read!;
    const expected = { model: "gpt-4o-2024-08-06", finish_reason: "tool_calls", tool_calls: TOOL_CALLS };
    expect(without).toEqual({ streamed: true, completions: [{ ...expected, ...NO_USAGE }] });
    const withUsage = read(sse(...TOOL_STREAM, usageChunk(USAGE), "[DONE]")).read!;
    expect(withUsage.completions).toEqual([{ ...expected, ...USED }]);
  });

  test("reads the same in whatever pieces it comes, with carriage returns, comments and a byte-order mark", () => {
    const stream = sse(...TOOL_STREAM, usageChunk(USAGE), "[DONE]");
    const lines = (end: string) => stream.replaceAll("\n", end);
    const whole = read(stream).read;
    const seed = randomInt(2 ** 31);
    let state = seed;
    const random = (below: number) => {
      state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
      return state % below;
    };
    const forms = [
      ...[stream, lines("\r\n"), lines("\r"), `\uFEFF${stream}`, `\n\n${stream}`, stream.trimEnd()],
      `: OPENROUTER PROCESSING\n\n${stream.replaceAll("\n\n", "\n\n: keep-alive\r\n\r\n")}`,
      stream.replaceAll("data: ", "id: 7\ndata:"),
    ];
    for (const form of forms) {
      const bytes = bytesOf(form);
      const single = Array.from(bytes, (_byte, at) => bytes.subarray(at, at + 1));
      expect(readPieces(single).read, JSON.stringify(form.slice(0, 60))).toEqual(whole);
      for (let round = 0; round < 20; round++) {
        const pieces: Uint8Array[] = [];
        for (let at = 0; at < bytes.length; ) {
          const next = at + 1 + random(300);
          pieces.push(bytes.subarray(at, next));
          at = next;
        }
        expect(readPieces(pieces).read, `seed ${seed}`).toEqual(whole);
      }
    }
  });

  test("that is cut off tells what had come", () => {
    const stream = sse(...TOOL_STREAM.slice(0, 4));
    const { completions } = read(stream.slice(0, -20)).read!;
    expect(completions).toEqual([
      {
        ...{ model: "gpt-4o-2024-08-06", ...NO_USAGE, finish_reason: null },
        tool_calls: [{ id: "call_1", name: "track", arguments_json: '{"ord' }],
      },
    ]);
    expect(read(JSON.stringify(CHAT).slice(0, -1)).read).toBeNull();
  });

  test("of several choices is one of each, the usage with the first", () => {
    const choice = (index: number, content: string) => delta({ content }, { index });
    const stream = sse(
      choice(1, "b"),
      choice(0, "a"),
      finish("length", 1),
      finish("stop"),
      usageChunk(USAGE),
    );
    expect(read(stream).read!.completions).toMatchObject([
      { ...USED, finish_reason: "stop" },
      { ...NO_USAGE, finish_reason: "length" },
    ]);
  });

  test("tells the usage that came last, where a server counts along", () => {
    const counting = TOOL_STREAM.map((chunk, at) => ({
      ...chunk,
      usage: { prompt_tokens: 5, completion_tokens: at },
    }));
    expect(read(sse(...counting)).read!.completions[0]).toMatchObject({
      prompt_tokens: 5,
      completion_tokens: TOOL_STREAM.length - 1,
    });
  });

  test("is understood from servers that leave out indexes, parse arguments, or speak of functions", () => {
    const unindexed = sse(
      delta({ tool_calls: [{ id: "a", function: { name: "one", arguments: '{"x":' } }] }),
      delta({ tool_calls: [{ function: { arguments: "1}" } }] }),
      delta({ tool_calls: [{ id: "b", function: { name: "two", arguments: "{}" } }] }),
    );
    expect(read(unindexed).read!.completions[0]!.tool_calls).toEqual([
      { id: "a", name: "one", arguments_json: '{"x":1}' },
      { id: "b", name: "two", arguments_json: "{}" },
    ]);
    const parsed = {
      ...CHAT,
      choices: [{ message: { tool_calls: [{ function: { name: "f", arguments: { a: 1 } } }] } }],
    };
    expect(read(parsed).read!.completions[0]!.tool_calls).toEqual([
      { id: "", name: "f", arguments_json: '{"a":1}' },
    ]);
    const legacy = sse(
      delta({ function_call: { name: "old", arguments: "[" } }),
      delta({ function_call: { arguments: "]" } }),
    );
    expect(read(legacy).read!.completions[0]!.tool_calls).toEqual([
      { id: "", name: "old", arguments_json: "[]" },
    ]);
  });
});

describe("a response", () => {
  const expected = {
    ...{ model: "gpt-4.1-2025-04-14", prompt_tokens: 36, completion_tokens: 87, cached_tokens: 3 },
    finish_reason: "completed",
    tool_calls: [{ id: "call_9", name: "look_up", arguments_json: '{"id":7}' }],
  };

  test("tells the same whole and streamed, its tokens once", () => {
    for (const body of [RESPONSE, RESPONSE_EVENTS.join("")]) {
      const { read: told, tokens } = read(body);
      expect(told!.completions).toEqual([expected]);
      expect(tokens.get(0)).toMatchObject([
        { text: "On", logprob: -0.5 },
        { text: " it", logprob: -0.25 },
      ]);
    }
  });

  test("that is cut off has what its parts told; one that ran out of tokens says so", () => {
    const { read: told } = read(RESPONSE_EVENTS.slice(0, 5).join(""));
    expect(told!.completions).toEqual([
      {
        ...{ ...expected, ...NO_USAGE, finish_reason: null },
        tool_calls: [{ id: "call_9", name: "look_up", arguments_json: '{"id"' }],
      },
    ]);
    const incomplete = {
      ...RESPONSE,
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
    };
    expect(read(incomplete).read!.completions[0]!.finish_reason).toBe("max_output_tokens");
  });
});

describe("tokens", () => {
  const said = (...content: object[]) => delta({ content: "x" }, { logprobs: { content, refusal: null } });

  test("have the five best candidates in order, and ids that are the same for the same text in all of a trace", () => {
    const top: [string, number][] = [
      ["b", -2],
      ["a", -1],
      ["c", -3],
      ["d", -4],
      ["f", -9],
      ["e", -5],
    ];
    const vocabulary = new Vocabulary();
    const first = readPieces([bytesOf(sse(said(logprob("a", -1, top)), said(logprob("c", -3))))], vocabulary);
    const [token, next] = first.tokens.get(0)!;
    expect(token).toMatchObject({ text: "a", logprob: -1, log_sum_exp: null });
    expect(token!.top_texts).toEqual(["a", "b", "c", "d", "e"]);
    expect(token!.top_logprobs).toEqual([-1, -2, -3, -4, -5]);
    expect(token!.top_ids[0]).toBe(token!.id);
    expect(new Set(token!.top_ids).size).toBe(5);
    expect(next!.id).toBe(token!.top_ids[2]);
    const second = readPieces(
      [bytesOf({ ...CHAT, choices: [{ message: {}, logprobs: { content: [logprob("b", 0)] } }] })],
      vocabulary,
    );
    expect(second.tokens.get(0)![0]!.id).toBe(token!.top_ids[1]);
  });

  test("keep the ids that a server tells itself, and are told apart where they are parts of a character", () => {
    const llama = { ...logprob("x", -1), id: 128_006 };
    const vllm = {
      token: "token_id:1234",
      logprob: -1,
      top_logprobs: [{ token: "token_id:9", logprob: -1 }],
    };
    const part = (byte: number) => ({ token: "\uFFFD", bytes: [byte], logprob: -1, top_logprobs: [] });
    const [own, named, one, other] = read(sse(said(llama, vllm, part(0xe2), part(0x82)))).tokens.get(0)!;
    expect(own).toMatchObject({ id: 128_006, text: "x" });
    expect(named).toMatchObject({ id: 1234, text: null, top_ids: [9], top_texts: [] });
    expect(one!.id).not.toBe(other!.id);
  });

  test("of a text completion come as lists", () => {
    const body = {
      ...{ id: "cmpl-1", object: "text_completion", model: "davinci" },
      choices: [
        {
          ...{ text: " is", index: 0, finish_reason: "length" },
          logprobs: {
            ...{ tokens: [" i", "s"], token_logprobs: [-0.1, null], text_offset: [0, 2] },
            top_logprobs: [{ " i": -0.1, " w": -2 }, null],
          },
        },
      ],
    };
    const { read: told, tokens } = read(body);
    expect(told!.completions).toMatchObject([{ model: "davinci", finish_reason: "length" }]);
    expect(tokens.get(0)).toMatchObject([{ text: " i", top_texts: [" i", " w"], top_logprobs: [-0.1, -2] }]);
  });

  test("without end are handed on as they come, up to the bound", () => {
    const line = bytesOf(sse(said(...Array.from({ length: 100 }, (_, at) => logprob(`t${at}`, -1)))));
    const rounds = LIMITS.completionTokens / 100 + 50;
    const { tokens, peakBytes, lists } = readPieces(
      (function* () {
        for (let round = 0; round < rounds; round++) yield line;
      })(),
    );
    expect(tokens.get(0)).toHaveLength(LIMITS.completionTokens);
    expect(lists).toBe(LIMITS.completionTokens / 512);
    expect(peakBytes).toBe(0);
  });

  test("of a hostile server fill its own vocabulary and no more", () => {
    let next = 0;
    const strange = () => logprob(`${"x".repeat(500)}${next++}`, -1);
    const { tokens, read: told } = readPieces(
      (function* () {
        for (let round = 0; round < 200; round++)
          yield bytesOf(sse(said(...Array.from({ length: 100 }, strange))));
      })(),
    );
    const chars = tokens.get(0)!.reduce((sum, { text }) => sum + text!.length, 0);
    expect(chars).toBeLessThanOrEqual(LIMITS.vocabularyChars);
    expect(tokens.get(0)!.length).toBeGreaterThan(7_000);
    expect(told!.completions).toHaveLength(1);
  });
});

describe("what is no completion", () => {
  test.each([
    ["other JSON", { items: [{ id: 1 }], object: "list" }],
    ["a poll's choices", { question: "?", choices: ["yes", "no"] }],
    ["a form's choices", { choices: [{ text: "yes", votes: 3 }] }],
    ["an API's response", { response: { status: "completed" } }],
    ["an error", { error: { message: "bad key", type: "invalid_request_error" } }],
    ["an array", `[${JSON.stringify(CHAT)}]`],
    ["text", "data about nothing\n"],
    ["a stream of something else", sse({ type: "tick" }, { choices: [1] }, "hello")],
    ["nothing", ""],
    ["blanks", "   \n"],
    ["blanks before all else, without end", `${" ".repeat(5000)}${JSON.stringify(CHAT)}`],
    ["bytes", "\u0000\u0001\u0002"],
  ])("is left alone: %s", (_what, body) => {
    expect(read(body).read).toBeNull();
  });

  test("is not read along for ever: a stream that says nothing of one is given up", () => {
    const strange = sse(...Array.from({ length: 16 }, () => ({ tick: 1 })));
    expect(read(strange + sse(...TOOL_STREAM)).read).toBeNull();
    expect(read(strange.slice(0, strange.length / 2) + sse(...TOOL_STREAM)).read).not.toBeNull();
  });
});

describe("hostile input", () => {
  test("an event of ten megabytes is passed over, and the stream around it is read", () => {
    const [first, ...rest] = TOOL_STREAM;
    const stream = Buffer.concat([
      bytesOf(sse(first)),
      bytesOf(`data: {"choices":[{"delta":{"content":"`),
      Buffer.alloc(10 * 1024 * 1024, "x"),
      bytesOf(`"}}]}\ndata: still of that event\n\n`),
      bytesOf(sse(...rest, usageChunk(USAGE))),
    ]);
    const pieces = (function* () {
      for (let at = 0; at < stream.length; at += 65_536) yield stream.subarray(at, at + 65_536);
    })();
    const { read: told, peakBytes } = readPieces(pieces);
    expect(told!.completions).toMatchObject([{ ...USED, tool_calls: TOOL_CALLS }]);
    expect(peakBytes).toBeLessThanOrEqual(LIMITS.completionEventBytes + 1024);
  });

  test("a whole answer past the bound is given up and held no longer", () => {
    const piece = Buffer.alloc(1024 * 1024, " ");
    const reader = new CompletionReader(new Vocabulary(), () => {});
    reader.push(bytesOf(JSON.stringify(CHAT).slice(0, -1)));
    for (let at = 0; at < 9; at++) reader.push(piece);
    expect(reader.heldBytes).toBe(0);
    reader.push(bytesOf("}"));
    expect(reader.end()).toBeNull();
  });

  test("choices, tool calls, arguments and names without end are cut off", () => {
    const many = Array.from({ length: 1000 }, (_, index) => ({
      index,
      delta: { tool_calls: [{ index: 0, id: "i".repeat(800), function: { name: "n", arguments: "" } }] },
    }));
    const long = "y".repeat(100_000);
    const more = Array.from({ length: 20 }, () =>
      delta({ tool_calls: [{ index: 0, function: { arguments: long } }] }),
    );
    const { read: told } = read(sse({ ...delta({}), choices: many }, ...more));
    expect(told!.completions).toHaveLength(LIMITS.completionChoices);
    const calls = told!.completions.flatMap(({ tool_calls }) => tool_calls);
    expect(calls.length).toBeLessThanOrEqual(LIMITS.completionToolCalls);
    expect(calls[0]!.id).toHaveLength(LIMITS.completionNameChars);
    expect(calls[0]!.arguments_json).toHaveLength(LIMITS.completionArgumentsChars);
  });

  test("members of wrong types, lone surrogates and deep nesting never throw", () => {
    const wrong = [null, 1, "x", [], {}, true, [null], "\uD800"];
    for (const one of wrong) {
      for (const other of wrong) {
        const bodies = [
          { object: "chat.completion", model: one, usage: other, choices: [{ message: one, delta: other }] },
          delta({ tool_calls: [one, { index: other, id: one, function: other }], function_call: one }),
          delta({ tool_calls: [{ index: 0, id: "a", function: { name: one, arguments: other } }] }),
          delta({}, { index: one, finish_reason: other, logprobs: { content: [one], refusal: other } }),
          delta({}, { logprobs: { content: [{ token: one, logprob: other, top_logprobs: [one] }] } }),
          delta({}, { logprobs: { tokens: [one], token_logprobs: [other], top_logprobs: [one] } }),
          { object: "response", output: [one, { type: "function_call", id: one, arguments: other }] },
          { object: "response", status: one, incomplete_details: other, output: [{ content: [one] }] },
          { type: "response.output_text.delta", logprobs: [one] },
          { type: "response.function_call_arguments.delta", item_id: one, delta: other },
        ];
        for (const body of bodies) {
          const { read: told } = read(sse(body));
          expect(JSON.stringify(told)).not.toContain("\\ud800");
          read(body);
        }
      }
    }
    read(sse(`{"choices":${"[".repeat(500_000)}`));
    read(sse(`{"choices":${"[".repeat(400_000)}${"]".repeat(400_000)}}`));
  });
});
