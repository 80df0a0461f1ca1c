/** What is to be said of a whole trace: shown while no row is selected. */
import type { OneReport, ToolRow, TraceRow } from "#trace/analysis/report-data.ts";
import { folded, linkList } from "./detail.ts";
import { type Child, facts, h, section, styled } from "./dom.ts";
import { OUTCOMES } from "./metric-names.ts";
import { rewardView } from "./reward-view.ts";
import type { TraceModel } from "./trace-model.ts";
import { valueView } from "./value-view.ts";
import { baseName, count, durationText, line, numberText, percentText } from "./words.ts";

export function headline({ trace, timeline, memory }: OneReport): HTMLElement {
  const { metrics, outcome } = trace;
  const steps = timeline.filter(({ kind }) => kind === "step").length;
  const tiles: [label: string, value: Child, note: string, kind?: string][] = [
    ["reward", numberText(metrics.reward), "", metrics.reward === null ? "absent" : ""],
    [
      "tool accuracy",
      numberText(metrics.tool_call_accuracy),
      metrics.tool_call_accuracy === null ? "nothing to compare with" : "",
      metrics.tool_call_accuracy === null ? "absent" : "",
    ],
    ["calls", numberText(metrics.tool_calls), steps > 0 ? `in ${count(steps, "step")}` : ""],
    ["errors", trace.errors, errorRate(trace), trace.errors > 0 ? "bad" : ""],
    [
      "memory",
      memory.value === null ? "–" : numberText(memory.value),
      memory.value === null
        ? "not checked"
        : `${memory.violations} of ${count(memory.checks, "check")} failed`,
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
    h("div", { class: `outcome ${outcome}` }, OUTCOMES[outcome]),
    ...tiles.map(([label, value, note, kind]) =>
      h(
        "div",
        { class: `tile ${kind ?? ""}` },
        h("span", { class: "label" }, label),
        h("strong", {}, value),
        h("small", {}, note),
      ),
    ),
  );
}

function errorRate({ metrics: { error_rate } }: TraceRow): string {
  if (error_rate === null) return "";
  return `${percentText(error_rate)} of calls`;
}

/** What comes after them should be seen as well; keys go through all. */
const FAILURES_AT_ONCE = 12;

export function overviewOf(model: TraceModel): HTMLElement {
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
        `${count(calls_left_out, "call")} and ${count(events_left_out, "event")} more are not on this page; ` +
          "dsec trace parse shows them.",
      ),
    accuracy_note !== null && h("p", { class: "hint" }, line(accuracy_note, 1_000)),
    failures.length > 0 && section(`Failures (${failures.length})`, linkList(failures, FAILURES_AT_ONCE)),
    last !== undefined &&
      section(rewards.length > 1 ? `Last of ${rewards.length} rewards` : "Reward", rewardView(last)),
    memory.examples.length > 0 &&
      section(
        "Memory",
        memory.broken && h("p", { class: "warning" }, "A hash or a replay is broken, which scores 0."),
        h(
          "ul",
          { class: "faults" },
          ...memory.examples.slice(0, 20).map(({ seq, what }) => h("li", {}, `event ${seq}: ${line(what)}`)),
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
            : `${line(trace.lease_id)}${trace.fence === null ? "" : `, fence ${trace.fence}`}`,
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

function digest(text: string): HTMLElement {
  return h("code", { title: text, class: "digest" }, text);
}

export function toolTable(tools: readonly ToolRow[]): HTMLElement {
  const most = tools.reduce((so_far, { calls }) => Math.max(so_far, calls), 1);
  const shareBar = ({ calls, errors }: ToolRow) =>
    h(
      "span",
      { class: "tool-bar", "aria-hidden": "true" },
      styled(h("span", { class: "good" }), { width: `${((calls - errors) / most) * 100}%` }),
      styled(h("span", { class: "bad" }), { width: `${(errors / most) * 100}%` }),
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
