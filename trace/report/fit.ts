/** A browser should open a page at once: where texts are too many, all of them are cut shorter until they fit. */
import type { CallEntry, CutText, OneReport } from "#trace/analysis/report-data.ts";

const LEAST_CHARS = 128;

export function fitted(report: OneReport, mostChars: number): OneReport {
  let each = Number.POSITIVE_INFINITY;
  for (const length of [16_384, 4_096, 1_024, 256, LEAST_CHARS]) {
    if (totalChars(report, each) <= mostChars) break;
    each = length;
  }
  if (each === Number.POSITIVE_INFINITY) return report;
  const cut = (text: CutText | null): CutText | null =>
    text && { text: shorter(text.text, each), chars: text.chars };
  return {
    ...report,
    timeline: report.timeline.map((entry) => {
      if (entry.kind === "observation") return { ...entry, content: cut(entry.content) };
      return entry.kind === "step" ? entry : cutCall(entry, each, cut);
    }),
    errors: report.errors.map((error) => ({
      ...error,
      ...{ text: shorter(error.text, each), stack: cut(error.stack), memory: cut(error.memory) },
      payloads: error.payloads.map((payload) => {
        return { ...payload, sent: cut(payload.sent), received: cut(payload.received) };
      }),
    })),
    others: report.others.map((other) => ({ ...other, text: cut(other.text) })),
  };
}

function cutCall(call: CallEntry, each: number, cut: (text: CutText | null) => CutText | null): CallEntry {
  const memory = call.memory.map((change) => ({
    ...change,
    old: change.old === null ? null : shorter(change.old, each),
    new: change.new === null ? null : shorter(change.new, each),
  }));
  return { ...call, arguments: cut(call.arguments), answer: cut(call.answer), memory };
}

function shorter(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most).toWellFormed()}…`;
}

/** Of texts alone: what else there is of each entry is bounded by their number. */
function totalChars({ timeline, errors, others }: OneReport, most: number): number {
  const size = (text: string | null | undefined) => Math.min(text?.length ?? 0, most);
  let sum = 0;
  for (const entry of timeline) {
    if (entry.kind === "observation") sum += size(entry.content?.text);
    if (entry.kind !== "call") continue;
    sum += size(entry.arguments?.text) + size(entry.answer?.text);
    for (const change of entry.memory) sum += size(change.old) + size(change.new);
  }
  for (const { text, stack, memory, payloads } of errors) {
    sum += size(text) + size(stack?.text) + size(memory?.text);
    for (const { sent, received } of payloads) sum += size(sent?.text) + size(received?.text);
  }
  for (const { text } of others) sum += size(text?.text);
  return sum;
}
