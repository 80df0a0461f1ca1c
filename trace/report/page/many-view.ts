/** Many traces: what they have in common, what goes with failure, and each of them to be sorted, filtered and opened. */
import type { Hint, ManyReport } from "#trace/analysis/report-data.ts";
import { chartsPart } from "./charts.ts";
import { clustersPart } from "./clusters-view.ts";
import { type Child, h, section, styled } from "./dom.ts";
import { matrixPart } from "./matrix-view.ts";
import { METRIC_NAMES, METRICS, OUTCOMES } from "./metric-names.ts";
import { toolTable } from "./overview.ts";
import { TraceTable } from "./trace-table.ts";
import type { View } from "./trace-view.ts";
import { count, line, numberText, percentText, pText } from "./words.ts";

/** @param addressOf of a trace's own part or page by its place; null where it has none */
export function manyView(report: ManyReport, addressOf: (place: number) => string | null): View {
  const places = new Map(report.traces.map(({ file }, place) => [file, place]));
  const open = (place: number) => {
    const address = addressOf(place);
    if (address !== null) location.assign(address);
  };
  const linkTo = (file: string, text: string): HTMLElement => {
    const place = places.get(file);
    const address = place === undefined ? null : addressOf(place);
    return address === null
      ? h("span", { title: line(file) }, text)
      : h("a", { href: address, title: line(file) }, text);
  };
  const table = new TraceTable(report.traces, addressOf, open);
  const { clustering, hints, tools } = report;
  const element = h(
    "div",
    { class: "view many-view" },
    h("header", { class: "bar" }, h("h1", {}, `${count(report.count, "trace")}`), outcomeBar(report)),
    h(
      "main",
      { class: "scroll" },
      means(report),
      report.accuracy_note !== null && h("p", { class: "hint" }, line(report.accuracy_note, 1_000)),
      h(
        "div",
        { class: "columns" },
        h("div", {}, hintsPart(hints), report.pairs !== null && matrixPart(report.pairs)),
        h(
          "div",
          {},
          chartsPart(report.traces, open),
          clustering === null ? clustersMissing(report) : clustersPart(clustering, linkTo),
        ),
      ),
      section(
        report.traces.length < report.count
          ? `Traces: the first ${numberText(report.traces.length)} of ${numberText(report.count)}`
          : "Traces",
        table.element,
      ),
      h(
        "div",
        { class: "columns" },
        tools.length > 0 && section("Tools", toolTable(tools)),
        sharesPart(report),
      ),
      refusedPart(report),
    ),
  );
  return {
    element,
    go: () => table.focus(),
    key: (event) => {
      if (event.key !== "/") return table.key(event);
      table.filter();
      return true;
    },
    keys: [
      ["j  k", "next and previous trace of the table"],
      ["Enter", "open it"],
      ["/", "filter the table"],
    ],
  };
}

function outcomeBar({ outcomes, count: all }: ManyReport): HTMLElement {
  const entries = (["succeeded", "failed", "unknown"] as const).filter((outcome) => outcomes[outcome] > 0);
  return h(
    "div",
    { class: "outcomes" },
    h(
      "span",
      { class: "stack", "aria-hidden": "true" },
      ...entries.map((outcome) =>
        styled(h("span", { class: `is-${outcome}` }), {
          width: `${(outcomes[outcome] / Math.max(1, all)) * 100}%`,
        }),
      ),
    ),
    ...entries.map((outcome) =>
      h(
        "span",
        { class: `outcome-count is-${outcome}` },
        `${numberText(outcomes[outcome])} ${OUTCOMES[outcome].toLowerCase()}`,
        h("small", {}, ` ${percentText(outcomes[outcome] / all)}`),
      ),
    ),
  );
}

function means({ means }: ManyReport): HTMLElement {
  const tiles = METRICS.filter(
    (metric) => means[metric].n > 0 && !(metric === "duration_s" && means[metric].mean === 0),
  );
  return h(
    "div",
    { class: "headline" },
    ...tiles.map((metric) => {
      const { mean, n } = means[metric];
      return h(
        "div",
        { class: "tile" },
        h("span", { class: "label" }, METRIC_NAMES[metric]),
        h("strong", {}, numberText(mean === null ? null : Math.round(mean * 1000) / 1000)),
        h("small", {}, `mean of ${numberText(n)}`),
      );
    }),
  );
}

const HINTS_AT_ONCE = 8;

function hintsPart(hints: readonly Hint[]): HTMLElement {
  const items = hints.map(({ text, n, adjusted_p, strength }) =>
    h(
      "li",
      {},
      styled(h("span", { class: "strength", "aria-hidden": "true" }), {
        "--strength": `${Math.min(1, strength) * 100}%`,
      }),
      h(
        "span",
        {},
        line(text.replace(/(, | )?\(?n=\d+, adjusted p=[^)]*\)$/, "").replace(/\([^)]*$/, "$&)"), 300),
      ),
      h(
        "small",
        {},
        `n = ${numberText(n)}, adjusted p ${adjusted_p < 0.0001 ? pText(adjusted_p) : `= ${pText(adjusted_p)}`}`,
      ),
    ),
  );
  return section(
    "Associated with the outcome",
    h(
      "p",
      { class: "hint" },
      "What goes together more often than chance would have it. It may well not be the cause.",
    ),
    hints.length === 0 &&
      h("p", { class: "none" }, "Nothing beyond chance, or too few traces (at least 20 are needed)."),
    h("ol", { class: "hints" }, ...items.slice(0, HINTS_AT_ONCE)),
    items.length > HINTS_AT_ONCE &&
      h(
        "details",
        {},
        h("summary", {}, `${items.length - HINTS_AT_ONCE} weaker ones`),
        h("ol", { class: "hints" }, ...items.slice(HINTS_AT_ONCE)),
      ),
  );
}

function clustersMissing({ outcomes }: ManyReport): Child {
  if (outcomes.failed === 0) return false;
  return section(
    "Failures that are alike",
    h("p", { class: "none" }, "Not asked for: dsec trace report … --cluster-by memory_state groups them."),
  );
}

function sharesPart({ reward_shares, reward_faults }: ManyReport): Child {
  const shares = Object.entries(reward_shares ?? {});
  if (shares.length < 2 && reward_faults === 0) return false;
  return section(
    "What the reward's variation is made of",
    reward_faults > 0 &&
      h(
        "p",
        { class: "warning" },
        `Of ${count(reward_faults, "trace")} the products do not add up to the sum.`,
      ),
    h(
      "table",
      { class: "grid" },
      h(
        "thead",
        {},
        h("tr", {}, ...["component", "share of variance"].map((title) => h("th", { scope: "col" }, title))),
      ),
      h(
        "tbody",
        {},
        ...shares.map(([name, share]) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, line(name, 80)),
            h("td", { class: "figure" }, percentText(share)),
          ),
        ),
      ),
    ),
  );
}

function refusedPart({ refused, refused_count }: ManyReport): Child {
  if (refused_count === 0) return false;
  return section(
    `Could not be read (${refused_count})`,
    h(
      "ul",
      { class: "faults" },
      ...refused
        .slice(0, 100)
        .map(({ file, code, message }) =>
          h("li", {}, h("code", {}, line(code)), ` ${line(file)}: ${line(message)}`),
        ),
    ),
  );
}
