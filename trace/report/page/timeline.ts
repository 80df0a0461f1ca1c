/** The whole trace at a glance: steps above calls, coloured by how they ended, and marks of errors, memory and rewards. */
import { button, h, svg } from "./dom.ts";
import type { Row, TraceModel } from "./trace-model.ts";
import { durationText, roundStep } from "./words.ts";

const STEP_PX = 7;
const MOST_LEVELS = 4;
const CALL_PX = 22;
const MARK_PX = 12;
const AXIS_PX = 18;
const COLUMN_PX = 3;

type Scale = "time" | "order";

export class Timeline {
  readonly element: HTMLElement;
  readonly #model: TraceModel;
  readonly #onSelect: (row: Row) => void;
  readonly #drawing: SVGSVGElement;
  readonly #places = new Map<Row, number>();
  readonly #levels: number;
  readonly #calls: number;
  readonly #scaleButtons: Record<Scale, HTMLButtonElement>;
  #scale: Scale;
  #widthPx = 0;
  #selected: Row | null = null;

  constructor(model: TraceModel, onSelect: (row: Row) => void) {
    this.#model = model;
    this.#onSelect = onSelect;
    for (const [place, row] of model.rows.entries()) this.#places.set(row, place);
    const depths = model.rows
      .filter(({ kind }) => kind === "step")
      .map(({ depth }) => Math.min(depth + 1, MOST_LEVELS));
    this.#levels = depths.reduce((most, depth) => Math.max(most, depth), 0);
    this.#calls = model.rows.filter(({ kind }) => kind === "call").length;
    // what was imported without times has an order alone
    this.#scale = model.endUs === 0 ? "order" : "time";
    this.#drawing = svg("svg", { class: "timeline-drawing", role: "img", "aria-label": this.#spoken() });
    this.#drawing.addEventListener("click", (event) => this.#clicked(event));
    this.#scaleButtons = {
      time: button("time", () => this.#scaleBy("time"), { class: "small", disabled: model.endUs === 0 }),
      order: button("order", () => this.#scaleBy("order"), { class: "small" }),
    };
    this.element = h(
      "div",
      { class: "timeline" },
      h(
        "div",
        { class: "timeline-bar" },
        legend(),
        h(
          "span",
          { class: "scales", role: "group", "aria-label": "Scale" },
          this.#scaleButtons.time,
          this.#scaleButtons.order,
        ),
      ),
      this.#drawing,
    );
    new ResizeObserver(([entry]) => {
      const width = Math.floor(entry!.contentRect.width);
      if (width === this.#widthPx || width < 50) return;
      this.#widthPx = width;
      this.#draw();
    }).observe(this.#drawing.parentElement!);
    this.#sayScale();
  }

  select(row: Row | null): void {
    this.#selected = row;
    this.#drawing.querySelector(".cursor")?.remove();
    if (row === null || this.#widthPx === 0) return;
    const x = this.#x(row);
    this.#drawing.append(
      svg("line", { class: "cursor", x1: x, x2: x, y1: 0, y2: this.#heightPx - AXIS_PX + 3 }),
    );
  }

  get #heightPx(): number {
    return this.#levels * STEP_PX + (this.#levels > 0 ? 4 : 0) + CALL_PX + MARK_PX + AXIS_PX;
  }

  #scaleBy(scale: Scale): void {
    this.#scale = scale;
    this.#sayScale();
    this.#draw();
  }

  #sayScale(): void {
    for (const scale of ["time", "order"] as const)
      this.#scaleButtons[scale].setAttribute("aria-pressed", String(scale === this.#scale));
  }

  #x(row: Row): number {
    const [at, of] =
      this.#scale === "time"
        ? [row.t_us, this.#model.endUs]
        : [this.#places.get(row)!, this.#model.rows.length];
    return (at / Math.max(1, of)) * (this.#widthPx - 2) + 1;
  }

  /** In the order of rows each is as wide as any other; a step goes to its last row. */
  #endX(row: Row): number {
    if (this.#scale === "time") {
      const end = row.t_us + (row.duration_us ?? (row.state === "open" ? this.#model.endUs - row.t_us : 0));
      return (end / Math.max(1, this.#model.endUs)) * (this.#widthPx - 2) + 1;
    }
    let last = row;
    while (last.children.length > 0) last = last.children.at(-1)!;
    return this.#x(last) + (this.#widthPx - 2) / Math.max(1, this.#model.rows.length);
  }

  #draw(): void {
    const height = this.#heightPx;
    this.#drawing.setAttribute("viewBox", `0 0 ${this.#widthPx} ${height}`);
    this.#drawing.setAttribute("height", String(height));
    this.#drawing.setAttribute("width", String(this.#widthPx));
    const callsTop = this.#levels * STEP_PX + (this.#levels > 0 ? 4 : 0);
    const marksTop = callsTop + CALL_PX;
    const groups = [
      this.#axis(height),
      this.#bars("step", (row) => Math.min(row.depth, MOST_LEVELS - 1) * STEP_PX, STEP_PX - 2),
      this.#isDense ? this.#density(callsTop) : this.#bars("call", () => callsTop, CALL_PX - 4),
      this.#marks(marksTop),
    ];
    this.#drawing.replaceChildren(...groups);
    this.select(this.#selected);
  }

  /** Bars that fall on the same pixels and look the same are one: a failure is never drawn over. */
  #bars(kind: "step" | "call", top: (row: Row) => number, height: number): SVGGElement {
    const group = svg("g", { class: `bars of-${kind}` });
    const drawn = new Set<string>();
    const rows = this.#model.rows.filter((row) => row.kind === kind);
    for (const row of [
      ...rows.filter(({ state }) => state !== "bad"),
      ...rows.filter(({ state }) => state === "bad"),
    ]) {
      const [x, y] = [this.#x(row), top(row)];
      const gap = this.#scale === "order" && kind === "call" ? 1 : 0;
      const width = Math.max(2, this.#endX(row) - x - gap);
      const key = `${Math.round(x)} ${y} ${Math.round(width)} ${row.state}`;
      if (drawn.has(key)) continue;
      drawn.add(key);
      group.append(
        svg("rect", { class: row.state, x: x.toFixed(1), y, width: width.toFixed(1), height, rx: 1.5 }),
      );
    }
    return group;
  }

  /** More calls than there is room for: of each column the shares of how its calls ended. */
  #density(top: number): SVGGElement {
    const columns = new Map<number, Record<string, number>>();
    for (const row of this.#model.rows) {
      if (row.kind !== "call") continue;
      const column = Math.floor(this.#x(row) / COLUMN_PX);
      const states = columns.get(column) ?? {};
      states[row.state] = (states[row.state] ?? 0) + 1;
      columns.set(column, states);
    }
    const group = svg("g", { class: "bars of-call" });
    for (const [column, states] of columns) {
      const all = Object.values(states).reduce((sum, n) => sum + n, 0);
      let y = top;
      for (const state of ["bad", "open", "good"]) {
        const height = ((states[state] ?? 0) / all) * (CALL_PX - 4);
        if (height === 0) continue;
        const place = { x: column * COLUMN_PX, y: y.toFixed(1), width: COLUMN_PX, height: height.toFixed(1) };
        group.append(svg("rect", { class: state, ...place }));
        y += height;
      }
    }
    return group;
  }

  get #isDense(): boolean {
    return this.#calls * COLUMN_PX > this.#widthPx;
  }

  #marks(top: number): SVGGElement {
    const group = svg("g", { class: "marks" });
    const drawn = new Set<string>();
    for (const row of this.#model.rows) {
      const what = markClass(row);
      if (what === null) continue;
      const x = this.#x(row);
      const key = `${what} ${Math.round(x / 2)}`;
      if (drawn.has(key)) continue;
      drawn.add(key);
      group.append(svg("path", { class: what, d: shape(what, x, top + MARK_PX / 2) }));
    }
    return group;
  }

  #axis(height: number): SVGGElement {
    const group = svg("g", { class: "axis" });
    const y = height - AXIS_PX;
    group.append(svg("line", { x1: 0, x2: this.#widthPx, y1: y, y2: y }));
    const [end, text]: [number, (value: number) => string] =
      this.#scale === "time"
        ? [this.#model.endUs, (us) => (us === 0 ? "0" : durationText(us))]
        : [this.#model.rows.length, (place) => String(place)];
    const step = roundStep(end / Math.max(2, Math.floor(this.#widthPx / 110)));
    for (let value = 0; value <= end && step > 0; value += step) {
      const x = (value / Math.max(1, end)) * (this.#widthPx - 2) + 1;
      if (x > this.#widthPx - 30 && value > 0) break;
      group.append(svg("line", { x1: x, x2: x, y1: y, y2: y + 4 }));
      group.append(svg("text", { x: x + 3, y: y + 13 }, text(value)));
    }
    return group;
  }

  #clicked(event: MouseEvent): void {
    const box = this.#drawing.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.#widthPx;
    const isOnSteps = event.clientY - box.top < this.#levels * STEP_PX;
    const isInside = (row: Row) => x >= this.#x(row) && x <= this.#endX(row);
    const candidates = this.#model.rows.filter(({ kind }) => (kind === "step") === isOnSteps);
    const distance = (row: Row) => (isInside(row) ? -row.depth : Math.abs(this.#x(row) - x));
    let nearest: Row | null = null;
    for (const row of candidates) if (nearest === null || distance(row) < distance(nearest)) nearest = row;
    if (nearest !== null) this.#onSelect(nearest);
  }

  #spoken(): string {
    const { rows, failures } = this.#model;
    const of = (kind: Row["kind"]) => rows.filter((row) => row.kind === kind).length;
    return `Timeline of ${of("step")} steps and ${of("call")} calls, ${failures.length} of them failures; the tree below has all of it`;
  }
}

type Mark = "error" | "memory" | "reward";

function markClass(row: Row): Mark | null {
  if (row.faults.length > 0) return "memory";
  if (row.kind === "error" || (row.kind === "other" && row.state === "bad")) return "error";
  return row.kind === "reward" ? "reward" : null;
}

function shape(what: Mark, x: number, y: number): string {
  if (what === "memory") return `M${x} ${y - 5}l5 5-5 5-5-5z`;
  if (what === "error") return `M${x} ${y - 5}l5.5 9.5h-11z`;
  return `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0-8 0z`;
}

function legend(): HTMLElement {
  const entries: [string, string][] = [
    ["good", "succeeded"],
    ["bad", "failed"],
    ["open", "did not end"],
    ["memory", "memory inconsistent"],
    ["error", "error"],
    ["reward", "reward"],
  ];
  const glyphs: Record<string, string> = { memory: "◆", error: "▲", reward: "●" };
  return h(
    "span",
    { class: "legend" },
    ...entries.map(([name, text]) =>
      h("span", {}, h("i", { class: `key-${name}`, "aria-hidden": "true" }, glyphs[name] ?? ""), text),
    ),
  );
}
