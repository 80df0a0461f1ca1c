/** Rows of one height, of which only those in view are elements: ten thousand cost what thirty do. */
export class VirtualRows {
  readonly viewport: HTMLElement;
  readonly #space: HTMLElement;
  readonly #rowPx: number;
  readonly #render: (place: number) => HTMLElement;
  #count = 0;
  #from = 0;
  #to = 0;

  /** @param viewport scrolls; rows are put in an element of their own within it */
  constructor(
    viewport: HTMLElement,
    space: HTMLElement,
    rowPx: number,
    render: (place: number) => HTMLElement,
  ) {
    this.viewport = viewport;
    this.#space = space;
    this.#rowPx = rowPx;
    this.#render = render;
    viewport.addEventListener("scroll", () => this.#draw(false), { passive: true });
    new ResizeObserver(() => this.#draw(false)).observe(viewport);
  }

  /** Draws anew. */
  show(count: number): void {
    this.#count = count;
    this.#space.style.setProperty("height", `${count * this.#rowPx}px`);
    this.#draw(true);
  }

  get perPage(): number {
    return Math.max(1, Math.floor(this.viewport.clientHeight / this.#rowPx) - 1);
  }

  reveal(place: number): void {
    const head = this.#space.offsetTop;
    const [top, bottom] = [place * this.#rowPx, (place + 1) * this.#rowPx];
    const { scrollTop, clientHeight } = this.viewport;
    if (top < scrollTop) this.viewport.scrollTop = Math.max(0, top - 2 * this.#rowPx);
    else if (bottom + head > scrollTop + clientHeight)
      this.viewport.scrollTop = bottom + head - clientHeight + 2 * this.#rowPx;
  }

  #draw(anew: boolean): void {
    const { scrollTop, clientHeight } = this.viewport;
    const from = Math.max(0, Math.floor(scrollTop / this.#rowPx) - MARGIN);
    const to = Math.min(this.#count, Math.ceil((scrollTop + clientHeight) / this.#rowPx) + MARGIN);
    if (!anew && from === this.#from && to === this.#to) return;
    [this.#from, this.#to] = [from, to];
    const rows: HTMLElement[] = [];
    for (let place = from; place < to; place++) {
      const row = this.#render(place);
      row.style.setProperty("top", `${place * this.#rowPx}px`);
      rows.push(row);
    }
    this.#space.replaceChildren(...rows);
  }
}

const MARGIN = 10;
