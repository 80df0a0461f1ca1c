/**
 * What people see. Text that a task made is untrusted: on a terminal its control codes could move the cursor,
 * rewrite earlier lines, set the clipboard or answer for the user, so they are taken out there (never in a pipe).
 */

import { relative, resolve } from "node:path";

/** States of the reader of control sequences (ECMA-48): plain text, after ESC, in a CSI, in a string such as OSC. */
type State = "plain" | "escape" | "csi" | "string" | "string-escape";

/** A filter over a byte stream; sequences and characters may be cut anywhere between two calls. */
export function plainTextFilter(): (bytes: Uint8Array, last?: boolean) => string {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let state: State = "plain";
  let afterReturn = false;
  return (bytes, last = false) => {
    let out = "";
    for (const char of decoder.decode(bytes, { stream: !last })) {
      const code = char.codePointAt(0)!;
      const wasReturn = afterReturn;
      afterReturn = false;
      if (state === "plain") {
        if (char === "\r") {
          // a lone return would let what follows overwrite the line
          out += "\n";
          afterReturn = true;
        } else if (char === "\n" && wasReturn) continue;
        else if (code === 0x1b) state = "escape";
        else if (code === 0x9b) state = "csi";
        else if (isStringStart(code)) state = "string";
        else if (isPrintable(code)) out += char;
      } else if (state === "escape") {
        if (char === "[") state = "csi";
        else if ("]PX^_".includes(char)) state = "string";
        // intermediate bytes go on, anything else is the final byte
        else if (code < 0x20 || code > 0x2f) state = "plain";
      } else if (state === "csi") {
        if (code >= 0x40 && code <= 0x7e) state = "plain";
        else if (code === 0x0a) {
          out += "\n";
          state = "plain";
        }
      } else if (state === "string") {
        if (code === 0x07 || code === 0x9c) state = "plain";
        else if (code === 0x1b) state = "string-escape";
        else if (code === 0x0a) {
          // no terminal string holds a line feed: an unended one must not swallow the rest
          out += "\n";
          state = "plain";
        }
      } else state = char === "\\" ? "plain" : "string";
    }
    return out;
  };
}

/** One line's worth of untrusted text: no control codes, no line breaks. */
export function plainLine(text: string): string {
  return plainTextFilter()(new TextEncoder().encode(text), true).replace(/\s+/g, " ").trim();
}

function isStringStart(code: number): boolean {
  return code === 0x90 || code === 0x98 || code === 0x9d || code === 0x9e || code === 0x9f;
}

function isPrintable(code: number): boolean {
  if (code === 0x0a || code === 0x09) return true;
  if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return false;
  // characters that reorder the text around them (Unicode annex 9), by which a line can say what it does not
  return !(code === 0x061c || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069));
}

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";
const SGR: Record<Style, string> = { bold: "1", dim: "2", red: "31", green: "32", yellow: "33", cyan: "36" };

/** Whether a stream takes colours: a terminal, and neither NO_COLOR (no-color.org) nor a dumb one. */
export function hasColour(stream: NodeJS.WriteStream): boolean {
  const { NO_COLOR, TERM } = process.env;
  return stream.isTTY === true && !NO_COLOR && TERM !== "dumb";
}

export type Paint = (style: Style, text: string) => string;

export function paintFor(stream: NodeJS.WriteStream): Paint {
  return hasColour(stream) ? (style, text) => `\x1b[${SGR[style]}m${text}\x1b[0m` : (_, text) => text;
}

export type Column = {
  title: string;
  align?: "right";
  /**
   * How far it gives way where the table is wider than the terminal: down to so many characters, or at 0 by being left
   * out. A column without it stays whole, as one must that names its row.
   */
  leastWidth?: number;
};

/** How a cell is shown, after its width is known; row -1 is that of the titles. */
export type PaintCell = (text: string, row: number, column: number) => string;

/** Prints a table: fitted to a terminal's width, and whole into a pipe or a file. */
export function printTable(columns: Column[], rows: string[][], paint?: PaintCell): void {
  // A terminal that does not say its width says 0.
  process.stdout.write(`${table(columns, rows, paint, process.stdout.columns || undefined)}\n`);
}

/** Columns as wide as their widest cell, two blanks between, and no more in all than `room` where they can give way. */
export function table(
  columns: Column[],
  rows: string[][],
  paint: PaintCell = (text) => text,
  room = Number.POSITIVE_INFINITY,
): string {
  const wanted = columns.map(({ title }, i) =>
    Math.max(title.length, ...rows.map((row) => displayWidth(row[i] ?? ""))),
  );
  const widths = fitted(columns, wanted, room);
  const line = (cells: string[], row: number) =>
    cells
      .flatMap((whole, i) => {
        const width = widths[i]!;
        if (width === 0) return [];
        const cell = cut(whole, width);
        const space = " ".repeat(width - displayWidth(cell));
        return columns[i]!.align === "right" ? space + paint(cell, row, i) : paint(cell, row, i) + space;
      })
      .join("  ")
      .trimEnd();
  return [
    line(
      columns.map(({ title }) => title),
      -1,
    ),
    ...rows.map((row, i) => line(row, i)),
  ].join("\n");
}

/** Widths that fit: the last of what may be left out goes first, once cutting the others would not do. */
function fitted(columns: Column[], wanted: number[], room: number): number[] {
  const widths = [...wanted];
  const least = columns.map(({ leastWidth }, i) => Math.min(wanted[i]!, leastWidth || wanted[i]!));
  for (;;) {
    const shown = columns.map((_, i) => i).filter((i) => widths[i]! > 0);
    const total = (of: number[]) => shown.reduce((sum, i) => sum + of[i]! + 2, -2);
    let over = total(widths) - room;
    if (over <= 0) return widths;
    if (total(least) <= room) {
      for (const i of shown.reverse()) {
        const gives = Math.max(0, Math.min(over, widths[i]! - least[i]!));
        widths[i]! -= gives;
        over -= gives;
      }
      return widths;
    }
    const leaves =
      shown.findLast((i) => columns[i]!.leastWidth === 0) ??
      shown.findLast((i) => columns[i]!.leastWidth !== undefined);
    if (leaves === undefined) return widths;
    widths[leaves] = 0;
  }
}

function cut(text: string, width: number): string {
  return displayWidth(text) <= width ? text : `${[...text].slice(0, width - 1).join("")}…`;
}

function displayWidth(text: string): number {
  return [...text].length;
}

/** A path as somebody here would type it: relative below the current folder, whole elsewhere. */
export function shownPath(path: string): string {
  const given = relative(".", path);
  return given === "" ? "." : given.startsWith("..") ? resolve(path) : given;
}

/** `1.24 s`, `310 ms`, `2 m 05 s`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} m ${twoDigits((ms % 60_000) / 1000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${twoDigits((ms % 3_600_000) / 60_000)} m`;
}

function twoDigits(value: number): string {
  return String(Math.floor(value)).padStart(2, "0");
}

/** `12 B`, `3.4 KiB`, `1.2 GiB`. */
export function byteCount(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}
