import type { TaskEvent } from "#core/wire/tasks.ts";
import { decodeData } from "#sdk/task-events.ts";
import { note } from "./program.ts";
import { plainTextFilter } from "./terminal.ts";

export type OutputWriter = {
  /** Writes an output event to the stream of its name; resolves when that stream takes more. */
  event(event: TaskEvent): Promise<void>;
  /** Ends pending text. Rejects never: a reader that went away is told by `broken`. */
  end(): Promise<void>;
  /** Aborts when a reader of ours went away (EPIPE), as with `dsec run … | head -1`. */
  readonly broken: AbortSignal;
};

/**
 * Passes a task's output on: byte for byte into files and pipes, and onto a terminal as plain text unless `raw` is
 * given, for there control codes would be obeyed.
 */
export function createOutputWriter(options: { raw: boolean }): OutputWriter {
  const broken = new AbortController();
  const streams = { stdout: process.stdout, stderr: process.stderr };
  const filters = {
    stdout: process.stdout.isTTY && !options.raw ? plainTextFilter() : undefined,
    stderr: process.stderr.isTTY && !options.raw ? plainTextFilter() : undefined,
  };
  for (const stream of Object.values(streams)) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error;
      broken.abort(error);
    });
  }

  function write(name: "stdout" | "stderr", content: Uint8Array | string): Promise<void> {
    const stream = streams[name];
    if (broken.signal.aborted || stream.write(content)) return Promise.resolve();
    return new Promise((resolve) => {
      stream.once("drain", resolve);
      broken.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  return {
    broken: broken.signal,
    async event(event) {
      if (event.type === "truncated") {
        note(`(${event.stream} goes on past what is sent live; what was kept of it is with the result)`);
      } else if (event.type !== "state") {
        const bytes = decodeData(event);
        await write(event.type, filters[event.type]?.(bytes) ?? bytes);
      }
    },
    async end() {
      for (const name of ["stdout", "stderr"] as const) {
        const rest = filters[name]?.(new Uint8Array(), true);
        if (rest) await write(name, rest);
      }
    },
  };
}
