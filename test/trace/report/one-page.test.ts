// biome-ignore-all lint/performance/useDomNodeTextContent: what a reader sees is meant, not what the document holds
import { afterAll, beforeAll, expect, test } from "vitest";
import { call, type Made, madeTrace } from "#test/trace/made-trace.ts";
import { MEASURE_DEFAULTS } from "#trace/analysis/metrics.ts";
import { oneReport } from "#trace/analysis/one-report.ts";
import { ReportBrowser } from "./browser.ts";
import { HOSTILE, richEvents } from "./rich-trace.ts";

let browser: ReportBrowser;
let rich: string;

beforeAll(async () => {
  browser = await ReportBrowser.start();
  const trace = await madeTrace(richEvents(), { trace_id: HOSTILE, task_id: "task-17" });
  rich = await browser.file("rich.html", await oneReport(trace, `${HOSTILE}.trace`, MEASURE_DEFAULTS));
});
afterAll(() => browser.stop());

test("nothing that was recorded runs, asks for anything or becomes markup, in any row (B81)", async () => {
  const { page, requests, dialogs, faults } = await browser.open(rich);
  const scripts = await page.locator("script").count();
  const rows = await page.locator("[role=treeitem]").count();
  expect(rows).toBeGreaterThan(15);
  for (let row = 0; row < rows; row++) {
    await page.keyboard.press("j");
    await page.evaluate(() => {
      for (const details of document.querySelectorAll("details")) details.open = true;
    });
    expect(
      await page.locator("img, iframe, object, embed, .pane script, .pane [href]:not([href^='#'])").count(),
    ).toBe(0);
  }
  expect(await page.evaluate(() => "hit" in window)).toBe(false);
  expect(await page.locator("script").count()).toBe(scripts);
  expect(dialogs).toEqual([]);
  expect(faults).toEqual([]);
  expect(requests).toHaveLength(1);
  // of a path the last part
  expect(await page.title()).toMatch(/^b>.*\.trace · DSec trace$/);
  await page.close();
});

test("terminal text keeps its colours, shows other control codes as text and cannot reorder what is read", async () => {
  const { page } = await browser.open(rich, "#call-5");
  const text = page.locator(".error-part pre").first();
  expect(await text.locator(".sgr-red").innerText()).toBe("red <b>bold</b>");
  expect(await text.innerText()).toContain("^[]8;;javascript:window.hit=1^Glink");
  expect(await text.innerText()).toContain("⟨U+202E⟩abc^@");
  await page.locator(".is-other", { hasText: "stdout" }).click();
  const output = await page.locator(".pane pre").innerText();
  expect(output).toContain("98 % done\n99 % done\ndone");
  await page.locator(".is-other", { hasText: "stderr" }).click();
  expect(await page.locator(".pane .cut").innerText()).toBe(
    "the first 16,384 characters of 1,048,576 characters",
  );
  await page.close();
});

test("even the page's own script could not set text as markup", async () => {
  const { page } = await browser.open(rich);
  const said = await page.evaluate(() => {
    try {
      document.body.innerHTML = "<b>x</b>";
      return "was set";
    } catch (error) {
      return (error as Error).name;
    }
  });
  expect(said).toBe("TypeError");
  await page.close();
});

test("a selected call shows arguments, answer, memory, tokens, and what its error came from", async () => {
  const { page } = await browser.open(rich);
  await page.locator("[role=treeitem]", { hasText: "#5" }).click();
  await expect.poll(() => page.url()).toMatch(/#call-5$/);
  const pane = page.locator(".pane");
  // past 2^53 a double is another number
  await expect.poll(() => pane.innerText()).toContain("9007199254740993");
  const error = page.locator(".error-part");
  expect(await error.innerText()).toContain("KeyError: 'status'");
  await error.getByText("The last 3 calls before it").click();
  expect(await error.locator(".payload h4").allInnerTexts()).toEqual([
    "#3 get_tracking",
    "#4 get_tracking",
    "#5 get_tracking",
  ]);
  expect(await page.locator("table.memory tbody td").allInnerTexts()).toEqual([
    '"sent"',
    "null",
    "agent.py:48 remember()",
  ]);
  // the bar is the whole call: what no part explains has its share
  const times = page.locator("section", { hasText: "Where the time went" });
  expect(await times.locator("li").allInnerTexts()).toContainEqual(expect.stringMatching(/^unexplained \d/));
  const widths = await times
    .locator(".stack span")
    .evaluateAll((spans) => spans.map((span) => Number.parseFloat((span as HTMLElement).style.width)));
  expect(widths.reduce((sum, width) => sum + width, 0)).toBeCloseTo(100, 2);
  expect(widths[0]).toBeCloseTo(60, 0);
  await page.locator("[role=treeitem]", { hasText: "#3 " }).click();
  await page.locator("[data-token='1']").click();
  const shares = await page
    .locator(".candidates tbody tr")
    .evaluateAll((rows) =>
      rows.map((row) => Number.parseFloat((row as HTMLTableRowElement).cells[2]!.innerText)),
    );
  expect(shares).toHaveLength(6);
  // what is not among the five is told as well
  expect(shares.reduce((sum, share) => sum + share, 0)).toBeCloseTo(100, 0);
  await page.close();
});

test("a reward is shown as raw value, weight, change of weight and product", async () => {
  const { page } = await browser.open(rich);
  await page.locator(".is-reward").click();
  const rows = await page
    .locator(".pane table.reward tbody tr")
    .evaluateAll((all) =>
      all.map((row) => (row as HTMLTableRowElement).innerText.split("\t").map((cell) => cell.trim())),
    );
  expect(rows).toEqual([
    ["accuracy", "0.75", "× 1", "", "= 0.75", ""],
    ["format", "1", "× 0.2", "−0.1", "= 0.2", ""],
    ["length penalty", "−0.5", "× 0.3", "", "= −0.15", ""],
    ["sum", "", "", "", "0.8", ""],
  ]);
  await page.close();
});

test("a selection has an address, and an address a selection", async () => {
  const { page } = await browser.open(rich, "#step-2");
  expect(await page.locator("[aria-selected=true][role=treeitem]").getAttribute("id")).toBe("row-step-2");
  await page.evaluate(() => {
    location.hash = "#call-7";
  });
  await expect.poll(() => page.locator(".pane h2").innerText()).toContain("#7 <img src=x");
  await page.evaluate(() => {
    location.hash = "#no-such-thing";
  });
  await expect.poll(() => page.locator(".pane .where").innerText()).toBe("whole trace");
  await page.close();
});

test("keys move through rows, failures and faults of memory, fold steps, and tell what they do", async () => {
  const { page } = await browser.open(rich);
  const selected = () => page.locator("[role=tree]").getAttribute("aria-activedescendant");
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key);
    return selected();
  };
  expect(await press("n")).toBe("row-call-5");
  expect(await press("n")).toBe("row-call-10");
  expect(await press("n")).toBe("row-call-5");
  expect(await press("p")).toBe("row-call-10");
  expect(await press("k")).toBe("row-call-9");
  expect(await press("ArrowLeft")).toBe("row-step-3");
  const rows = await page.locator("[role=treeitem]").count();
  await press("ArrowLeft");
  expect(await page.locator("#row-step-3").getAttribute("aria-expanded")).toBe("false");
  expect(await page.locator("[role=treeitem]").count()).toBe(rows - 4);
  // what is gone to is opened
  expect(await press("n")).toBe("row-call-10");
  expect(await page.locator("#row-step-3").getAttribute("aria-expanded")).toBe("true");
  expect(await press("g", "m")).toBe("row-call-5");
  expect(await press("G", "M")).toBe("row-call-10");
  expect(await press("Escape")).toBe(null);
  await press("?");
  expect(await page.locator("dialog").innerText()).toContain("next and previous failure");
  await press("Escape");
  expect(await page.locator("dialog").isVisible()).toBe(false);
  await page.close();
});

test("search counts every occurrence, marks rows and text, and goes through what it found", async () => {
  const { page } = await browser.open(rich);
  await page.keyboard.press("/");
  await page.keyboard.type("KEYERROR: 'status'");
  // one in the stack of each of two errors
  await expect.poll(() => page.locator(".search .tally").innerText()).toBe("2 rows · 2×");
  expect(await page.locator("[data-hit]").count()).toBe(2);
  await page.keyboard.press("Enter");
  await expect.poll(() => page.locator(".search .tally").innerText()).toBe("1 of 2 rows · 2×");
  await expect.poll(() => page.url()).toMatch(/#call-5$/);
  expect(
    await page.evaluate(() => [...CSS.highlights.get("found")!].map((range) => range.toString())),
  ).toEqual(["KeyError: 'status'"]);
  await page.keyboard.press("Enter");
  await expect.poll(() => page.url()).toMatch(/#call-10$/);
  await page.keyboard.press("Shift+Enter");
  await expect.poll(() => page.url()).toMatch(/#call-5$/);
  await page.keyboard.press("Control+A");
  await page.keyboard.type("<script>nowhere");
  await expect.poll(() => page.locator(".search .tally").innerText()).toBe("nothing found");
  await page.keyboard.press("Escape");
  expect(await page.locator("[data-hit]").count()).toBe(0);
  await page.close();
});

test("of ten thousand calls only those in view are elements, and the last is one key away", async () => {
  const events = Array.from({ length: 10_000 }, (_, at) => {
    return call(at + 1, "read", { arguments: { at, needle: at === 9_998 }, end: { is_error: at === 9_999 } });
  }).flat();
  const path = await browser.file(
    "long.html",
    await oneReport(await madeTrace(events), "long.trace", MEASURE_DEFAULTS),
  );
  const { page, faults } = await browser.open(path);
  expect(await page.locator("[role=treeitem]").count()).toBeLessThan(100);
  await page.keyboard.press("G");
  expect(await page.locator(".pane h2").innerText()).toContain("#10000 read");
  expect(await page.locator("#row-call-10000").isVisible()).toBe(true);
  await page.keyboard.press("/");
  await page.keyboard.type('"needle":true');
  await expect.poll(() => page.locator(".search .tally").innerText()).toContain("1 row · 1×");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.url()).toMatch(/#call-9999$/);
  expect(await page.locator(".timeline-drawing rect").count()).toBeLessThan(1_500);
  expect(faults).toEqual([]);
  await page.close();
});

test("steps within steps are shown however deep they nest", async () => {
  const deep = 12_000;
  const steps = Array.from({ length: deep }, (_, at) => at + 1);
  const events: Made[] = [
    ...steps.map((step): Made => {
      return {
        type: "plan_step",
        state: "begun",
        step,
        name: `s${step}`,
        parent: step === 1 ? null : step - 1,
      };
    }),
    ...steps.toReversed().map((step): Made => {
      return { type: "plan_step", state: "ended", step, name: `s${step}`, status: "succeeded" };
    }),
  ];
  const report = await oneReport(await madeTrace(events), "deep.trace", MEASURE_DEFAULTS);
  const { page, faults } = await browser.open(await browser.file("deep.html", report), `#step-${deep}`);
  expect(await page.locator("[aria-selected=true]").textContent()).toContain(`s${deep}`);
  await page.keyboard.press("Home");
  expect(await page.locator("[role=treeitem]").first().textContent()).toContain("s1");
  expect(faults).toEqual([]);
  await page.close();
});

test("every label of the timeline's axis is read whole, in any width and whatever the length of the trace", async () => {
  for (const endUs of [970, 9_400, 880_000, 9_970_000, 59_900_000, 3_580_000_000, 86_000_000_000]) {
    const [start, end] = call(1, "search", { end: { duration_us: endUs } });
    const trace = await madeTrace([start!, { ...end!, t_us: endUs }]);
    const path = await browser.file("axis.html", await oneReport(trace, "axis.trace", MEASURE_DEFAULTS));
    const { page } = await browser.open(path);
    for (let width = 700; width <= 1500; width += 131) {
      await page.setViewportSize({ width, height: 700 });
      const labels = await page.evaluate(async () => {
        // until what watches the width has drawn
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        const { left, right } = document.querySelector(".timeline-drawing")!.getBoundingClientRect();
        return [...document.querySelectorAll(".timeline .axis text")].map((label) => {
          const box = label.getBoundingClientRect();
          return { text: label.textContent, from: box.left - left, to: box.right - left, room: right - left };
        });
      });
      expect(labels.length).toBeGreaterThan(2);
      for (const [i, { text, from, to, room }] of labels.entries()) {
        const before = labels[i - 1]?.to ?? -1;
        expect({ width, endUs, text, clipped: to > room || from < before }).toMatchObject({ clipped: false });
      }
    }
    await page.close();
  }
});

test("a part of the timeline is shown by dragging or keys, follows what is selected, and is left again", async () => {
  const { page } = await browser.open(rich);
  const whole = page.getByRole("button", { name: "whole" });
  const ticks = () => page.locator(".timeline .axis text").allInnerTexts();
  const before = await ticks();
  expect(await whole.isVisible()).toBe(false);
  const box = (await page.locator(".timeline-drawing").boundingBox())!;
  await page.mouse.move(box.x + 100, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + 300, box.y + 20, { steps: 4 });
  await page.mouse.up();
  expect(await whole.isVisible()).toBe(true);
  expect(await ticks()).not.toEqual(before);
  expect(await page.locator("[aria-selected=true][role=treeitem]").count()).toBe(0);
  await page.keyboard.press("G");
  const cursor = Number(await page.locator(".timeline .cursor").getAttribute("x1"));
  expect(cursor).toBeGreaterThanOrEqual(0);
  expect(cursor).toBeLessThanOrEqual(box.width);
  await page.keyboard.press("Escape");
  expect(await whole.isVisible()).toBe(false);
  expect(await ticks()).toEqual(before);
  for (const key of ["+", "+", "-"]) await page.keyboard.press(key);
  expect(await whole.isVisible()).toBe(true);
  await page.keyboard.press("-");
  expect(await ticks()).toEqual(before);
  // a press on a call selects it
  const bar = page.locator(".of-call rect.bad").first();
  const [x, y] = [Number(await bar.getAttribute("x")), Number(await bar.getAttribute("y"))];
  await page.mouse.click(box.x + x + 3, box.y + y + 4);
  await expect.poll(() => page.url()).toMatch(/#call-5$/);
  await page.close();
});

test("light and dark follow the reader's choice, and text stands out from its ground in both", async () => {
  const grounds: string[] = [];
  for (const scheme of ["light", "dark"] as const) {
    const { page } = await browser.open(rich, "#call-5", scheme);
    const measured = await page.evaluate(() => {
      const luminance = (colour: string) => {
        const [r, g, b] = colour
          .match(/[\d.]+/g)!
          .slice(0, 3)
          .map((part) => {
            const share = Number(part) / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
          });
        return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
      };
      const groundOf = (element: Element | null): string => {
        for (let at = element; at !== null; at = at.parentElement) {
          const { backgroundColor } = getComputedStyle(at);
          if (!/, 0\)$|transparent/.test(backgroundColor)) return backgroundColor;
        }
        return "rgb(255, 255, 255)";
      };
      const selectors = [
        "h1",
        ".tile .label",
        ".tile.bad strong",
        ".row .name",
        ".row.bad .name",
        ".row .gist",
        ".row .took",
        ".legend",
        ".pane dt",
        ".pane .where",
        ".error-part pre",
        ".value .key",
        ".value .number",
        ".value .literal",
        ".memory .new",
        ".pill",
      ];
      return selectors.map((selector) => {
        const element = document.querySelector(selector);
        if (element === null) return { selector, contrast: 0, ground: "" };
        const [one, other] = [luminance(getComputedStyle(element).color), luminance(groundOf(element))];
        return {
          selector,
          contrast: (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05),
          ground: groundOf(document.body),
        };
      });
    });
    // WCAG 2.2, 1.4.3
    expect(measured.filter(({ contrast }) => contrast < 4.5)).toEqual([]);
    grounds.push(measured[0]!.ground);
    await page.close();
  }
  expect(new Set(grounds).size).toBe(2);
});

test("at 800 pixels nothing of the page is wider than the window", async () => {
  const { page } = await browser.open(rich, "#call-5");
  for (const width of [1280, 800, 480]) {
    await page.setViewportSize({ width, height: 700 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
  }
  await page.close();
});

test("a trace that holds nothing is said to hold nothing", async () => {
  const path = await browser.file(
    "empty.html",
    await oneReport(await madeTrace([]), "empty.trace", MEASURE_DEFAULTS),
  );
  const { page, faults } = await browser.open(path);
  expect(await page.locator("main").innerText()).toContain("Nothing was recorded but the header.");
  for (const key of ["j", "k", "n", "p", "m", "g", "G", "ArrowLeft", "PageDown"])
    await page.keyboard.press(key);
  expect(faults).toEqual([]);
  await page.close();
});
