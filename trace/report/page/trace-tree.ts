/** The rows of a trace as a tree that is moved in by keys, each with its place in time. */
import { h, styled } from "./dom.ts";
import type { TimeWindow } from "./timeline-scale.ts";
import type { Row, TraceModel } from "./trace-model.ts";
import { VirtualRows } from "./virtual-rows.ts";
import { durationText, line, numberText } from "./words.ts";

export const ROW_PX = 28;

export class TraceTree {
  readonly element: HTMLElement;
  readonly #model: TraceModel;
  readonly #onSelect: (row: Row) => void;
  readonly #rows: VirtualRows;
  readonly #collapsed = new Set<Row>();
  #shown: Row[] = [];
  #selected: Row | null = null;
  #window: TimeWindow;
  #hits: ReadonlySet<Row> = new Set();
  onDrawn: () => void = () => {};

  constructor(model: TraceModel, onSelect: (row: Row) => void) {
    this.#model = model;
    this.#onSelect = onSelect;
    this.#window = { fromUs: 0, toUs: model.endUs };
    const space = h("div", { class: "tree-space", role: "presentation" });
    this.element = h(
      "div",
      {
        class: model.endUs === 0 ? "tree timeless" : "tree",
        role: "tree",
        tabindex: 0,
        "aria-label": "Steps and calls",
      },
      space,
    );
    this.#rows = new VirtualRows(this.element, space, ROW_PX, (place) => this.#rowElement(place));
    this.element.addEventListener("click", (event) => this.#clicked(event));
    this.#lay();
  }

  /** Opens what the row is within, and brings it into view. */
  select(row: Row | null): void {
    for (let above = row?.parent ?? null; above !== null; above = above.parent) this.#collapsed.delete(above);
    this.#selected = row;
    this.#lay();
    if (row !== null) this.#rows.reveal(this.#shown.indexOf(row));
    if (row === null) this.element.removeAttribute("aria-activedescendant");
    else this.element.setAttribute("aria-activedescendant", `row-${row.id}`);
  }

  mark(hits: ReadonlySet<Row>): void {
    this.#hits = hits;
    this.#lay();
  }

  /** Which part of the time the bars beside the rows are of. */
  showWindow(window: TimeWindow): void {
    this.#window = window;
    this.#rows.show(this.#shown.length);
  }

  move(by: number): void {
    const at =
      this.#selected === null ? (by > 0 ? -1 : this.#shown.length) : this.#shown.indexOf(this.#selected);
    const row = this.#shown[Math.min(this.#shown.length - 1, Math.max(0, at + by))];
    if (row !== undefined) this.#onSelect(row);
  }

  movePage(pages: number): void {
    this.move(pages * this.#rows.perPage);
  }

  moveTo(end: "first" | "last"): void {
    const row = end === "first" ? this.#shown[0] : this.#shown.at(-1);
    if (row !== undefined) this.#onSelect(row);
  }

  /** The keys of trees (WAI-ARIA): closed, then up to the parent; open, then down to the first child. */
  fold(open: boolean): void {
    const row = this.#selected;
    if (row === null) return;
    const isOpen = row.children.length > 0 && !this.#collapsed.has(row);
    if (open && row.children.length > 0) {
      if (isOpen) this.#onSelect(row.children[0]!);
      else this.#toggle(row);
    } else if (!open) {
      if (isOpen) this.#toggle(row);
      else if (row.parent !== null) this.#onSelect(row.parent);
    }
  }

  #toggle(row: Row): void {
    if (!this.#collapsed.delete(row)) this.#collapsed.add(row);
    this.#lay();
  }

  #clicked(event: MouseEvent): void {
    const target = event.target as Element;
    const element = target.closest<HTMLElement>("[data-place]");
    const row = element === null ? undefined : this.#shown[Number(element.dataset.place)];
    if (row === undefined) return;
    if (target.closest(".twist") !== null && row.children.length > 0) this.#toggle(row);
    else this.#onSelect(row);
  }

  #lay(): void {
    const shown: Row[] = [];
    // Without recursion: steps of other programs' spans nest as deep as they were recorded.
    const pending = this.#model.roots.toReversed();
    for (let row = pending.pop(); row !== undefined; row = pending.pop()) {
      shown.push(row);
      if (this.#collapsed.has(row)) continue;
      for (let at = row.children.length - 1; at >= 0; at--) pending.push(row.children[at]!);
    }
    this.#shown = shown;
    this.#rows.show(shown.length);
    this.onDrawn();
  }

  #rowElement(place: number): HTMLElement {
    const row = this.#shown[place]!;
    const siblings = row.parent?.children ?? this.#model.roots;
    const isOpen = !this.#collapsed.has(row);
    const isParent = row.children.length > 0;
    const twist = h("span", { class: "twist", "aria-hidden": "true" }, isParent ? (isOpen ? "▾" : "▸") : "");
    const element = h(
      "div",
      {
        ...{
          id: `row-${row.id}`,
          class: `row is-${row.kind} ${row.state}`,
          role: "treeitem",
          "data-place": place,
        },
        ...{
          "aria-level": row.depth + 1,
          "aria-setsize": siblings.length,
          "aria-posinset": siblings.indexOf(row) + 1,
        },
        ...{ "aria-selected": String(row === this.#selected), "aria-label": spokenText(row) },
        "aria-expanded": isParent ? String(isOpen) : null,
        "data-hit": this.#hits.has(row),
      },
      h(
        "span",
        { class: "row-name" },
        styled(h("span", { class: "indent" }), { width: `${row.depth * 14}px` }),
        twist,
        markOf(row),
        numberOf(row),
        h("span", { class: "name" }, line(row.name, 120)),
        h("span", { class: "gist" }, gistOf(row)),
        row.faults.length > 0 &&
          h("span", { class: "fault", title: row.faults.map((fault) => line(fault)).join("\n") }, "◆"),
      ),
      h("span", { class: "took" }, row.duration_us === null ? "" : durationText(row.duration_us)),
      this.#bar(row),
    );
    return element;
  }

  #bar(row: Row): HTMLElement {
    const { fromUs, toUs } = this.#window;
    const track = h("span", { class: "track", "aria-hidden": "true" });
    if (toUs === 0) return track;
    const share = (us: number) => Math.min(1, Math.max(0, (us - fromUs) / (toUs - fromUs)));
    const endUs = row.t_us + (row.duration_us ?? 0);
    if (endUs < fromUs || row.t_us > toUs) return track;
    const left = share(row.t_us);
    const bar = h("span", { class: row.duration_us === null ? "dot" : "bar" });
    const width = share(endUs) - left;
    track.append(styled(bar, { left: `${(left * 100).toFixed(3)}%`, width: `${(width * 100).toFixed(3)}%` }));
    return track;
  }
}

const MARKS: Record<Row["state"], [glyph: string, said: string]> = {
  good: ["✓", "succeeded"],
  bad: ["✗", "failed"],
  open: ["…", "did not end"],
  plain: ["•", ""],
};

function markOf(row: Row): HTMLElement {
  const glyph = row.kind === "error" ? "!" : row.kind === "reward" ? "★" : MARKS[row.state][0];
  return h("span", { class: "mark", "aria-hidden": "true" }, glyph);
}

function numberOf(row: Row): HTMLElement | null {
  if (row.kind === "call") return h("span", { class: "ordinal" }, `#${row.entry.call}`);
  return row.kind === "step" ? h("span", { class: "ordinal" }, `step ${row.entry.step}`) : null;
}

/** What there is to say beside the name, as far as the row is long. */
export function gistOf(row: Row): string {
  switch (row.kind) {
    case "step":
      return row.entry.calls === 0 ? "" : `${row.entry.calls} ${row.entry.calls === 1 ? "call" : "calls"}`;
    case "call": {
      const { code, text, arguments: given } = row.entry;
      if (row.state === "bad")
        return line([code, text ?? row.errors[0]?.text].filter((part) => part != null).join(" "), 160);
      return given === null ? "" : line(given.text, 160);
    }
    case "observation":
      return line(plainString(row.entry.content?.text ?? ""), 160);
    case "error":
      return line(row.entry.text, 160);
    case "reward":
      return numberText(row.entry.sum);
    case "other":
      return row.entry.type === "output" ? line(row.entry.text?.text ?? "", 160) : "";
  }
}

/** The text in a JSON string that may have been cut. */
function plainString(json: string): string {
  if (!json.startsWith('"')) return json;
  try {
    return String(JSON.parse(json));
  } catch {
    return json.slice(1);
  }
}

function spokenText(row: Row): string {
  const number = row.kind === "call" ? ` ${row.entry.call}` : row.kind === "step" ? ` ${row.entry.step}` : "";
  const took = row.duration_us === null ? "" : `, ${durationText(row.duration_us)}`;
  const faults = row.faults.length === 0 ? "" : `, ${row.faults.length} faults of memory`;
  const how = MARKS[row.state][1];
  return `${row.kind === "other" ? "event" : row.kind}${number} ${line(row.name, 120)}${how === "" ? "" : `, ${how}`}${took}${faults}`;
}
