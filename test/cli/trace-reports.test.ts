import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { call } from "#test/trace/made-trace.ts";
import { HOSTILE } from "#test/trace/report/rich-trace.ts";
import { writeTrace } from "#trace/node/files.ts";
import { dsec } from "./dsec.ts";

const folder = mkdtempSync(join(tmpdir(), "dsec-reports-"));
const traces = join(folder, "traces");
const one = join(traces, "run-0.trace");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

beforeAll(async () => {
  mkdirSync(traces);
  for (let at = 0; at < 3; at++) {
    const reward = { type: "reward" as const, components: [], sum: at % 2 };
    const events = [...call(1, HOSTILE), ...call(2, `tool-${at}`), reward].map((event) => ({
      ...event,
      t_us: 0,
      wall_us: 0,
    }));
    const trace = { trace_id: `run-${at}`, source: "test", started_wall_us: 0 };
    await writeTrace(join(traces, `run-${at}.trace`), trace, events);
  }
});

type Data = {
  report: { kind: string; traces: unknown[]; pairs: unknown; timeline: unknown[] };
  pages: boolean;
  up: string | null;
};

function dataOf(page: string, id = "report"): Data {
  const [, json] = new RegExp(`<script type="application/json" id="${id}">([^<]*)</script>`).exec(page)!;
  return JSON.parse(json!);
}

test("parse and report write one trace as one page, and never over a file that is there", async () => {
  for (const command of ["parse", "report"]) {
    const file = join(folder, `${command}.html`);
    const made = await dsec(["trace", command, one, "--output", "html", "-o", file]);
    expect([made.code, made.stderr]).toEqual([0, ""]);
    expect(made.stdout.toString()).toMatch(/\.html {2}\d+\.\d KiB\n$/);
    expect(dataOf(readFileSync(file, "utf8"))).toMatchObject({
      report: { kind: "one", timeline: [{ call: 1 }, { call: 2 }] },
      up: null,
    });
    const again = await dsec(["trace", command, one, "--output", "html", "-o", file]);
    expect(again.code).toBe(1);
    expect(again.stderr).toContain(file);
  }
});

test("without -o the page goes to standard output", async () => {
  const { code, stdout } = await dsec(["trace", "report", one, "--output", "html"]);
  expect(code).toBe(0);
  expect(stdout.toString()).toMatch(/^<!doctype html>[\s\S]*<\/html>\n$/);
});

test("many traces are one page with the traces in it", async () => {
  const file = join(folder, "many.html");
  const { code } = await dsec(["trace", "report", traces, "--output", "html", "-o", file]);
  expect(code).toBe(0);
  const page = readFileSync(file, "utf8");
  const { report, pages } = dataOf(page);
  expect([report.kind, report.traces.length, pages]).toEqual(["many", 3, false]);
  expect(report.pairs).not.toBeNull();
  expect(dataOf(page, "trace-2")).toMatchObject({ kind: "one", trace: { trace_id: "run-2" } });
});

test("or a folder with an index and a page for each, which lead to each other", async () => {
  const out = join(folder, "pages/");
  const { code } = await dsec(["trace", "report", traces, "--output", "html", "-o", out]);
  expect(code).toBe(0);
  expect(readdirSync(out).sort()).toEqual([
    "index.html",
    "trace-00001.html",
    "trace-00002.html",
    "trace-00003.html",
  ]);
  expect(dataOf(readFileSync(join(out, "index.html"), "utf8")).pages).toBe(true);
  expect(dataOf(readFileSync(join(out, "trace-00002.html"), "utf8"))).toMatchObject({
    report: { trace: { trace_id: "run-1" } },
    up: "index.html",
  });
});

test("formats that contradict each other are refused before anything is read or written", async () => {
  const file = join(folder, "refused.html");
  for (const words of [
    ["-o", file],
    ["--output", "json", "-o", file],
    ["--json", "--output", "html", "-o", file],
    ["--output", "pdf"],
  ]) {
    const { code, stderr } = await dsec(["trace", "report", join(folder, "absent.trace"), ...words]);
    expect(code, words.join(" ")).toBe(2);
    expect(stderr).not.toContain("absent.trace");
  }
  expect(existsSync(file)).toBe(false);
  const missing = await dsec([
    "trace",
    "report",
    join(folder, "absent.trace"),
    "--output",
    "html",
    "-o",
    file,
  ]);
  expect([missing.code, existsSync(file)]).toEqual([1, false]);
});
