// Written by setup/report-page.ts from trace/report/page/; do not edit.
export const SCRIPT = `"use strict";
const $dom = (() => {/** Elements are made by these alone. Text becomes text nodes; nothing here, or in the page, parses markup. */
function h                                       (
  tag   ,
  props        = {},
  ...children
)                           {
  return furnished(document.createElement(tag), props, children);
}
function svg                                      (
  tag   ,
  props        = {},
  ...children
)                          {
  return furnished(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}
/** Lengths that are computed are set as properties: the page's policy forbids style attributes. */
function styled                       (element   , properties                        )    {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(name, value);
  return element;
}
function section(title        , ...children         )              {
  return h("section", { class: "part" }, h("h3", {}, title), ...children);
}
/** Name and value pairs; those without a value are left out. */
function facts(pairs                                )              {
  const known = pairs.filter(([, value]) => value !== null && value !== "" && value !== false);
  return h(
    "dl",
    { class: "facts" },
    ...known.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}
function button(label       , onClick            , props        = {})                    {
  return h("button", { type: "button", ...props, on: { click: onClick } }, label);
}
function furnished                   (element   , props       , children         )    {
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value                                 )) {
        element.addEventListener(event, listener);
      }
    } else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  for (const child of children) {
    if (child !== null && child !== false) element.append(typeof child === "number" ? String(child) : child);
  }
  return element;
}
return { h, svg, styled, section, facts, button };
})();
const $metric_names = (() => {
const METRIC_NAMES                         = {
  reward: "reward",
  error_rate: "error rate",
  tool_call_accuracy: "tool accuracy",
  tool_call_success: "tool success",
  plan_step_f1: "plan step F1",
  memory_consistency: "memory consistency",
  tool_calls: "tool calls",
  duration_s: "duration (s)",
};
const METRICS = Object.keys(METRIC_NAMES)            ;
const OUTCOMES                                      = {
  succeeded: "Succeeded",
  failed: "Failed",
  unknown: "Outcome not known",
};
return { METRIC_NAMES, METRICS, OUTCOMES };
})();
const $words = (() => {/** Numbers, times and untrusted text as people read them. */
/** \`840 µs\`, \`12.4 ms\`, \`3.20 s\`, \`2 m 05 s\`. */
function durationText(us               )         {
  if (us === null) return "–";
  if (us < 1000) return \`\${us} µs\`;
  if (us < 1_000_000) return \`\${(us / 1000).toFixed(us < 10_000 ? 2 : 1)} ms\`;
  if (us < 60_000_000) return \`\${(us / 1e6).toFixed(2)} s\`;
  const [minutes, seconds] = [Math.floor(us / 60_000_000), Math.floor((us % 60_000_000) / 1e6)];
  if (minutes < 60) return \`\${minutes} m \${String(seconds).padStart(2, "0")} s\`;
  return \`\${Math.floor(minutes / 60)} h \${String(minutes % 60).padStart(2, "0")} m\`;
}
/** Three places of what is no whole number, without the zeros at its end. */
function numberText(value               )         {
  if (value === null) return "–";
  if (value < 0) return \`−\${numberText(-value)}\`;
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const text = Math.abs(value) < 0.001 || Math.abs(value) >= 1e9 ? value.toExponential(2) : value.toFixed(3);
  return text.replace(/\\.?0+$/, "");
}
function percentText(share        )         {
  const percent = share * 100;
  return \`\${percent >= 99.95 || percent === 0 ? Math.round(percent) : percent.toFixed(percent < 10 ? 2 : 1)} %\`;
}
function pText(p               )         {
  if (p === null) return "–";
  return p < 0.0001 ? "<0.0001" : p.toFixed(4);
}
function count(n        , one        , many = \`\${one}s\`)         {
  return \`\${n.toLocaleString("en-US")} \${n === 1 ? one : many}\`;
}
function baseName(file        )         {
  return file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\\\")) + 1) || file;
}
/** Untrusted text as one line, in which control characters and those that reorder text are seen instead of obeyed. */
function line(text        , most = 400)         {
  const cut = text.length > most ? \`\${text.slice(0, most).toWellFormed()}…\` : text;
  return cut.replace(/\\r\\n|[\\n\\r]/g, "↵").replace(UNSEEN, shownCode);
}
/** C0 controls in caret notation, as \`cat -v\` has them, others by their code point: a reader must see that they are there. */
function shownCode(char        )         {
  const code = char.codePointAt(0) ;
  if (code < 0x20 || code === 0x7f) return \`^\${String.fromCodePoint(code ^ 0x40)}\`;
  return \`⟨U+\${code.toString(16).toUpperCase().padStart(4, "0")}⟩\`;
}
/** C0 and C1 controls, and what Unicode's annex 9 reorders by; tab and line feed are what they are. */
const UNSEEN = /(?![\\t\\n])[\\p{Cc}\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]/gu;
/** The next number that is 1, 2 or 5 times a power of ten; 0 of nothing. */
function roundStep(least        , whole = true)         {
  if (least <= 0) return 0;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= least)  * power;
  return whole ? Math.max(1, step) : step;
}
return { durationText, numberText, percentText, pText, count, baseName, line, shownCode, UNSEEN, roundStep };
})();
const $charts = (() => {/** Two metrics over the traces: how each is spread, and one against the other. */
const { h, section, svg } = $dom;
const { METRIC_NAMES, METRICS } = $metric_names;
const { baseName, line, numberText, roundStep } = $words;
const WIDTH = 520;
const HEIGHT = 300;
const LEFT = 46;
const BOTTOM = 34;
const TOP = 10;
const RIGHT = 12;
const BINS = 20;
function chartsPart(traces                     , open                         )              {
  const known = METRICS.filter(
    (metric) =>
      new Set(traces.map(({ metrics }) => metrics[metric]).filter((value) => value !== null)).size > 1,
  );
  if (known.length === 0)
    return section("Spread", h("p", { class: "none" }, "No metric varies over these traces."));
  const first = known.includes("tool_call_accuracy")
    ? "tool_call_accuracy"
    : (known.find((metric) => metric !== "reward") ?? known[0] );
  const picture = h("div", { class: "chart" });
  const draw = () => {
    const [x, y] = [across.value          , up.value                    ];
    picture.replaceChildren(y === "count" ? histogram(traces, x) : scatter(traces, x, y, open));
  };
  const pick = (label        , options                    , chosen        ) => {
    const select = h(
      "select",
      { "aria-label": label, on: { change: draw } },
      ...options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
    );
    return select;
  };
  const metricOptions = known.map((metric)                   => [metric, METRIC_NAMES[metric]]);
  const across = pick("Horizontal", metricOptions, first);
  const up = pick("Vertical", [["count", "number of traces"], ...metricOptions], "count");
  draw();
  return section("Spread", h("p", { class: "picks" }, up, h("span", {}, "over"), across), picture);
}
function axis(values                   , isWhole         , from        , to        )       {
  let low = values.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
  let high = values.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  // shares are seen whole, and counts from nothing on
  if (low >= 0) [low, high] = [0, high <= 1 ? 1 : 4 * roundStep(high / 4, isWhole)];
  if (high === low) high = low + 1;
  return { low, high, at: (value) => from + ((value - low) / (high - low)) * (to - from) };
}
function frame(x      , y      , xName        , yName        )                {
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  const value = ({ low, high }      , share        ) =>
    numberText(Number((low + share * (high - low)).toPrecision(3)));
  const right = WIDTH - RIGHT;
  const base = HEIGHT - BOTTOM;
  return svg(
    "svg",
    { viewBox: \`0 0 \${WIDTH} \${HEIGHT}\`, class: "plot", role: "img", "aria-label": \`\${yName} over \${xName}\` },
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
  traces                     ,
  xMetric        ,
  yMetric        ,
  open                         ,
)                {
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
    const text = \`\${line(baseName(trace.file), 80)}: \${METRIC_NAMES[xMetric]} \${numberText(across)}, \${METRIC_NAMES[yMetric]} \${numberText(up)}\`;
    drawing.append(
      svg(
        "circle",
        {
          class: \`is-\${trace.outcome}\`,
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
function histogram(traces                     , metric        )                {
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
    bins[place] [trace.outcome]++;
  }
  const most = bins.reduce(
    (so_far, { succeeded, failed, unknown }) => Math.max(so_far, succeeded + failed + unknown),
    1,
  );
  const y       = { low: 0, high: 4 * roundStep(most / 4), at: () => 0 };
  const drawing = frame(x, y, METRIC_NAMES[metric], "number of traces");
  const [width, base] = [(WIDTH - RIGHT - LEFT) / BINS, HEIGHT - BOTTOM];
  for (const [at, bin] of bins.entries()) {
    let top = base;
    const [from, to] = [0, 1].map((more) =>
      numberText(Number((x.low + ((at + more) / BINS) * (x.high - x.low)).toPrecision(3))),
    );
    for (const outcome of ["succeeded", "failed", "unknown"]         ) {
      if (bin[outcome] === 0) continue;
      const height = (bin[outcome] / y.high) * (base - TOP);
      top -= height;
      const text = \`\${METRIC_NAMES[metric]} from \${from} to \${to}: \${bin[outcome]} \${outcome}\`;
      drawing.append(
        svg(
          "rect",
          { class: \`is-\${outcome}\`, x: LEFT + at * width + 1, y: top, width: width - 2, height },
          svg("title", {}, text),
        ),
      );
    }
  }
  return drawing;
}
return { chartsPart };
})();
const $clusters_view = (() => {/** Groups of failures that are alike, by what sets each apart from the traces that succeeded. */
const { h, section, styled } = $dom;
const { baseName, count, line } = $words;
const FEATURES = 5;
const TRACES = 6;
const OPEN = 2;
const AT_ONCE = 5;
function clustersPart(
  clustering            ,
  linkTo                                             ,
)              {
  const { clusters, noise, failed, left_out, successful } = clustering;
  const alone =
    noise > 0 ? \` \${count(noise, "failure")} \${noise === 1 ? "is" : "are"} like too few others.\` : "";
  const cut = left_out > 0 ? \` \${count(left_out, "failure")} beyond the bound were not compared.\` : "";
  const views = clusters.map((cluster, at) => clusterView(cluster, successful, at < OPEN, linkTo));
  return section(
    "Failures that are alike",
    h(
      "p",
      { class: "hint" },
      failed === 0
        ? "No trace failed."
        : \`\${count(clusters.length, "group")} of \${count(failed, "failure")}.\${alone}\${cut} Lift: how much more often than in the \${successful} that succeeded.\`,
    ),
    ...views.slice(0, AT_ONCE),
    views.length > AT_ONCE &&
      h(
        "details",
        {},
        h("summary", {}, \`\${count(views.length - AT_ONCE, "smaller group")}\`),
        ...views.slice(AT_ONCE),
      ),
  );
}
function clusterView(
  { label, size, features, traces }         ,
  successful        ,
  open         ,
  linkTo                                             ,
)              {
  return h(
    "details",
    { class: "cluster", open },
    h("summary", {}, h("strong", {}, count(size, "failure")), h("span", { class: "name" }, line(label, 160))),
    features.length > 0 && featureTable(features.slice(0, FEATURES), size, successful),
    h(
      "p",
      { class: "members" },
      ...traces.slice(0, TRACES).map((file) => linkTo(file, line(baseName(file), 60))),
      size > TRACES && h("span", { class: "none" }, \`and \${size - TRACES} more\`),
    ),
  );
}
function featureTable(features                           , size        , successful        )              {
  const most = features.reduce((so_far, { lift }) => Math.max(so_far, Math.log2(Math.max(1, lift))), 1);
  const head = (title        , at        ) =>
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
          width: \`\${(Math.log2(Math.max(1, lift)) / most) * 60}%\`,
        });
        return h(
          "tr",
          {},
          h("th", { scope: "row" }, line(feature, 120)),
          h("td", { class: "figure" }, \`\${in_cluster}/\${size}\`),
          h("td", { class: "figure" }, \`\${in_successful}/\${successful}\`),
          h("td", { class: "lift-cell" }, h("span", {}, \`\${lift.toFixed(1)}×\`), bar),
        );
      }),
    ),
  );
}
return { clustersPart };
})();
const $matrix_view = (() => {/** Rank correlations of every two metrics. */
const { h, section, styled } = $dom;
const { METRIC_NAMES, METRICS } = $metric_names;
const { pText } = $words;
/** The usual bound; it decides what is printed bold, nothing else. */
const TELLING_P = 0.05;
function matrixPart(pairs                       )              {
  const find = (one        , other        ) => pairs.find(({ of }) => of.includes(one) && of.includes(other));
  const shown = METRICS.filter((metric) => pairs.some(({ of, rho }) => rho !== null && of.includes(metric)));
  if (shown.length < 2) {
    return section(
      "Correlation of metrics",
      h("p", { class: "none" }, "No two metrics vary over these traces."),
    );
  }
  const said = h(
    "p",
    { class: "hint matrix-said", "aria-live": "polite" },
    "Spearman's ρ; bold where p, adjusted for the number of pairs, is at most 0.05. Point at a cell for n and p.",
  );
  const cell = (one        , other        ) => {
    const pair = one === other ? undefined : find(one, other);
    if (pair === undefined || pair.rho === null) return h("td", { class: "empty" }, one === other ? "" : "–");
    const { rho, n, adjusted_p } = pair;
    const text = \`\${METRIC_NAMES[one]} and \${METRIC_NAMES[other]}: ρ = \${rho.toFixed(3)}, n = \${n}, adjusted p \${adjusted_p === null ? "not given below 20 pairs" : adjusted_p < 0.0001 ? pText(adjusted_p) : \`= \${pText(adjusted_p)}\`}\`;
    const tell = () => {
      said.textContent = text;
    };
    const isTelling = adjusted_p !== null && adjusted_p <= TELLING_P;
    const element = h(
      "td",
      {
        class: \`\${rho < 0 ? "negative" : "positive"} \${isTelling ? "telling" : ""}\`,
        title: text,
        tabindex: 0,
        "aria-label": text,
        on: { mouseenter: tell, focus: tell },
      },
      rho.toFixed(2).replace("-", "−"),
    );
    return styled(element, { "--strength": \`\${Math.round(Math.abs(rho) * 70)}%\` });
  };
  return section(
    "Correlation of metrics",
    h(
      "div",
      { class: "scroll-x" },
      h(
        "table",
        { class: "matrix" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("td", {}),
            ...shown.map((metric) => h("th", { scope: "col" }, h("span", {}, METRIC_NAMES[metric]))),
          ),
        ),
        h(
          "tbody",
          {},
          ...shown.map((one) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, METRIC_NAMES[one]),
              ...shown.map((other) => cell(one, other)),
            ),
          ),
        ),
      ),
    ),
    said,
  );
}
return { matrixPart };
})();
const $reward_view = (() => {/** A reward as what it is made of: raw value times weight, and how the weight changed. */
const { h, styled } = $dom;
const { line, numberText } = $words;
function rewardView({ components, sum, source, fault }             )              {
  const most =
    components.reduce((so_far, { product }) => Math.max(so_far, Math.abs(product)), Math.abs(sum)) || 1;
  const bar = (value        ) => {
    const width = (Math.abs(value) / most) * 50;
    const element = h("span", { class: value < 0 ? "product negative" : "product" });
    return styled(element, { left: \`\${value < 0 ? 50 - width : 50}%\`, width: \`\${width}%\` });
  };
  const row = (kind        , name        , cells          , value        ) =>
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
              \`× \${numberText(weight)}\`,
              changeText(weight_change),
              \`= \${numberText(product)}\`,
            ],
            product,
          ),
        ),
        row("sum", "sum", ["", "", "", numberText(sum)], sum),
      ),
    ),
    source !== null && h("p", { class: "hint" }, \`from \${line(source)}\`),
    fault !== null && h("p", { class: "warning" }, \`The arithmetic does not hold: \${line(fault)}\`),
  );
}
function changeText(change               )         {
  if (change === null || change === 0) return "";
  return \`\${change > 0 ? "+" : "−"}\${numberText(Math.abs(change))}\`;
}
return { rewardView };
})();
const $terminal_text = (() => {/**
 * What programs wrote, colours included. Of control sequences (ECMA-48) only SGR is obeyed, as classes of spans; the others,
 * titles and links among them, are shown as the codes they are. A lone carriage return begins a line, as the command line does
 * it: nothing can write over what came before.
 */
const { h } = $dom;
const { shownCode, UNSEEN } = $words;
function terminalText(text        )                   {
  const out = document.createDocumentFragment();
  const style           = { bold: false, dim: false, italic: false, underline: false, colour: null };
  let at = 0;
  while (at < text.length) {
    const begins = text.indexOf(ESCAPE, at);
    const end = begins < 0 ? text.length : begins;
    if (end > at) out.append(piece(text.slice(at, end), style));
    if (begins < 0) break;
    SEQUENCE.lastIndex = begins;
    const [sequence = ESCAPE, parameters, final] = SEQUENCE.exec(text) ?? [];
    if (final === "m") obey(parameters ?? "", style);
    else out.append(h("span", { class: "code" }, seen(sequence)));
    at = begins + sequence.length;
  }
  return out;
}
const ESCAPE = "\\u001b";
const BELL = "\\u0007";
/** A CSI, a string such as OSC up to its end or any other control, or an escape alone: each in linear time. */
const SEQUENCE = new RegExp(
  \`\${ESCAPE}(?:\\\\[([0-9;:]*)[ -/]*([@-~])|[\\\\]PX^_]\\\\P{Cc}*(?:\${BELL}|\${ESCAPE}\\\\\\\\)?|[ -/]*[0-~])?\`,
  "uy",
);
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
function obey(parameters        , style          )       {
  const codes = parameters.split(/[;:]/).map(Number);
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at] ;
    if (code === 0)
      Object.assign(style, { bold: false, dim: false, italic: false, underline: false, colour: null });
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code === 39) style.colour = null;
    else if (code >= 30 && code <= 37) style.colour = COLOURS[code - 30] ;
    else if (code >= 90 && code <= 97) style.colour = COLOURS[code - 90] ;
    // colours of a larger palette, which would not be readable on every ground
    else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4;
  }
}
function piece(text        , { bold, dim, italic, underline, colour }          )       {
  const classes = [
    bold && "sgr-bold",
    dim && "sgr-dim",
    italic && "sgr-italic",
    underline && "sgr-underline",
    colour !== null && \`sgr-\${colour}\`,
  ].filter((name) => name !== false);
  return classes.length === 0
    ? document.createTextNode(seen(text))
    : h("span", { class: classes.join(" ") }, seen(text));
}
function seen(text        )         {
  return text.replace(/\\r\\n?/g, "\\n").replace(UNSEEN, shownCode);
}
return { terminalText };
})();
const $tokens_view = (() => {/** The tokens of an answer, shaded by how probable each was; one that is pressed or focused shows its five best candidates. */
const { button, h, section, styled } = $dom;
const { count, line, numberText, percentText } = $words;
const AT_ONCE = 1_000;
function tokensView(tokens                       )              {
  const strip = h("div", { class: "tokens", role: "listbox", "aria-label": "Tokens", tabindex: 0 });
  const candidates = h("div", { class: "candidates" });
  let chosen = -1;
  const choose = (place        ) => {
    const token = tokens[place];
    if (token === undefined) return;
    while (strip.childElementCount <= place) more();
    strip.children[chosen]?.setAttribute("aria-selected", "false");
    chosen = place;
    const element = strip.children[place] ;
    element.setAttribute("aria-selected", "true");
    element.scrollIntoView({ block: "nearest" });
    strip.setAttribute("aria-activedescendant", element.id);
    candidates.replaceChildren(candidatesOf(token, place));
  };
  const rest = button("", () => more(), { class: "small" });
  const more = () => {
    const from = strip.childElementCount;
    strip.append(...tokens.slice(from, from + AT_ONCE).map((token, at) => tokenElement(token, from + at)));
    const left = tokens.length - strip.childElementCount;
    rest.hidden = left === 0;
    rest.textContent = \`show \${Math.min(left, AT_ONCE).toLocaleString("en-US")} more of \${left.toLocaleString("en-US")}\`;
  };
  strip.addEventListener("click", (event) => {
    const element = (event.target           ).closest             ("[data-token]");
    if (element !== null) choose(Number(element.dataset.token));
  });
  strip.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    event.stopPropagation();
    choose(Math.max(0, chosen + by));
  });
  more();
  choose(leastProbable(tokens));
  return section(
    \`Tokens (\${tokens.length.toLocaleString("en-US")})\`,
    h("p", { class: "hint" }, surprise(tokens)),
    strip,
    rest,
    candidates,
  );
}
function tokenElement(token            , place        )              {
  const p = Math.exp(token.logprob);
  const element = h(
    "span",
    {
      ...{
        id: \`token-\${place}\`,
        class: "token",
        role: "option",
        "data-token": place,
        "aria-selected": "false",
      },
      title: \`\${percentText(p)}\`,
    },
    shown(token.text, token.id),
  );
  // the less probable, the stronger
  return styled(element, { "--doubt": \`\${Math.round(Math.min(1, -token.logprob / 4) * 55)}%\` });
}
function candidatesOf({ id, text, logprob, top }            , place        )              {
  const listed = top.slice(0, 5);
  const mass = listed.reduce((sum, one) => sum + Math.exp(one.logprob), 0);
  const isListed = listed.some((one) => one.id === id);
  const rows = listed.map((one) => candidateRow(shown(one.text, one.id), one.id, one.logprob, one.id === id));
  if (!isListed) rows.push(candidateRow(shown(text, id), id, logprob, true));
  const tail = Math.max(0, 1 - mass - (isListed ? 0 : Math.exp(logprob)));
  if (listed.length > 0) rows.push(probabilityRow(h("em", {}, "all others"), "", tail, "", "tail"));
  return h(
    "table",
    { class: "grid" },
    h("caption", {}, \`Token \${place + 1}: what else could have stood here\`),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ...["candidate", "id", "probability", "", "ln p"].map((title) =>
          h("th", { scope: "col", class: title === "candidate" || title === "" ? "" : "figure" }, title),
        ),
      ),
    ),
    h("tbody", {}, ...rows),
  );
}
function candidateRow(text        , id        , logprob        , isTaken         )              {
  const name = h("code", {}, text);
  return probabilityRow(
    isTaken ? h("span", {}, name, " ← taken") : name,
    String(id),
    Math.exp(logprob),
    numberText(logprob),
    isTaken ? "taken" : "",
  );
}
function probabilityRow(
  name             ,
  id        ,
  p        ,
  logprob        ,
  kind        ,
)              {
  const bar = styled(h("span", { class: "probability" }), { width: \`\${(p * 100).toFixed(2)}%\` });
  return h(
    "tr",
    { class: kind },
    h("td", {}, name),
    h("td", { class: "figure" }, id),
    h("td", { class: "figure" }, percentText(p)),
    h("td", { class: "probability-cell" }, bar),
    h("td", { class: "figure" }, logprob),
  );
}
function shown(text               , id        )         {
  if (text === null) return \`#\${id}\`;
  return line(text, 80).replaceAll(" ", "·") || "∅";
}
function leastProbable(tokens                       )         {
  let least = 0;
  for (const [at, token] of tokens.slice(0, AT_ONCE).entries())
    if (token.logprob < tokens[least] .logprob) least = at;
  return least;
}
function surprise(tokens                       )         {
  const mean = tokens.reduce((sum, { logprob }) => sum + logprob, 0) / Math.max(1, tokens.length);
  const doubtful = tokens.filter(({ logprob }) => logprob < Math.log(0.5)).length;
  return \`Perplexity \${numberText(Math.exp(-mean))}; \${count(doubtful, "token")} less probable than one half. Chosen: the least probable one.\`;
}
return { tokensView };
})();
const $virtual_rows = (() => {/** Rows of one height, of which only those in view are elements: ten thousand cost what thirty do. */
class VirtualRows {
           viewport             ;
           #space             ;
           #rowPx        ;
           #render                                ;
  #count = 0;
  #from = 0;
  #to = 0;
  /** @param viewport scrolls; rows are put in an element of their own within it */
  constructor(
    viewport             ,
    space             ,
    rowPx        ,
    render                                ,
  ) {
    this.viewport = viewport;
    this.#space = space;
    this.#rowPx = rowPx;
    this.#render = render;
    viewport.addEventListener("scroll", () => this.#draw(false), { passive: true });
    new ResizeObserver(() => this.#draw(false)).observe(viewport);
  }
  /** Draws anew. */
  show(count        )       {
    this.#count = count;
    this.#space.style.setProperty("height", \`\${count * this.#rowPx}px\`);
    this.#draw(true);
  }
  get perPage()         {
    return Math.max(1, Math.floor(this.viewport.clientHeight / this.#rowPx) - 1);
  }
  reveal(place        )       {
    const head = this.#space.offsetTop;
    const [top, bottom] = [place * this.#rowPx, (place + 1) * this.#rowPx];
    const { scrollTop, clientHeight } = this.viewport;
    if (top < scrollTop) this.viewport.scrollTop = Math.max(0, top - 2 * this.#rowPx);
    else if (bottom + head > scrollTop + clientHeight)
      this.viewport.scrollTop = bottom + head - clientHeight + 2 * this.#rowPx;
  }
  #draw(anew         )       {
    const { scrollTop, clientHeight } = this.viewport;
    const from = Math.max(0, Math.floor(scrollTop / this.#rowPx) - MARGIN);
    const to = Math.min(this.#count, Math.ceil((scrollTop + clientHeight) / this.#rowPx) + MARGIN);
    if (!anew && from === this.#from && to === this.#to) return;
    [this.#from, this.#to] = [from, to];
    const rows                = [];
    for (let place = from; place < to; place++) {
      const row = this.#render(place);
      row.style.setProperty("top", \`\${place * this.#rowPx}px\`);
      rows.push(row);
    }
    this.#space.replaceChildren(...rows);
  }
}
const MARGIN = 10;
return { VirtualRows };
})();
const $trace_tree = (() => {/** The rows of a trace as a tree that is moved in by keys, each with its place in time. */
const { h, styled } = $dom;
const { VirtualRows } = $virtual_rows;
const { durationText, line, numberText } = $words;
const ROW_PX = 28;
class TraceTree {
           element             ;
           #model            ;
           #onSelect                    ;
           #rows             ;
           #collapsed = new Set     ();
  #shown        = [];
  #selected             = null;
  #window            ;
  #hits                   = new Set();
  onDrawn             = () => {};
  constructor(model            , onSelect                    ) {
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
  select(row            )       {
    for (let above = row?.parent ?? null; above !== null; above = above.parent) this.#collapsed.delete(above);
    this.#selected = row;
    this.#lay();
    if (row !== null) this.#rows.reveal(this.#shown.indexOf(row));
    if (row === null) this.element.removeAttribute("aria-activedescendant");
    else this.element.setAttribute("aria-activedescendant", \`row-\${row.id}\`);
  }
  mark(hits                  )       {
    this.#hits = hits;
    this.#lay();
  }
  /** Which part of the time the bars beside the rows are of. */
  showWindow(window            )       {
    this.#window = window;
    this.#rows.show(this.#shown.length);
  }
  move(by        )       {
    const at =
      this.#selected === null ? (by > 0 ? -1 : this.#shown.length) : this.#shown.indexOf(this.#selected);
    const row = this.#shown[Math.min(this.#shown.length - 1, Math.max(0, at + by))];
    if (row !== undefined) this.#onSelect(row);
  }
  movePage(pages        )       {
    this.move(pages * this.#rows.perPage);
  }
  moveTo(end                  )       {
    const row = end === "first" ? this.#shown[0] : this.#shown.at(-1);
    if (row !== undefined) this.#onSelect(row);
  }
  /** The keys of trees (WAI-ARIA): closed, then up to the parent; open, then down to the first child. */
  fold(open         )       {
    const row = this.#selected;
    if (row === null) return;
    const isOpen = row.children.length > 0 && !this.#collapsed.has(row);
    if (open && row.children.length > 0) {
      if (isOpen) this.#onSelect(row.children[0] );
      else this.#toggle(row);
    } else if (!open) {
      if (isOpen) this.#toggle(row);
      else if (row.parent !== null) this.#onSelect(row.parent);
    }
  }
  #toggle(row     )       {
    if (!this.#collapsed.delete(row)) this.#collapsed.add(row);
    this.#lay();
  }
  #clicked(event            )       {
    const target = event.target           ;
    const element = target.closest             ("[data-place]");
    const row = element === null ? undefined : this.#shown[Number(element.dataset.place)];
    if (row === undefined) return;
    if (target.closest(".twist") !== null && row.children.length > 0) this.#toggle(row);
    else this.#onSelect(row);
  }
  #lay()       {
    const shown        = [];
    // Without recursion: steps of other programs' spans nest as deep as they were recorded.
    const pending = this.#model.roots.toReversed();
    for (let row = pending.pop(); row !== undefined; row = pending.pop()) {
      shown.push(row);
      if (this.#collapsed.has(row)) continue;
      for (let at = row.children.length - 1; at >= 0; at--) pending.push(row.children[at] );
    }
    this.#shown = shown;
    this.#rows.show(shown.length);
    this.onDrawn();
  }
  #rowElement(place        )              {
    const row = this.#shown[place] ;
    const siblings = row.parent?.children ?? this.#model.roots;
    const isOpen = !this.#collapsed.has(row);
    const isParent = row.children.length > 0;
    const twist = h("span", { class: "twist", "aria-hidden": "true" }, isParent ? (isOpen ? "▾" : "▸") : "");
    const element = h(
      "div",
      {
        ...{
          id: \`row-\${row.id}\`,
          class: \`row is-\${row.kind} \${row.state}\`,
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
        styled(h("span", { class: "indent" }), { width: \`\${row.depth * 14}px\` }),
        twist,
        markOf(row),
        numberOf(row),
        h("span", { class: "name" }, line(row.name, 120)),
        h("span", { class: "gist" }, gistOf(row)),
        row.faults.length > 0 &&
          h("span", { class: "fault", title: row.faults.map((fault) => line(fault)).join("\\n") }, "◆"),
      ),
      h("span", { class: "took" }, row.duration_us === null ? "" : durationText(row.duration_us)),
      this.#bar(row),
    );
    return element;
  }
  #bar(row     )              {
    const { fromUs, toUs } = this.#window;
    const track = h("span", { class: "track", "aria-hidden": "true" });
    if (toUs === 0) return track;
    const share = (us        ) => Math.min(1, Math.max(0, (us - fromUs) / (toUs - fromUs)));
    const endUs = row.t_us + (row.duration_us ?? 0);
    if (endUs < fromUs || row.t_us > toUs) return track;
    const left = share(row.t_us);
    const bar = h("span", { class: row.duration_us === null ? "dot" : "bar" });
    const width = share(endUs) - left;
    track.append(styled(bar, { left: \`\${(left * 100).toFixed(3)}%\`, width: \`\${(width * 100).toFixed(3)}%\` }));
    return track;
  }
}
const MARKS                                                      = {
  good: ["✓", "succeeded"],
  bad: ["✗", "failed"],
  open: ["…", "did not end"],
  plain: ["•", ""],
};
function markOf(row     )              {
  const glyph = row.kind === "error" ? "!" : row.kind === "reward" ? "★" : MARKS[row.state][0];
  return h("span", { class: "mark", "aria-hidden": "true" }, glyph);
}
function numberOf(row     )                     {
  if (row.kind === "call") return h("span", { class: "ordinal" }, \`#\${row.entry.call}\`);
  return row.kind === "step" ? h("span", { class: "ordinal" }, \`step \${row.entry.step}\`) : null;
}
/** What there is to say beside the name, as far as the row is long. */
function gistOf(row     )         {
  switch (row.kind) {
    case "step":
      return row.entry.calls === 0 ? "" : \`\${row.entry.calls} \${row.entry.calls === 1 ? "call" : "calls"}\`;
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
function plainString(json        )         {
  if (!json.startsWith('"')) return json;
  try {
    return String(JSON.parse(json));
  } catch {
    return json.slice(1);
  }
}
function spokenText(row     )         {
  const number = row.kind === "call" ? \` \${row.entry.call}\` : row.kind === "step" ? \` \${row.entry.step}\` : "";
  const took = row.duration_us === null ? "" : \`, \${durationText(row.duration_us)}\`;
  const faults = row.faults.length === 0 ? "" : \`, \${row.faults.length} faults of memory\`;
  const how = MARKS[row.state][1];
  return \`\${row.kind === "other" ? "event" : row.kind}\${number} \${line(row.name, 120)}\${how === "" ? "" : \`, \${how}\`}\${took}\${faults}\`;
}
return { ROW_PX, TraceTree, gistOf };
})();
const $value_view = (() => {/**
 * A recorded text: JSON laid out by its tokens, never parsed into numbers, so that 9007199254740993 and 1.0 stay what they were;
 * strings with lines in them as those lines; anything else as what a terminal would show. One press shows it as recorded.
 */
const { button, h } = $dom;
const { terminalText } = $terminal_text;
const { count } = $words;
function valueView(text                         , absent = "not recorded")              {
  if (text === null) return h("p", { class: "none" }, absent);
  const { text: recorded, chars } = typeof text === "string" ? { text, chars: text.length } : text;
  if (recorded === "") return h("p", { class: "none" }, "empty");
  const laidOut = layOut(recorded);
  const pre = h("pre", { class: "value", tabindex: 0 });
  const show = (raw         ) =>
    pre.replaceChildren(raw || laidOut === null ? terminalText(recorded) : laidOut());
  const notes          = [];
  if (laidOut !== null) {
    const toggle = button("as recorded", () => {
      const raw = toggle.getAttribute("aria-pressed") !== "true";
      toggle.setAttribute("aria-pressed", String(raw));
      show(raw);
    });
    toggle.setAttribute("aria-pressed", "false");
    toggle.className = "small";
    notes.push(toggle);
  }
  if (chars > recorded.length) {
    notes.push(
      h(
        "span",
        { class: "cut" },
        \`the first \${count(recorded.length, "character")} of \${count(chars, "character")}\`,
      ),
    );
  }
  show(false);
  return h("div", { class: "value-view" }, h("div", { class: "value-notes" }, ...notes), pre);
}
/** Null for what is no JSON; what was cut is laid out as far as it goes. */
function layOut(text        )                      {
  const first = /^\\s*(.)/.exec(text)?.[1];
  if (first === '"') {
    const inner = stringIn(text.trim());
    if (inner === null) return null;
    const laidOut = /^\\s*[[{]/.test(inner) ? layOut(inner) : null;
    return laidOut ?? (() => terminalText(inner));
  }
  if (first !== "{" && first !== "[") return null;
  const tokens = text.match(TOKENS) ?? [];
  return isTooDeep(tokens) || tokens.join("").length < text.replace(/\\s+/g, "").length * 0.5
    ? null
    : () => lines(tokens);
}
/** Of a cut string what there is. */
function stringIn(text        )                {
  for (const end of ["", '"']) {
    try {
      const value          = JSON.parse(text + end);
      if (typeof value === "string") return value;
    } catch {
      // not whole, or cut
    }
  }
  return null;
}
const TOKENS = /"[^"\\\\]*(?:\\\\.[^"\\\\]*)*"?|[[\\]{}:,]|[^\\s[\\]{}:,"]+/gs;
/** Beyond this nothing is gained by indenting. */
const MOST_DEPTH = 40;
function isTooDeep(tokens                   )          {
  let depth = 0;
  for (const token of tokens) {
    if (token === "{" || token === "[") depth++;
    else if (token === "}" || token === "]") depth--;
    if (depth > MOST_DEPTH || depth < 0) return true;
  }
  return false;
}
function lines(tokens                   )                   {
  const out = document.createDocumentFragment();
  let depth = 0;
  const newLine = () => out.append(\`\\n\${"  ".repeat(depth)}\`);
  for (const [at, token] of tokens.entries()) {
    const next = tokens[at + 1];
    if (token === "{" || token === "[") {
      out.append(token);
      depth++;
      if (next !== "}" && next !== "]") newLine();
    } else if (token === "}" || token === "]") {
      depth--;
      const before = tokens[at - 1];
      if (before !== "{" && before !== "[") newLine();
      out.append(token);
    } else if (token === ",") {
      // a block of lines has ended its own line
      if (out.lastElementChild === out.lastChild && out.lastElementChild?.className === "block") {
        out.append("  ".repeat(depth));
        continue;
      }
      out.append(token);
      newLine();
    } else if (token === ":") out.append(": ");
    else out.append(scalar(token, next === ":", depth));
  }
  return out;
}
function scalar(token        , isKey         , depth        )       {
  if (!token.startsWith('"')) return h("span", { class: /^[-\\d]/.test(token) ? "number" : "literal" }, token);
  if (isKey) return h("span", { class: "key" }, terminalText(token));
  // lines of a program's output are read as lines
  const inner = /\\\\[nu]/.test(token) ? stringIn(token) : null;
  if (inner !== null && (inner.includes("\\n") || inner.includes("\\u001b"))) {
    const block = h("span", { class: "block" }, terminalText(inner.replace(/\\n$/, "")));
    block.style.setProperty("--depth", String(depth));
    return block;
  }
  return h("span", { class: "string" }, terminalText(token));
}
return { valueView };
})();
const $detail = (() => {/** All that is known of one row. */
const { facts, h, section, styled } = $dom;
const { rewardView } = $reward_view;
const { terminalText } = $terminal_text;
const { tokensView } = $tokens_view;
const { gistOf } = $trace_tree;
const { valueView } = $value_view;
const { count, durationText, line, numberText } = $words;
function detailOf(row     , model            )              {
  return h(
    "article",
    { class: "detail", "aria-label": line(row.name, 80) },
    h(
      "header",
      {},
      h("p", { class: "where" }, whereText(row)),
      h("h2", {}, h("span", { class: "title" }, titleOf(row)), pill(row)),
      facts(factsOf(row)),
    ),
    ...row.errors.map((error) => errorView(error, row)),
    row.faults.length > 0 &&
      section(
        "Memory is not consistent here",
        h("ul", { class: "faults" }, ...row.faults.map((fault) => h("li", {}, line(fault)))),
      ),
    ...partsOf(row, model),
  );
}
function titleOf(row     )         {
  switch (row.kind) {
    case "call":
      return \`#\${row.entry.call} \${line(row.name)}\`;
    case "step":
      return \`Step \${row.entry.step}: \${line(row.name)}\`;
    case "reward":
      return \`Reward \${numberText(row.entry.sum)}\`;
    default:
      return line(row.name);
  }
}
/** Steps that a row is said to be within: the nearest ones. */
const MOST_ABOVE = 12;
function whereText(row     )         {
  const above           = [];
  let step = row.parent;
  for (; step !== null && above.length < MOST_ABOVE; step = step.parent) above.unshift(line(step.name, 60));
  if (step !== null) above.unshift("…");
  return [...above, \`event \${row.seq}\`].join(" › ");
}
function pill(row     )                     {
  if (row.kind === "step")
    return h("span", { class: \`pill \${row.state}\` }, line(row.entry.status ?? "did not end"));
  if (row.kind !== "call") return null;
  const { state, erred } = row.entry;
  const said =
    state === null ? "did not end" : erred && state === "answered" ? "answered with an error" : state;
  return h("span", { class: \`pill \${row.state}\` }, line(said.replaceAll("_", " ")));
}
function factsOf(row     )                    {
  const times                    = [
    ["began", row.t_us === 0 ? null : \`+\${durationText(row.t_us)}\`],
    [
      "took",
      row.duration_us === null || (row.duration_us === 0 && row.t_us === 0)
        ? null
        : durationText(row.duration_us),
    ],
  ];
  if (row.kind === "call") {
    const { tries, code } = row.entry;
    return [
      ...times,
      ["tries", tries > 1 ? tries : null],
      ["code", code === null ? null : h("code", {}, line(code))],
    ];
  }
  if (row.kind === "step") return [...times, ["calls", row.entry.calls]];
  return row.kind === "other" ? [...times, ["kind", row.entry.type]] : times;
}
function partsOf(row     , model            )          {
  switch (row.kind) {
    case "call":
      return callParts(row.entry, row.errors.length > 0);
    case "step":
      return [stepPart(row)];
    case "observation":
      return [section("Content", valueView(row.entry.content))];
    case "error":
      return [];
    case "reward":
      return [section("Components", rewardView(row.entry)), weightsPart(row.seq, model)];
    case "other":
      return row.entry.text === null
        ? []
        : [section(row.entry.type === "output" ? "Text" : "Recorded", valueView(row.entry.text))];
  }
}
function callParts(call           , hasErrors         )          {
  const { text, memory, tokens, completions, timing } = call;
  const [given, answer] = [
    section("Arguments", valueView(call.arguments)),
    section("Answer", valueView(call.answer)),
  ];
  return [
    text !== null &&
      !hasErrors &&
      section("Error", h("pre", { class: "value bad-text", tabindex: 0 }, terminalText(text))),
    given,
    answer,
    memory.length > 0 && section(\`Memory: \${count(memory.length, "change")}\`, memoryTable(memory)),
    tokens.length > 0 && tokensView(tokens),
    ...completions.map(({ model, prompt_tokens, completion_tokens, cached_tokens, finish_reason }) =>
      section(
        "Completion",
        facts([
          ["model", model === null ? null : line(model)],
          ["prompt tokens", prompt_tokens],
          ["cached", cached_tokens],
          ["completion tokens", completion_tokens],
          ["finished", finish_reason === null ? null : line(finish_reason)],
        ]),
      ),
    ),
    timing !== null && timingPart(timing, call.duration_us),
  ];
}
function memoryTable(changes                         )              {
  const cell = (text               , kind        ) =>
    h("td", { class: kind }, text === null ? h("em", {}, "nothing") : terminalText(text));
  return h(
    "div",
    { class: "scroll-x" },
    h(
      "table",
      { class: "grid memory" },
      h(
        "thead",
        {},
        h("tr", {}, ...["key", "old", "new", "source"].map((title) => h("th", { scope: "col" }, title))),
      ),
      h(
        "tbody",
        {},
        ...changes.map(({ op, key, old, new: now, origin }) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, line(key, 200), op !== "put" && h("em", {}, \` \${line(op)}\`)),
            cell(old, "old"),
            cell(now, "new"),
            h("td", { class: "origin" }, origin === null ? "the call" : line(origin)),
          ),
        ),
      ),
    ),
  );
}
function errorView({ code, text, stack, memory, payloads }            , row     )              {
  return h(
    "section",
    { class: "part error-part" },
    h("h3", {}, row.kind === "error" ? "What it says" : \`Error \${line(code, 80)}\`),
    h("pre", { class: "value bad-text", tabindex: 0 }, terminalText(text)),
    stack !== null && folded("Stack", valueView(stack), true),
    memory !== null && folded("Memory as it was", valueView(memory), false),
    payloads.length > 0 &&
      folded(
        \`The last \${count(payloads.length, "call")} before it\`,
        h(
          "div",
          {},
          ...payloads.map(({ call, tool, url, sent, received }) =>
            h(
              "div",
              { class: "payload" },
              h("h4", {}, \`#\${call} \${line(tool ?? url ?? "")}\`),
              h("p", { class: "hint" }, "sent"),
              valueView(sent, "nothing"),
              h("p", { class: "hint" }, "received"),
              valueView(received, "nothing"),
            ),
          ),
        ),
        false,
      ),
  );
}
function folded(title        , content             , open         )              {
  return h("details", { open }, h("summary", {}, title), content);
}
function stepPart(row     )        {
  const failed = row.children.filter(({ state }) => state === "bad");
  if (row.children.length === 0) return h("p", { class: "none" }, "Nothing happened within it.");
  return section(
    "Within it",
    failed.length > 0 && h("p", { class: "warning" }, \`\${failed.length} of \${row.children.length} failed\`),
    linkList(row.children),
  );
}
const MOST_LINKS = 200;
function linkList(rows                , most = MOST_LINKS)              {
  const items = rows
    .slice(0, most)
    .map((row) =>
      h(
        "li",
        { class: row.state },
        h("a", { href: \`#\${row.id}\`, "data-row": row.id }, titleOf(row)),
        h("span", { class: "gist" }, gistOf(row)),
        h("span", { class: "took" }, row.duration_us ? durationText(row.duration_us) : ""),
      ),
    );
  const left = rows.length - items.length;
  return h(
    "ol",
    { class: "links" },
    ...items,
    left > 0 && h("li", { class: "none" }, \`and \${left} more, in the tree\`),
  );
}
/** How rewards before and after compare. */
function weightsPart(seq        , { report }            )        {
  const at = report.rewards.findIndex((reward) => reward.seq === seq);
  const before = report.rewards[at - 1];
  if (before === undefined) return false;
  return h(
    "p",
    { class: "hint" },
    \`Reward \${at + 1} of \${report.rewards.length}; the one before was \${numberText(before.sum)}.\`,
  );
}
const TIMES                                  = [
  ["network_us", "network"],
  ["serialization_us", "serialization"],
  ["gateway_us", "gateway"],
  ["snapshot_us", "snapshot"],
  ["cpu_wait_us", "CPU wait"],
  ["throttled_us", "throttled"],
  ["gpu_us", "GPU"],
];
/** The whole bar is the call: what no part explains is shown as such. */
function timingPart(timing        , callUs               )        {
  const known = TIMES.flatMap(([name, label], at) => {
    const us = (timing                                 )[name];
    return us ? [{ label, us, colour: \`var(--series-\${at + 1})\` }] : [];
  });
  const explained = known.reduce((sum, { us }) => sum + us, 0);
  if (explained === 0) return false;
  const total = Math.max(explained, callUs ?? 0);
  if (total > explained)
    known.push({ label: "unexplained", us: total - explained, colour: "var(--plain-fill)" });
  const swatch = (colour        ) =>
    styled(h("i", { class: "swatch", "aria-hidden": "true" }), { background: colour });
  return section(
    "Where the time went",
    h(
      "div",
      { class: "stack", "aria-hidden": "true" },
      ...known.map(({ us, colour }) =>
        styled(h("span", {}), { width: \`\${(us / total) * 100}%\`, background: colour }),
      ),
    ),
    h(
      "ul",
      { class: "keys" },
      ...known.map(({ label, us, colour }) => h("li", {}, swatch(colour), \`\${label} \${durationText(us)}\`)),
    ),
  );
}
return { detailOf, folded, linkList };
})();
const $overview = (() => {/** What is to be said of a whole trace: shown while no row is selected. */
const { folded, linkList } = $detail;
const { facts, h, section, styled } = $dom;
const { OUTCOMES } = $metric_names;
const { rewardView } = $reward_view;
const { valueView } = $value_view;
const { baseName, count, durationText, line, numberText, percentText } = $words;
function headline({ trace, timeline, memory }           )              {
  const { metrics, outcome } = trace;
  const steps = timeline.filter(({ kind }) => kind === "step").length;
  const tiles                                                               = [
    ["reward", numberText(metrics.reward), "", metrics.reward === null ? "absent" : ""],
    [
      "tool accuracy",
      numberText(metrics.tool_call_accuracy),
      metrics.tool_call_accuracy === null ? "nothing to compare with" : "",
      metrics.tool_call_accuracy === null ? "absent" : "",
    ],
    ["calls", numberText(metrics.tool_calls), steps > 0 ? \`in \${count(steps, "step")}\` : ""],
    ["errors", trace.errors, errorRate(trace), trace.errors > 0 ? "bad" : ""],
    [
      "memory",
      memory.value === null ? "–" : numberText(memory.value),
      memory.value === null
        ? "not checked"
        : \`\${memory.violations} of \${count(memory.checks, "check")} failed\`,
      memory.value === null ? "absent" : memory.violations > 0 ? "memory-bad" : "",
    ],
    [
      "duration",
      metrics.duration_s ? durationText(Math.round(metrics.duration_s * 1e6)) : "–",
      metrics.duration_s ? "" : "no times recorded",
      metrics.duration_s ? "" : "absent",
    ],
  ];
  return h(
    "div",
    { class: "headline" },
    h("div", { class: \`outcome \${outcome}\` }, OUTCOMES[outcome]),
    ...tiles.map(([label, value, note, kind]) =>
      h(
        "div",
        { class: \`tile \${kind ?? ""}\` },
        h("span", { class: "label" }, label),
        h("strong", {}, value),
        h("small", {}, note),
      ),
    ),
  );
}
function errorRate({ metrics: { error_rate } }          )         {
  if (error_rate === null) return "";
  return \`\${percentText(error_rate)} of calls\`;
}
/** What comes after them should be seen as well; keys go through all. */
const FAILURES_AT_ONCE = 12;
function overviewOf(model            )              {
  const { report, failures } = model;
  const { trace, rewards, memory, tools, calls_left_out, events_left_out, accuracy_note } = report;
  const last = rewards.at(-1);
  return h(
    "article",
    { class: "detail overview", "aria-label": "Overview" },
    h(
      "header",
      {},
      h("p", { class: "where" }, "whole trace"),
      h("h2", {}, h("span", { class: "title" }, line(baseName(trace.file)))),
    ),
    calls_left_out + events_left_out > 0 &&
      h(
        "p",
        { class: "warning" },
        \`\${count(calls_left_out, "call")} and \${count(events_left_out, "event")} more are not on this page; \` +
          "dsec trace parse shows them.",
      ),
    accuracy_note !== null && h("p", { class: "hint" }, line(accuracy_note, 1_000)),
    failures.length > 0 && section(\`Failures (\${failures.length})\`, linkList(failures, FAILURES_AT_ONCE)),
    last !== undefined &&
      section(rewards.length > 1 ? \`Last of \${rewards.length} rewards\` : "Reward", rewardView(last)),
    memory.examples.length > 0 &&
      section(
        "Memory",
        memory.broken && h("p", { class: "warning" }, "A hash or a replay is broken, which scores 0."),
        h(
          "ul",
          { class: "faults" },
          ...memory.examples.slice(0, 20).map(({ seq, what }) => h("li", {}, \`event \${seq}: \${line(what)}\`)),
        ),
      ),
    tools.length > 0 && section("Tools", toolTable(tools)),
    section(
      "Recording",
      facts([
        ["trace", h("code", {}, line(trace.trace_id))],
        ["file", h("code", {}, line(trace.file))],
        ["source", line(trace.source)],
        ["task", trace.task_id === null ? null : h("code", {}, line(trace.task_id))],
        ["attempt", trace.attempt],
        [
          "lease",
          trace.lease_id === null
            ? null
            : \`\${line(trace.lease_id)}\${trace.fence === null ? "" : \`, fence \${trace.fence}\`}\`,
        ],
        ["image", trace.image === null ? null : h("code", {}, line(trace.image))],
        ["level", trace.level === null ? null : line(trace.level)],
        ["state", trace.state === "sealed" ? "sealed" : "open: still being written, or its writer ended"],
        [
          "started",
          trace.started_wall_us === 0 ? null : new Date(trace.started_wall_us / 1000).toISOString(),
        ],
        ["events", numberText(trace.events)],
        ["spec digest", trace.spec_digest === null ? null : digest(trace.spec_digest)],
        [trace.lease_id === null ? "chain head" : "attested chain head", digest(trace.chain_head)],
      ]),
    ),
    trace.labels_json !== null &&
      h("section", { class: "part" }, folded("Labels", valueView(trace.labels_json), false)),
  );
}
function digest(text        )              {
  return h("code", { title: text, class: "digest" }, text);
}
function toolTable(tools                    )              {
  const most = tools.reduce((so_far, { calls }) => Math.max(so_far, calls), 1);
  const shareBar = ({ calls, errors }         ) =>
    h(
      "span",
      { class: "tool-bar", "aria-hidden": "true" },
      styled(h("span", { class: "good" }), { width: \`\${((calls - errors) / most) * 100}%\` }),
      styled(h("span", { class: "bad" }), { width: \`\${(errors / most) * 100}%\` }),
    );
  const hasTimes = tools.some(({ duration_us }) => duration_us > 0);
  return h(
    "div",
    { class: "scroll-x" },
    h(
      "table",
      { class: "grid tools" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ...["tool", "calls", "errors", hasTimes ? "mean" : "", ""].map((title) =>
            h("th", { scope: "col", class: title === "tool" ? "" : "figure" }, title),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        ...tools
          .slice(0, 100)
          .map((tool) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, line(tool.tool, 80)),
              h("td", { class: "figure" }, numberText(tool.calls)),
              h("td", { class: tool.errors > 0 ? "figure bad-text" : "figure" }, numberText(tool.errors)),
              h(
                "td",
                { class: "figure" },
                hasTimes ? durationText(Math.round(tool.duration_us / tool.calls)) : "",
              ),
              h("td", {}, shareBar(tool)),
            ),
          ),
      ),
    ),
  );
}
return { headline, overviewOf, toolTable };
})();
const $table_filter = (() => {/** What is typed above the table: words that file, trace or task must contain, and bounds such as \`reward<1\` or \`errors>=3\`. */
function cellOf(row          , column        )                         {
  const { metrics } = row;
  switch (column) {
    case "file":
      return row.file;
    case "outcome":
      return row.outcome;
    case "reward":
      return metrics.reward;
    case "accuracy":
      return metrics.tool_call_accuracy;
    case "success":
      return metrics.tool_call_success;
    case "memory":
      return metrics.memory_consistency;
    case "errors":
      return row.errors;
    case "steps":
      return row.steps;
    case "calls":
      return metrics.tool_calls;
    case "duration":
      return metrics.duration_s;
    case "events":
      return row.events;
  }
}
const BOUND =
  /^(reward|accuracy|success|memory|errors|steps|calls|duration|events)(<=|>=|!=|<|>|=)(-?\\d+(?:\\.\\d+)?)$/;
function filterOf(text        )                             {
  const tests = text
    .trim()
    .toLowerCase()
    .split(/\\s+/)
    .filter((word) => word !== "")
    .map(testOf);
  return (row) => tests.every((test) => test(row));
}
function testOf(word        )                             {
  const [, column, operator, number] = BOUND.exec(word) ?? [];
  if (column === undefined) {
    return ({ file, trace_id, task_id, outcome }) =>
      [file, trace_id, task_id, outcome].some((text) => text?.toLowerCase().includes(word) ?? false);
  }
  const bound = Number(number);
  return (row) => {
    const value = cellOf(row, column          );
    if (typeof value !== "number") return false;
    switch (operator) {
      case "<":
        return value < bound;
      case "<=":
        return value <= bound;
      case ">":
        return value > bound;
      case ">=":
        return value >= bound;
      case "!=":
        return value !== bound;
      default:
        return value === bound;
    }
  };
}
/** What is not known comes last, whichever way the table is sorted. */
function sorted(rows                     , column        , descending         )             {
  const sign = descending ? -1 : 1;
  return rows
    .map((row, at) => ({ row, at, value: cellOf(row, column) }))
    .sort((one, other) => {
      if (one.value === null || other.value === null) {
        return Number(one.value === null) - Number(other.value === null) || one.at - other.at;
      }
      return sign * (one.value < other.value ? -1 : one.value > other.value ? 1 : 0) || one.at - other.at;
    })
    .map(({ row }) => row);
}
return { cellOf, filterOf, sorted };
})();
const $trace_table = (() => {/** All traces as a table: sorted by any column, filtered by words and bounds, opened by a press. */
const { h } = $dom;
const { cellOf, filterOf, sorted } = $table_filter;
const { VirtualRows } = $virtual_rows;
const { baseName, count, line, numberText } = $words;
const ROW_PX = 30;
const TITLES                         = {
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
class TraceTable {
           element             ;
           #traces                     ;
           #places                       ;
           #addressOf                                  ;
           #open                         ;
           #columns          ;
           #heads = new Map                     ();
           #body             ;
           #rows             ;
           #input                  ;
           #tally                   ;
  #shown            ;
  #sort                                                 = null;
  #selected = -1;
  constructor(
    traces                     ,
    addressOf                                  ,
    open                         ,
  ) {
    this.#traces = traces;
    this.#places = new Map(traces.map((trace, place) => [trace, place]));
    this.#addressOf = addressOf;
    this.#open = open;
    this.#shown = [...traces];
    // a column that says nothing of any trace takes no room
    this.#columns = (Object.keys(TITLES)            ).filter(
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
    this.#body.style.setProperty("height", \`\${Math.min(16, Math.max(2, traces.length)) * ROW_PX + 2}px\`);
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
  focus()       {
    this.#rows.show(this.#shown.length);
  }
  filter()       {
    this.#input.focus();
    this.#input.select();
  }
  key({ key }               )          {
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
    if (trace !== undefined) this.#open(this.#places.get(trace) );
    return true;
  }
  #head(column        )              {
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
  #lay()       {
    const matching = this.#traces.filter(filterOf(this.#input.value));
    this.#shown = this.#sort === null ? matching : sorted(matching, this.#sort.column, this.#sort.descending);
    for (const [column, head] of this.#heads) {
      const order =
        this.#sort?.column !== column ? "none" : this.#sort.descending ? "descending" : "ascending";
      head.setAttribute("aria-sort", order);
      head.querySelector(".arrow") .textContent =
        order === "none" ? "" : order === "descending" ? " ↓" : " ↑";
    }
    this.#selected = -1;
    const { length } = this.#traces;
    this.#tally.value =
      this.#shown.length === length
        ? count(length, "trace")
        : \`\${numberText(this.#shown.length)} of \${count(length, "trace")}\`;
    this.#body.scrollTop = 0;
    this.#rows.show(this.#shown.length);
  }
  #rowElement(place        )              {
    const trace = this.#shown[place] ;
    const address = this.#addressOf(this.#places.get(trace) );
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
            said !== "" && h("small", {}, \` \${said}\`),
          );
        }
        if (column === "outcome")
          return h(
            "div",
            { role: "cell" },
            h("span", { class: \`dot-label is-\${trace.outcome}\` }, trace.outcome),
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
return { TraceTable };
})();
const $many_view = (() => {/** Many traces: what they have in common, what goes with failure, and each of them to be sorted, filtered and opened. */
const { chartsPart } = $charts;
const { clustersPart } = $clusters_view;
const { h, section, styled } = $dom;
const { matrixPart } = $matrix_view;
const { METRIC_NAMES, METRICS, OUTCOMES } = $metric_names;
const { toolTable } = $overview;
const { TraceTable } = $trace_table;
const { count, line, numberText, percentText, pText } = $words;
/** @param addressOf of a trace's own part or page by its place; null where it has none */
function manyView(report            , addressOf                                  )       {
  const places = new Map(report.traces.map(({ file }, place) => [file, place]));
  const open = (place        ) => {
    const address = addressOf(place);
    if (address !== null) location.assign(address);
  };
  const linkTo = (file        , text        )              => {
    const place = places.get(file);
    const address = place === undefined ? null : addressOf(place);
    return address === null
      ? h("span", { title: line(file) }, text)
      : h("a", { href: address, title: line(file) }, text);
  };
  const table = new TraceTable(report.traces, addressOf, open);
  const { clustering, hints, tools } = report;
  const element = h(
    "div",
    { class: "view many-view" },
    h("header", { class: "bar" }, h("h1", {}, \`\${count(report.count, "trace")}\`), outcomeBar(report)),
    h(
      "main",
      { class: "scroll" },
      means(report),
      report.accuracy_note !== null && h("p", { class: "hint" }, line(report.accuracy_note, 1_000)),
      h(
        "div",
        { class: "columns" },
        h("div", {}, hintsPart(hints), report.pairs !== null && matrixPart(report.pairs)),
        h(
          "div",
          {},
          chartsPart(report.traces, open),
          clustering === null ? clustersMissing(report) : clustersPart(clustering, linkTo),
        ),
      ),
      section(
        report.traces.length < report.count
          ? \`Traces: the first \${numberText(report.traces.length)} of \${numberText(report.count)}\`
          : "Traces",
        table.element,
      ),
      h(
        "div",
        { class: "columns" },
        tools.length > 0 && section("Tools", toolTable(tools)),
        sharesPart(report),
      ),
      refusedPart(report),
    ),
  );
  return {
    element,
    go: () => table.focus(),
    key: (event) => {
      if (event.key !== "/") return table.key(event);
      table.filter();
      return true;
    },
    keys: [
      ["j  k", "next and previous trace of the table"],
      ["Enter", "open it"],
      ["/", "filter the table"],
    ],
  };
}
function outcomeBar({ outcomes, count: all }            )              {
  const entries = (["succeeded", "failed", "unknown"]         ).filter((outcome) => outcomes[outcome] > 0);
  return h(
    "div",
    { class: "outcomes" },
    h(
      "span",
      { class: "stack", "aria-hidden": "true" },
      ...entries.map((outcome) =>
        styled(h("span", { class: \`is-\${outcome}\` }), {
          width: \`\${(outcomes[outcome] / Math.max(1, all)) * 100}%\`,
        }),
      ),
    ),
    ...entries.map((outcome) =>
      h(
        "span",
        { class: \`outcome-count is-\${outcome}\` },
        \`\${numberText(outcomes[outcome])} \${OUTCOMES[outcome].toLowerCase()}\`,
        h("small", {}, \` \${percentText(outcomes[outcome] / all)}\`),
      ),
    ),
  );
}
function means({ means }            )              {
  const tiles = METRICS.filter(
    (metric) => means[metric].n > 0 && !(metric === "duration_s" && means[metric].mean === 0),
  );
  return h(
    "div",
    { class: "headline" },
    ...tiles.map((metric) => {
      const { mean, n } = means[metric];
      return h(
        "div",
        { class: "tile" },
        h("span", { class: "label" }, METRIC_NAMES[metric]),
        h("strong", {}, numberText(mean === null ? null : Math.round(mean * 1000) / 1000)),
        h("small", {}, \`mean of \${numberText(n)}\`),
      );
    }),
  );
}
const HINTS_AT_ONCE = 8;
function hintsPart(hints                 )              {
  const items = hints.map(({ text, n, adjusted_p, strength }) =>
    h(
      "li",
      {},
      styled(h("span", { class: "strength", "aria-hidden": "true" }), {
        "--strength": \`\${Math.min(1, strength) * 100}%\`,
      }),
      h(
        "span",
        {},
        line(text.replace(/(, | )?\\(?n=\\d+, adjusted p=[^)]*\\)$/, "").replace(/\\([^)]*$/, "$&)"), 300),
      ),
      h(
        "small",
        {},
        \`n = \${numberText(n)}, adjusted p \${adjusted_p < 0.0001 ? pText(adjusted_p) : \`= \${pText(adjusted_p)}\`}\`,
      ),
    ),
  );
  return section(
    "Associated with the outcome",
    h(
      "p",
      { class: "hint" },
      "What goes together more often than chance would have it. It may well not be the cause.",
    ),
    hints.length === 0 &&
      h("p", { class: "none" }, "Nothing beyond chance, or too few traces (at least 20 are needed)."),
    h("ol", { class: "hints" }, ...items.slice(0, HINTS_AT_ONCE)),
    items.length > HINTS_AT_ONCE &&
      h(
        "details",
        {},
        h("summary", {}, \`\${items.length - HINTS_AT_ONCE} weaker ones\`),
        h("ol", { class: "hints" }, ...items.slice(HINTS_AT_ONCE)),
      ),
  );
}
function clustersMissing({ outcomes }            )        {
  if (outcomes.failed === 0) return false;
  return section(
    "Failures that are alike",
    h("p", { class: "none" }, "Not asked for: dsec trace report … --cluster-by memory_state groups them."),
  );
}
function sharesPart({ reward_shares, reward_faults }            )        {
  const shares = Object.entries(reward_shares ?? {});
  if (shares.length < 2 && reward_faults === 0) return false;
  return section(
    "What the reward's variation is made of",
    reward_faults > 0 &&
      h(
        "p",
        { class: "warning" },
        \`Of \${count(reward_faults, "trace")} the products do not add up to the sum.\`,
      ),
    h(
      "table",
      { class: "grid" },
      h(
        "thead",
        {},
        h("tr", {}, ...["component", "share of variance"].map((title) => h("th", { scope: "col" }, title))),
      ),
      h(
        "tbody",
        {},
        ...shares.map(([name, share]) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, line(name, 80)),
            h("td", { class: "figure" }, percentText(share)),
          ),
        ),
      ),
    ),
  );
}
function refusedPart({ refused, refused_count }            )        {
  if (refused_count === 0) return false;
  return section(
    \`Could not be read (\${refused_count})\`,
    h(
      "ul",
      { class: "faults" },
      ...refused
        .slice(0, 100)
        .map(({ file, code, message }) =>
          h("li", {}, h("code", {}, line(code)), \` \${line(file)}: \${line(message)}\`),
        ),
    ),
  );
}
return { manyView };
})();
const $search = (() => {/** A plain substring, looked for in all that is recorded of each row, in slices so that the page goes on answering. */
class Search {
           #rows                ;
           #texts                         = [];
  #turn = 0;
  constructor(rows                ) {
    this.#rows = rows;
  }
  /** Null where another search has begun since. */
  async find(words        )                        {
    const turn = ++this.#turn;
    const wanted = words.toLowerCase();
    const found        = { rows: [], matches: 0 };
    if (wanted === "") return found;
    let sliceEnds = performance.now() + SLICE_MS;
    for (const [at, row] of this.#rows.entries()) {
      const text = this.#texts[at] ?? textOf(row).toLowerCase();
      this.#texts[at] = text;
      const matches = occurrences(text, wanted);
      if (matches > 0) {
        found.rows.push(row);
        found.matches += matches;
      }
      if (performance.now() < sliceEnds) continue;
      await new Promise((resolve) => setTimeout(resolve));
      if (turn !== this.#turn) return null;
      sliceEnds = performance.now() + SLICE_MS;
    }
    return turn === this.#turn ? found : null;
  }
}
const SLICE_MS = 12;
/** Marks what is found in the text of elements, without changing them (CSS Custom Highlight API). */
function highlight(elements                    , words        )       {
  if (!("highlights" in CSS)) return;
  CSS.highlights.delete("found");
  const wanted = words.toLowerCase();
  if (wanted === "") return;
  const ranges          = [];
  for (const element of elements) {
    const nodes                          = [];
    let text = "";
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      nodes.push([node        , text.length]);
      text += (node        ).data;
    }
    const lower = text.toLowerCase();
    // a few letters change their length with their case; positions would be off
    const haystack = lower.length === text.length ? lower : text;
    let node = 0;
    for (
      let at = haystack.indexOf(wanted);
      at >= 0 && ranges.length < MOST_RANGES;
      at = haystack.indexOf(wanted, at + wanted.length)
    ) {
      while (nodes[node + 1] !== undefined && nodes[node + 1] [1] <= at) node++;
      let last = node;
      while (nodes[last + 1] !== undefined && nodes[last + 1] [1] < at + wanted.length) last++;
      const range = document.createRange();
      range.setStart(nodes[node] [0], at - nodes[node] [1]);
      range.setEnd(nodes[last] [0], at + wanted.length - nodes[last] [1]);
      ranges.push(range);
    }
  }
  if (ranges.length > 0) CSS.highlights.set("found", new Highlight(...ranges));
}
const MOST_RANGES = 5_000;
function occurrences(text        , wanted        )         {
  let count = 0;
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) count++;
  return count;
}
function textOf(row     )         {
  const parts                                = [row.name, ...row.faults];
  for (const { code, text, stack, memory, payloads } of row.errors) {
    parts.push(code, text, stack?.text, memory?.text);
    for (const { tool, url, sent, received } of payloads) parts.push(tool, url, sent?.text, received?.text);
  }
  switch (row.kind) {
    case "step":
      parts.push(row.entry.status);
      break;
    case "call":
      parts.push(...callTexts(row.entry));
      break;
    case "observation":
      parts.push(row.entry.content?.text);
      break;
    case "reward":
      parts.push(row.entry.source, row.entry.fault, ...row.entry.components.map(({ name }) => name));
      break;
    case "other":
      parts.push(row.entry.type, row.entry.text?.text);
      break;
  }
  return parts.filter((part) => part != null).join("\\n");
}
function callTexts(call           )                                {
  const text = (cut                ) => cut?.text;
  return [
    ...[call.state, call.code, call.text, text(call.arguments), text(call.answer)],
    ...call.memory.flatMap(({ op, key, old, new: now, origin }) => [op, key, old, now, origin]),
    // tokens of one text read on
    call.tokens.map((token) => token.text ?? "").join(""),
    ...call.completions.map(({ model }) => model),
  ];
}
return { Search, highlight };
})();
const $timeline_scale = (() => {/** Where rows lie on the timeline: by time or by order, the whole of it or a part. */
/** Microseconds that are shown of the whole. */
/** A part is no smaller than this share of the whole. */
const LEAST_SHARE = 1e-5;
class TimelineScale {
           #model            ;
           #places                  ;
  #kind           ;
  #from = 0;
  #to        ;
  widthPx = 0;
  constructor(model            ) {
    this.#model = model;
    this.#places = new Map(model.rows.map((row, place) => [row, place]));
    // what was imported without times has an order alone
    this.#kind = model.endUs === 0 ? "order" : "time";
    this.#to = this.end;
  }
  get kind()            {
    return this.#kind;
  }
  get end()         {
    return Math.max(1, this.#kind === "time" ? this.#model.endUs : this.#model.rows.length);
  }
  get from()         {
    return this.#from;
  }
  get to()         {
    return this.#to;
  }
  get isWhole()          {
    return this.#from === 0 && this.#to === this.end;
  }
  get timeWindow()             {
    const isPart = this.#kind === "time" && !this.isWhole;
    return isPart ? { fromUs: this.#from, toUs: this.#to } : { fromUs: 0, toUs: this.#model.endUs };
  }
  use(kind           )       {
    this.#kind = kind;
    this.show(0, this.end);
  }
  show(from        , to        )       {
    const length = Math.min(this.end, Math.max(to - from, this.end * LEAST_SHARE));
    this.#from = Math.min(Math.max(0, from), this.end - length);
    this.#to = this.#from + length;
  }
  /** @param factor below 1 shows less */
  zoom(factor        , around            )       {
    const middle = around === null ? (this.#from + this.#to) / 2 : this.#valueOf(around);
    const half = ((this.#to - this.#from) * factor) / 2;
    this.show(middle - half, middle + half);
  }
  /** Moves the part so that the row is in it; whether it had to. */
  reveal(row     )          {
    const value = this.#valueOf(row);
    if (value >= this.#from && value <= this.#to) return false;
    const half = (this.#to - this.#from) / 2;
    this.show(value - half, value + half);
    return true;
  }
  x(row     )         {
    return this.xOf(this.#valueOf(row));
  }
  /** In the order of rows all are equally wide; a step goes to its last row. */
  endX(row     )         {
    if (this.#kind === "time") {
      const { endUs } = this.#model;
      return this.xOf(row.t_us + (row.duration_us ?? (row.state === "open" ? endUs - row.t_us : 0)));
    }
    let last = row;
    while (last.children.length > 0) last = last.children.at(-1) ;
    return this.xOf(this.#valueOf(last) + 1);
  }
  xOf(value        )         {
    return ((value - this.#from) / (this.#to - this.#from)) * (this.widthPx - 2) + 1;
  }
  valueAt(x        )         {
    return this.#from + ((x - 1) / (this.widthPx - 2)) * (this.#to - this.#from);
  }
  #valueOf(row     )         {
    return this.#kind === "time" ? row.t_us : this.#places.get(row) ;
  }
}
return { TimelineScale };
})();
const $timeline = (() => {/** The whole trace at a glance: steps above calls, coloured by how they ended, and marks of errors, memory and rewards. */
const { button, h, svg } = $dom;
const { TimelineScale, } = $timeline_scale;
const { durationText, roundStep } = $words;
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
class Timeline {
           element             ;
           #model            ;
           #onSelect                    ;
           #onWindow                              ;
           #scale               ;
           #drawing               ;
           #levels        ;
           #scaleButtons                                      ;
           #whole                   ;
  #selected             = null;
  /** @param onWindow is told which part of the time is shown */
  constructor(model            , onSelect                    , onWindow                              ) {
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
      const width = Math.floor(entry .contentRect.width);
      if (width === this.#scale.widthPx || width < 50) return;
      this.#scale.widthPx = width;
      this.#draw();
    }).observe(this.element);
    this.#sayScale();
  }
  select(row            )       {
    this.#selected = row;
    if (row !== null && this.#scale.reveal(row)) this.#shown();
    else this.#drawCursor();
  }
  /** @param factor below 1 shows less, around what is selected */
  zoom(factor        )       {
    this.#scale.zoom(factor, this.#selected);
    this.#shown();
  }
  /** Whether a part was shown. */
  showAll()          {
    if (this.#scale.isWhole) return false;
    this.#scale.show(0, this.#scale.end);
    this.#shown();
    return true;
  }
  get #heightPx()         {
    return this.#callsTop + CALL_PX + MARK_PX + AXIS_PX;
  }
  get #callsTop()         {
    return this.#levels * STEP_PX + (this.#levels > 0 ? 4 : 0);
  }
  #useScale(kind           )       {
    this.#scale.use(kind);
    this.#shown();
  }
  #shown()       {
    this.#sayScale();
    this.#draw();
    this.#onWindow(this.#scale.timeWindow);
  }
  #sayScale()       {
    for (const kind of ["time", "order"]         )
      this.#scaleButtons[kind].setAttribute("aria-pressed", String(kind === this.#scale.kind));
    this.#whole.hidden = this.#scale.isWhole;
  }
  #draw()       {
    const { widthPx } = this.#scale;
    if (widthPx === 0) return;
    const [width, height] = [String(widthPx), String(this.#heightPx)];
    for (const [name, value] of Object.entries({ viewBox: \`0 0 \${width} \${height}\`, width, height }))
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
  #drawCursor()       {
    this.#drawing.querySelector(".cursor")?.remove();
    if (this.#selected === null || this.#scale.widthPx === 0) return;
    const x = this.#scale.x(this.#selected);
    const y2 = this.#heightPx - AXIS_PX + 3;
    this.#drawing.append(svg("line", { class: "cursor", x1: x, x2: x, y1: 0, y2 }));
  }
  #isInView(row     )          {
    return this.#scale.endX(row) >= 0 && this.#scale.x(row) <= this.#scale.widthPx;
  }
  /** Bars that fall on the same pixels and look the same are one: a failure is never drawn over. */
  #bars(
    kind                           ,
    rows                ,
    top                      ,
    height        ,
  )              {
    const group = svg("g", { class: \`bars of-\${kind}\` });
    const drawn = new Set        ();
    for (const row of [
      ...rows.filter(({ state }) => state !== "bad"),
      ...rows.filter(({ state }) => state === "bad"),
    ]) {
      const [x, y] = [this.#scale.x(row), top(row)];
      const gap = this.#scale.kind === "order" && kind !== "step" ? 1 : 0;
      const width = Math.max(2, this.#scale.endX(row) - x - gap);
      const key = \`\${Math.round(x)} \${y} \${Math.round(width)} \${row.state}\`;
      if (drawn.has(key)) continue;
      drawn.add(key);
      group.append(
        svg("rect", { class: row.state, x: x.toFixed(1), y, width: width.toFixed(1), height, rx: 1.5 }),
      );
    }
    return group;
  }
  /** More calls than there is room for: of each column the shares of how its calls ended. */
  #density(calls                , top        )              {
    const columns = new Map                                ();
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
  #marks(top        )              {
    const group = svg("g", { class: "marks" });
    const drawn = new Set        ();
    for (const row of this.#model.rows) {
      const what = markClass(row);
      if (what === null || !this.#isInView(row)) continue;
      const x = this.#scale.x(row);
      const key = \`\${what} \${Math.round(x / 2)}\`;
      if (drawn.has(key)) continue;
      drawn.add(key);
      group.append(svg("path", { class: what, d: shape(what, x, top + MARK_PX / 2) }));
    }
    return group;
  }
  #axis(height        )              {
    const group = svg("g", { class: "axis" });
    const y = height - AXIS_PX;
    const { widthPx, from, to, kind } = this.#scale;
    group.append(svg("line", { x1: 0, x2: widthPx, y1: y, y2: y }));
    const text = (value        ) =>
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
  #pressed(event              )       {
    if (event.button !== 0) return;
    const box = this.#drawing.getBoundingClientRect();
    const xOf = ({ clientX }              ) => Math.max(0, Math.min(this.#scale.widthPx, clientX - box.left));
    const [begun, y] = [xOf(event), event.clientY - box.top];
    const part = svg("rect", { class: "dragged", y: 0, height: this.#heightPx - AXIS_PX, width: 0 });
    this.#drawing.append(part);
    this.#drawing.setPointerCapture(event.pointerId);
    const moved = (move              ) => {
      part.setAttribute("x", String(Math.min(begun, xOf(move))));
      part.setAttribute("width", String(Math.abs(xOf(move) - begun)));
    };
    const ended = (end              ) => {
      this.#drawing.removeEventListener("pointermove", moved);
      part.remove();
      const [left, right] = [Math.min(begun, xOf(end)), Math.max(begun, xOf(end))];
      if (end.type === "pointercancel") return;
      if (right - left < DRAG_PX) return this.#selectAt(begun, y);
      this.#scale.show(this.#scale.valueAt(left), this.#scale.valueAt(right));
      this.#shown();
    };
    this.#drawing.addEventListener("pointermove", moved);
    for (const name of ["pointerup", "pointercancel"]         )
      this.#drawing.addEventListener(name, ended, { once: true });
  }
  #selectAt(x        , y        )       {
    const isOnSteps = y < this.#levels * STEP_PX;
    const distance = (row     ) => {
      const [from, to] = [this.#scale.x(row), this.#scale.endX(row)];
      // of steps within each other the innermost
      return x >= from && x <= to ? -row.depth : Math.abs(from - x);
    };
    let nearest                                   = null;
    for (const row of this.#model.rows) {
      if ((row.kind === "step") !== isOnSteps) continue;
      const far = distance(row);
      if (nearest === null || far < nearest.far) nearest = { row, far };
    }
    if (nearest !== null) this.#onSelect(nearest.row);
  }
  #spoken()         {
    const { rows, failures } = this.#model;
    const of = (kind             ) => rows.filter((row) => row.kind === kind).length;
    return \`Timeline of \${of("step")} steps and \${of("call")} calls, \${failures.length} of them failures; the tree below has all of it\`;
  }
}
function markClass(row     )              {
  if (row.faults.length > 0) return "memory";
  if (row.kind === "error" || (row.kind === "other" && row.state === "bad")) return "error";
  return row.kind === "reward" ? "reward" : null;
}
function shape(what      , x        , y        )         {
  if (what === "memory") return \`M\${x} \${y - 5}l5 5-5 5-5-5z\`;
  if (what === "error") return \`M\${x} \${y - 5}l5.5 9.5h-11z\`;
  return \`M\${x - 4} \${y}a4 4 0 1 0 8 0a4 4 0 1 0-8 0z\`;
}
function legend()              {
  const entries                     = [
    ["good", "succeeded"],
    ["bad", "failed"],
    ["open", "did not end"],
    ["memory", "memory inconsistent"],
    ["error", "error"],
    ["reward", "reward"],
  ];
  const glyphs                         = { memory: "◆", error: "▲", reward: "●" };
  return h(
    "span",
    { class: "legend" },
    ...entries.map(([name, text]) =>
      h("span", {}, h("i", { class: \`key-\${name}\`, "aria-hidden": "true" }, glyphs[name] ?? ""), text),
    ),
  );
}
return { Timeline };
})();
const $trace_model = (() => {/** A trace's report as a tree of rows in the order in which things began: what tree, timeline, search and keys go by. */
function modelOf(report           )             {
  const rows = rowsOf(report);
  const steps = new Map             ();
  for (const row of rows) if (row.kind === "step") steps.set(row.entry.step, row);
  const roots        = [];
  for (const row of rows) {
    const parent = parentOf(row, steps);
    row.parent = parent;
    // A parent stands before what is within it, so that its own depth is known by now, however deep steps nest.
    row.depth = parent === null ? 0 : Math.min(parent.depth + 1, DEEPEST);
    (parent?.children ?? roots).push(row);
  }
  placeFaults(rows, report.memory.examples);
  const ends = rows.map(({ t_us, duration_us }) => t_us + (duration_us ?? 0));
  return {
    ...{ report, roots, rows },
    byId: new Map(rows.map((row) => [row.id, row])),
    failures: rows.filter((row) => row.state === "bad" && (row.kind === "call" || row.kind === "error")),
    endUs: ends.reduce((most, end) => Math.max(most, end), 0),
  };
}
const DEEPEST = 24;
function rowsOf({ timeline, errors, rewards, others }           )        {
  const ofCalls = new Map                      ();
  const calls = new Set(timeline.flatMap((entry) => (entry.kind === "call" ? [entry.call] : [])));
  const alone               = [];
  for (const error of errors) {
    if (error.call === null || !calls.has(error.call)) alone.push(error);
    else ofCalls.set(error.call, [...(ofCalls.get(error.call) ?? []), error]);
  }
  const rows = timeline.map((entry) => timelineRow(entry, ofCalls));
  for (const entry of alone) {
    const { seq, t_us, code } = entry;
    rows.push({ ...common(\`event-\${seq}\`, seq, t_us, code, "bad"), errors: [entry], kind: "error", entry });
  }
  for (const entry of rewards)
    rows.push({
      ...common(\`event-\${entry.seq}\`, entry.seq, entry.t_us, "reward", "plain"),
      kind: "reward",
      entry,
    });
  for (const entry of others) {
    const { seq, t_us, title, bad } = entry;
    rows.push({ ...common(\`event-\${seq}\`, seq, t_us, title, bad ? "bad" : "plain"), kind: "other", entry });
  }
  return rows.sort((one, other) => one.seq - other.seq);
}
function timelineRow(entry               , ofCalls                                   )      {
  if (entry.kind === "call") {
    const { call, seq, t_us, duration_us, tool, erred, state } = entry;
    const how = erred ? "bad" : state === null ? "open" : "good";
    const of = {
      ...common(\`call-\${call}\`, seq, t_us, tool, how, duration_us),
      errors: ofCalls.get(call) ?? [],
    };
    return { ...of, kind: "call", entry };
  }
  if (entry.kind === "step") {
    const { step, seq, t_us, duration_us, name, status } = entry;
    return {
      ...common(\`step-\${step}\`, seq, t_us, name, stepState(status), duration_us),
      kind: "step",
      entry,
    };
  }
  const { seq, t_us, source } = entry;
  return {
    ...common(\`event-\${seq}\`, seq, t_us, source ?? "observation", "plain"),
    kind: "observation",
    entry,
  };
}
function common(
  id        ,
  seq        ,
  t_us        ,
  name        ,
  state          ,
  duration_us                = null,
)         {
  return {
    id,
    seq,
    t_us,
    name,
    state,
    duration_us,
    parent: null,
    children: [],
    depth: 0,
    errors: [],
    faults: [],
  };
}
function stepState(status               )           {
  if (status === null) return "open";
  return status === "succeeded" ? "good" : "bad";
}
function parentOf(row     , steps                          )             {
  if (row.kind === "reward") return null;
  const number = row.kind === "step" ? row.entry.parent : row.entry.step;
  const parent = number === null ? undefined : steps.get(number);
  // a step that says it is within a later one would be a circle
  return parent === undefined || parent === row || parent.seq > row.seq ? null : parent;
}
/** A fault belongs to the last row that began before it. */
function placeFaults(rows                , faults                                          )       {
  const shown = rows.filter(({ kind }) => kind !== "other" && kind !== "reward");
  for (const { seq, what } of faults) {
    const after = shown.findIndex((row) => row.seq > seq);
    const row = shown.at(after < 0 ? -1 : Math.max(0, after - 1));
    row?.faults.push(what);
  }
}
return { modelOf };
})();
const $trace_view = (() => {/** One trace: headline, timeline, and beside each other the tree and what is selected in it. */
const { detailOf } = $detail;
const { button, h } = $dom;
const { headline, overviewOf } = $overview;
const { highlight, Search } = $search;
const { Timeline } = $timeline;
const { modelOf, } = $trace_model;
const { TraceTree } = $trace_tree;
const { baseName, line } = $words;
/**
 * @param back what leads to the page or part on many traces
 * @param onPlace is told what is selected, for the address
 */
function traceView(report           , back       , onPlace                         )       {
  const model = modelOf(report);
  const search = new Search(model.rows);
  let selected             = null;
  let found        = [];
  const select = (row            ) => {
    show(row);
    onPlace(row?.id ?? "");
  };
  const tree = new TraceTree(model, select);
  const timeline = new Timeline(model, select, (window) => tree.showWindow(window));
  const pane = h("div", { class: "pane", tabindex: -1 });
  pane.addEventListener("click", (event) => {
    const id = (event.target           ).closest             ("[data-row]")?.dataset.row;
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
  async function look()                {
    const result = await search.find(input.value);
    if (result === null) return;
    found = result.rows;
    tree.mark(new Set(found));
    tellFound(result.matches);
    emphasise();
  }
  function tellFound(matches        )       {
    const at = selected === null ? -1 : found.indexOf(selected);
    const of = \`\${found.length.toLocaleString("en-US")} \${found.length === 1 ? "row" : "rows"}\`;
    tally.dataset.matches = String(matches);
    tally.value =
      input.value === ""
        ? ""
        : matches === 0
          ? "nothing found"
          : \`\${at < 0 ? "" : \`\${at + 1} of \`}\${of} · \${matches.toLocaleString("en-US")}×\`;
  }
  function nextFound(by        )       {
    const row = after(found, by);
    if (row !== null) select(row);
  }
  function emphasise()       {
    highlight([pane, tree.element], input.value);
  }
  /** The next of some rows from what is selected, and from the end on the first again. */
  function after(rows                , by        )             {
    const seq = selected?.seq ?? (by > 0 ? -1 : Number.POSITIVE_INFINITY);
    const next = by > 0 ? rows.find((row) => row.seq > seq) : rows.findLast((row) => row.seq < seq);
    return next ?? rows.at(by > 0 ? 0 : -1) ?? null;
  }
  const inconsistent = model.rows.filter(({ faults }) => faults.length > 0);
  function jump(rows                , by        )       {
    const row = after(rows, by);
    if (row !== null) select(row);
  }
  function show(row            )       {
    selected = row;
    tree.select(row);
    timeline.select(row);
    pane.replaceChildren(row === null ? overviewOf(model) : detailOf(row, model));
    pane.scrollTop = 0;
    const at = row === null ? -1 : model.failures.indexOf(row);
    const { length } = model.failures;
    failureCount.textContent = \`\${at < 0 ? "" : \`\${at + 1} of \`}\${length.toLocaleString("en-US")} \${length === 1 ? "failure" : "failures"}\`;
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
        { class: \`failures \${noFailures ? "none" : ""}\`, role: "group", "aria-label": "Failures" },
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
  const actions                             = {
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
return { traceView };
})();
const $main = (() => {/** Starts the page: reads the data in it, and shows what the address names, \`#call-12\` or \`#trace-7/call-12\`. */
const { button, h } = $dom;
const { manyView } = $many_view;
const { traceView, } = $trace_view;
const { baseName, line } = $words;
const { report, pages, up } = dataIn("report")            ;
const app = document.getElementById("app") ;
let view              = null;
/** Of the trace among many that is shown; null for all of them. */
let shown                           ;
function go()       {
  const [, number, place] = /^#(?:trace-(\\d+)\\/?)?(.*)$/.exec(location.hash) ?? [];
  const wanted = report.kind === "many" && number !== undefined ? Number(number) - 1 : null;
  if (view === null || wanted !== shown) {
    shown = wanted;
    view = viewOf(wanted);
    const keys = button("?", showHelp, { class: "help", "aria-label": "Keys", title: "Keys (?)" });
    view.element.querySelector(".bar") .append(keys);
    app.replaceChildren(view.element);
  }
  view.go(place ?? "");
}
function viewOf(place               )       {
  if (report.kind === "one") {
    document.title = \`\${line(baseName(report.trace.file), 120)} · DSec trace\`;
    const back = up === null ? null : h("a", { class: "back", href: up }, "← all traces");
    return traceView(report, back, (id) => history.replaceState(null, "", \`#\${id}\`));
  }
  const trace = place === null ? null : (dataIn(\`trace-\${place}\`)                    );
  if (place === null || trace === null) {
    document.title = \`\${report.count} traces · DSec\`;
    return manyView(report, addressOf);
  }
  document.title = \`\${line(baseName(trace.trace.file), 120)} · DSec trace\`;
  const back = h("a", { class: "back", href: "#" }, "← all traces");
  return traceView(trace, back, (id) => history.replaceState(null, "", \`#trace-\${place + 1}/\${id}\`));
}
function addressOf(place        )                {
  if (pages) return \`trace-\${String(place + 1).padStart(5, "0")}.html\`;
  return document.getElementById(\`trace-\${place}\`) === null ? null : \`#trace-\${place + 1}\`;
}
function dataIn(id        )          {
  const text = document.getElementById(id)?.textContent;
  return text == null ? null : JSON.parse(text);
}
const help = h("dialog", { "aria-label": "Keys" });
document.body.append(help);
function showHelp()       {
  const keys                     = [
    ...(view?.keys ?? []),
    ["u", "all traces, where this is one of many"],
    ["?", "these keys"],
  ];
  help.replaceChildren(
    h("h2", {}, "Keys"),
    h(
      "dl",
      { class: "facts" },
      ...keys.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]),
    ),
    button("Close", () => help.close()),
  );
  help.showModal();
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const target = event.target           ;
  if (target.matches("input, select, textarea")) return;
  // what has the focus is pressed by these
  if ((event.key === "Enter" || event.key === " ") && target.matches("button, a, summary")) return;
  if (event.key === "?") showHelp();
  else if (event.key === "u") document.querySelector                   ("a.back")?.click();
  else if (view?.key(event) !== true) return;
  event.preventDefault();
});
addEventListener("hashchange", go);
go();
return {  };
})();
`;
export const STYLE = `/* biome-ignore-all lint/style/noDescendingSpecificity: rules stand with the part of the page that they are for */
:root {
  color-scheme: light dark;
  --ground: #ffffff;
  --panel: #f6f7f9;
  --raised: #ffffff;
  --line: #dfe3e8;
  --text: #1a1f27;
  --dim: #59626f;
  --accent: #1f57c3;
  --chosen: #e4edfd;
  --good: #1b7f4d;
  --good-fill: #58b586;
  --bad: #c0272d;
  --bad-fill: #dd5a56;
  --bad-ground: #fdf0ef;
  --warn: #8a5a00;
  --open-fill: #d9a441;
  --plain-fill: #9aa5b4;
  --memory: #7a3bc0;
  --found: #ffe27a;
  --series-1: #3f78d8;
  --series-2: #d98b2b;
  --series-3: #43a078;
  --series-4: #9a62cf;
  --series-5: #c75a85;
  --series-6: #7d8794;
  --series-7: #2f9fb3;
  --mono: ui-monospace, "SF Mono", "Cascadia Code", "DejaVu Sans Mono", Menlo, Consolas, monospace;
}

@media (prefers-color-scheme: dark) {
  :root {
    --ground: #13161b;
    --panel: #1a1e25;
    --raised: #20252d;
    --line: #2f3641;
    --text: #e3e7ed;
    --dim: #98a2b0;
    --accent: #82adff;
    --chosen: #22324d;
    --good: #62c995;
    --good-fill: #3d9a6c;
    --bad: #ff8179;
    --bad-fill: #d4524d;
    --bad-ground: #2d1c1e;
    --warn: #e2b04a;
    --open-fill: #b98a34;
    --plain-fill: #6c7684;
    --memory: #c29bff;
    --found: #6b5a13;
  }
}

* {
  box-sizing: border-box;
}

html,
body {
  height: 100%;
}

body {
  margin: 0;
  background: var(--ground);
  color: var(--text);
  font:
    13px / 1.45 system-ui,
    -apple-system,
    "Segoe UI",
    Roboto,
    "DejaVu Sans",
    sans-serif;
}

#app {
  height: 100%;
}

:focus-visible {
  outline: 2px solid var(--accent);
  outline-offset: -2px;
}

::highlight(found) {
  background-color: var(--found);
}

a {
  color: var(--accent);
}

code,
pre,
kbd {
  font-family: var(--mono);
  font-size: 12px;
}

button,
input,
select {
  font: inherit;
  color: inherit;
  background: var(--raised);
  border: 1px solid var(--line);
  border-radius: 5px;
}

button {
  padding: 3px 9px;
  cursor: pointer;
}

button:hover:not(:disabled) {
  border-color: var(--dim);
}

button:disabled {
  opacity: 0.45;
  cursor: default;
}

button.small {
  padding: 0 7px;
  font-size: 11.5px;
}

button[aria-pressed="true"] {
  background: var(--chosen);
  border-color: var(--accent);
}

input,
select {
  padding: 4px 8px;
}

input[type="search"] {
  width: 220px;
}

.view {
  height: 100%;
  display: flex;
  flex-direction: column;
  min-width: 0;
}

/* the bar on top */

.bar {
  display: flex;
  align-items: center;
  gap: 10px 16px;
  padding: 8px 16px;
  border-bottom: 1px solid var(--line);
}

.bar h1 {
  flex: 1;
  margin: 0;
  min-width: 60px;
  font-size: 15px;
  font-weight: 600;
  white-space: nowrap;
  overflow: hidden;
  text-overflow: ellipsis;
}

.bar .back {
  white-space: nowrap;
  text-decoration: none;
}

.failures {
  display: inline-flex;
  align-items: center;
  gap: 6px;
  white-space: nowrap;
  color: var(--bad);
}

.failures.none {
  color: var(--dim);
}

.failures button {
  padding: 1px 8px;
  color: var(--text);
}

.search {
  display: inline-flex;
  align-items: center;
  gap: 8px;
}

.search .tally {
  white-space: nowrap;
  color: var(--dim);
  font-variant-numeric: tabular-nums;
}

.search .tally:not(:empty) {
  order: -1;
}

.help {
  flex: none;
  width: 26px;
  height: 26px;
  padding: 0;
  border-radius: 50%;
  color: var(--dim);
}

/* figures at the head */

.headline {
  display: flex;
  flex-wrap: wrap;
  align-items: stretch;
  gap: 1px;
  background: var(--line);
  border-bottom: 1px solid var(--line);
}

.headline > * {
  flex: 1 1 104px;
  background: var(--panel);
  padding: 7px 16px 6px;
}

.headline .outcome {
  display: flex;
  align-items: center;
  font-size: 15px;
  font-weight: 650;
  white-space: nowrap;
}

.outcome.succeeded {
  color: var(--good);
  box-shadow: inset 4px 0 var(--good-fill);
}

.outcome.failed {
  color: var(--bad);
  box-shadow: inset 4px 0 var(--bad-fill);
}

.outcome.unknown {
  color: var(--dim);
  box-shadow: inset 4px 0 var(--plain-fill);
}

.tile {
  display: flex;
  flex-direction: column;
  min-width: 0;
}

.tile .label,
.tile small {
  color: var(--dim);
  font-size: 11.5px;
  white-space: nowrap;
  overflow: hidden;
  text-overflow: ellipsis;
}

.tile small {
  min-height: 1.45em;
}

.tile strong {
  font-size: 17px;
  line-height: 1.25;
  font-weight: 620;
  font-variant-numeric: tabular-nums;
}

.tile.bad strong {
  color: var(--bad);
}

.tile.memory-bad strong {
  color: var(--memory);
}

.tile.absent strong {
  color: var(--dim);
  font-weight: 400;
}

/* timeline */

.timeline {
  padding: 8px 16px 4px;
  border-bottom: 1px solid var(--line);
}

.timeline-bar {
  display: flex;
  justify-content: space-between;
  align-items: center;
  gap: 12px;
  margin-bottom: 6px;
}

.legend {
  display: flex;
  flex-wrap: wrap;
  gap: 0 14px;
  color: var(--dim);
  font-size: 11.5px;
}

.legend i {
  display: inline-block;
  min-width: 9px;
  height: 9px;
  margin-right: 5px;
  border-radius: 2px;
  font-style: normal;
  line-height: 9px;
}

.key-good {
  background: var(--good-fill);
}

.key-bad {
  background: var(--bad-fill);
}

.key-open {
  background: var(--open-fill);
}

.key-memory {
  color: var(--memory);
}

.key-error {
  color: var(--bad);
}

.key-reward {
  color: var(--accent);
}

.scales {
  display: inline-flex;
}

.scales button:first-child {
  border-radius: 5px 0 0 5px;
}

.scales button:last-child {
  border-radius: 0 5px 5px 0;
  margin-left: -1px;
}

.timeline-tools {
  display: inline-flex;
  gap: 8px;
}

.dragged {
  fill: var(--accent);
  fill-opacity: 0.2;
}

.timeline-drawing {
  display: block;
  touch-action: pan-y;
  user-select: none;
  max-width: 100%;
  cursor: pointer;
}

.bars .good {
  fill: var(--good-fill);
}

.bars .bad {
  fill: var(--bad-fill);
}

.bars .plain {
  fill: var(--plain-fill);
}

.bars .open {
  fill: var(--open-fill);
}

.bars.of-step rect {
  opacity: 0.75;
}

.marks .error {
  fill: var(--bad);
}

.marks .memory {
  fill: var(--memory);
}

.marks .reward {
  fill: var(--accent);
}

.axis line {
  stroke: var(--line);
}

.axis text {
  fill: var(--dim);
  font-size: 10.5px;
  font-variant-numeric: tabular-nums;
}

.cursor {
  stroke: var(--text);
  stroke-width: 1.5;
}

/* tree */

.split {
  flex: 1;
  min-height: 0;
  display: grid;
  grid-template-columns: minmax(0, 46fr) minmax(0, 54fr);
}

.tree {
  position: relative;
  overflow-y: auto;
  border-right: 1px solid var(--line);
  container-type: inline-size;
}

.tree-space,
.table-space {
  position: relative;
  min-height: 100%;
}

.row {
  position: absolute;
  left: 0;
  right: 0;
  height: 28px;
  display: grid;
  grid-template-columns: minmax(0, 1fr) 62px 24%;
  align-items: center;
  gap: 10px;
  padding: 0 12px 0 8px;
  cursor: pointer;
  white-space: nowrap;
}

.row:hover {
  background: var(--panel);
}

.row[data-hit] {
  box-shadow: inset 3px 0 var(--open-fill);
}

.row[aria-selected="true"] {
  background: var(--chosen);
}

.row-name {
  display: flex;
  align-items: baseline;
  min-width: 0;
  gap: 5px;
}

.row .indent {
  flex: none;
}

.twist {
  flex: none;
  width: 13px;
  text-align: center;
  color: var(--dim);
}

.row .mark {
  flex: none;
  width: 13px;
  text-align: center;
  font-weight: 700;
  color: var(--dim);
}

.row.good .mark {
  color: var(--good);
}

.row.bad .mark,
.row.bad .name {
  color: var(--bad);
}

.row.open .mark {
  color: var(--warn);
}

.row.is-reward .mark {
  color: var(--accent);
}

.row .ordinal {
  flex: none;
  color: var(--dim);
  font-size: 11.5px;
  font-variant-numeric: tabular-nums;
}

.row .name {
  flex: none;
  max-width: 75%;
  overflow: hidden;
  text-overflow: ellipsis;
  font-weight: 550;
}

.row.is-observation .name,
.row.is-other .name {
  font-weight: 400;
  color: var(--dim);
}

.row .gist {
  min-width: 0;
  overflow: hidden;
  text-overflow: ellipsis;
  color: var(--dim);
  font-size: 12px;
}

.row.is-observation .gist {
  color: var(--text);
}

.row .fault {
  flex: none;
  margin-left: auto;
  color: var(--memory);
}

.row .took {
  text-align: right;
  color: var(--dim);
  font-size: 11.5px;
  font-variant-numeric: tabular-nums;
}

.track {
  position: relative;
  height: 12px;
}

.track .bar,
.track .dot {
  position: absolute;
  top: 2px;
  height: 8px;
  padding: 0;
  border: 0;
  min-width: 2px;
  border-radius: 2px;
  background: var(--plain-fill);
}

.track .dot {
  min-width: 5px;
  height: 5px;
  top: 4px;
  border-radius: 50%;
}

.row.good .track > * {
  background: var(--good-fill);
}

.row.bad .track > * {
  background: var(--bad-fill);
}

.row.open .track > * {
  background: var(--open-fill);
}

.row.is-step .track > * {
  opacity: 0.6;
}

.tree.timeless .row {
  grid-template-columns: minmax(0, 1fr);
}

.tree.timeless .took,
.tree.timeless .track {
  display: none;
}

@container (max-width: 520px) {
  .row {
    grid-template-columns: minmax(0, 1fr) 62px;
  }

  .row .track {
    display: none;
  }
}

/* detail */

.pane {
  overflow-y: auto;
  padding: 14px 18px 48px;
}

.pane:focus {
  outline: none;
}

.where {
  margin: 0;
  color: var(--dim);
  font-size: 11.5px;
  overflow-wrap: anywhere;
}

.detail h2 {
  display: flex;
  align-items: baseline;
  flex-wrap: wrap;
  gap: 4px 10px;
  margin: 1px 0 6px;
  font-size: 17px;
  font-weight: 640;
  overflow-wrap: anywhere;
}

.pill {
  padding: 1px 9px;
  border-radius: 9px;
  border: 1px solid currentcolor;
  font-size: 11.5px;
  font-weight: 500;
  color: var(--dim);
  white-space: nowrap;
}

.pill.good {
  color: var(--good);
}

.pill.bad {
  color: var(--bad);
}

.pill.open {
  color: var(--warn);
}

.facts {
  display: grid;
  grid-template-columns: max-content minmax(0, 1fr);
  gap: 2px 14px;
  margin: 0;
}

.detail > header .facts {
  display: flex;
  flex-wrap: wrap;
  gap: 0 6px;
}

.detail > header .facts dd {
  margin-right: 12px;
}

.facts dt {
  color: var(--dim);
}

.facts dd {
  margin: 0;
  overflow-wrap: anywhere;
}

.part {
  position: relative;
  margin-top: 18px;
}

.part h3 {
  margin: 0 0 5px;
  font-size: 12.5px;
  font-weight: 640;
}

.part h4 {
  margin: 8px 0 0;
  font-size: 12.5px;
  overflow-wrap: anywhere;
}

.value-notes {
  position: absolute;
  top: 0;
  right: 0;
  display: flex;
  gap: 8px;
  align-items: center;
}

details .value-notes,
.payload .value-notes {
  position: static;
  justify-content: flex-end;
  margin-bottom: 3px;
}

.value-notes:empty {
  display: none;
}

.cut {
  order: -1;
  color: var(--warn);
  font-size: 11.5px;
}

.value {
  margin: 0;
  max-height: 420px;
  overflow: auto;
  padding: 8px 11px;
  background: var(--panel);
  border: 1px solid var(--line);
  border-radius: 6px;
  white-space: pre-wrap;
  overflow-wrap: anywhere;
  tab-size: 4;
}

.value .key {
  color: var(--accent);
}

.value .string {
  color: var(--text);
}

.value .number {
  color: var(--memory);
}

.value .literal {
  color: var(--warn);
}

.value .block {
  display: block;
  margin: 2px 0 2px calc(var(--depth, 0) * 1.2em);
  padding: 4px 8px;
  border-left: 2px solid var(--plain-fill);
  background: var(--raised);
}

.none,
.hint {
  margin: 2px 0;
  color: var(--dim);
}

.hint {
  font-size: 12px;
}

.warning {
  margin: 2px 0;
  color: var(--warn);
}

.bad-text,
.value.bad-text {
  color: var(--bad);
}

.error-part {
  margin-left: -12px;
  padding: 8px 12px 10px;
  background: var(--bad-ground);
  border-left: 3px solid var(--bad-fill);
  border-radius: 0 6px 6px 0;
}

.error-part h3 {
  color: var(--bad);
}

.error-part .value {
  background: var(--ground);
}

details {
  margin-top: 8px;
}

summary {
  cursor: pointer;
}

details[open] > summary {
  margin-bottom: 5px;
}

.payload + .payload {
  border-top: 1px solid var(--line);
  margin-top: 10px;
}

.faults {
  margin: 0;
  padding-left: 18px;
}

.faults li {
  overflow-wrap: anywhere;
}

.links {
  list-style: none;
  margin: 0;
  padding: 0;
}

.links li {
  display: flex;
  gap: 10px;
  align-items: baseline;
  padding: 2px 0;
  white-space: nowrap;
}

.links a {
  flex: none;
  max-width: 60%;
  overflow: hidden;
  text-overflow: ellipsis;
}

.links .bad a {
  color: var(--bad);
}

.links .gist {
  flex: 1;
  min-width: 0;
  overflow: hidden;
  text-overflow: ellipsis;
  color: var(--dim);
}

.links .took {
  color: var(--dim);
  font-variant-numeric: tabular-nums;
}

/* tables */

.scroll-x {
  overflow-x: auto;
}

.grid {
  width: 100%;
  border-collapse: collapse;
}

.grid caption {
  text-align: left;
  padding: 6px 0 3px;
  color: var(--dim);
  font-size: 12px;
}

.grid th,
.grid td {
  padding: 3px 12px 3px 0;
  border-bottom: 1px solid var(--line);
  text-align: left;
  vertical-align: top;
  font-weight: 400;
}

.grid thead th {
  color: var(--dim);
  font-size: 11.5px;
}

.grid tbody th {
  overflow-wrap: anywhere;
}

.grid .figure,
.grid thead th.figure {
  text-align: right;
  white-space: nowrap;
  font-variant-numeric: tabular-nums;
}

.grid tr > :last-child {
  padding-right: 0;
}

.reward .sum > * {
  font-weight: 650;
}

.product-cell {
  position: relative;
  width: 30%;
  min-width: 70px;
}

.product-cell::before {
  content: "";
  position: absolute;
  left: 50%;
  top: 0;
  bottom: 0;
  border-left: 1px solid var(--line);
}

.product {
  position: absolute;
  top: 7px;
  height: 9px;
  min-width: 1px;
  border-radius: 2px;
  background: var(--good-fill);
}

.product.negative {
  background: var(--bad-fill);
}

.memory td,
.memory th {
  overflow-wrap: anywhere;
  white-space: pre-wrap;
  font-family: var(--mono);
  font-size: 12px;
}

.memory th em,
.memory td em {
  color: var(--dim);
  font-family: system-ui, sans-serif;
}

.memory thead th {
  font-family: inherit;
}

.memory .old {
  color: var(--dim);
}

.memory .new {
  color: var(--memory);
}

.memory .origin {
  color: var(--dim);
  min-width: 70px;
}

.tool-bar {
  display: flex;
  min-width: 60px;
  height: 9px;
  margin-top: 5px;
}

.tool-bar span,
.stack span {
  height: 100%;
}

.tool-bar .good {
  background: var(--good-fill);
}

.tool-bar .bad {
  background: var(--bad-fill);
}

.stack {
  display: flex;
  height: 12px;
  border-radius: 3px;
  overflow: hidden;
}

.keys {
  display: flex;
  flex-wrap: wrap;
  gap: 2px 16px;
  margin: 6px 0 0;
  padding: 0;
  list-style: none;
}

.swatch {
  display: inline-block;
  width: 9px;
  height: 9px;
  margin-right: 6px;
  border-radius: 2px;
}

/* tokens */

.tokens {
  max-height: 240px;
  overflow: auto;
  padding: 8px 10px;
  background: var(--panel);
  border: 1px solid var(--line);
  border-radius: 6px;
  font: 12px / 1.9 var(--mono);
  overflow-wrap: anywhere;
}

.token {
  padding: 2px 1px;
  border-radius: 3px;
  cursor: pointer;
  background: color-mix(in srgb, var(--open-fill) var(--doubt, 0%), transparent);
}

.token:hover {
  outline: 1px solid var(--dim);
}

.token[aria-selected="true"] {
  outline: 2px solid var(--accent);
}

.probability-cell {
  width: 40%;
}

.probability {
  display: block;
  height: 9px;
  margin-top: 5px;
  border-radius: 2px;
  background: var(--series-1);
}

.tail .probability {
  background: var(--plain-fill);
}

.taken td {
  font-weight: 600;
}

/* many traces */

.scroll {
  overflow-y: auto;
  flex: 1;
}

.many-view .part {
  margin: 0;
  padding: 16px 16px 0;
  min-width: 0;
}

.many-view main > .part:last-child,
.many-view main > .columns:last-child {
  padding-bottom: 48px;
}

.many-view .part h3 {
  font-size: 13.5px;
}

.columns {
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr));
  gap: 6px 12px;
}

.outcomes {
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 4px 14px;
}

.outcome-count {
  white-space: nowrap;
}

.scroll > .hint {
  margin: 8px 16px;
}

.outcomes .stack {
  width: 160px;
}

.stack .is-succeeded {
  background: var(--good-fill);
}

.stack .is-failed {
  background: var(--bad-fill);
}

.stack .is-unknown {
  background: var(--plain-fill);
}

.outcome-count.is-succeeded {
  color: var(--good);
}

.outcome-count.is-failed {
  color: var(--bad);
}

.outcome-count small {
  color: var(--dim);
}

.hints {
  margin: 6px 0 0;
  padding: 0;
  list-style: none;
}

.hints li {
  display: grid;
  grid-template-columns: 42px minmax(0, 1fr);
  gap: 0 10px;
  padding: 4px 0;
  border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere;
}

.hints small {
  grid-column: 2;
  color: var(--dim);
}

.strength {
  height: 6px;
  margin-top: 7px;
  border-radius: 3px;
  background: linear-gradient(to right, var(--series-1) var(--strength), var(--line) var(--strength));
}

.cluster {
  margin-top: 6px;
  padding: 6px 10px;
  border: 1px solid var(--line);
  border-radius: 6px;
}

.cluster summary .name {
  margin-left: 10px;
  color: var(--dim);
  overflow-wrap: anywhere;
}

.lift-cell {
  width: 26%;
  min-width: 110px;
  white-space: nowrap;
  font-variant-numeric: tabular-nums;
}

.lift-cell span {
  display: inline-block;
  width: 52px;
}

.lift {
  display: inline-block;
  height: 9px;
  max-width: calc(100% - 56px);
  border-radius: 2px;
  background: var(--bad-fill);
}

.members {
  display: flex;
  flex-wrap: wrap;
  gap: 2px 12px;
  margin: 6px 0 0;
  font-size: 12px;
}

.picks {
  display: flex;
  align-items: center;
  gap: 8px;
  margin: 0 0 6px;
}

.plot {
  display: block;
  width: 100%;
  max-width: 640px;
  height: auto;
}

.plot .rule {
  stroke: var(--line);
}

.plot .axis-name {
  fill: var(--text);
  font-size: 11.5px;
}

.plot .is-succeeded {
  fill: var(--good-fill);
}

.plot .is-failed {
  fill: var(--bad-fill);
}

.plot .is-unknown {
  fill: var(--plain-fill);
}

.plot circle {
  fill-opacity: 0.7;
  cursor: pointer;
}

.plot circle:hover {
  fill-opacity: 1;
  stroke: var(--text);
}

.matrix {
  border-collapse: separate;
  border-spacing: 2px;
  font-size: 12px;
}

.matrix th {
  font-weight: 400;
  color: var(--dim);
  text-align: right;
  padding-right: 8px;
  white-space: nowrap;
}

.matrix thead th {
  vertical-align: bottom;
  text-align: center;
  white-space: normal;
  padding: 0 2px 3px;
  line-height: 1.2;
}

.matrix tbody td {
  width: 62px;
  height: 30px;
  text-align: center;
  border-radius: 3px;
  font-variant-numeric: tabular-nums;
}

.matrix .positive {
  background: color-mix(in srgb, var(--series-1) var(--strength), var(--panel));
}

.matrix .negative {
  background: color-mix(in srgb, var(--series-2) var(--strength), var(--panel));
}

.matrix .empty {
  background: var(--panel);
  color: var(--dim);
}

.matrix .telling {
  font-weight: 700;
}

.matrix-said {
  min-height: 3em;
}

.table-tools {
  display: flex;
  align-items: center;
  gap: 12px;
  margin-bottom: 6px;
}

.table-tools input {
  width: min(360px, 60%);
}

.table {
  border: 1px solid var(--line);
  border-radius: 6px;
  overflow-x: auto;
}

.table-body {
  position: relative;
  overflow-y: scroll;
  min-width: 720px;
}

.table-row {
  display: grid;
  grid-template-columns: var(--columns);
  align-items: center;
  gap: 10px;
  padding: 0 12px;
  height: 30px;
  white-space: nowrap;
}

.table-head {
  min-width: 720px;
  padding-right: 27px;
  background: var(--panel);
  border-bottom: 1px solid var(--line);
}

.table-head button {
  border: 0;
  padding: 2px 0;
  background: none;
  color: var(--dim);
  font-size: 12px;
}

.table-head [aria-sort="ascending"] button,
.table-head [aria-sort="descending"] button {
  color: var(--text);
  font-weight: 600;
}

.table-body .table-row {
  position: absolute;
  left: 0;
  right: 0;
}

.table-body .table-row:hover {
  background: var(--panel);
}

.table-body .table-row[aria-selected="true"] {
  background: var(--chosen);
}

.table-row .figure {
  text-align: right;
  font-variant-numeric: tabular-nums;
}

.file-cell {
  overflow: hidden;
  text-overflow: ellipsis;
}

.file-cell small {
  margin-left: 6px;
  color: var(--dim);
}

.dot-label::before {
  content: "";
  display: inline-block;
  width: 8px;
  height: 8px;
  margin-right: 6px;
  border-radius: 50%;
  background: var(--plain-fill);
}

.dot-label.is-succeeded::before {
  background: var(--good-fill);
}

.dot-label.is-failed::before {
  background: var(--bad-fill);
}

/* keys */

dialog {
  max-width: 460px;
  padding: 18px 22px;
  color: var(--text);
  background: var(--raised);
  border: 1px solid var(--line);
  border-radius: 8px;
}

dialog::backdrop {
  background: rgb(0 0 0 / 40%);
}

dialog h2 {
  margin: 0 0 10px;
  font-size: 15px;
}

dialog button {
  margin-top: 14px;
}

kbd {
  white-space: pre;
}

/* what a terminal would show */

.code {
  color: var(--dim);
  opacity: 0.8;
}

.sgr-bold {
  font-weight: 700;
}

.sgr-dim {
  opacity: 0.75;
}

.sgr-italic {
  font-style: italic;
}

.sgr-underline {
  text-decoration: underline;
}

.sgr-red {
  color: var(--bad);
}

.sgr-green {
  color: var(--good);
}

.sgr-yellow {
  color: var(--warn);
}

.sgr-blue {
  color: var(--accent);
}

.sgr-magenta {
  color: var(--memory);
}

.sgr-cyan {
  color: var(--series-7);
}

.sgr-black,
.sgr-white {
  color: var(--dim);
}

@media (max-width: 900px) {
  .bar {
    flex-wrap: wrap;
  }

  .bar h1 {
    flex: 1 1 200px;
  }

  input[type="search"] {
    width: 160px;
  }

  .headline > * {
    flex-basis: 88px;
    padding: 6px 10px;
  }

  .split {
    grid-template-columns: minmax(0, 42fr) minmax(0, 58fr);
  }

  .pane {
    padding: 12px 14px 48px;
  }
}

@media (max-width: 640px) {
  .split {
    grid-template-columns: minmax(0, 1fr);
    grid-template-rows: minmax(120px, 40%) minmax(0, 1fr);
  }

  .tree {
    border-right: 0;
    border-bottom: 1px solid var(--line);
  }

  .legend {
    display: none;
  }
}
`;
