import type { TaskState } from "#core/task.ts";
import {
  type Column,
  duration,
  hasColour,
  type PaintCell,
  paintFor,
  type Style,
  table,
} from "../terminal.ts";

/** Progress of several tasks: redrawn in place on a terminal, one line for each change elsewhere. */
export type Board = {
  state(name: string, state: TaskState): void;
  /** The last line of output, already plain. */
  line(name: string, text: string): void;
  close(): void;
};

type Row = {
  state: TaskState | "submitting";
  startedMs: number | null;
  endedMs: number | null;
  line: string;
};

const REDRAW_EVERY_MS = 80;
const SPINNER = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

export function createBoard(names: string[], out: NodeJS.WriteStream): Board {
  const rows = new Map<string, Row>(
    names.map((name) => [name, { state: "submitting", startedMs: null, endedMs: null, line: "" }]),
  );
  const live = hasColour(out) && (out.rows ?? 0) > names.length + 2;
  const paint = paintFor(out);
  const width = Math.max(...names.map((name) => name.length));
  let drawn = false;
  let timer: NodeJS.Timeout | undefined;

  function draw(): void {
    const frame = SPINNER[Math.floor(performance.now() / REDRAW_EVERY_MS) % SPINNER.length]!;
    const room = Math.max(10, (out.columns ?? 80) - width - 30);
    // Without wrapping (DECAWM): a row is one line however narrow the terminal is, or the way back up is wrong.
    let text = `\x1b[?7l${drawn ? `\x1b[${names.length}A` : ""}`;
    for (const [name, row] of rows) {
      const time = row.startedMs === null ? "" : duration((row.endedMs ?? performance.now()) - row.startedMs);
      const style = styleOf(row.state);
      const mark = MARK[row.state] ?? frame;
      const output = row.line.length > room ? `${row.line.slice(0, room - 1)}…` : row.line;
      text += `\r\x1b[2K ${paint(style, mark)} ${name.padEnd(width)}  ${paint(style, row.state.padEnd(10))} ${time.padStart(9)}  ${paint("dim", output)}\n`;
    }
    out.write(`${text}\x1b[?7h`);
    drawn = true;
  }

  if (live) {
    draw();
    timer = setInterval(draw, REDRAW_EVERY_MS);
  }
  return {
    state(name, state) {
      const row = rows.get(name)!;
      row.state = state;
      if (state === "running") row.startedMs ??= performance.now();
      if (MARK[state] !== undefined) row.endedMs ??= performance.now();
      if (!live) out.write(`${name.padEnd(width)}  ${state}\n`);
    },
    line(name, text) {
      rows.get(name)!.line = text;
    },
    close() {
      clearInterval(timer);
      if (live) draw();
    },
  };
}

/** How a task that is over is marked. */
const MARK: Partial<Record<Row["state"], string>> = {
  succeeded: "✓",
  failed: "✗",
  cancelled: "–",
  dead: "✗",
};

function styleOf(state: Row["state"]): Style {
  if (state === "succeeded") return "green";
  if (state === "failed" || state === "dead") return "yellow";
  return state === "running" ? "cyan" : "dim";
}

export type ResultRow = {
  name: string;
  state: TaskState;
  time: string;
  end: string;
  attestation: string;
  asExpected: boolean;
};

export function resultTable(results: ResultRow[], out: NodeJS.WriteStream): string {
  const paint = paintFor(out);
  const columns: Column[] = [
    { title: "TASK" },
    { title: "STATE", leastWidth: 0 },
    { title: "TIME", align: "right", leastWidth: 0 },
    { title: "EXIT", leastWidth: 0 },
    { title: "ATTESTATION", leastWidth: 8 },
    { title: "AS EXPECTED", leastWidth: 5 },
  ];
  const rows = results.map((row) => [
    row.name,
    row.state,
    row.time,
    row.end,
    row.attestation,
    row.asExpected ? "yes" : "NO",
  ]);
  const paintCell: PaintCell = (text, row, column) => {
    if (row < 0) return paint("dim", text);
    if (column === 1) return paint(results[row]!.state === "succeeded" ? "green" : "yellow", text);
    if (column === 4) return paint(results[row]!.attestation === "verified" ? "green" : "red", text);
    if (column === 5 && !results[row]!.asExpected) return paint("red", text);
    return text;
  };
  // A terminal that does not say its width says 0.
  return table(columns, rows, paintCell, out.columns || undefined);
}
