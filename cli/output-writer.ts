import type { Task, TaskEvent } from "#core/wire/tasks.ts";
import { decodeData } from "#sdk/task-events.ts";
import { note, onLostOutput, unwritable } from "./program.ts";
import { byteCount, plainTextFilter } from "./terminal.ts";

type StreamName = "stdout" | "stderr";
const NAMES: readonly StreamName[] = ["stdout", "stderr"];

export type OutputWriter = {
  /** Writes an output event to the stream of its name; resolves when that stream takes more. */
  event(event: TaskEvent): Promise<void>;
  /**
   * Writes what was kept of the streams of a task that is over but was not sent live, and ends pending text; says what
   * was not kept. Rejects never for a reader of ours that went away: that is told by `broken`.
   */
  end(task: Task, kept: (name: StreamName) => Promise<Uint8Array>): Promise<void>;
  /** Aborts when a stream of ours takes no more, as with `dsec run … | head -1`. */
  readonly broken: AbortSignal;
  /** Whether our reader went away. @throws OUTPUT_UNWRITABLE where a stream of ours takes no more for another reason */
  isReaderGone(): boolean;
};

/**
 * Passes a task's output on: byte for byte into files and pipes, and onto a terminal as plain text unless `raw` is
 * given, for there control codes would be obeyed.
 */
export function createOutputWriter(options: { raw: boolean }): OutputWriter {
  const broken = new AbortController();
  onLostOutput((error) => broken.abort(error));
  const streams = { stdout: process.stdout, stderr: process.stderr };
  const filters = {
    stdout: process.stdout.isTTY && !options.raw ? plainTextFilter() : undefined,
    stderr: process.stderr.isTTY && !options.raw ? plainTextFilter() : undefined,
  };
  /** How many bytes of its attempt's stream were written. */
  const written = { stdout: 0, stderr: 0 };
  let fence = 0;

  function write(name: StreamName, content: Uint8Array | string): Promise<void> {
    const stream = streams[name];
    if (broken.signal.aborted || stream.write(content)) return Promise.resolve();
    return new Promise((resolve) => {
      stream.once("drain", resolve);
      broken.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  function pass(name: StreamName, bytes: Uint8Array): Promise<void> {
    return write(name, filters[name]?.(bytes) ?? bytes);
  }

  return {
    broken: broken.signal,
    isReaderGone() {
      if (!broken.signal.aborted) return false;
      const error = broken.signal.reason as NodeJS.ErrnoException;
      if (error.code === "EPIPE") return true;
      throw unwritable("standard output", error);
    },
    async event(event) {
      if (event.type !== "stdout" && event.type !== "stderr") return;
      if (event.fence > fence) {
        fence = event.fence;
        written.stdout = written.stderr = 0;
      }
      const bytes = decodeData(event);
      written[event.type] = event.offset + bytes.length;
      await pass(event.type, bytes);
    },
    async end(task, kept) {
      for (const name of NAMES) {
        const stream = task.result?.[name];
        if (stream && stream.kept_bytes > written[name] && !broken.signal.aborted)
          await pass(name, (await kept(name)).subarray(written[name]));
        const pending = filters[name]?.(new Uint8Array(), true);
        if (pending) await write(name, pending);
        if (stream && stream.total_bytes > stream.kept_bytes) {
          const lost = `${stream.total_bytes} bytes, of which the first ${byteCount(stream.kept_bytes)} were kept`;
          note(`dsec: ${name} of ${task.id} had ${lost}; let it write a file and keep that with --output`);
        }
      }
    },
  };
}
