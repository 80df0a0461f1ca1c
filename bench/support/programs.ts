/** Programs that a benchmark starts beside its own process. None outlives it, however it ends. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export type Program = {
  pid: number;
  /** What it printed before it was ready, by lines. */
  said: string[];
  [Symbol.asyncDispose](): Promise<void>;
};

/**
 * Starts a program and waits until it prints the line `ready`. It has to end when its standard input does, which happens
 * however this process ends.
 */
export async function startProgram(command: string, ...words: string[]): Promise<Program> {
  const child = spawn(command, words, {
    // A process group of its own: Ctrl-C reaches us, and the program hears of it when its input ends.
    detached: true,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exit = once(child, "exit");
  const said: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === "ready") {
      return {
        pid: child.pid!,
        said,
        async [Symbol.asyncDispose]() {
          child.stdin.end();
          await exit;
        },
      };
    }
    said.push(line);
  }
  const [code, signal] = await exit;
  throw new Error(`${[command, ...words].join(" ")} ended with ${code ?? signal} before it was ready`);
}

/** The same for a module of ours, named as it is imported. */
export function startModule(specifier: string, ...words: string[]): Promise<Program> {
  return startProgram(process.execPath, pathOf(specifier), ...words);
}

export function pathOf(specifier: string): string {
  return fileURLToPath(import.meta.resolve(specifier));
}

/** Compiles bench/support/NAME.cc to FOLDER/NAME, which runs in any root; that file's path. */
export async function compile(name: "load" | "relay", folder: string): Promise<string> {
  const source = pathOf(`#bench/support/${name}.cc`);
  const program = `${folder}/${name}`;
  await promisify(execFile)("g++", ["-std=c++20", "-O2", "-static", "-pthread", source, "-o", program]);
  return program;
}
