// biome-ignore-all lint/performance/useDomNodeTextContent: what a reader sees is meant, not what the document holds
import { afterAll, beforeAll, expect, test } from "vitest";
import { call, failed, type Made, madeTrace, remember } from "#test/trace/made-trace.ts";
import { ManyReportBuilder } from "#trace/analysis/many-report.ts";
import { MEASURE_DEFAULTS, measure } from "#trace/analysis/metrics.ts";
import { oneReport } from "#trace/analysis/one-report.ts";
import type { ManyReport, OneReport } from "#trace/analysis/report-data.ts";
import { pageName } from "#trace/report/page.ts";
import { ReportBrowser } from "./browser.ts";
import { HOSTILE } from "./rich-trace.ts";

const TRACES = 30;
/** So many are whole in the page. */
const WHOLE = 10;

let browser: ReportBrowser;
let path: string;
let report: ManyReport;

function attempt(at: number): Made[] {
  const reward = at % 3 === 0 ? 0 : 1;
  return [
    { type: "plan_step", state: "begun", step: 1, name: HOSTILE },
    ...call(1, HOSTILE, { start: { step: 1 }, end: { is_error: reward === 0 } }),
    remember("shipping_status", reward === 1 ? '"sent"' : "null"),
    ...(reward === 0 ? [failed(HOSTILE, { call: 1 })] : []),
    ...Array.from({ length: at % 4 }, (_, more) => call(more + 2, "read")).flat(),
    {
      type: "reward",
      components: [{ name: "done", value: reward, weight: 1, product: reward }],
      sum: reward,
    },
  ];
}

beforeAll(async () => {
  browser = await ReportBrowser.start();
  const builder = new ManyReportBuilder({ clusterBy: "memory_state", pairs: true });
  const whole: { place: number; report: OneReport }[] = [];
  for (let at = 0; at < TRACES; at++) {
    const segment = await madeTrace(attempt(at), {
      trace_id: `t${at}`,
      labels_json: JSON.stringify({ task_id: at }),
    });
    const file = at === 7 ? `${HOSTILE}.trace` : `run-${String(at).padStart(2, "0")}.trace`;
    builder.add(await measure(segment, file, MEASURE_DEFAULTS));
    if (at < WHOLE) whole.push({ place: at, report: await oneReport(segment, file, MEASURE_DEFAULTS) });
  }
  report = await builder.result();
  async function* traces() {
    yield* whole;
  }
  path = await browser.file("many.html", report, { traces: traces() });
});
afterAll(() => browser.stop());

test("every two metrics are correlated, with n and an adjusted p that is no smaller than p", () => {
  const pair = report.pairs!.find(({ of }) => of.includes("reward") && of.includes("error_rate"))!;
  expect(pair).toMatchObject({ n: TRACES });
  expect(pair.rho).toBeLessThan(-0.9);
  for (const { p, adjusted_p } of report.pairs!) if (p !== null) expect(adjusted_p).toBeGreaterThanOrEqual(p);
  // a metric that never varies goes with nothing
  expect(report.pairs!.find(({ of }) => of.includes("plan_step_f1"))).toMatchObject({ rho: null });
});

test("the page says what goes with failure, of how many traces, and never what causes it", async () => {
  const { page, requests, dialogs, faults } = await browser.open(path);
  expect(await page.locator(".outcome-count").allInnerTexts()).toEqual([
    "20 succeeded 66.7 %",
    "10 failed 33.3 %",
  ]);
  const hints = await page.locator(".hints li").allInnerTexts();
  expect(
    hints.some((text) => text.includes("shipping_status=null is associated with failure: 10 of 10")),
  ).toBe(true);
  for (const text of hints)
    expect(text).toMatch(/associated with[\s\S]*n = 30, adjusted p (= 0\.\d{4}|<0\.0001)/);
  const cell = page.locator(".matrix td", { hasText: "−" }).first();
  await cell.focus();
  expect(await page.locator(".matrix-said").innerText()).toMatch(/ρ = −?-?\d.*n = 30, adjusted p/);
  const cluster = page.locator(".cluster").first();
  expect(await cluster.innerText()).toContain("10 failures");
  expect(await cluster.locator("tbody tr").first().innerText()).toMatch(/10\/10\s+0\/20\s+\d+\.\d×/);
  expect(await page.locator("img, iframe, object").count()).toBe(0);
  expect(await page.evaluate(() => "hit" in window)).toBe(false);
  expect([dialogs, faults, requests.length]).toEqual([[], [], 1]);
  await page.close();
});

test("how many succeeded and failed is read whole on a narrow screen", async () => {
  const { page } = await browser.open(path);
  await page.setViewportSize({ width: 390, height: 844 });
  const counts = page.locator(".outcome-count");
  expect(await counts.count()).toBe(2);
  for (const box of await counts.all()) {
    const { x, width } = (await box.boundingBox())!;
    expect(x + width).toBeLessThanOrEqual(390);
  }
  await page.close();
});

test("the table is sorted by any column and filtered by words and bounds", async () => {
  const { page } = await browser.open(path);
  const rows = () =>
    page
      .locator(".table-body .table-row")
      .evaluateAll((all) =>
        all.map((row) => [...row.children].map((cell) => (cell as HTMLElement).innerText)),
      );
  const column = async (name: string) => {
    const heads = await page.locator("[role=columnheader]").allInnerTexts();
    return heads.findIndex((head) => head.startsWith(name));
  };
  await page.locator("[role=columnheader] button", { hasText: "calls" }).click();
  const calls = await column("calls");
  expect(await page.locator("[role=columnheader]").nth(calls).getAttribute("aria-sort")).toBe("descending");
  const counts = (await rows()).map((row) => Number(row[calls]));
  expect(counts).toEqual([...counts].sort((one, other) => other - one));
  expect(counts[0]).toBe(4);
  await page.keyboard.press("/");
  await page.keyboard.type("reward<1 errors>=1 run-1");
  await expect.poll(() => page.locator(".table-tools .tally").innerText()).toBe("3 of 30 traces");
  expect((await rows()).map((row) => row[0]).sort()).toEqual([
    "run-12.trace",
    "run-15.trace",
    "run-18.trace",
  ]);
  await page.keyboard.press("Escape");
  expect(await page.locator(".table-tools .tally").innerText()).toBe("30 traces");
  await page.close();
});

test("a trace of the table is opened in the same page, has an address of its own, and leads back", async () => {
  const { page, requests } = await browser.open(path);
  await page.locator(".table-body a", { hasText: "run-03.trace" }).click();
  await expect.poll(() => page.locator("h1").innerText()).toBe("t3");
  await page.keyboard.press("n");
  await expect.poll(() => page.url()).toMatch(/#trace-4\/call-1$/);
  await page.keyboard.press("u");
  await expect.poll(() => page.locator("h1").innerText()).toBe("30 traces");
  const again = await browser.open(path, "#trace-4/call-1");
  expect(await again.page.locator(".pane h2").innerText()).toContain("#1 <img src=x");
  // beyond what the page holds there is a row, but no link
  expect(await page.locator(".table-row", { hasText: "run-12.trace" }).locator("a").count()).toBe(0);
  expect(requests).toHaveLength(1);
  await again.page.close();
  await page.close();
});

test("pages of a folder lead from the index to each trace and back", async () => {
  const index = await browser.file("index.html", report, { hasPages: true });
  const one = await oneReport(
    await madeTrace(attempt(3), { trace_id: "t3" }),
    "run-03.trace",
    MEASURE_DEFAULTS,
  );
  await browser.file(pageName(3), one, { up: "index.html" });
  const { page } = await browser.open(index);
  await page.locator(".table-body a", { hasText: "run-03.trace" }).click();
  await expect.poll(() => page.locator("h1").innerText()).toBe("t3");
  await page.keyboard.press("u");
  await expect.poll(() => page.locator("h1").innerText()).toBe("30 traces");
  await page.close();
});

test("metrics are spread out as columns, or as points that open their trace", async () => {
  const { page } = await browser.open(path);
  await page.getByLabel("Horizontal").selectOption("tool_calls");
  expect(await page.locator(".plot rect title").allTextContents()).toContain(
    "tool calls from 3.8 to 4: 4 succeeded",
  );
  await page.getByLabel("Vertical").selectOption("reward");
  expect(await page.locator(".plot circle").count()).toBe(TRACES);
  await page.locator(".plot circle").nth(3).click();
  await expect.poll(() => page.locator("h1").innerText()).toBe("t3");
  await page.close();
});
