/** A reward as what it is made of: raw value times weight, and how the weight changed. */
import type { RewardEntry } from "#trace/analysis/report-data.ts";
import { h, styled } from "./dom.ts";
import { line, numberText } from "./words.ts";

export function rewardView({ components, sum, source, fault }: RewardEntry): HTMLElement {
  const most =
    components.reduce((so_far, { product }) => Math.max(so_far, Math.abs(product)), Math.abs(sum)) || 1;
  const bar = (value: number) => {
    const width = (Math.abs(value) / most) * 50;
    const element = h("span", { class: value < 0 ? "product negative" : "product" });
    return styled(element, { left: `${value < 0 ? 50 - width : 50}%`, width: `${width}%` });
  };
  const row = (kind: string, name: string, cells: string[], value: number) =>
    h(
      "tr",
      { class: kind },
      h("th", { scope: "row" }, name),
      ...cells.map((cell) => h("td", { class: "figure" }, cell)),
      h("td", { class: "product-cell" }, bar(value)),
    );
  return h(
    "div",
    {},
    h(
      "table",
      { class: "grid reward" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ...["component", "raw", "weight", "change", "product", ""].map((title) =>
            h("th", { scope: "col", class: title === "component" ? "" : "figure" }, title),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        ...components.map(({ name, value, weight, weight_change, product }) =>
          row(
            "",
            line(name, 80),
            [
              numberText(value),
              `× ${numberText(weight)}`,
              changeText(weight_change),
              `= ${numberText(product)}`,
            ],
            product,
          ),
        ),
        row("sum", "sum", ["", "", "", numberText(sum)], sum),
      ),
    ),
    source !== null && h("p", { class: "hint" }, `from ${line(source)}`),
    fault !== null && h("p", { class: "warning" }, `The arithmetic does not hold: ${line(fault)}`),
  );
}

function changeText(change: number | null): string {
  if (change === null || change === 0) return "";
  return `${change > 0 ? "+" : "−"}${numberText(Math.abs(change))}`;
}
