/** One trace: headline, timeline, and beside each other the tree and what is selected in it. */
import type { OneReport } from "#trace/analysis/report-data.ts";
import { detailOf } from "./detail.ts";
import { button, type Child, h } from "./dom.ts";
import { headline, overviewOf } from "./overview.ts";
import { highlight, Search } from "./search.ts";
import { Timeline } from "./timeline.ts";
import { modelOf, type Row } from "./trace-model.ts";
import { TraceTree } from "./trace-tree.ts";
import { baseName, line } from "./words.ts";

export type View = {
  element: HTMLElement;
  /** Shows what the rest of the address names. */
  go(place: string): void;
  /** Whether the key meant something. */
  key(event: KeyboardEvent): boolean;
  keys: [keys: string, what: string][];
};

/**
 * @param back what leads to the page or part on many traces
 * @param onPlace is told what is selected, for the address
 */
export function traceView(report: OneReport, back: Child, onPlace: (place: string) => void): View {
  const model = modelOf(report);
  const search = new Search(model.rows);
  let selected: Row | null = null;
  let found: Row[] = [];

  const select = (row: Row | null) => {
    show(row);
    onPlace(row?.id ?? "");
  };
  const tree = new TraceTree(model, select);
  const timeline = new Timeline(model, select, (window) => tree.showWindow(window));
  const pane = h("div", { class: "pane", tabindex: -1 });
  pane.addEventListener("click", (event) => {
    const id = (event.target as Element).closest<HTMLElement>("[data-row]")?.dataset.row;
    const row = id === undefined ? undefined : model.byId.get(id);
    if (row === undefined) return;
    event.preventDefault();
    select(row);
  });

  const input = h("input", {
    type: "search",
    placeholder: "Search everything",
    "aria-label": "Search everything in this trace",
    spellcheck: "false",
  });
  const tally = h("output", { class: "tally", "aria-live": "polite" });
  const failureCount = h("span", { class: "tally" });
  let waiting = 0;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = window.setTimeout(look, 120);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextFound(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      input.value = "";
      void look();
      tree.element.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });

  async function look(): Promise<void> {
    const result = await search.find(input.value);
    if (result === null) return;
    found = result.rows;
    tree.mark(new Set(found));
    tellFound(result.matches);
    emphasise();
  }
  function tellFound(matches: number): void {
    const at = selected === null ? -1 : found.indexOf(selected);
    const of = `${found.length.toLocaleString("en-US")} ${found.length === 1 ? "row" : "rows"}`;
    tally.dataset.matches = String(matches);
    tally.value =
      input.value === ""
        ? ""
        : matches === 0
          ? "nothing found"
          : `${at < 0 ? "" : `${at + 1} of `}${of} · ${matches.toLocaleString("en-US")}×`;
  }
  function nextFound(by: number): void {
    const row = after(found, by);
    if (row !== null) select(row);
  }
  function emphasise(): void {
    highlight([pane, tree.element], input.value);
  }
  /** The next of some rows from what is selected, and from the end on the first again. */
  function after(rows: readonly Row[], by: number): Row | null {
    const seq = selected?.seq ?? (by > 0 ? -1 : Number.POSITIVE_INFINITY);
    const next = by > 0 ? rows.find((row) => row.seq > seq) : rows.findLast((row) => row.seq < seq);
    return next ?? rows.at(by > 0 ? 0 : -1) ?? null;
  }
  const inconsistent = model.rows.filter(({ faults }) => faults.length > 0);
  function jump(rows: readonly Row[], by: number): void {
    const row = after(rows, by);
    if (row !== null) select(row);
  }

  function show(row: Row | null): void {
    selected = row;
    tree.select(row);
    timeline.select(row);
    pane.replaceChildren(row === null ? overviewOf(model) : detailOf(row, model));
    pane.scrollTop = 0;
    const at = row === null ? -1 : model.failures.indexOf(row);
    const { length } = model.failures;
    failureCount.textContent = `${at < 0 ? "" : `${at + 1} of `}${length.toLocaleString("en-US")} ${length === 1 ? "failure" : "failures"}`;
    if (input.value !== "") tellFound(Number(tally.dataset.matches));
    emphasise();
  }

  const noFailures = model.failures.length === 0;
  const element = h(
    "div",
    { class: "view trace-view" },
    h(
      "header",
      { class: "bar" },
      back,
      h(
        "h1",
        { title: line(report.trace.file) },
        line(report.trace.trace_id === "" ? baseName(report.trace.file) : report.trace.trace_id, 200),
      ),
      h(
        "span",
        { class: `failures ${noFailures ? "none" : ""}`, role: "group", "aria-label": "Failures" },
        button("‹", () => jump(model.failures, -1), {
          disabled: noFailures,
          "aria-label": "Previous failure",
          title: "Previous failure (p)",
        }),
        failureCount,
        button("›", () => jump(model.failures, 1), {
          disabled: noFailures,
          "aria-label": "Next failure",
          title: "Next failure (n)",
        }),
      ),
      h("span", { class: "search" }, input, tally),
    ),
    headline(report),
    timeline.element,
    h(
      "main",
      { class: "split" },
      model.rows.length === 0
        ? h("p", { class: "none" }, "Nothing was recorded but the header.")
        : tree.element,
      pane,
    ),
  );
  tree.onDrawn = () => input.value !== "" && emphasise();
  let scrolling = 0;
  tree.element.addEventListener("scroll", () => {
    if (input.value === "") return;
    cancelAnimationFrame(scrolling);
    scrolling = requestAnimationFrame(emphasise);
  });

  const actions: Record<string, () => void> = {
    j: () => tree.move(1),
    k: () => tree.move(-1),
    ArrowDown: () => tree.move(1),
    ArrowUp: () => tree.move(-1),
    ArrowRight: () => tree.fold(true),
    ArrowLeft: () => tree.fold(false),
    PageDown: () => tree.movePage(1),
    PageUp: () => tree.movePage(-1),
    Home: () => tree.moveTo("first"),
    End: () => tree.moveTo("last"),
    g: () => tree.moveTo("first"),
    G: () => tree.moveTo("last"),
    n: () => jump(model.failures, 1),
    p: () => jump(model.failures, -1),
    m: () => jump(inconsistent, 1),
    M: () => jump(inconsistent, -1),
    "/": () => {
      input.focus();
      input.select();
    },
    "+": () => timeline.zoom(1 / 2),
    "-": () => timeline.zoom(2),
    Escape: () => {
      if (!timeline.showAll()) select(null);
    },
  };
  return {
    element,
    go: (place) => show(model.byId.get(place) ?? null),
    key: (event) => {
      // within the detail the arrows and page keys scroll
      if (event.key.length > 1 && event.key !== "Escape" && pane.contains(document.activeElement))
        return false;
      const action = actions[event.key];
      action?.();
      return action !== undefined;
    },
    keys: [
      ["j  k", "next and previous row"],
      ["← →", "close and open a step"],
      ["n  p", "next and previous failure"],
      ["m  M", "next and previous inconsistency of memory"],
      ["g  G", "first and last row"],
      ["/", "search; Enter and Shift+Enter go through what is found"],
      ["+  -", "a smaller and a larger part of the timeline; drag over it to see a part"],
      ["Esc", "the whole timeline, then the overview"],
    ],
  };
}
