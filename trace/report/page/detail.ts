/** All that is known of one row. */
import type { CallEntry, ErrorEntry, MemoryChange } from "#trace/analysis/report-data.ts";
import { type Child, facts, h, section, styled } from "./dom.ts";
import { rewardView } from "./reward-view.ts";
import { terminalText } from "./terminal-text.ts";
import { tokensView } from "./tokens-view.ts";
import type { Row, TraceModel } from "./trace-model.ts";
import { gistOf } from "./trace-tree.ts";
import { valueView } from "./value-view.ts";
import { count, durationText, line, numberText } from "./words.ts";

export function detailOf(row: Row, model: TraceModel): HTMLElement {
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

function titleOf(row: Row): string {
  switch (row.kind) {
    case "call":
      return `#${row.entry.call} ${line(row.name)}`;
    case "step":
      return `Step ${row.entry.step}: ${line(row.name)}`;
    case "reward":
      return `Reward ${numberText(row.entry.sum)}`;
    default:
      return line(row.name);
  }
}

/** Steps that a row is said to be within: the nearest ones. */
const MOST_ABOVE = 12;

function whereText(row: Row): string {
  const above: string[] = [];
  let step = row.parent;
  for (; step !== null && above.length < MOST_ABOVE; step = step.parent) above.unshift(line(step.name, 60));
  if (step !== null) above.unshift("…");
  return [...above, `event ${row.seq}`].join(" › ");
}

function pill(row: Row): HTMLElement | null {
  if (row.kind === "step")
    return h("span", { class: `pill ${row.state}` }, line(row.entry.status ?? "did not end"));
  if (row.kind !== "call") return null;
  const { state, erred } = row.entry;
  const said =
    state === null ? "did not end" : erred && state === "answered" ? "answered with an error" : state;
  return h("span", { class: `pill ${row.state}` }, line(said.replaceAll("_", " ")));
}

function factsOf(row: Row): [string, Child][] {
  const times: [string, Child][] = [
    ["began", row.t_us === 0 ? null : `+${durationText(row.t_us)}`],
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

function partsOf(row: Row, model: TraceModel): Child[] {
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

function callParts(call: CallEntry, hasErrors: boolean): Child[] {
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
    memory.length > 0 && section(`Memory: ${count(memory.length, "change")}`, memoryTable(memory)),
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

function memoryTable(changes: readonly MemoryChange[]): HTMLElement {
  const cell = (text: string | null, kind: string) =>
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
            h("th", { scope: "row" }, line(key, 200), op !== "put" && h("em", {}, ` ${line(op)}`)),
            cell(old, "old"),
            cell(now, "new"),
            h("td", { class: "origin" }, origin === null ? "the call" : line(origin)),
          ),
        ),
      ),
    ),
  );
}

function errorView({ code, text, stack, memory, payloads }: ErrorEntry, row: Row): HTMLElement {
  return h(
    "section",
    { class: "part error-part" },
    h("h3", {}, row.kind === "error" ? "What it says" : `Error ${line(code, 80)}`),
    h("pre", { class: "value bad-text", tabindex: 0 }, terminalText(text)),
    stack !== null && folded("Stack", valueView(stack), true),
    memory !== null && folded("Memory as it was", valueView(memory), false),
    payloads.length > 0 &&
      folded(
        `The last ${count(payloads.length, "call")} before it`,
        h(
          "div",
          {},
          ...payloads.map(({ call, tool, url, sent, received }) =>
            h(
              "div",
              { class: "payload" },
              h("h4", {}, `#${call} ${line(tool ?? url ?? "")}`),
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

export function folded(title: string, content: HTMLElement, open: boolean): HTMLElement {
  return h("details", { open }, h("summary", {}, title), content);
}

function stepPart(row: Row): Child {
  const failed = row.children.filter(({ state }) => state === "bad");
  if (row.children.length === 0) return h("p", { class: "none" }, "Nothing happened within it.");
  return section(
    "Within it",
    failed.length > 0 && h("p", { class: "warning" }, `${failed.length} of ${row.children.length} failed`),
    linkList(row.children),
  );
}

const MOST_LINKS = 200;

export function linkList(rows: readonly Row[], most = MOST_LINKS): HTMLElement {
  const items = rows
    .slice(0, most)
    .map((row) =>
      h(
        "li",
        { class: row.state },
        h("a", { href: `#${row.id}`, "data-row": row.id }, titleOf(row)),
        h("span", { class: "gist" }, gistOf(row)),
        h("span", { class: "took" }, row.duration_us ? durationText(row.duration_us) : ""),
      ),
    );
  const left = rows.length - items.length;
  return h(
    "ol",
    { class: "links" },
    ...items,
    left > 0 && h("li", { class: "none" }, `and ${left} more, in the tree`),
  );
}

/** How rewards before and after compare. */
function weightsPart(seq: number, { report }: TraceModel): Child {
  const at = report.rewards.findIndex((reward) => reward.seq === seq);
  const before = report.rewards[at - 1];
  if (before === undefined) return false;
  return h(
    "p",
    { class: "hint" },
    `Reward ${at + 1} of ${report.rewards.length}; the one before was ${numberText(before.sum)}.`,
  );
}

const TIMES: [name: string, label: string][] = [
  ["network_us", "network"],
  ["serialization_us", "serialization"],
  ["gateway_us", "gateway"],
  ["snapshot_us", "snapshot"],
  ["cpu_wait_us", "CPU wait"],
  ["throttled_us", "throttled"],
  ["gpu_us", "GPU"],
];

/** The whole bar is the call: what no part explains is shown as such. */
function timingPart(timing: object, callUs: number | null): Child {
  const known = TIMES.flatMap(([name, label], at) => {
    const us = (timing as Record<string, number | null>)[name];
    return us ? [{ label, us, colour: `var(--series-${at + 1})` }] : [];
  });
  const explained = known.reduce((sum, { us }) => sum + us, 0);
  if (explained === 0) return false;
  const total = Math.max(explained, callUs ?? 0);
  if (total > explained)
    known.push({ label: "unexplained", us: total - explained, colour: "var(--plain-fill)" });
  const swatch = (colour: string) =>
    styled(h("i", { class: "swatch", "aria-hidden": "true" }), { background: colour });
  return section(
    "Where the time went",
    h(
      "div",
      { class: "stack", "aria-hidden": "true" },
      ...known.map(({ us, colour }) =>
        styled(h("span", {}), { width: `${(us / total) * 100}%`, background: colour }),
      ),
    ),
    h(
      "ul",
      { class: "keys" },
      ...known.map(({ label, us, colour }) => h("li", {}, swatch(colour), `${label} ${durationText(us)}`)),
    ),
  );
}
