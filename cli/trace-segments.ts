/** The recordings in trace files, one open at a time, and what commands print of them. */
import { once } from "node:events";
import { DsecError } from "#core/errors.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { openTraceFile } from "#trace/node/files.ts";
import { EXIT, note, onLostOutput, reportFailure, unwritable } from "./program.ts";
import { plainLine } from "./terminal.ts";
import { progress, traceFiles } from "./trace-files.ts";

/** `file` names the segment too where there are several in one file: `joined.trace#2`; `at` is its place in the file, from 0. */
export type NamedSegment = { file: string; path: string; at: number; segment: TraceSegment };

/**
 * Each recording is given to `read` in turn, until that has enough. What cannot be read, be it found when a file is opened or only
 * while `read` is at it, is told and left out, and the command then ends with exit code 1; the others are still read.
 * @param verb for the line on progress
 */
export async function readSegments(
  words: readonly string[],
  verb: string,
  read: (named: NamedSegment) => Promise<"next" | "enough">,
  onRefused: (file: string, error: DsecError) => void = () => {},
): Promise<void> {
  const shown = progress(verb);
  let done = 0;
  for await (const path of traceFiles(words)) {
    shown.at(path, done++);
    try {
      if ((await readFile(path, read)) === "enough") break;
    } catch (error) {
      if (!(error instanceof DsecError)) throw error;
      shown.end();
      refused(path, error);
      onRefused(path, error);
    }
  }
  shown.end();
}

async function readFile(
  path: string,
  read: (named: NamedSegment) => Promise<"next" | "enough">,
): Promise<"next" | "enough"> {
  const trace = await openTraceFile(path);
  try {
    for (const [at, segment] of trace.segments.entries()) {
      const file = trace.segments.length > 1 ? `${path}#${at + 1}` : path;
      if ((await read({ file, path, at, segment })) === "enough") return "enough";
    }
    if (trace.damage === null) return "next";
    throw new DsecError(
      "TRACE_CORRUPT",
      `${path} is damaged from offset ${trace.damage.offset} on: ${trace.damage.reason}; what comes before was read`,
    );
  } finally {
    await trace.close();
  }
}

function refused(path: string, { code, message }: DsecError): void {
  note(`left out ${plainLine(path)}: ${code}: ${plainLine(message)}`);
  process.exitCode = EXIT.failed;
}

/**
 * Writes lines as fast as their reader takes them; false once standard output takes no more, as with `| head`. Whoever
 * prints can then end in order, and the command ends with the exit code for that.
 */
export class LinePrinter {
  #open = true;

  constructor() {
    onLostOutput((error) => {
      if (!this.#open) return;
      this.#open = false;
      process.exitCode = error.code === "EPIPE" ? EXIT.readerGone : EXIT.failed;
      if (error.code !== "EPIPE") reportFailure(unwritable("standard output", error), false);
    });
  }

  async print(line: string): Promise<boolean> {
    if (this.#open && !process.stdout.write(`${line}\n`)) {
      await Promise.race([once(process.stdout, "drain"), once(process.stdout, "close")]).catch(() => {});
    }
    return this.#open;
  }
}

/** Tells of a failure, and how the one JSON value says it that was begun before: as its last part. */
export function failedWithin(error: unknown): string {
  reportFailure(error, false);
  process.exitCode = EXIT.failed;
  const code = error instanceof DsecError ? error.code : "INTERNAL";
  return JSON.stringify({ code, message: error instanceof Error ? error.message : String(error) });
}

/** JSON of anything that was recorded: bytes as base64, integers past 2^53 as strings, maps as objects. */
export function recordedJson(value: unknown, indent?: number): string {
  return JSON.stringify(
    value,
    (_name, part: unknown) => {
      if (typeof part === "bigint") return part.toString();
      if (part instanceof Uint8Array) return Buffer.from(part).toString("base64");
      // what a Buffer's own toJSON made of it
      if (
        typeof part === "object" &&
        part !== null &&
        "type" in part &&
        part.type === "Buffer" &&
        "data" in part
      )
        return Buffer.from(part.data as number[]).toString("base64");
      return part;
    },
    indent,
  );
}

/** Seconds since the recording began, to the microsecond. */
export function seconds(t_us: number): string {
  return `+${(t_us / 1e6).toFixed(6)}`;
}
