/** What is typed above the table: words that file, trace or task must contain, and bounds such as `reward<1` or `errors>=3`. */
import type { TraceRow } from "#trace/analysis/report-data.ts";

export type Column =
  | "file"
  | "outcome"
  | "reward"
  | "accuracy"
  | "success"
  | "memory"
  | "errors"
  | "steps"
  | "calls"
  | "duration"
  | "events";

export function cellOf(row: TraceRow, column: Column): string | number | null {
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
  /^(reward|accuracy|success|memory|errors|steps|calls|duration|events)(<=|>=|!=|<|>|=)(-?\d+(?:\.\d+)?)$/;

export function filterOf(text: string): (row: TraceRow) => boolean {
  const tests = text
    .trim()
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "")
    .map(testOf);
  return (row) => tests.every((test) => test(row));
}

function testOf(word: string): (row: TraceRow) => boolean {
  const [, column, operator, number] = BOUND.exec(word) ?? [];
  if (column === undefined) {
    return ({ file, trace_id, task_id, outcome }) =>
      [file, trace_id, task_id, outcome].some((text) => text?.toLowerCase().includes(word) ?? false);
  }
  const bound = Number(number);
  return (row) => {
    const value = cellOf(row, column as Column);
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
export function sorted(rows: readonly TraceRow[], column: Column, descending: boolean): TraceRow[] {
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
