/** Groups of failures that are alike, by what sets each apart from the traces that succeeded. */
import type { Cluster, ClusterFeature, Clustering } from "#trace/analysis/clusters.ts";
import { h, section, styled } from "./dom.ts";
import { baseName, count, line } from "./words.ts";

const FEATURES = 5;
const TRACES = 6;
const OPEN = 2;
const AT_ONCE = 5;

export function clustersPart(
  clustering: Clustering,
  linkTo: (file: string, text: string) => HTMLElement,
): HTMLElement {
  const { clusters, noise, failed, left_out, successful } = clustering;
  const alone =
    noise > 0 ? ` ${count(noise, "failure")} ${noise === 1 ? "is" : "are"} like too few others.` : "";
  const cut = left_out > 0 ? ` ${count(left_out, "failure")} beyond the bound were not compared.` : "";
  const views = clusters.map((cluster, at) => clusterView(cluster, successful, at < OPEN, linkTo));
  return section(
    "Failures that are alike",
    h(
      "p",
      { class: "hint" },
      failed === 0
        ? "No trace failed."
        : `${count(clusters.length, "group")} of ${count(failed, "failure")}.${alone}${cut} Lift: how much more often than in the ${successful} that succeeded.`,
    ),
    ...views.slice(0, AT_ONCE),
    views.length > AT_ONCE &&
      h(
        "details",
        {},
        h("summary", {}, `${count(views.length - AT_ONCE, "smaller group")}`),
        ...views.slice(AT_ONCE),
      ),
  );
}

function clusterView(
  { label, size, features, traces }: Cluster,
  successful: number,
  open: boolean,
  linkTo: (file: string, text: string) => HTMLElement,
): HTMLElement {
  return h(
    "details",
    { class: "cluster", open },
    h("summary", {}, h("strong", {}, count(size, "failure")), h("span", { class: "name" }, line(label, 160))),
    features.length > 0 && featureTable(features.slice(0, FEATURES), size, successful),
    h(
      "p",
      { class: "members" },
      ...traces.slice(0, TRACES).map((file) => linkTo(file, line(baseName(file), 60))),
      size > TRACES && h("span", { class: "none" }, `and ${size - TRACES} more`),
    ),
  );
}

function featureTable(features: readonly ClusterFeature[], size: number, successful: number): HTMLElement {
  const most = features.reduce((so_far, { lift }) => Math.max(so_far, Math.log2(Math.max(1, lift))), 1);
  const head = (title: string, at: number) =>
    h("th", { scope: "col", class: at === 1 || at === 2 ? "figure" : "" }, title);
  return h(
    "table",
    { class: "grid" },
    h("thead", {}, h("tr", {}, ...["has", "here", "succeeded", "lift"].map(head))),
    h(
      "tbody",
      {},
      ...features.map(({ feature, in_cluster, in_successful, lift }) => {
        const bar = styled(h("i", { class: "lift" }), {
          width: `${(Math.log2(Math.max(1, lift)) / most) * 60}%`,
        });
        return h(
          "tr",
          {},
          h("th", { scope: "row" }, line(feature, 120)),
          h("td", { class: "figure" }, `${in_cluster}/${size}`),
          h("td", { class: "figure" }, `${in_successful}/${successful}`),
          h("td", { class: "lift-cell" }, h("span", {}, `${lift.toFixed(1)}×`), bar),
        );
      }),
    ),
  );
}
