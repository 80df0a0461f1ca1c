import { expect, test } from "vitest";
import { IMPORT_FORMATS } from "#trace/exchange/import-formats.ts";
import { validate } from "#trace/format/validate.ts";
import { exported, importedFrom, writtenTrace } from "./imports.ts";

const EXPECTED = {
  "openai-messages": /expected conversations, as \{messages\}/,
  atif: /expected ATIF trajectories/,
  jsonl: /expected episodes, as \{id, steps\}, or lines of dsec trace export --format jsonl/,
  otlp: /expected OTLP\/JSON traces/,
};

test.each(IMPORT_FORMATS)(
  "a file of %s that holds nothing is refused by its name, with what was expected",
  async (format) => {
    const empty = {
      otlp: [
        '{"resourceSpans":[]}',
        "{}",
        '{"resourceSpans":[{"resource":{},"scopeSpans":[{"spans":[]}]}]}\n{}',
      ],
    };
    for (const text of ["", " \n\n\t\r\n", "[]", "[\n]\n", ...(format === "otlp" ? empty.otlp : [])]) {
      const refusal = expect(importedFrom(text, format)).rejects;
      await refusal.toMatchObject({ code: "INVALID_REQUEST" });
      await expect(importedFrom(text, format)).rejects.toThrow(/^input holds nothing to import: /);
      await expect(importedFrom(text, format)).rejects.toThrow(EXPECTED[format]);
    }
  },
);

test("conversations in which nothing was said are refused, and one among others becomes an empty trace that says so", async () => {
  const nothing = '{"id":"n","messages":[]}';
  await expect(importedFrom(nothing, "openai-messages")).rejects.toThrow(/^input holds nothing to import/);
  const other = '{"id":"o","messages":[{"role":"user","content":"a"}]}';
  const traces = await importedFrom(`${nothing}\n${other}`, "openai-messages");
  expect(traces.map(({ header, count }) => [header.trace_id, count])).toEqual([
    ["n", 0],
    ["o", 1],
  ]);
});

test("spans as exporters wrote them before OTLP 1.0 are refused, with what to do", async () => {
  const spans = [{ traceId: "5b8efff798038103d269b633813fc60c", spanId: "eee19b7ec3c1b173", name: "a" }];
  const old = { resourceSpans: [{ instrumentationLibrarySpans: [{ spans }] }] };
  await expect(importedFrom(JSON.stringify(old), "otlp")).rejects.toMatchObject({
    code: "TRACE_UNSUPPORTED",
    message: expect.stringMatching(
      /^input:1: .*instrumentationLibrarySpans, .*before OTLP 1\.0.*send it through a collector/,
    ),
  });
});

test.each([
  ["otlp", '{"data":[{"traceID":"1","spans":[]}]}', /^input:1: it has no resourceSpans; expected OTLP\/JSON/],
  ["otlp", '{"resourceLogs":[]}', /^input:1: it has no resourceSpans/],
  ["otlp", '{"resourceSpans":7}', /^input:1: resourceSpans is no array/],
  ["atif", '{"schema_version":"ATIF-v2.0","steps":[]}', /ATIF-v1\.0 to v1\.7 are read; .*newer dsec/],
  ["jsonl", '{"version":3}', /^input:1: it is neither .*; expected episodes/],
  ["openai-messages", '{"mapping":{}}', /^input:1: it has no messages; expected conversations/],
] as const)("a file that is no %s says so, with what was expected: %s", async (format, text, message) => {
  await expect(importedFrom(text, format)).rejects.toThrow(message);
});

test("a trace that dsec exported as OTLP is whole again however a collector cut and mixed it", async () => {
  const at = (t_us: number) => ({ t_us, wall_us: 1_767_225_600_000_000 + t_us });
  const traces = await Promise.all(
    ["a", "b"].map((trace_id) =>
      writtenTrace({
        header: { trace_id, source: "dsec", started_wall_us: 1_767_225_600_000_000 },
        events: [
          { type: "plan_step", state: "begun", step: 1, name: "one", ...at(0) },
          { type: "plan_step", state: "ended", step: 1, name: "one", ...at(1) },
          { type: "plan_step", state: "begun", step: 2, name: "two", ...at(2) },
        ],
      }),
    ),
  );
  const pieces: object[] = [];
  for (const trace of traces) {
    const { resourceSpans } = JSON.parse(await exported(trace, "otlp"));
    const [{ resource, scopeSpans }] = resourceSpans;
    for (const span of scopeSpans[0].spans) {
      pieces.push({ resource, scopeSpans: [{ scope: scopeSpans[0].scope, spans: [span] }] });
    }
  }
  const mixed = [4, 0, 5, 2, 1, 3].map((at) => JSON.stringify({ resourceSpans: [pieces[at]] }));
  const back = await importedFrom(mixed.join("\n"), "otlp");
  expect(back).toHaveLength(2);
  for (const trace of traces) {
    const found = back.find(({ header }) => header.trace_id === trace.header.trace_id)!;
    expect(found.chainHead).toBe(trace.chainHead);
    expect(await validate(found)).toMatchObject({ problem_count: 0 });
  }
});
