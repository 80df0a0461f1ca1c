/**
 * Prints `N passed, N failed, N skipped` from vitest's JSON report, as the last line of a CI run. A file that
 * could not be loaded counts as a failure; so does a run in which nothing passed.
 */
import { readFileSync } from "node:fs";

type Report = {
  numPassedTests: number;
  numFailedTests: number;
  numPendingTests: number;
  numTodoTests: number;
  testResults: { status: string; assertionResults: unknown[] }[];
};

const path = process.argv[2];
if (path === undefined) throw new Error("usage: count-tests.ts REPORT.json");
const report = JSON.parse(readFileSync(path, "utf8")) as Report;
const unloadable = report.testResults.filter(
  (file) => file.status === "failed" && file.assertionResults.length === 0,
);
const failed = report.numFailedTests + unloadable.length;
const skipped = report.numPendingTests + report.numTodoTests;
console.log(`${report.numPassedTests} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
process.exitCode = failed === 0 && report.numPassedTests > 0 ? 0 : 1;
