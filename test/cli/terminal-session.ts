/** Runs the real `dsec` in a terminal of its own, made by script(1), and talks to it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { stripVTControlCharacters } from "node:util";
import { DSEC } from "./dsec.ts";

export type TerminalSession = {
  /** Resolves with what was shown since the last call, once that ends with these words. */
  until(words: string): Promise<string>;
  /** Types a line. */
  type(line: string): void;
  /** Its exit code. */
  ended: Promise<number | null>;
};

export function dsecInTerminal(words: string[], cwd: string): TerminalSession {
  const { DSEC_GATEWAY: _g, DSEC_API_KEY: _k, DSEC_DATA: _d, ...inherited } = process.env;
  const command = [DSEC, ...words].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
  const child = spawn("script", ["--quiet", "--return", "--command", command, "/dev/null"], {
    cwd,
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...inherited, TERM: "xterm", NO_COLOR: "1" },
  });
  let shown = "";
  child.stdout.on("data", (part: Buffer) => {
    shown += part.toString();
  });
  const ended = once(child, "close").then(([code]) => code as number | null);
  return {
    async until(words) {
      // A prompt is followed by where the cursor goes.
      while (!stripVTControlCharacters(shown).endsWith(words)) {
        const over = await Promise.race([
          once(child.stdout, "data").then(() => false),
          ended.then(() => true),
        ]);
        if (over) throw new Error(`the command ended before it said ${JSON.stringify(words)}: ${shown}`);
      }
      const said = stripVTControlCharacters(shown);
      shown = "";
      return said;
    },
    type: (line) => void child.stdin.write(`${line}\n`),
    ended,
  };
}
