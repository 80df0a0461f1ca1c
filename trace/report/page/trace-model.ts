/** A trace's report as a tree of rows in the order in which things began: what tree, timeline, search and keys go by. */
import type {
  CallEntry,
  ErrorEntry,
  ObservationEntry,
  OneReport,
  OtherEntry,
  RewardEntry,
  StepEntry,
  TimelineEntry,
} from "#trace/analysis/report-data.ts";

type Entries = {
  step: StepEntry;
  call: CallEntry;
  observation: ObservationEntry;
  error: ErrorEntry;
  reward: RewardEntry;
  other: OtherEntry;
};
export type RowKind = keyof Entries;
export type RowState = "good" | "bad" | "open" | "plain";

type Common = {
  /** As it stands in the address: `call-12`, `step-3`, `event-57`. */
  id: string;
  seq: number;
  t_us: number;
  /** Of steps and calls that ended. */
  duration_us: number | null;
  name: string;
  state: RowState;
  parent: Row | null;
  children: Row[];
  depth: number;
  /** Errors that the call is named by. */
  errors: ErrorEntry[];
  /** What did not hold of memory between this row and the next. */
  faults: string[];
};
export type Row<K extends RowKind = RowKind> = { [T in K]: Common & { kind: T; entry: Entries[T] } }[K];

export type TraceModel = {
  report: OneReport;
  roots: Row[];
  /** All rows, in order. */
  rows: Row[];
  byId: Map<string, Row>;
  /** What went wrong, in order: calls that erred, and errors of no call. */
  failures: Row[];
  endUs: number;
};

export function modelOf(report: OneReport): TraceModel {
  const rows = rowsOf(report);
  const steps = new Map<number, Row>();
  for (const row of rows) if (row.kind === "step") steps.set(row.entry.step, row);
  const roots: Row[] = [];
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

function rowsOf({ timeline, errors, rewards, others }: OneReport): Row[] {
  const ofCalls = new Map<number, ErrorEntry[]>();
  const calls = new Set(timeline.flatMap((entry) => (entry.kind === "call" ? [entry.call] : [])));
  const alone: ErrorEntry[] = [];
  for (const error of errors) {
    if (error.call === null || !calls.has(error.call)) alone.push(error);
    else ofCalls.set(error.call, [...(ofCalls.get(error.call) ?? []), error]);
  }
  const rows = timeline.map((entry) => timelineRow(entry, ofCalls));
  for (const entry of alone) {
    const { seq, t_us, code } = entry;
    rows.push({ ...common(`event-${seq}`, seq, t_us, code, "bad"), errors: [entry], kind: "error", entry });
  }
  for (const entry of rewards)
    rows.push({
      ...common(`event-${entry.seq}`, entry.seq, entry.t_us, "reward", "plain"),
      kind: "reward",
      entry,
    });
  for (const entry of others) {
    const { seq, t_us, title, bad } = entry;
    rows.push({ ...common(`event-${seq}`, seq, t_us, title, bad ? "bad" : "plain"), kind: "other", entry });
  }
  return rows.sort((one, other) => one.seq - other.seq);
}

function timelineRow(entry: TimelineEntry, ofCalls: ReadonlyMap<number, ErrorEntry[]>): Row {
  if (entry.kind === "call") {
    const { call, seq, t_us, duration_us, tool, erred, state } = entry;
    const how = erred ? "bad" : state === null ? "open" : "good";
    const of = {
      ...common(`call-${call}`, seq, t_us, tool, how, duration_us),
      errors: ofCalls.get(call) ?? [],
    };
    return { ...of, kind: "call", entry };
  }
  if (entry.kind === "step") {
    const { step, seq, t_us, duration_us, name, status } = entry;
    return {
      ...common(`step-${step}`, seq, t_us, name, stepState(status), duration_us),
      kind: "step",
      entry,
    };
  }
  const { seq, t_us, source } = entry;
  return {
    ...common(`event-${seq}`, seq, t_us, source ?? "observation", "plain"),
    kind: "observation",
    entry,
  };
}

function common(
  id: string,
  seq: number,
  t_us: number,
  name: string,
  state: RowState,
  duration_us: number | null = null,
): Common {
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

function stepState(status: string | null): RowState {
  if (status === null) return "open";
  return status === "succeeded" ? "good" : "bad";
}

function parentOf(row: Row, steps: ReadonlyMap<number, Row>): Row | null {
  if (row.kind === "reward") return null;
  const number = row.kind === "step" ? row.entry.parent : row.entry.step;
  const parent = number === null ? undefined : steps.get(number);
  // a step that says it is within a later one would be a circle
  return parent === undefined || parent === row || parent.seq > row.seq ? null : parent;
}

/** A fault belongs to the last row that began before it. */
function placeFaults(rows: readonly Row[], faults: readonly { seq: number; what: string }[]): void {
  const shown = rows.filter(({ kind }) => kind !== "other" && kind !== "reward");
  for (const { seq, what } of faults) {
    const after = shown.findIndex((row) => row.seq > seq);
    const row = shown.at(after < 0 ? -1 : Math.max(0, after - 1));
    row?.faults.push(what);
  }
}
