/** Rank correlations of every two metrics. */
import type { Metric, MetricPair } from "#trace/analysis/report-data.ts";
import { h, section, styled } from "./dom.ts";
import { METRIC_NAMES, METRICS } from "./metric-names.ts";
import { pText } from "./words.ts";

/** The usual bound; it decides what is printed bold, nothing else. */
const TELLING_P = 0.05;

export function matrixPart(pairs: readonly MetricPair[]): HTMLElement {
  const find = (one: Metric, other: Metric) => pairs.find(({ of }) => of.includes(one) && of.includes(other));
  const shown = METRICS.filter((metric) => pairs.some(({ of, rho }) => rho !== null && of.includes(metric)));
  if (shown.length < 2) {
    return section(
      "Correlation of metrics",
      h("p", { class: "none" }, "No two metrics vary over these traces."),
    );
  }
  const said = h(
    "p",
    { class: "hint matrix-said", "aria-live": "polite" },
    "Spearman's ρ; bold where p, adjusted for the number of pairs, is at most 0.05. Point at a cell for n and p.",
  );
  const cell = (one: Metric, other: Metric) => {
    const pair = one === other ? undefined : find(one, other);
    if (pair === undefined || pair.rho === null) return h("td", { class: "empty" }, one === other ? "" : "–");
    const { rho, n, adjusted_p } = pair;
    const text = `${METRIC_NAMES[one]} and ${METRIC_NAMES[other]}: ρ = ${rho.toFixed(3)}, n = ${n}, adjusted p ${adjusted_p === null ? "not given below 20 pairs" : adjusted_p < 0.0001 ? pText(adjusted_p) : `= ${pText(adjusted_p)}`}`;
    const tell = () => {
      said.textContent = text;
    };
    const isTelling = adjusted_p !== null && adjusted_p <= TELLING_P;
    const element = h(
      "td",
      {
        class: `${rho < 0 ? "negative" : "positive"} ${isTelling ? "telling" : ""}`,
        title: text,
        tabindex: 0,
        "aria-label": text,
        on: { mouseenter: tell, focus: tell },
      },
      rho.toFixed(2).replace("-", "−"),
    );
    return styled(element, { "--strength": `${Math.round(Math.abs(rho) * 70)}%` });
  };
  return section(
    "Correlation of metrics",
    h(
      "div",
      { class: "scroll-x" },
      h(
        "table",
        { class: "matrix" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("td", {}),
            ...shown.map((metric) => h("th", { scope: "col" }, h("span", {}, METRIC_NAMES[metric]))),
          ),
        ),
        h(
          "tbody",
          {},
          ...shown.map((one) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, METRIC_NAMES[one]),
              ...shown.map((other) => cell(one, other)),
            ),
          ),
        ),
      ),
    ),
    said,
  );
}
