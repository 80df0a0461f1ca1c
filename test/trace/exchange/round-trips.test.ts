import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { growth, LINEAR_BELOW } from "#test/support/growth.ts";
import type { TimedEvent } from "#trace/exchange/imported.ts";
import { validate } from "#trace/format/validate.ts";
import { sharedPath } from "../../support/shared.ts";
import { checkAtif } from "./atif-rules.ts";
import { checkChrome } from "./chrome-rules.ts";
import { airlineTraces, eventsIn, exported, importedFrom, writtenTrace } from "./imports.ts";

const AIRLINE = sharedPath("data/tau-airline/episodes.jsonl");

describe.skipIf(AIRLINE === null)("the 150 airline episodes", () => {
  test("become valid traces that hold every word, argument and answer", async () => {
    const lines = readFileSync(AIRLINE!, "utf8").trim().split("\n");
    let at = 0;
    for await (const segment of airlineTraces(AIRLINE!)) {
      const episode = JSON.parse(lines[at++]!);
      expect(segment.header.trace_id).toBe(episode.id);
      expect(await validate(segment)).toMatchObject({ problem_count: 0 });
      const events = await eventsIn(segment);
      const said = events.flatMap((event) =>
        event.type === "observation"
          ? [{ kind: event.source, content: JSON.parse(event.content_json!) }]
          : [],
      );
      const { steps } = episode;
      expect(said).toEqual(steps.filter(({ kind }: { kind: string }) => kind !== "tool"));
      const called = events.flatMap((event) =>
        event.type === "tool_call_start"
          ? [{ tool: event.tool, args: JSON.parse(event.arguments_json!) }]
          : [],
      );
      const tools = steps.filter(({ kind }: { kind: string }) => kind === "tool");
      expect(called).toEqual(
        tools.map(({ tool, args }: { tool: string; args: unknown }) => ({ tool, args })),
      );
      const ends = events.filter((event) => event.type === "tool_call_end");
      const failures = tools.filter(({ response }: { response: string }) => response.startsWith("Error"));
      expect(ends.filter((end) => end.is_error)).toHaveLength(failures.length);
      expect(events.filter((event) => event.type === "error")).toHaveLength(failures.length);
      expect(events.at(-1)).toMatchObject({ type: "reward", sum: episode.reward });
      const labels = JSON.parse(segment.header.labels_json!);
      expect(labels.expected_actions).toEqual(episode.expected_actions);
    }
    expect(at).toBe(150);
  });

  test.each(["jsonl", "atif", "otlp"] as const)("come back from %s with the same chain", async (format) => {
    for await (const segment of airlineTraces(AIRLINE!)) {
      const text = await exported(segment, format);
      const [back] = await importedFrom(text, format);
      expect(back!.header).toEqual(segment.header);
      expect(back!.chainHead).toBe(segment.chainHead);
    }
  });

  test("are ATIF by its rules, and survive losing what dsec wrote beside", async () => {
    for await (const segment of airlineTraces(AIRLINE!)) {
      const document = JSON.parse(await exported(segment, "atif"));
      checkAtif(document);
      delete document.extra;
      for (const step of document.steps) delete step.extra;
      const plain = JSON.stringify(document);
      const [foreign] = await importedFrom(plain, "atif");
      expect(foreign!.header.source).toBe("atif");
      expect(await validate(foreign!)).toMatchObject({ problem_count: 0 });
      // ATIF → trace → ATIF, and the trace again
      const again = await exported(foreign!, "atif");
      expect(JSON.parse(again)).toEqual(document);
      const [twice] = await importedFrom(again, "atif");
      expect(twice!.chainHead).toBe(foreign!.chainHead);
    }
  });

  test("are Chrome traces by the rules of that format, with a slice for each call", async () => {
    for await (const segment of airlineTraces(AIRLINE!)) {
      const document = JSON.parse(await exported(segment, "chrome"));
      checkChrome(document);
      const events = await eventsIn(segment);
      const calls = events.filter((event) => event.type === "tool_call_start").length;
      expect(document.traceEvents.filter(({ ph }: { ph: string }) => ph === "X")).toHaveLength(calls);
    }
  });
});

const WALL = 1_767_225_600_123_456;
const HEADER = { trace_id: "all", source: "dsec", started_wall_us: WALL, lease_id: "lease_x", fence: 7 };

/** An event of every type with members that are easily lost: big integers in JSON text, bytes, odd doubles, empty text. */
const EVENTS: TimedEvent[] = [
  { type: "plan_step", state: "begun", step: 1, name: "look", given_json: '{"n":9007199254740993}' },
  { type: "observation", state: "injected", observation: 1, source: "user", content_json: '"hi \\u00e9"' },
  {
    type: "tool_call_start",
    call: 1,
    tool: "get",
    kind: "http",
    via: "mcp",
    arguments_json: '{ "id" : 1.0 }',
    step: 1,
  },
  {
    type: "tool_call_start",
    call: 2,
    kind: "http",
    via: "proxy",
    method: "POST",
    url: "https://a.example/?q=1",
    body: Uint8Array.of(0, 255, 10),
  },
  { type: "output", stream: "stdout", offset: 0, data: new TextEncoder().encode("a\n\u{1F600}") },
  { type: "output", stream: "stderr", offset: 0, data: Uint8Array.of(0xff, 0xfe) },
  {
    type: "tool_call_end",
    call: 2,
    state: "failed",
    tries: 3,
    duration_us: 9,
    code: "UPSTREAM_FAILED",
    text: "502",
    status: 502,
    answer: { head_json: '{"status":502}', body: new Uint8Array() },
  },
  {
    type: "tool_call_end",
    call: 1,
    state: "answered",
    tries: 1,
    duration_us: 0,
    is_error: false,
    answer: { output_json: '"{\\"a\\":1}"' },
    timing: { network_us: 4 },
  },
  { type: "tool_call_late", call: 2, late_us: 5, state: "answered", status: 200 },
  { type: "context", context_digest: `sha256:${"a".repeat(64)}`, context_json: "[1,2]" },
  {
    type: "message",
    op: "receive",
    channel: "jobs",
    items: [{ id: 1, from: null, body_digest: `sha256:${"b".repeat(64)}` }],
    through: 0,
  },
  {
    type: "process",
    state: "exit",
    pid: 4,
    argv: ["sh", "-c", 'echo "x"'],
    exit_code: 0,
    cpu_us: Number.MAX_SAFE_INTEGER,
  },
  { type: "snapshot", snapshot: 1, levels: "0,1", duration_us: 1, stored_bytes: 0 },
  { type: "rollback", snapshot: 1, reason: "failed", duration_us: 2 },
  {
    type: "memory_read",
    op: "get",
    namespace: "m",
    key: "k\u0000",
    old: { value_json: "1e400", bytes: 5 },
    version: 0,
  },
  {
    type: "memory_write",
    op: "delete",
    namespace: "m",
    key: "k",
    old: { value_json: "null" },
    version: 2,
    call: 1,
  },
  {
    type: "memory_snapshot",
    namespace: "m",
    version: 2,
    state_digest: `sha256:${"c".repeat(64)}`,
    entries_json: "{}",
  },
  {
    type: "token_logit",
    source: "assistant",
    tokens: [
      {
        id: 0,
        logprob: Number.NEGATIVE_INFINITY,
        text: "",
        top_ids: [0, 1],
        top_logprobs: [-0, Number.NaN],
        top_texts: ["", "\n"],
        log_sum_exp: 1e-320,
      },
    ],
  },
  {
    type: "completion",
    call: 2,
    model: "m",
    prompt_tokens: 3,
    finish_reason: "stop",
    tool_calls: [{ id: "c", name: "get", arguments_json: "{no json" }],
    streamed: false,
  },
  {
    type: "reward",
    components: [{ name: "a", value: 1, weight: 0.1, weight_change: -0, product: 0.1 }],
    sum: 0.1,
    source: "x",
  },
  {
    type: "error",
    code: "TOOL_FAILED",
    text: "",
    stack: "at x",
    payloads: [{ call: 1, tool: null, url: null, sent: "s", received: "", truncated: true }],
    detail_json: "{}",
  },
  { type: "plan_step", state: "ended", step: 1, name: "look", status: "succeeded", calls: 2 },
].map(
  (event, index) => ({ ...event, t_us: index * 10, wall_us: WALL + index * 10 - (index % 3) }) as TimedEvent,
);

describe("a trace with events of every type", () => {
  test.each(["jsonl", "atif", "otlp"] as const)("comes back from %s byte for byte", async (format) => {
    const segment = await writtenTrace({ header: HEADER, events: EVENTS });
    const text = await exported(segment, format);
    const [back] = await importedFrom(text, format);
    expect(await eventsIn(back!)).toEqual(await eventsIn(segment));
    expect(back!.header).toEqual(segment.header);
    expect(back!.chainHead).toBe(segment.chainHead);
  });

  test("that lost its end on the way is told from a whole one", async () => {
    const segment = await writtenTrace({ header: HEADER, events: EVENTS });
    const atif = JSON.parse(await exported(segment, "atif"));
    atif.steps.pop();
    const [foreign] = await importedFrom(JSON.stringify(atif), "atif");
    expect(foreign!.header.source).toBe("atif");
    const otlp = JSON.parse(await exported(segment, "otlp"));
    const { spans } = otlp.resourceSpans[0].scopeSpans[0];
    // the step that holds all else ends with the last event
    spans.splice(spans.length - 2, 1);
    await expect(importedFrom(JSON.stringify(otlp), "otlp")).rejects.toThrow(/event 1 is missing/);
    const late = await writtenTrace({ header: HEADER, events: EVENTS.slice(9, 11) });
    const two = JSON.parse(await exported(late, "otlp"));
    two.resourceSpans[0].scopeSpans[0].spans.at(-1).events.pop();
    await expect(importedFrom(JSON.stringify(two), "otlp")).rejects.toThrow(/event 2 is missing/);
  });

  test("as JSON lines that lost some at their end, or of which one was changed, is refused with what is wrong", async () => {
    const whole = await exported(await writtenTrace({ header: HEADER, events: EVENTS }), "jsonl");
    const lines = whole.trimEnd().split("\n");
    for (const kept of [1, 2, EVENTS.length, lines.length - 1]) {
      const cut = `${lines.slice(0, kept).join("\n")}\n`;
      await expect(importedFrom(cut, "jsonl")).rejects.toThrow(
        `input:1: trace all has no line of type end after its event ${kept - 1}`,
      );
      // and where another trace follows
      await expect(importedFrom(cut + whole, "jsonl")).rejects.toThrow(/no line of type end/);
    }
    const changed = whole.replace('"stream":"stdout"', '"stream":"stderr"');
    await expect(importedFrom(changed, "jsonl")).rejects.toThrow(
      /input:\d+: it ends a trace of \d+ events with/,
    );
    const without = [...lines.slice(0, -2), lines.at(-1)].join("\n");
    await expect(importedFrom(without, "jsonl")).rejects.toThrow(
      `it ends a trace of ${EVENTS.length} events with`,
    );
    // what claims nothing is taken as it is
    const { genesis_digest, ...header } = JSON.parse(lines[0]!);
    const [shorter] = await importedFrom([JSON.stringify(header), lines[1]].join("\n"), "jsonl");
    expect(shorter!.count).toBe(1);
  });

  test("is a Chrome trace by the rules of that format, also where calls overlap and steps end in another order", async () => {
    const at = (t_us: number) => ({ t_us, wall_us: WALL + t_us });
    const call = { type: "tool_call_start", kind: "http", via: "http" } as const;
    const end = { type: "tool_call_end", state: "answered", tries: 1, duration_us: 0 } as const;
    const crossing: TimedEvent[] = [
      { type: "plan_step", state: "begun", step: 1, name: "one", ...at(0) },
      { ...call, call: 1, ...at(1) },
      { type: "plan_step", state: "begun", step: 2, name: "two", ...at(2) },
      { ...call, call: 2, ...at(3) },
      { ...end, call: 1, ...at(4) },
      { type: "plan_step", state: "ended", step: 1, name: "one", ...at(5) },
      { ...call, call: 3, ...at(6) },
      { type: "plan_step", state: "ended", step: 2, name: "two", ...at(7) },
      { ...end, call: 3, ...at(8) },
    ];
    for (const events of [crossing, EVENTS]) {
      const segment = await writtenTrace({ header: HEADER, events });
      const document = JSON.parse(await exported(segment, "chrome"));
      checkChrome(document);
      const slices = document.traceEvents.filter(({ ph }: { ph: string }) => ph === "X");
      const begun = events.filter(
        (event) =>
          event.type === "tool_call_start" || (event.type === "plan_step" && event.state === "begun"),
      );
      expect(slices).toHaveLength(begun.length);
    }
  });

  test("is a Chrome trace in time by its length, however many steps are open or follow each other within one", async () => {
    const place = (t_us: number) => ({ t_us, wall_us: WALL + t_us });
    const begun = (step: number, at: number): TimedEvent => {
      return { type: "plan_step", state: "begun", step, name: "s", ...place(at) };
    };
    const ended = (step: number, at: number): TimedEvent => {
      return { type: "plan_step", state: "ended", step, name: "s", ...place(at) };
    };
    const numbers = (count: number) => Array.from({ length: count }, (_, at) => at + 2);
    const inTurn = (count: number) => [
      begun(1, 0),
      ...numbers(count).flatMap((step) => [begun(step, 2 * step), ended(step, 2 * step + 1)]),
      ended(1, 400_000),
    ];
    const atOnce = (count: number) => [
      ...numbers(count).map((step) => begun(step, step)),
      ...numbers(count).map((step) => ended(step, 200_000 + step)),
    ];
    // Any order of beginnings and ends, many of them at one time.
    const anyOrder: TimedEvent[] = [];
    const open: number[] = [];
    for (let at = 0, step = 0; at < 3_000; at++) {
      if (open.length === 0 || (at * 7919) % 13 < 7) {
        open.push(++step);
        anyOrder.push(begun(step, at >> 2));
      } else anyOrder.push(ended(open.splice((at * 104_729) % open.length, 1)[0]!, at >> 2));
    }
    const write = async (events: TimedEvent[]) => {
      const segment = await writtenTrace({ header: HEADER, events });
      checkChrome(JSON.parse(await exported(segment, "chrome")));
    };
    await write(anyOrder);
    // More than a call takes arguments.
    await exported(await writtenTrace({ header: HEADER, events: atOnce(130_000) }), "chrome");
    for (const events of [inTurn, atOnce]) {
      expect(await growth(20_000, (count) => write(events(count)))).toBeLessThan(LINEAR_BELOW);
    }
  });

  test.each(["jsonl", "atif", "otlp"] as const)("of no events comes back from %s", async (format) => {
    const segment = await writtenTrace({ header: HEADER, events: [] });
    const [back] = await importedFrom(await exported(segment, format), format);
    expect(back!.header).toEqual(segment.header);
    expect(back!.count).toBe(0);
  });

  test("has OTLP identifiers in hexadecimal and times as exact decimal strings", async () => {
    const segment = await writtenTrace({ header: HEADER, events: EVENTS });
    const { resourceSpans } = JSON.parse(await exported(segment, "otlp"));
    const { spans } = resourceSpans[0].scopeSpans[0];
    const ids = new Set(spans.map(({ spanId }: { spanId: string }) => spanId));
    expect(ids.size).toBe(spans.length);
    for (const span of spans) {
      expect(span.traceId).toMatch(/^[0-9a-f]{32}$/);
      expect(span.spanId).toMatch(/^[0-9a-f]{16}$/);
      expect(span.startTimeUnixNano).toMatch(/^\d+$/);
      if (span.parentSpanId !== undefined) expect(ids).toContain(span.parentSpanId);
    }
    const call = spans.find(({ name }: { name: string }) => name === "execute_tool get");
    expect(call.startTimeUnixNano).toBe(`${WALL + 18}000`);
    expect(call.attributes).toContainEqual({
      key: "gen_ai.operation.name",
      value: { stringValue: "execute_tool" },
    });
  });
});

test("what others have written into ATIF comes back as they wrote it", async () => {
  const document = {
    schema_version: "ATIF-v1.7",
    session_id: "s-1",
    trajectory_id: "t-1",
    agent: {
      name: "x",
      version: "1",
      model_name: "m",
      tool_definitions: [{ type: "function" }],
      extra: { a: 1 },
    },
    notes: "n",
    steps: [
      { step_id: 1, timestamp: "2026-01-02T03:04:05.678901+02:00", source: "system", message: "rules" },
      {
        step_id: 2,
        source: "user",
        message: [
          { type: "text", text: "see" },
          { type: "image", source: { media_type: "image/png", path: "a.png" } },
        ],
      },
      {
        step_id: 3,
        timestamp: "2026-01-02T03:04:06Z",
        source: "agent",
        model_name: "m2",
        reasoning_effort: 0.5,
        message: "",
        reasoning_content: "hm",
        tool_calls: [
          { tool_call_id: "a", function_name: "f", arguments: { n: 1 }, extra: { k: "v" } },
          { tool_call_id: "b", function_name: "g", arguments: {} },
        ],
        observation: {
          results: [
            { source_call_id: "b", content: "Error: no" },
            { source_call_id: "a", content: [{ type: "text", text: "parts" }], extra: { is_error: true } },
            { content: "of no call" },
            { source_call_id: "a", content: "once more" },
            { source_call_id: "b", subagent_trajectory_ref: [{ trajectory_id: "sub" }] },
          ],
        },
        metrics: {
          prompt_tokens: 10,
          completion_tokens: 2,
          cost_usd: 0.001,
          completion_token_ids: [5, 6],
          logprobs: [-0.5, -1.25],
          extra: {},
        },
        is_copied_context: false,
        llm_call_count: 1,
        extra: { anything: [1, { deep: null }] },
      },
    ],
    final_metrics: { total_prompt_tokens: 10, total_steps: 3 },
    continued_trajectory_ref: "next.json",
    extra: { root: true },
    subagent_trajectories: [
      {
        schema_version: "ATIF-v1.7",
        trajectory_id: "sub",
        agent: { name: "y", version: "0" },
        steps: [{ step_id: 1, source: "user", message: "go" }],
      },
    ],
  };
  const [segment] = await importedFrom(JSON.stringify(document, null, 2), "atif");
  const back = JSON.parse(await exported(segment!, "atif"));
  expect(back).toEqual(document);
  const events = await eventsIn(segment!);
  expect(events[0]!.wall_us).toBe(Date.parse("2026-01-02T01:04:05.678Z") * 1000 + 901);
  expect(events).toContainEqual(
    expect.objectContaining({ type: "completion", model: "m2", prompt_tokens: 10 }),
  );
  expect(events.filter((event) => event.type === "error")).toHaveLength(2);
});

test("numbers in ATIF arguments keep every digit", async () => {
  const text = `{"schema_version":"ATIF-v1.7","agent":{"name":"x","version":"1"},"steps":[{"step_id":1,"source":"agent","message":"","tool_calls":[{"tool_call_id":"a","function_name":"f","arguments":{"id":9007199254740993,"x":1.0,"y":1e400}}]}]}`;
  const [segment] = await importedFrom(text, "atif");
  expect(await exported(segment!, "atif")).toContain('{"id":9007199254740993,"x":1.0,"y":1e400}');
});

test("spans of other programs come back as they were, and their tool calls are calls", async () => {
  const span = (id: string, name: string, start: string, end: string, rest: object) => ({
    traceId: "5b8efff798038103d269b633813fc60c",
    spanId: id,
    name,
    kind: 1,
    startTimeUnixNano: start,
    endTimeUnixNano: end,
    ...rest,
  });
  const string = (key: string, stringValue: string) => ({ key, value: { stringValue } });
  const document = {
    resourceSpans: [
      {
        resource: { attributes: [string("service.name", "other")] },
        schemaUrl: "https://opentelemetry.io/schemas/1.37.0",
        scopeSpans: [
          {
            scope: { name: "lib", version: "2" },
            spans: [
              span("eee19b7ec3c1b173", "invoke_agent", "1544712660000000001", "1544712661000000999", {}),
              span("eee19b7ec3c1b174", "execute_tool f", "1544712660100000000", "1544712660200000000", {
                parentSpanId: "eee19b7ec3c1b173",
                attributes: [
                  string("gen_ai.operation.name", "execute_tool"),
                  string("gen_ai.tool.name", "f"),
                  string("gen_ai.tool.call.arguments", '{"n":9007199254740993}'),
                  string("gen_ai.tool.call.result", "no"),
                ],
                status: { code: 2, message: "failed" },
                links: [{ traceId: "5b8efff798038103d269b633813fc60c", spanId: "eee19b7ec3c1b173" }],
              }),
            ],
          },
        ],
      },
    ],
  };
  const [segment] = await importedFrom(JSON.stringify(document), "otlp");
  expect(JSON.parse(await exported(segment!, "otlp"))).toEqual(document);
  const events = await eventsIn(segment!);
  const start = events.find((event) => event.type === "tool_call_start");
  expect(start).toMatchObject({
    tool: "f",
    arguments_json: '{"n":9007199254740993}',
    wall_us: 1544712660100000,
  });
  expect(events.find((event) => event.type === "tool_call_end")).toMatchObject({
    duration_us: 100_000,
    is_error: true,
  });
  expect(await validate(segment!)).toMatchObject({ problem_count: 0 });
});
