/** Where rows lie on the timeline: by time or by order, the whole of it or a part. */
import type { Row, TraceModel } from "./trace-model.ts";

export type ScaleKind = "time" | "order";

/** Microseconds that are shown of the whole. */
export type TimeWindow = { fromUs: number; toUs: number };

/** A part is no smaller than this share of the whole. */
const LEAST_SHARE = 1e-5;

export class TimelineScale {
  readonly #model: TraceModel;
  readonly #places: Map<Row, number>;
  #kind: ScaleKind;
  #from = 0;
  #to: number;
  widthPx = 0;

  constructor(model: TraceModel) {
    this.#model = model;
    this.#places = new Map(model.rows.map((row, place) => [row, place]));
    // what was imported without times has an order alone
    this.#kind = model.endUs === 0 ? "order" : "time";
    this.#to = this.end;
  }

  get kind(): ScaleKind {
    return this.#kind;
  }

  get end(): number {
    return Math.max(1, this.#kind === "time" ? this.#model.endUs : this.#model.rows.length);
  }

  get from(): number {
    return this.#from;
  }

  get to(): number {
    return this.#to;
  }

  get isWhole(): boolean {
    return this.#from === 0 && this.#to === this.end;
  }

  get timeWindow(): TimeWindow {
    const isPart = this.#kind === "time" && !this.isWhole;
    return isPart ? { fromUs: this.#from, toUs: this.#to } : { fromUs: 0, toUs: this.#model.endUs };
  }

  use(kind: ScaleKind): void {
    this.#kind = kind;
    this.show(0, this.end);
  }

  show(from: number, to: number): void {
    const length = Math.min(this.end, Math.max(to - from, this.end * LEAST_SHARE));
    this.#from = Math.min(Math.max(0, from), this.end - length);
    this.#to = this.#from + length;
  }

  /** @param factor below 1 shows less */
  zoom(factor: number, around: Row | null): void {
    const middle = around === null ? (this.#from + this.#to) / 2 : this.#valueOf(around);
    const half = ((this.#to - this.#from) * factor) / 2;
    this.show(middle - half, middle + half);
  }

  /** Moves the part so that the row is in it; whether it had to. */
  reveal(row: Row): boolean {
    const value = this.#valueOf(row);
    if (value >= this.#from && value <= this.#to) return false;
    const half = (this.#to - this.#from) / 2;
    this.show(value - half, value + half);
    return true;
  }

  x(row: Row): number {
    return this.xOf(this.#valueOf(row));
  }

  /** In the order of rows all are equally wide; a step goes to its last row. */
  endX(row: Row): number {
    if (this.#kind === "time") {
      const { endUs } = this.#model;
      return this.xOf(row.t_us + (row.duration_us ?? (row.state === "open" ? endUs - row.t_us : 0)));
    }
    let last = row;
    while (last.children.length > 0) last = last.children.at(-1)!;
    return this.xOf(this.#valueOf(last) + 1);
  }

  xOf(value: number): number {
    return ((value - this.#from) / (this.#to - this.#from)) * (this.widthPx - 2) + 1;
  }

  valueAt(x: number): number {
    return this.#from + ((x - 1) / (this.widthPx - 2)) * (this.#to - this.#from);
  }

  #valueOf(row: Row): number {
    return this.#kind === "time" ? row.t_us : this.#places.get(row)!;
  }
}
