import type { ReportData } from "#trace/analysis/report-data.ts";

/** What the page's script is given. */
export type PageData = {
  report: ReportData;
  /** Each trace of the table has a page of its own beside this one. */
  pages: boolean;
  up: string | null;
};
