/** The whole trace at a glance: steps above calls, coloured by how they ended, and marks of errors, memory and rewards. */
import { button, h, svg } from "./dom.ts";
import { type ScaleKind, TimelineScale, type TimeWindow } from "./timeline-scale.ts";
import type { Row, TraceModel } from "./trace-model.ts";
import { durationText, roundStep } from "./words.ts";

const STEP_PX = 7;
const MOST_LEVELS = 4;
const CALL_PX = 22;
const MARK_PX = 12;
const AXIS_PX = 18;
const COLUMN_PX = 3;
/** No character of the axis' labels is wider. */
const LABEL_CHAR_PX = 7;

/** A press that moves less selects; one that moves further shows a part. */
const DRAG_PX = 5;

export class Timeline {
  readonly element: HTMLElement;
  readonly #model: TraceModel;
  readonly #onSelect: (row: Row) => void;
  readonly #onWindow: (window: TimeWindow) => void;
  readonly #scale: TimelineScale;
  readonly #drawing: SVGSVGElement;
  readonly #levels: number;
  readonly #scaleButtons: Record<ScaleKind, HTMLButtonElement>;
  readonly #whole: HTMLButtonElement;
  #selected: Row | null = null;

  /** @param onWindow is told which part of the time is shown */
  constructor(model: TraceModel, onSelect: (row: Row) => void, onWindow: (window: TimeWindow) => void) {
    this.#model = model;
    this.#onSelect = onSelect;
    this.#onWindow = onWindow;
    this.#scale = new TimelineScale(model);
    const steps = model.rows.filter(({ kind }) => kind === "step");
    this.#levels = steps.reduce((most, { depth }) => Math.max(most, Math.min(depth + 1, MOST_LEVELS)), 0);
    this.#drawing = svg("svg", { class: "timeline-drawing", role: "img", "aria-label": this.#spoken() });
    this.#drawing.addEventListener("pointerdown", (event) => this.#pressed(event));
    const isTimeless = model.endUs === 0;
    this.#scaleButtons = {
      time: button("time", () => this.#useScale("time"), { class: "small", disabled: isTimeless }),
      order: button("order", () => this.#useScale("order"), { class: "small" }),
    };
    this.#whole = button("whole", () => this.showAll(), { class: "small", title: "Show all again (Esc)" });
    const { time, order } = this.#scaleButtons;
    const scales = h("span", { class: "scales", role: "group", "aria-label": "Scale" }, time, order);
    this.element = h(
      "div",
      { class: "timeline" },
      h(
        "div",
        { class: "timeline-bar" },
        legend(),
        h("span", { class: "timeline-tools" }, this.#whole, scales),
      ),
      this.#drawing,
    );
    new ResizeObserver(([entry]) => {
      const width = Math.floor(entry!.contentRect.width);
      if (width === this.#scale.widthPx || width < 50) return;
      this.#scale.widthPx = width;
      this.#draw();
    }).observe(this.element);
    this.#sayScale();
  }

  select(row: Row | null): void {
    this.#selected = row;
    if (row !== null && this.#scale.reveal(row)) this.#shown();
    else this.#drawCursor();
  }

  /** @param factor below 1 shows less, around what is selected */
  zoom(factor: number): void {
    this.#scale.zoom(factor, this.#selected);
    this.#shown();
  }

  /** Whether a part was shown. */
  showAll(): boolean {
    if (this.#scale.isWhole) return false;
    this.#scale.show(0, this.#scale.end);
    this.#shown();
    return true;
  }

  get #heightPx(): number {
    return this.#callsTop + CALL_PX + MARK_PX + AXIS_PX;
  }

  get #callsTop(): number {
    return this.#levels * STEP_PX + (this.#levels > 0 ? 4 : 0);
  }

  #useScale(kind: ScaleKind): void {
    this.#scale.use(kind);
    this.#shown();
  }

  #shown(): void {
    this.#sayScale();
    this.#draw();
    this.#onWindow(this.#scale.timeWindow);
  }

  #sayScale(): void {
    for (const kind of ["time", "order"] as const)
      this.#scaleButtons[kind].setAttribute("aria-pressed", String(kind === this.#scale.kind));
    this.#whole.hidden = this.#scale.isWhole;
  }

  #draw(): void {
    const { widthPx } = this.#scale;
    if (widthPx === 0) return;
    const [width, height] = [String(widthPx), String(this.#heightPx)];
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height }))
      this.#drawing.setAttribute(name, value);
    const calls = this.#model.rows.filter((row) => row.kind === "call" && this.#isInView(row));
    const steps = this.#model.rows.filter((row) => row.kind === "step" && this.#isInView(row));
    const events = this.#model.rows.filter(
      (row) => (row.kind === "observation" || row.kind === "other") && this.#isInView(row),
    );
    const callsTop = this.#callsTop;
    this.#drawing.replaceChildren(
      this.#axis(this.#heightPx),
      this.#bars("step", steps, (row) => Math.min(row.depth, MOST_LEVELS - 1) * STEP_PX, STEP_PX - 2),
      this.#bars("event", events, () => callsTop + 6, CALL_PX - 16),
      calls.length * COLUMN_PX > widthPx
        ? this.#density(calls, callsTop)
        : this.#bars("call", calls, () => callsTop, CALL_PX - 4),
      this.#marks(callsTop + CALL_PX),
    );
    this.#drawCursor();
  }

  #drawCursor(): void {
    this.#drawing.querySelector(".cursor")?.remove();
    if (this.#selected === null || this.#scale.widthPx === 0) return;
    const x = this.#scale.x(this.#selected);
    const y2 = this.#heightPx - AXIS_PX + 3;
    this.#drawing.append(svg("line", { class: "cursor", x1: x, x2: x, y1: 0, y2 }));
  }

  #isInView(row: Row): boolean {
    return this.#scale.endX(row) >= 0 && this.#scale.x(row) <= this.#scale.widthPx;
  }

  /** Bars that fall on the same pixels and look the same are one: a failure is never drawn over. */
  #bars(
    kind: "step" | "call" | "event",
    rows: readonly Row[],
    top: (row: Row) => number,
    height: number,
  ): SVGGElement {
    const group = svg("g", { class: `bars of-${kind}` });
    const drawn = new Set<string>();
    for (const row of [
      ...rows.filter(({ state }) => state !== "bad"),
      ...rows.filter(({ state }) => state === "bad"),
    ]) {
      const [x, y] = [this.#scale.x(row), top(row)];
      const gap = this.#scale.kind === "order" && kind !== "step" ? 1 : 0;
      const width = Math.max(2, this.#scale.endX(row) - x - gap);
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
  #density(calls: readonly Row[], top: number): SVGGElement {
    const columns = new Map<number, Record<string, number>>();
    for (const row of calls) {
      const column = Math.floor(this.#scale.x(row) / COLUMN_PX);
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

  #marks(top: number): SVGGElement {
    const group = svg("g", { class: "marks" });
    const drawn = new Set<string>();
    for (const row of this.#model.rows) {
      const what = markClass(row);
      if (what === null || !this.#isInView(row)) continue;
      const x = this.#scale.x(row);
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
    const { widthPx, from, to, kind } = this.#scale;
    group.append(svg("line", { x1: 0, x2: widthPx, y1: y, y2: y }));
    const text = (value: number) =>
      kind === "order" ? String(value) : value === 0 ? "0" : durationText(value);
    const step = roundStep((to - from) / Math.max(2, Math.floor(widthPx / 110)));
    for (let value = Math.ceil(from / step) * step; value <= to; value += step) {
      const x = this.#scale.xOf(value);
      const label = text(value);
      const hasRoom = x + 3 + label.length * LABEL_CHAR_PX <= widthPx;
      const place = hasRoom ? { x: x + 3 } : { x: x - 3, "text-anchor": "end" };
      group.append(svg("line", { x1: x, x2: x, y1: y, y2: y + 4 }));
      group.append(svg("text", { ...place, y: y + 13 }, label));
    }
    return group;
  }

  #pressed(event: PointerEvent): void {
    if (event.button !== 0) return;
    const box = this.#drawing.getBoundingClientRect();
    const xOf = ({ clientX }: PointerEvent) => Math.max(0, Math.min(this.#scale.widthPx, clientX - box.left));
    const [begun, y] = [xOf(event), event.clientY - box.top];
    const part = svg("rect", { class: "dragged", y: 0, height: this.#heightPx - AXIS_PX, width: 0 });
    this.#drawing.append(part);
    this.#drawing.setPointerCapture(event.pointerId);
    const moved = (move: PointerEvent) => {
      part.setAttribute("x", String(Math.min(begun, xOf(move))));
      part.setAttribute("width", String(Math.abs(xOf(move) - begun)));
    };
    const ended = (end: PointerEvent) => {
      this.#drawing.removeEventListener("pointermove", moved);
      part.remove();
      const [left, right] = [Math.min(begun, xOf(end)), Math.max(begun, xOf(end))];
      if (end.type === "pointercancel") return;
      if (right - left < DRAG_PX) return this.#selectAt(begun, y);
      this.#scale.show(this.#scale.valueAt(left), this.#scale.valueAt(right));
      this.#shown();
    };
    this.#drawing.addEventListener("pointermove", moved);
    for (const name of ["pointerup", "pointercancel"] as const)
      this.#drawing.addEventListener(name, ended, { once: true });
  }

  #selectAt(x: number, y: number): void {
    const isOnSteps = y < this.#levels * STEP_PX;
    const distance = (row: Row) => {
      const [from, to] = [this.#scale.x(row), this.#scale.endX(row)];
      // of steps within each other the innermost
      return x >= from && x <= to ? -row.depth : Math.abs(from - x);
    };
    let nearest: { row: Row; far: number } | null = null;
    for (const row of this.#model.rows) {
      if ((row.kind === "step") !== isOnSteps) continue;
      const far = distance(row);
      if (nearest === null || far < nearest.far) nearest = { row, far };
    }
    if (nearest !== null) this.#onSelect(nearest.row);
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
