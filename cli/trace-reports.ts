/** Reports on the traces that the command line names, and the pages that are made of them. */
import { once } from "node:events";
import { statSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { ManyReportBuilder } from "#trace/analysis/many-report.ts";
import { type MeasureOptions, measure } from "#trace/analysis/metrics.ts";
import { oneReport } from "#trace/analysis/one-report.ts";
import type { ManyReport, OneReport, ReportData } from "#trace/analysis/report-data.ts";
import { openTraceFile, publish } from "#trace/node/files.ts";
import { pageName, reportPage } from "#trace/report/page.ts";
import { Option, onStopSignal, usageError } from "./program.ts";
import { byteCount, plainLine } from "./terminal.ts";
import { progress, traceFiles } from "./trace-files.ts";
import { type NamedSegment, readSegments } from "./trace-segments.ts";

/** Where the recording of each row of a report on many is. */
type Source = { path: string; at: number };

export type Reported = { report: ReportData; sources: Source[]; measured: MeasureOptions };

export type ReportOptions = MeasureOptions & {
  clusterBy: "memory_state" | null;
  /** Whether each two metrics are correlated. */
  pairs: boolean;
};

/** Of a single recording all of it, of more what they have in common. */
export async function reportOn(words: string[], options: ReportOptions): Promise<Reported> {
  const sources: Source[] = [];
  if (await isOne(words)) {
    let report: OneReport | null = null;
    await readSegments(words, "reading", async ({ file, segment }) => {
      report = await oneReport(segment, file, options);
      return "next";
    });
    if (report !== null) return { report, sources, measured: options };
    throw new DsecError("TRACE_CORRUPT", `${words.join(" ")}: nothing in it can be read`);
  }
  const builder = new ManyReportBuilder(options);
  const refuse = (file: string, error: DsecError) => builder.refuse(file, error);
  const add = async ({ file, path, at, segment }: NamedSegment) => {
    builder.add(await measure(segment, file, options));
    sources.push({ path, at });
    return "next" as const;
  };
  await readSegments(words, "measuring", add, refuse);
  return { report: await builder.result(), sources, measured: options };
}

export const FORMATS = ["text", "json", "html"] as const;
export type Format = (typeof FORMATS)[number];

export function formatOption(): Option {
  return new Option("--output <format>", "text, json or an HTML page").choices(FORMATS);
}

export function outOption(): Option {
  return new Option("-o, --out <file|dir>", "where the page goes, with --output html");
}

/** What was asked for; `--json` is short for `--output json`. */
export function formatOf(options: { output?: Format; json?: boolean; out?: string }): Format {
  const { output, json, out } = options;
  if (json && output !== undefined && output !== "json") {
    throw usageError(`--json and --output ${output} are two formats; leave one out`);
  }
  const format = output ?? (json ? "json" : "text");
  if (out !== undefined && format !== "html")
    throw usageError("-o is for --output html; text and JSON go to standard output");
  return format;
}

/**
 * A page in one file, which for many traces holds the first of them whole; or in a folder an index and a page for each trace.
 * @param out the file or folder; standard output where it is undefined
 */
export async function writePages(
  { report, sources, measured }: Reported,
  out: string | undefined,
): Promise<void> {
  if (out === undefined) return print(page(report, sources, measured));
  onStopSignal();
  const intoFolder = report.kind === "many" && (out.endsWith("/") || isFolder(out));
  if (!intoFolder) {
    const size = await write(out, page(report, sources, measured));
    process.stdout.write(`${plainLine(out)}  ${byteCount(size)}\n`);
    return;
  }
  await mkdir(out, { recursive: true });
  let size = 0;
  for await (const { place, report: trace } of whole(report, sources, measured, report.traces.length)) {
    size += await write(join(out, pageName(place)), reportPage(trace, { up: "index.html" }));
  }
  const index = join(out, "index.html");
  size += await write(index, reportPage(report, { hasPages: true }));
  process.stdout.write(`${plainLine(index)}  ${report.traces.length + 1} pages, ${byteCount(size)}\n`);
}

function page(report: ReportData, sources: Source[], measured: MeasureOptions): AsyncGenerator<string> {
  if (report.kind === "one") return reportPage(report);
  return reportPage(report, { traces: fitting(whole(report, sources, measured, LIMITS.reportPageTraces)) });
}

/** Full reports of the first traces, one file open at a time. */
async function* whole(
  { traces }: ManyReport,
  sources: Source[],
  measured: MeasureOptions,
  most: number,
): AsyncGenerator<{ place: number; report: OneReport }> {
  const shown = progress("writing");
  for (const [place, row] of traces.slice(0, most).entries()) {
    const { path, at } = sources[place]!;
    shown.at(path, place);
    const file = await openTraceFile(path);
    try {
      const report = await oneReport(file.segments[at]!, row.file, measured);
      // what all of them say together is known of tools by now
      report.trace.metrics = row.metrics;
      yield { place, report };
    } finally {
      await file.close();
    }
  }
  shown.end();
}

/** As many as a page can hold. */
async function* fitting(
  traces: AsyncGenerator<{ place: number; report: OneReport }>,
): AsyncGenerator<{ place: number; report: OneReport }> {
  let left: number = LIMITS.reportPageChars;
  for await (const trace of traces) {
    left -= JSON.stringify(trace.report).length;
    if (left < 0) return;
    yield trace;
  }
}

async function write(path: string, pieces: AsyncIterable<string>): Promise<number> {
  const { size } = await publish(path, async (sink) => {
    for await (const piece of pieces) sink.write(new TextEncoder().encode(piece));
    return {};
  });
  return size;
}

async function print(pieces: AsyncIterable<string>): Promise<void> {
  if (process.stdout.isTTY)
    throw usageError("a page is not for a terminal; give -o FILE, or send it into a file");
  for await (const piece of pieces) if (!process.stdout.write(piece)) await once(process.stdout, "drain");
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

async function isOne(words: string[]): Promise<boolean> {
  const paths: string[] = [];
  for await (const path of traceFiles(words)) if (paths.push(path) > 1) return false;
  const trace = await openTraceFile(paths[0]!).catch(() => null);
  if (trace === null) return true;
  await trace.close();
  return trace.segments.length <= 1;
}
