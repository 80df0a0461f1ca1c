/** `exec` tools in a sandbox of their own: they see the input, nothing of the agent's files, and the world by its policy. */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { NOT_STARTED_EXIT_CODES } from "#core/task.ts";
import { type ExecTool, siblingResources } from "#core/wire/tools.ts";
import type { Launcher, LaunchPlan, SandboxEnd } from "#native/index.ts";
import { exactJson, memberText } from "../channel/exact-numbers.ts";
import type { WayOut } from "../egress/way-out.ts";
import { DEFAULT_ENVIRONMENT } from "../plan.ts";
import { type CpuReading, SandboxCpu } from "../trace/sandbox-cpu.ts";

export type ExecToolParts = {
  launcher: Pick<Launcher, "launch">;
  /** The lower layer of an image; IMAGE_NOT_FOUND. */
  findImage(name: string): Promise<LaunchPlan["image"]>;
};

/** The attempt for which tools run. */
export type ExecToolHome = {
  /** Of the agent's own sandbox; siblings are named after it. */
  sandboxId: string;
  taskId: string;
  image: string;
  directory: string;
};

export type Executed = {
  exitCode: number | null;
  signal: number | null;
  reason: SandboxEnd["reason"];
  stdout: Buffer;
  /** Its end, where it is long. */
  stderr: Buffer;
  /** How long it was kept from running; null where that is not known. */
  waited: CpuReading | null;
};

const MEBIBYTE = 1024 * 1024;

/**
 * Runs the tool once, with the input as JSON on its standard input, and leaves nothing behind.
 * @param signal kills it
 * The attempt's lease has room for one such sandbox at a time: see `ExecQueue`.
 * @throws TOOL_FAILED where its output is too large; LAUNCH_FAILED; the signal's reason
 */
export async function runExecTool(
  tool: ExecTool,
  input: { [member: string]: unknown },
  options: {
    home: ExecToolHome;
    number: number;
    /** Null: it reaches nothing. */
    wayOut: WayOut | null;
    timeoutMs: number;
    signal: AbortSignal;
  },
  parts: ExecToolParts,
): Promise<Executed> {
  const { home, number, wayOut, signal } = options;
  const asked = siblingResources(tool);
  const id = `${home.sandboxId}_t${number}`;
  const stdinPath = join(home.directory, `tool-${number}.json`);
  try {
    await writeFile(stdinPath, exactJson(input), { mode: 0o444 });
    const image = await parts.findImage(tool.image ?? home.image);
    signal.throwIfAborted();
    const plan: LaunchPlan = {
      id,
      image,
      argv: toolArguments(tool, input),
      env: { ...DEFAULT_ENVIRONMENT, DSEC_TASK_ID: home.taskId, DSEC_TOOL: tool.name },
      workingDirectory: "/work",
      stdinPath,
      hostname: "tool",
      mounts: [],
      limits: {
        cpuMillis: asked.cpu_millis,
        memoryBytes: asked.memory_mb * MEBIBYTE,
        pids: asked.pids,
        diskIops: asked.disk_iops,
        diskBytes: Math.max(1, asked.disk_mb) * MEBIBYTE,
      },
      timeoutMs: options.timeoutMs,
    };
    const sandbox = await parts.launcher.launch(wayOut === null ? plan : wayOut.plan(plan));
    const cpu = SandboxCpu.open(sandbox.pid);
    const kill = () => sandbox.kill();
    signal.addEventListener("abort", kill);
    if (signal.aborted) kill();
    try {
      // Beside all else: until the proxy serves, connections wait at its listener.
      const serving = wayOut?.serve(sandbox.listeners);
      const [stdout, stderr, end] = await Promise.all([
        readAll(sandbox.stdout, LIMITS.toolOutputBytes, kill),
        readEnd(sandbox.stderr, LIMITS.toolErrorBytes),
        sandbox.ended,
        serving,
      ]);
      signal.throwIfAborted();
      if (stdout === null) {
        throw new DsecError(
          "TOOL_FAILED",
          `tool ${tool.name} wrote more than ${LIMITS.toolOutputBytes} bytes`,
        );
      }
      const { signal: killedBy, reason } = end;
      const waited = cpu?.ended() ?? null;
      if (reason === "command_not_found" || reason === "command_not_executable") {
        // As a shell would tell of it, and dsec-tool of a tool within the sandbox.
        const exitCode = NOT_STARTED_EXIT_CODES[reason];
        return { exitCode, signal: null, reason, stdout, stderr: Buffer.from(`${end.message}\n`), waited };
      }
      return { exitCode: end.exitCode, signal: killedBy, reason, stdout, stderr, waited };
    } finally {
      cpu?.close();
      signal.removeEventListener("abort", kill);
      // Calls that it made end before its own does.
      await wayOut?.close();
      await sandbox.destroy();
    }
  } finally {
    await rm(stdinPath, { force: true });
  }
}

/** One after the other, in the order in which they came. */
export class ExecQueue {
  #last: Promise<unknown> = Promise.resolve();

  /** Runs the work once what came before it has ended; rejects with the signal's reason where that comes first. */
  async run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const before = this.#last;
    const turn = Promise.withResolvers<void>();
    this.#last = before.then(() => turn.promise);
    try {
      await untilAborted(before, signal);
      return await work();
    } finally {
      turn.resolve();
    }
  }
}

async function untilAborted(waited: Promise<unknown>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    await Promise.race([waited, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** The command with each argument that is a member's place filled. TOOL_INPUT_INVALID where the member is missing. */
export function toolArguments(tool: ExecTool, input: { [member: string]: unknown }): string[] {
  return tool.command.map((argument) => {
    const name = /^\{(\w+)\}$/.exec(argument)?.[1];
    if (name === undefined) return argument;
    const text = Object.hasOwn(input, name) ? memberText(input, name) : null;
    if (text === null || text.includes("\0")) {
      const why =
        text === null ? "is missing, which its command needs" : "holds U+0000, which no argument can";
      throw new DsecError("TOOL_INPUT_INVALID", `input of tool ${tool.name}: ${name} ${why}`);
    }
    return text;
  });
}

/** Everything, or null past the bound, after `onFull`; the rest is read and dropped so that the end can come. */
async function readAll(stream: Readable, maxBytes: number, onFull: () => void): Promise<Buffer | null> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of stream as AsyncIterable<Buffer>) {
    size += part.length;
    if (size <= maxBytes) parts.push(part);
    else if (size - part.length <= maxBytes) onFull();
  }
  return size <= maxBytes ? Buffer.concat(parts) : null;
}

async function readEnd(stream: Readable, keptBytes: number): Promise<Buffer> {
  let kept: Buffer = Buffer.alloc(0);
  for await (const part of stream as AsyncIterable<Buffer>) {
    kept = Buffer.concat([kept, part]);
    if (kept.length > keptBytes) kept = kept.subarray(kept.length - keptBytes);
  }
  return kept;
}
