/** Two metrics over the traces: how each is spread, and one against the other. */
import type { Metric, TraceRow } from "#trace/analysis/report-data.ts";
import { h, section, svg } from "./dom.ts";
import { METRIC_NAMES, METRICS } from "./metric-names.ts";
import { baseName, line, numberText, roundStep } from "./words.ts";

const WIDTH = 520;
const HEIGHT = 300;
const LEFT = 46;
const BOTTOM = 34;
const TOP = 10;
const RIGHT = 12;
const BINS = 20;

export function chartsPart(traces: readonly TraceRow[], open: (place: number) => void): HTMLElement {
  const known = METRICS.filter(
    (metric) =>
      new Set(traces.map(({ metrics }) => metrics[metric]).filter((value) => value !== null)).size > 1,
  );
  if (known.length === 0)
    return section("Spread", h("p", { class: "none" }, "No metric varies over these traces."));
  const first = known.includes("tool_call_accuracy")
    ? "tool_call_accuracy"
    : (known.find((metric) => metric !== "reward") ?? known[0]!);
  const picture = h("div", { class: "chart" });
  const draw = () => {
    const [x, y] = [across.value as Metric, up.value as Metric | "count"];
    picture.replaceChildren(y === "count" ? histogram(traces, x) : scatter(traces, x, y, open));
  };
  const pick = (label: string, options: [string, string][], chosen: string) => {
    const select = h(
      "select",
      { "aria-label": label, on: { change: draw } },
      ...options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
    );
    return select;
  };
  const metricOptions = known.map((metric): [string, string] => [metric, METRIC_NAMES[metric]]);
  const across = pick("Horizontal", metricOptions, first);
  const up = pick("Vertical", [["count", "number of traces"], ...metricOptions], "count");
  draw();
  return section("Spread", h("p", { class: "picks" }, up, h("span", {}, "over"), across), picture);
}

type Axis = { low: number; high: number; at: (value: number) => number };

function axis(values: readonly number[], isWhole: boolean, from: number, to: number): Axis {
  let low = values.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
  let high = values.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  // shares are seen whole, and counts from nothing on
  if (low >= 0) [low, high] = [0, high <= 1 ? 1 : 4 * roundStep(high / 4, isWhole)];
  if (high === low) high = low + 1;
  return { low, high, at: (value) => from + ((value - low) / (high - low)) * (to - from) };
}

function frame(x: Axis, y: Axis, xName: string, yName: string): SVGSVGElement {
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  const value = ({ low, high }: Axis, share: number) =>
    numberText(Number((low + share * (high - low)).toPrecision(3)));
  const right = WIDTH - RIGHT;
  const base = HEIGHT - BOTTOM;
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", role: "img", "aria-label": `${yName} over ${xName}` },
    svg(
      "g",
      { class: "axis" },
      ...ticks.map((share) =>
        svg("line", {
          class: "rule",
          x1: LEFT,
          x2: right,
          y1: base - share * (base - TOP),
          y2: base - share * (base - TOP),
        }),
      ),
      ...ticks.map((share) =>
        svg(
          "text",
          { x: LEFT - 6, y: base - share * (base - TOP) + 4, "text-anchor": "end" },
          value(y, share),
        ),
      ),
      ...ticks.map((share) =>
        svg(
          "text",
          {
            x: LEFT + share * (right - LEFT),
            y: base + 16,
            "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle",
          },
          value(x, share),
        ),
      ),
      svg(
        "text",
        { class: "axis-name", x: (LEFT + right) / 2, y: HEIGHT - 3, "text-anchor": "middle" },
        xName,
      ),
    ),
  );
}

function scatter(
  traces: readonly TraceRow[],
  xMetric: Metric,
  yMetric: Metric,
  open: (place: number) => void,
): SVGSVGElement {
  const points = traces.flatMap((trace, place) => {
    const [x, y] = [trace.metrics[xMetric], trace.metrics[yMetric]];
    return x === null || y === null ? [] : [{ trace, place, x, y }];
  });
  const x = axis(
    points.map((point) => point.x),
    xMetric === "tool_calls",
    LEFT + 8,
    WIDTH - RIGHT - 8,
  );
  const y = axis(
    points.map((point) => point.y),
    yMetric === "tool_calls",
    HEIGHT - BOTTOM - 8,
    TOP + 8,
  );
  const drawing = frame(x, y, METRIC_NAMES[xMetric], METRIC_NAMES[yMetric]);
  for (const { trace, place, x: across, y: up } of points) {
    // many traces have the same two values: each is moved a little, always the same way
    const turn = place * 2.399963;
    const far = 6 * Math.sqrt((place * 0.618034) % 1);
    const text = `${line(baseName(trace.file), 80)}: ${METRIC_NAMES[xMetric]} ${numberText(across)}, ${METRIC_NAMES[yMetric]} ${numberText(up)}`;
    drawing.append(
      svg(
        "circle",
        {
          class: `is-${trace.outcome}`,
          cx: (x.at(across) + far * Math.cos(turn)).toFixed(1),
          cy: (y.at(up) + far * Math.sin(turn)).toFixed(1),
          r: 3.5,
          on: { click: () => open(place) },
        },
        svg("title", {}, text),
      ),
    );
  }
  return drawing;
}

function histogram(traces: readonly TraceRow[], metric: Metric): SVGSVGElement {
  const known = traces.flatMap((trace) =>
    trace.metrics[metric] === null ? [] : [{ trace, value: trace.metrics[metric] }],
  );
  const x = axis(
    known.map(({ value }) => value),
    metric === "tool_calls",
    LEFT,
    WIDTH - RIGHT,
  );
  const bins = Array.from({ length: BINS }, () => ({ succeeded: 0, failed: 0, unknown: 0 }));
  for (const { trace, value } of known) {
    const place = Math.min(BINS - 1, Math.floor(((value - x.low) / (x.high - x.low)) * BINS));
    bins[place]![trace.outcome]++;
  }
  const most = bins.reduce(
    (so_far, { succeeded, failed, unknown }) => Math.max(so_far, succeeded + failed + unknown),
    1,
  );
  const y: Axis = { low: 0, high: 4 * roundStep(most / 4), at: () => 0 };
  const drawing = frame(x, y, METRIC_NAMES[metric], "number of traces");
  const [width, base] = [(WIDTH - RIGHT - LEFT) / BINS, HEIGHT - BOTTOM];
  for (const [at, bin] of bins.entries()) {
    let top = base;
    const [from, to] = [0, 1].map((more) =>
      numberText(Number((x.low + ((at + more) / BINS) * (x.high - x.low)).toPrecision(3))),
    );
    for (const outcome of ["succeeded", "failed", "unknown"] as const) {
      if (bin[outcome] === 0) continue;
      const height = (bin[outcome] / y.high) * (base - TOP);
      top -= height;
      const text = `${METRIC_NAMES[metric]} from ${from} to ${to}: ${bin[outcome]} ${outcome}`;
      drawing.append(
        svg(
          "rect",
          { class: `is-${outcome}`, x: LEFT + at * width + 1, y: top, width: width - 2, height },
          svg("title", {}, text),
        ),
      );
    }
  }
  return drawing;
}
