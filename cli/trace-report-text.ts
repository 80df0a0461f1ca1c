/** Reports as text for a terminal. All that was recorded is escaped. */
import type {
  CallEntry,
  ManyReport,
  Metric,
  OneReport,
  ReportData,
  TimelineEntry,
} from "#trace/analysis/report-data.ts";
import { type Column, paintFor, plainLine, table } from "./terminal.ts";

export function reportText(report: ReportData, metrics: Metric[]): string {
  return report.kind === "one" ? oneText(report, metrics) : manyText(report, metrics);
}

const paint = paintFor(process.stdout);

function oneText(
  { trace, timeline, calls_left_out, memory, rewards, errors, tools, accuracy_note }: OneReport,
  metrics: Metric[],
): string {
  const parts = [
    plainLine(`${trace.file}: ${trace.trace_id} (${trace.source}), ${trace.state}, ${trace.events} events`),
    `${outcomeText(trace.outcome)}  ${metrics.map((metric) => `${metric} ${numberText(trace.metrics[metric])}`).join("  ")}`,
    ...noteLines(accuracy_note, metrics),
    heading("Timeline"),
    ...timeline.map(entryText),
    ...(calls_left_out > 0 ? [`… and ${calls_left_out} calls more; see dsec trace parse`] : []),
    heading("Tools"),
    toolTable(tools),
  ];
  if (memory.value !== null) {
    parts.push(
      heading("Memory"),
      `consistency ${numberText(memory.value)}: ${memory.violations} of ${memory.checks} checks did not hold` +
        (memory.broken ? "; a hash or a replay is broken, which scores 0" : ""),
      ...memory.examples.slice(0, 10).map(({ seq, what }) => `  event ${seq}: ${plainLine(what)}`),
    );
  }
  if (rewards.length > 0) {
    parts.push(heading("Rewards"));
    for (const { seq, sum, components, fault } of rewards) {
      const stack = components.map(
        ({ name, value, weight, product }) => `${name} ${value}×${weight}=${product}`,
      );
      parts.push(
        plainLine(`  event ${seq}: ${sum} = ${stack.join(" + ")}${fault === null ? "" : ` (${fault})`}`),
      );
    }
  }
  if (errors.length > 0) {
    parts.push(heading("Errors"));
    for (const { seq, call, code, text } of errors.slice(0, 50)) {
      const of = call === null ? "" : ` call ${call}`;
      parts.push(`  event ${seq}${of} ${paint("red", plainLine(code))}: ${plainLine(text)}`);
    }
  }
  return parts.join("\n");
}

function noteLines(note: string | null, metrics: Metric[]): string[] {
  return note === null || !metrics.includes("tool_call_accuracy") ? [] : [paint("yellow", plainLine(note))];
}

function entryText(entry: TimelineEntry): string {
  const time = paint("dim", `+${(entry.t_us / 1e6).toFixed(6)}`);
  switch (entry.kind) {
    case "step":
      return `${time} ${paint("bold", `step ${entry.step}`)} ${plainLine(entry.name)} ${plainLine(entry.status ?? "open")} (${entry.calls} calls)`;
    case "observation":
      return `${time} ${paint("dim", plainLine(entry.source ?? "observation"))} ${short(entry.content?.text ?? "")}`;
    case "call":
      return callText(entry, time);
  }
}

function callText(entry: CallEntry, time: string): string {
  const mark = entry.erred
    ? paint("red", "✗")
    : entry.state === "answered"
      ? paint("green", "✓")
      : paint("yellow", "?");
  const took = entry.duration_us === null ? "" : ` ${(entry.duration_us / 1000).toFixed(1)} ms`;
  const why = entry.code === null ? "" : ` ${plainLine(entry.code)}`;
  const lines = [
    `${time} ${mark} call ${entry.call} ${paint("bold", plainLine(entry.tool))}${took}${why} ${short(entry.arguments?.text ?? "")}`,
    ...(entry.answer === null ? [] : [`      → ${short(entry.answer.text)}`]),
    ...entry.memory.map(
      ({ op, key, old, new: now }) =>
        `      ${paint("yellow", "memory")} ${plainLine(op)} ${plainLine(key)}: ${short(old ?? "nothing")} → ${short(now ?? "nothing")}`,
    ),
  ];
  return lines.join("\n");
}

function manyText(report: ManyReport, metrics: Metric[]): string {
  const { count, outcomes, means, correlations, clustering, hints, reward_shares, tools } = report;
  const known = Object.entries(outcomes).map(([outcome, n]) => `${n} ${outcome}`);
  const parts = [
    `${count} traces: ${known.join(", ")}${report.refused_count > 0 ? `, ${report.refused_count} could not be read` : ""}`,
    heading("Metrics"),
    table(
      [{ title: "METRIC" }, ...right("MEAN", "TRACES", "SPEARMAN", "N", "ADJUSTED P")],
      metrics.map((metric) => {
        const correlation = correlations.find((one) => one.metric === metric);
        const { mean, n } = means[metric];
        return [
          ...[metric, numberText(mean), String(n), numberText(correlation?.rho ?? null)],
          ...[correlation === undefined ? "" : String(correlation.n), pText(correlation?.adjusted_p ?? null)],
        ];
      }),
    ),
    paint("dim", "Spearman's rank correlation with the reward"),
    ...noteLines(report.accuracy_note, metrics),
    heading("Tools"),
    toolTable(tools.slice(0, 20)),
  ];
  if (reward_shares !== null && Object.keys(reward_shares).length > 1) {
    const shares = Object.entries(reward_shares).map(([name, share]) => `${name} ${numberText(share)}`);
    parts.push(heading("Shares of the reward's variance"), plainLine(shares.join(", ")));
  }
  if (report.reward_faults > 0)
    parts.push(`${report.reward_faults} traces have rewards that their products do not add up to`);
  if (clustering !== null) {
    const { clusters, noise, failed } = clustering;
    parts.push(heading(`Clusters of ${failed} failures`));
    for (const { label, size, features, traces } of clusters) {
      parts.push(`${paint("bold", `${size} traces`)} ${plainLine(label)}`);
      for (const { feature, in_cluster, in_successful, lift } of features.slice(0, 5)) {
        parts.push(
          `  ${plainLine(feature)}: ${in_cluster} of ${size} here, ${in_successful} of ${clustering.successful} that succeeded (lift ${lift.toFixed(1)})`,
        );
      }
      parts.push(paint("dim", `  such as ${traces.slice(0, 3).map(plainLine).join(", ")}`));
    }
    parts.push(`${noise} failures are like too few others`);
  }
  parts.push(heading("Hints"));
  if (hints.length === 0)
    parts.push("nothing is associated with failure beyond chance, or there are too few traces");
  for (const { text } of hints) parts.push(`  ${plainLine(text)}`);
  return parts.join("\n");
}

function toolTable(tools: { tool: string; calls: number; errors: number; duration_us: number }[]): string {
  return table(
    [{ title: "TOOL" }, ...right("CALLS", "ERRORS", "MEAN MS")],
    tools.map(({ tool, calls, errors, duration_us }) => [
      ...[plainLine(tool), String(calls), String(errors), (duration_us / 1000 / calls).toFixed(1)],
    ]),
  );
}

export function right(...titles: string[]): Column[] {
  return titles.map((title) => ({ title, align: "right" as const }));
}

export function numberText(value: number | null): string {
  if (value === null) return "–";
  return Number.isInteger(value) ? String(value) : value.toFixed(3);
}

function pText(p: number | null): string {
  if (p === null) return "–";
  return p < 0.0001 ? "<0.0001" : p.toFixed(4);
}

function outcomeText(outcome: string): string {
  return paint(outcome === "succeeded" ? "green" : outcome === "failed" ? "red" : "yellow", outcome);
}

export function heading(text: string): string {
  return `\n${paint("bold", text)}`;
}

export function short(text: string): string {
  const line = plainLine(text.slice(0, 400));
  return line.length > 160 ? `${line.slice(0, 159)}…` : line;
}
