/** Runs the real `dsec` as a process of its own. */
import { spawn } from "node:child_process";
import { resolve } from "node:path";

export const DSEC = resolve(import.meta.dirname, "../../dsec");

export type Ended = { code: number | null; signal: NodeJS.Signals | null; stdout: Buffer; stderr: string };

export function dsec(
  words: string[],
  options: {
    cwd?: string;
    env?: Record<string, string>;
    stdin?: "ignore" | "open" | string;
    /** A descriptor, or a pipe whose reader has gone before the first byte. */
    stdout?: number | "gone";
    onStderr?: (text: string) => void;
  } = {},
): Promise<Ended> & { kill(signal: NodeJS.Signals): void } {
  const { DSEC_GATEWAY: _g, DSEC_API_KEY: _k, DSEC_DATA: _d, NO_COLOR: _n, ...inherited } = process.env;
  const child = spawn(DSEC, words, {
    cwd: options.cwd,
    env: { ...inherited, ...options.env },
    stdio: [
      options.stdin === undefined || options.stdin === "ignore" ? "ignore" : "pipe",
      typeof options.stdout === "number" ? options.stdout : "pipe",
      "pipe",
    ],
  });
  if (options.stdout === "gone") child.stdout!.destroy();
  if (options.stdin !== undefined && options.stdin !== "ignore" && options.stdin !== "open")
    child.stdin!.end(options.stdin);
  const ended = new Promise<Ended>((resolve, reject) => {
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    child.stdout?.on("data", (chunk: Buffer) => stdout.push(chunk));
    child.stderr!.on("data", (chunk: Buffer) => stderr.push(chunk));
    child.stderr!.on("data", (chunk: Buffer) => options.onStderr?.(chunk.toString()));
    child.once("error", reject);
    child.once("close", (code, signal) => {
      child.stdin?.destroy();
      resolve({ code, signal, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr).toString() });
    });
  });
  return Object.assign(ended, { kill: (signal: NodeJS.Signals) => void child.kill(signal) });
}
