/** Ctrl-C in a benchmark: what it made on the host goes away with it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "dsec-bench-interrupt-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a benchmark that is interrupted ends as the signal has it, and leaves no folder and no process behind", async () => {
  const bench = spawn(process.execPath, [resolve(import.meta.dirname, "../../bench/main.ts"), "memory"], {
    env: { ...process.env, TMPDIR: folder },
    // A process group of its own, which Ctrl-C is sent to as a terminal does.
    detached: true,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(bench, "exit");
  // Its Redis runs and its folders are there once it has measured something.
  await once(bench.stdout, "data");
  expect(readdirSync(folder).length).toBeGreaterThan(0);
  expect(processesIn(folder)).not.toEqual([]);
  process.kill(-bench.pid!, "SIGINT");
  bench.stdout.resume();
  expect(await ended).toEqual([130, null]);
  expect(readdirSync(folder)).toEqual([]);
  expect(processesIn(folder)).toEqual([]);
});

/** Those that work in the folder or below. */
function processesIn(folder: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readlinkSync(`/proc/${pid}/cwd`).startsWith(folder);
    } catch {
      return false;
    }
  });
}
