/**
 * A report as one HTML file that needs nothing else: script and style are in it and allowed by their digests alone (CSP level 3),
 * and what was recorded is JSON that the script makes text nodes of. No recorded text is ever part of the markup.
 */
import { LIMITS } from "#core/limits.ts";
import type { OneReport, ReportData } from "#trace/analysis/report-data.ts";
import { fitted } from "./fit.ts";
import type { PageData } from "./page-data.ts";
import { SCRIPT, STYLE } from "./page-parts.gen.ts";

export type PageOptions = {
  /** Full reports of traces among many, with their place in the table of traces. */
  traces?: AsyncIterable<{ place: number; report: OneReport }>;
  /** Whether each trace of the table has a page of its own, named by `pageName`. */
  hasPages?: boolean;
  /** Address of the page on many traces that this one was come to from. */
  up?: string;
};

/** In pieces, for the traces in it may be many. */
export async function* reportPage(report: ReportData, options: PageOptions = {}): AsyncGenerator<string> {
  const data: PageData = {
    report: report.kind === "one" ? fitted(report, LIMITS.reportPageChars) : report,
    pages: options.hasPages === true,
    up: options.up ?? null,
  };
  yield `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${await policy()}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="DSec">
<title>DSec trace report</title>
<style>${STYLE}</style>
</head>
<body>
<noscript>This report is drawn by the script inside this file; allow it to see the report. It loads nothing from anywhere.</noscript>
<div id="app"></div>
${dataBlock("report", data)}`;
  for await (const { place, report: trace } of options.traces ?? []) yield dataBlock(`trace-${place}`, trace);
  yield `<script type="module">${SCRIPT}</script>
</body>
</html>
`;
}

/** File name of the page of a trace among many: its place, for traces' own names may be anything. */
export function pageName(place: number): string {
  return `trace-${String(place + 1).padStart(5, "0")}.html`;
}

/** An element that browsers do not run; without `<` nothing in it can end it (HTML, 4.12.1.3). */
function dataBlock(id: string, value: unknown): string {
  const json = JSON.stringify(value).replaceAll("<", "\\u003c");
  return `<script type="application/json" id="${id}">${json}</script>\n`;
}

/** Trusted Types make even a slip of the script itself, text set as markup, an exception. */
async function policy(): Promise<string> {
  const [script, style] = await Promise.all([SCRIPT, STYLE].map(sourceOf));
  return (
    `default-src 'none'; script-src ${script}; style-src ${style}; ` +
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
  );
}

async function sourceOf(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return `'sha256-${btoa(String.fromCharCode(...digest))}'`;
}
