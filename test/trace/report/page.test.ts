import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

import { LIMITS } from "#core/limits.ts";
import { call, failed, type Made, madeTrace } from "#test/trace/made-trace.ts";
import { MEASURE_DEFAULTS } from "#trace/analysis/metrics.ts";
import { oneReport } from "#trace/analysis/one-report.ts";
import { fitted } from "#trace/report/fit.ts";
import { reportPage } from "#trace/report/page.ts";
import { reportPageModule } from "../../../setup/report-page.ts";
import { BRACKETS, HOSTILE, richEvents } from "./rich-trace.ts";

async function pageOf(file: string): Promise<string> {
  const report = await oneReport(
    await madeTrace(richEvents(), { trace_id: HOSTILE }),
    file,
    MEASURE_DEFAULTS,
  );
  let page = "";
  for await (const piece of reportPage(report)) page += piece;
  return page;
}

test("script and style of a page are those that its policy allows by digest, and nothing else is allowed", async () => {
  const page = await pageOf("rich.trace");
  const policy = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(page)![1]!;
  const digest = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const script = /<script type="module">([\s\S]*?)<\/script>/.exec(page)![1]!;
  const style = /<style>([\s\S]*?)<\/style>/.exec(page)![1]!;
  const directives = policy.split("; ");
  expect(directives).toContain("default-src 'none'");
  expect(directives).toContain(`script-src ${digest(script)}`);
  expect(directives).toContain(`style-src ${digest(style)}`);
  expect(directives).toContain("require-trusted-types-for 'script'");
  expect(policy).not.toMatch(/unsafe|https?:|\*|data:/);
});

test("no recorded text is part of the markup, whatever it says", async () => {
  const [page, other] = [await pageOf(`${HOSTILE}.trace`), await pageOf("x")];
  const data = /<script type="application\/json" id="report">([\s\S]*?)<\/script>/;
  expect(data.exec(page)![1]).not.toContain("<");
  expect(JSON.parse(data.exec(page)![1]!).report.trace.file).toBe(`${HOSTILE}.trace`);
  // apart from their data two pages are the same
  expect(page.replace(data, "")).toBe(other.replace(data, ""));
  expect(page.match(/<script/g)).toHaveLength(2 + (script(page).match(/<script/g)?.length ?? 0));
});

function script(page: string): string {
  return /<script type="module">([\s\S]*?)<\/script>/.exec(page)![1]!;
}

test("the page's parts in the repository are what its sources give", () => {
  const written = readFileSync(new URL("../../../trace/report/page-parts.gen.ts", import.meta.url), "utf8");
  expect(written).toBe(reportPageModule());
});

test("a report carries what goes with each call, its errors and what else happened", async () => {
  const { timeline, errors, others, trace } = await oneReport(
    await madeTrace(richEvents()),
    "x",
    MEASURE_DEFAULTS,
  );
  const calls = timeline.filter((entry) => entry.kind === "call");
  expect(calls[2]!.tokens).toHaveLength(10);
  expect(calls[4]!.memory).toMatchObject([{ key: "shipping_status", origin: "agent.py:48 remember()" }]);
  expect(errors[0]).toMatchObject({
    call: 5,
    step: 2,
    code: "UPSTREAM_TIMEOUT",
    payloads: [{ call: 3 }, { call: 4 }, { call: 5 }],
  });
  expect(errors[0]!.stack!.text).toContain("KeyError");
  expect(others.map(({ type, bad }) => [type, bad])).toEqual([
    ["process", false],
    ["output", false],
    ["output", false],
    ["process", true],
  ]);
  expect(others[2]!.text).toEqual({
    text: BRACKETS.slice(0, LIMITS.reportTextChars),
    chars: BRACKETS.length,
  });
  expect(trace).toMatchObject({ steps: 3, errors: 2 });
});

test("a call that sent no body is shown with its answer", async () => {
  const start = {
    kind: "http",
    tool: null,
    method: "GET",
    url: "https://a.test/",
    arguments_json: null,
  } as const;
  const events = call(1, "", { start, end: { answer: { body: new TextEncoder().encode("found") } } });
  const { timeline } = await oneReport(await madeTrace(events), "x", MEASURE_DEFAULTS);
  expect(timeline).toMatchObject([{ kind: "call", arguments: null, answer: { text: "found", chars: 5 } }]);
});

test("what is too much for a page is counted", async () => {
  const many = LIMITS.reportCalls + 3;
  const events = Array.from({ length: many }, (_, at): Made[] => [
    failed(`error ${at}`),
    { type: "reward", components: [], sum: at },
    ...call(at + 1, "read"),
  ]).flat();
  const report = await oneReport(await madeTrace(events), "x", MEASURE_DEFAULTS);
  expect(report).toMatchObject({ calls_left_out: 3, events_left_out: 6, trace: { errors: many } });
});

test("a trace without reward or plan came out as its command ended", async () => {
  const outcome = async (...events: Made[]) =>
    (await oneReport(await madeTrace(events), "x", MEASURE_DEFAULTS)).trace.outcome;
  const exec = { type: "process", state: "exec", pid: 1, argv: ["true"] } satisfies Made;
  const exit = { type: "process", state: "exit", pid: 1, argv: [], exit_code: 0 } satisfies Made;
  expect(await outcome(exec)).toBe("unknown");
  expect(await outcome(exec, exit)).toBe("succeeded");
  expect(await outcome(exec, { ...exit, exit_code: 3 })).toBe("failed");
  expect(await outcome(exec, { ...exit, state: "signal", exit_code: null, signal: 9 })).toBe("failed");
  expect(await outcome(exec, exit, { type: "reward", components: [], sum: 0 })).toBe("failed");
});

test("pieces of one stream that follow each other are one text", async () => {
  const output = (stream: "stdout" | "stderr", text: string) => ({
    type: "output" as const,
    stream,
    offset: 0,
    data: new TextEncoder().encode(text),
  });
  const events = [
    output("stdout", "one "),
    output("stdout", "two"),
    output("stderr", "x"),
    output("stdout", "three"),
  ];
  const { others } = await oneReport(await madeTrace(events), "x", MEASURE_DEFAULTS);
  expect(others.map(({ title, text }) => [title, text!.text])).toEqual([
    ["stdout", "one two"],
    ["stderr", "x"],
    ["stdout", "three"],
  ]);
});

test("a page of long texts is cut until it fits, and says how long each was", async () => {
  const long = JSON.stringify("x".repeat(10_000));
  const events = Array.from({ length: 200 }, (_, at) =>
    call(at + 1, "read", { arguments: long, output: long }),
  ).flat();
  const report = await oneReport(await madeTrace(events), "long", MEASURE_DEFAULTS);
  expect(fitted(report, 10_000_000)).toBe(report);
  const cut = fitted(report, 500_000);
  const first = cut.timeline[0]!;
  expect(first.kind === "call" && first.arguments).toMatchObject({ chars: 10_002 });
  expect(JSON.stringify(cut).length).toBeLessThan(600_000);
});
