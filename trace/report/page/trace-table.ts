/** All traces as a table: sorted by any column, filtered by words and bounds, opened by a press. */
import type { TraceRow } from "#trace/analysis/report-data.ts";
import { h } from "./dom.ts";
import { type Column, cellOf, filterOf, sorted } from "./table-filter.ts";
import { VirtualRows } from "./virtual-rows.ts";
import { baseName, count, line, numberText } from "./words.ts";

const ROW_PX = 30;

const TITLES: Record<Column, string> = {
  file: "trace",
  outcome: "outcome",
  reward: "reward",
  accuracy: "accuracy",
  success: "success",
  memory: "memory",
  errors: "errors",
  steps: "steps",
  calls: "calls",
  duration: "seconds",
  events: "events",
};

export class TraceTable {
  readonly element: HTMLElement;
  readonly #traces: readonly TraceRow[];
  readonly #places: Map<TraceRow, number>;
  readonly #addressOf: (place: number) => string | null;
  readonly #open: (place: number) => void;
  readonly #columns: Column[];
  readonly #heads = new Map<Column, HTMLElement>();
  readonly #body: HTMLElement;
  readonly #rows: VirtualRows;
  readonly #input: HTMLInputElement;
  readonly #tally: HTMLOutputElement;
  #shown: TraceRow[];
  #sort: { column: Column; descending: boolean } | null = null;
  #selected = -1;

  constructor(
    traces: readonly TraceRow[],
    addressOf: (place: number) => string | null,
    open: (place: number) => void,
  ) {
    this.#traces = traces;
    this.#places = new Map(traces.map((trace, place) => [trace, place]));
    this.#addressOf = addressOf;
    this.#open = open;
    this.#shown = [...traces];
    // a column that says nothing of any trace takes no room
    this.#columns = (Object.keys(TITLES) as Column[]).filter(
      (column) => traces.some((trace) => cellOf(trace, column)) || column === "reward",
    );
    this.#input = h("input", {
      type: "search",
      placeholder: "Filter: words, reward<1, errors>=3 …",
      "aria-label": "Filter traces",
      spellcheck: "false",
    });
    this.#input.addEventListener("input", () => this.#lay());
    this.#input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" && event.key !== "Enter") return;
      if (event.key === "Escape") this.#input.value = "";
      this.#lay();
      this.#body.focus();
      event.preventDefault();
      event.stopPropagation();
    });
    this.#tally = h("output", { class: "tally", "aria-live": "polite" });
    const space = h("div", { class: "table-space", role: "rowgroup" });
    this.#body = h("div", { class: "table-body", tabindex: 0, "aria-label": "Traces" }, space);
    this.#rows = new VirtualRows(this.#body, space, ROW_PX, (place) => this.#rowElement(place));
    this.#body.style.setProperty("height", `${Math.min(16, Math.max(2, traces.length)) * ROW_PX + 2}px`);
    const table = h(
      "div",
      { class: "table", role: "table", "aria-rowcount": traces.length + 1 },
      h(
        "div",
        { role: "rowgroup" },
        h(
          "div",
          { class: "table-row table-head", role: "row" },
          ...this.#columns.map((column) => this.#head(column)),
        ),
      ),
      this.#body,
    );
    const widths = this.#columns.map((column) =>
      column === "file"
        ? "minmax(150px, 3fr)"
        : column === "outcome"
          ? "minmax(84px, 1fr)"
          : "minmax(58px, 1fr)",
    );
    table.style.setProperty("--columns", widths.join(" "));
    this.element = h("div", {}, h("div", { class: "table-tools" }, this.#input, this.#tally), table);
    this.#lay();
  }

  focus(): void {
    this.#rows.show(this.#shown.length);
  }

  filter(): void {
    this.#input.focus();
    this.#input.select();
  }

  key({ key }: KeyboardEvent): boolean {
    const by = key === "j" || key === "ArrowDown" ? 1 : key === "k" || key === "ArrowUp" ? -1 : 0;
    if (by !== 0 && (key.length === 1 || this.#body.contains(document.activeElement))) {
      this.#selected = Math.min(this.#shown.length - 1, Math.max(0, this.#selected + by));
      this.#rows.show(this.#shown.length);
      this.#rows.reveal(this.#selected);
      this.#body.scrollIntoView({ block: "nearest" });
      return true;
    }
    if (key !== "Enter" || this.#selected < 0 || document.activeElement instanceof HTMLButtonElement)
      return false;
    const trace = this.#shown[this.#selected];
    if (trace !== undefined) this.#open(this.#places.get(trace)!);
    return true;
  }

  #head(column: Column): HTMLElement {
    const sort = () => {
      const descending =
        this.#sort?.column === column ? !this.#sort.descending : column !== "file" && column !== "outcome";
      this.#sort = { column, descending };
      this.#lay();
    };
    const head = h(
      "div",
      {
        role: "columnheader",
        class: column === "file" || column === "outcome" ? "" : "figure",
        "aria-sort": "none",
      },
      h(
        "button",
        { type: "button", on: { click: sort } },
        TITLES[column],
        h("span", { class: "arrow", "aria-hidden": "true" }),
      ),
    );
    this.#heads.set(column, head);
    return head;
  }

  #lay(): void {
    const matching = this.#traces.filter(filterOf(this.#input.value));
    this.#shown = this.#sort === null ? matching : sorted(matching, this.#sort.column, this.#sort.descending);
    for (const [column, head] of this.#heads) {
      const order =
        this.#sort?.column !== column ? "none" : this.#sort.descending ? "descending" : "ascending";
      head.setAttribute("aria-sort", order);
      head.querySelector(".arrow")!.textContent =
        order === "none" ? "" : order === "descending" ? " ↓" : " ↑";
    }
    this.#selected = -1;
    const { length } = this.#traces;
    this.#tally.value =
      this.#shown.length === length
        ? count(length, "trace")
        : `${numberText(this.#shown.length)} of ${count(length, "trace")}`;
    this.#body.scrollTop = 0;
    this.#rows.show(this.#shown.length);
  }

  #rowElement(place: number): HTMLElement {
    const trace = this.#shown[place]!;
    const address = this.#addressOf(this.#places.get(trace)!);
    return h(
      "div",
      {
        class: "table-row",
        role: "row",
        "aria-rowindex": place + 2,
        "aria-selected": String(place === this.#selected),
      },
      ...this.#columns.map((column) => {
        const value = cellOf(trace, column);
        if (column === "file") {
          const name = line(baseName(trace.file), 160);
          const said = trace.task_id === null ? "" : line(trace.task_id, 80);
          return h(
            "div",
            { role: "cell", class: "file-cell", title: line(trace.file) },
            address === null ? name : h("a", { href: address }, name),
            said !== "" && h("small", {}, ` ${said}`),
          );
        }
        if (column === "outcome")
          return h(
            "div",
            { role: "cell" },
            h("span", { class: `dot-label is-${trace.outcome}` }, trace.outcome),
          );
        const isBad = column === "errors" && Number(value) > 0;
        return h(
          "div",
          { role: "cell", class: isBad ? "figure bad-text" : "figure" },
          typeof value === "number" ? numberText(value) : "–",
        );
      }),
    );
  }
}
