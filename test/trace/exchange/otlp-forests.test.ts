import fc from "fast-check";
import { expect, test } from "vitest";
import { growth, LINEAR_BELOW } from "#test/support/growth.ts";
import type { TraceEvent } from "#trace/events/event.ts";
import { validate } from "#trace/format/validate.ts";
import { eventsIn, exported, importedFrom } from "./imports.ts";

type Span = {
  traceId: string;
  spanId?: string;
  parentSpanId?: string;
  name: string;
  startTimeUnixNano?: string | number;
  endTimeUnixNano?: string | number;
  attributes?: object[];
  status?: object;
};

const TRACE = "5b8efff798038103d269b633813fc60c";
const EPOCH_NS = 1_767_225_600_000_000_000n;

const string = (key: string, stringValue: string) => ({ key, value: { stringValue } });
const hex = (number: number) => number.toString(16).padStart(16, "0");

function spanOf(id: number, parent: number | null, startMs: number, endMs: number, more: object = {}): Span {
  return {
    ...{ traceId: TRACE, spanId: hex(id), name: `s${id}` },
    ...(parent === null ? {} : { parentSpanId: hex(parent) }),
    startTimeUnixNano: String(EPOCH_NS + BigInt(startMs) * 1_000_000n),
    endTimeUnixNano: String(EPOCH_NS + BigInt(endMs) * 1_000_000n),
    ...more,
  };
}

function documentOf(spans: Span[]): { resourceSpans: object[] } {
  return { resourceSpans: [{ resource: {}, scopeSpans: [{ scope: {}, spans }] }] };
}

async function eventsOf(spans: Span[]): Promise<TraceEvent[]> {
  const [segment, ...others] = await importedFrom(JSON.stringify(documentOf(spans)), "otlp");
  expect(others).toEqual([]);
  const { problems } = await validate(segment!);
  expect(problems).toEqual([]);
  return eventsIn(segment!);
}

const steps = (events: TraceEvent[]) => events.filter((event) => event.type === "plan_step");
/** `+a` where a span begins and `-a` where it ends. */
const shape = (events: TraceEvent[]) =>
  steps(events)
    .map(({ state, name }) => (state === "begun" ? "+" : "-") + name)
    .join(" ");

/** Ids of few numbers, so that parents are missing, are the span itself, are later ones, go round in circles or are two. */
const anySpan = fc.record({
  id: fc.integer({ min: 1, max: 12 }),
  parent: fc.option(fc.integer({ min: 1, max: 14 })),
  startMs: fc.integer({ min: 0, max: 30 }),
  tookMs: fc.integer({ min: -3, max: 30 }),
  kind: fc.constantFrom("plain", "execute_tool", "chat", "failed_tool"),
  times: fc.constantFrom("both", "both", "both", "no end", "none", "past 2112"),
});

test("every forest of spans becomes a valid trace that holds each of them once", async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
  console.log(`seed ${seed}`);
  await fc.assert(
    fc.asyncProperty(fc.array(anySpan, { minLength: 1, maxLength: 14 }), async (given) => {
      const spans = given.map(({ id, parent, startMs, tookMs, kind, times }): Span => {
        const tool = kind.endsWith("tool") ? "execute_tool" : kind;
        const { startTimeUnixNano, endTimeUnixNano, ...rest } = spanOf(
          id,
          parent,
          startMs,
          startMs + tookMs,
          {
            attributes: [
              string("gen_ai.operation.name", tool),
              string("gen_ai.tool.call.result", '{"a_id":"b"}'),
            ],
            ...(kind === "failed_tool" ? { status: { code: 2, message: "no" } } : {}),
          },
        );
        if (times === "none") return rest;
        if (times === "past 2112")
          return { ...rest, startTimeUnixNano: "18446744073709551615", endTimeUnixNano: 0 };
        return {
          ...rest,
          startTimeUnixNano: startTimeUnixNano!,
          ...(times === "both" ? { endTimeUnixNano: endTimeUnixNano! } : {}),
        };
      });
      const document = documentOf(spans);
      const [segment, ...others] = await importedFrom(JSON.stringify(document), "otlp");
      expect(others).toEqual([]);
      const validation = await validate(segment!);
      expect(validation.problems).toEqual([]);
      expect(validation.steps).toEqual({ begun: spans.length, ended: spans.length });
      const calls = given.filter(({ kind }) => kind.endsWith("tool")).length;
      expect(validation.calls).toEqual({ started: calls, ended: calls });
      // each of them, as it was written and in the order in which it was
      expect(JSON.parse(await exported(segment!, "otlp"))).toEqual(document);
    }),
    { seed, numRuns: 300 },
  );
});

test("spans that follow and hold each other keep their times to the microsecond", async () => {
  const events = await eventsOf([spanOf(3, 1, 6, 9), spanOf(2, 1, 1, 5), spanOf(1, null, 0, 10)]);
  expect(shape(events)).toBe("+s1 +s2 -s2 +s3 -s3 -s1");
  expect(steps(events).map(({ t_us }) => t_us)).toEqual([0, 1_000, 5_000, 6_000, 9_000, 10_000]);
  expect(steps(events).map(({ step, parent }) => [step, parent])).toEqual([
    [1, null],
    [2, 1],
    [2, null],
    [3, 1],
    [3, null],
    [1, null],
  ]);
});

test("spans that overlap follow each other and begin when they began, with their own ends and durations", async () => {
  const events = await eventsOf([spanOf(1, null, 0, 20), spanOf(2, 1, 1, 15), spanOf(3, 1, 4, 12)]);
  expect(shape(events)).toBe("+s1 +s2 -s2 +s3 -s3 -s1");
  const begun = steps(events).filter(({ state }) => state === "begun");
  expect(begun.map(({ t_us }) => t_us)).toEqual([0, 1_000, 4_000]);
  const ended = steps(events).filter(({ state }) => state === "ended");
  const startedUs = Number(EPOCH_NS / 1_000n);
  expect(ended.map(({ wall_us, duration_us }) => [wall_us - startedUs, duration_us])).toEqual([
    [15_000, 14_000],
    [12_000, 8_000],
    [20_000, 20_000],
  ]);
});

test("a span that outlives its parent, or begins before it, stays within it", async () => {
  const events = await eventsOf([spanOf(3, 2, 1, 40), spanOf(2, 1, 5, 8), spanOf(1, null, 3, 9)]);
  expect(shape(events)).toBe("+s1 +s2 +s3 -s3 -s2 -s1");
  const startedUs = Number(EPOCH_NS / 1_000n);
  expect(steps(events).map(({ wall_us }) => (wall_us - startedUs) / 1000)).toEqual([3, 5, 1, 40, 8, 9]);
});

test("spans whose parent is not there, or that are their own ancestors, stand at the top", async () => {
  expect(shape(await eventsOf([spanOf(2, 9, 1, 2), spanOf(1, null, 0, 5)]))).toBe("+s1 -s1 +s2 -s2");
  const circle = [spanOf(3, 2, 2, 3), spanOf(2, 3, 1, 4), spanOf(4, 4, 7, 8), spanOf(1, null, 5, 6)];
  expect(shape(await eventsOf(circle))).toBe("+s2 +s3 -s3 -s2 +s1 -s1 +s4 -s4");
  const none = spanOf(2, null, 1, 2, { parentSpanId: "" });
  expect(shape(await eventsOf([{ ...spanOf(1, null, 0, 5), spanId: "" }, none]))).toBe("+s1 -s1 +s2 -s2");
});

test("identifiers are the same in either case of their digits", async () => {
  const upper = spanOf(0xab, null, 0, 5, { traceId: TRACE.toUpperCase(), spanId: "00000000000000AB" });
  expect(shape(await eventsOf([upper, spanOf(1, 0xab, 1, 2)]))).toBe("+s171 +s1 -s1 -s171");
});

test("a chain of spans as deep as it likes is read", async () => {
  const spans = Array.from({ length: 20_000 }, (_, at) => spanOf(at + 1, at === 0 ? null : at, 0, 1));
  expect(steps(await eventsOf(spans.reverse()))).toHaveLength(40_000);
});

test("integers in arguments and answers that are no text keep every digit, and the token counts that no trace holds are left out", async () => {
  const list = (key: string, intValue: string | number) => ({
    key,
    value: { kvlistValue: { values: [{ key: "n", value: { intValue } }] } },
  });
  const text = JSON.stringify(
    documentOf([
      spanOf(1, null, 0, 1, {
        attributes: [
          string("gen_ai.operation.name", "execute_tool"),
          list("gen_ai.tool.call.arguments", "9007199254740993"),
          list("gen_ai.tool.call.result", "-9223372036854775808"),
        ],
      }),
      spanOf(2, null, 0, 1, {
        attributes: [
          string("gen_ai.operation.name", "chat"),
          { key: "gen_ai.usage.input_tokens", value: { intValue: "9007199254740993" } },
          { key: "gen_ai.response.model", value: { newKindOfValue: 1 } },
        ],
      }),
    ]),
  );
  const [segment] = await importedFrom(text, "otlp");
  const events = await eventsIn(segment!);
  expect(events).toContainEqual(
    expect.objectContaining({ type: "tool_call_start", arguments_json: '{"n":9007199254740993}' }),
  );
  const end = events.find((event) => event.type === "tool_call_end");
  expect(end?.answer?.output_json).toBe('{"n":-9223372036854775808}');
  expect(events).toContainEqual(
    expect.objectContaining({ type: "completion", prompt_tokens: null, model: null }),
  );
});

test("a call whose answer its span does not hold has none, and one that failed says why", async () => {
  const events = await eventsOf([
    spanOf(1, null, 0, 1, { attributes: [string("gen_ai.operation.name", "execute_tool")] }),
    spanOf(2, null, 0, 1, {
      attributes: [string("gen_ai.operation.name", "execute_tool")],
      status: { code: "STATUS_CODE_ERROR", message: "out of reach" },
    }),
  ]);
  const ends = events.filter((event) => event.type === "tool_call_end");
  expect(ends.map(({ answer, is_error }) => [answer, is_error])).toEqual([
    [null, false],
    [null, true],
  ]);
  expect(events.filter((event) => event.type === "error").map(({ text }) => text)).toEqual(["out of reach"]);
});

test("a span with more children than a call takes arguments is read, in time in proportion to their number", async () => {
  const read = async (count: number) => {
    const spans = Array.from({ length: count }, (_, at) => spanOf(at + 2, 1, count - at, count));
    expect(steps(await eventsOf([...spans, spanOf(1, null, 0, 1)]))).toHaveLength(2 * count + 2);
  };
  await read(140_000);
  expect(await growth(8_000, read)).toBeLessThan(LINEAR_BELOW);
});
