/** Ctrl-C while a large file is written: what was written under a temporary name goes with it. */
import { randomBytes } from "node:crypto";
import { appendFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { EventBody } from "#trace/events/event.ts";
import { made } from "../trace/format/made.ts";
import { dsec } from "./dsec.ts";

const root = mkdtempSync(join(tmpdir(), "dsec-interrupt-"));
const large = join(root, "large.bin");
const archive = join(root, "large.tar.zst");
const recording = join(root, "run.traj");
const chat = join(root, "chat.jsonl");

beforeAll(async () => {
  for (let mebibytes = 0; mebibytes < 192; mebibytes++) appendFileSync(large, randomBytes(1024 * 1024));
  expect((await dsec(["trace", "archive", large, "-o", archive])).code).toBe(0);
  const bodies = Array.from({ length: 200_000 }, (_, at): EventBody => {
    return { type: "output", stream: "stdout", offset: at * 40, data: Buffer.from(`line ${at}`.padEnd(40)) };
  });
  writeFileSync(recording, made(bodies, { flushEvery: 1_000, sealed: false }));
  const messages = Array.from({ length: 100_000 }, (_, at) => ({ role: "user", content: `message ${at}` }));
  writeFileSync(chat, `${JSON.stringify({ messages })}\n`);
}, 120_000);
afterAll(() => rmSync(root, { recursive: true }));

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(root, "case-"));
});

const COMMANDS: [name: string, words: () => string[]][] = [
  ["archive", () => [large, "-o", join(folder, "a.tar.zst")]],
  ["extract", () => [archive, "-o", folder]],
  ["seal", () => [recording, "-o", join(folder, "a.trace")]],
  ["redact", () => [recording, "--patterns", "email", "-o", join(folder, "a.trace")]],
  ["export", () => [recording, "--format", "jsonl", "-o", join(folder, "a.jsonl")]],
  ["import", () => [chat, "--format", "openai-messages", "-o", join(folder, "a.trace")]],
];

/** How a command ended that was sent the signal once it had begun to write. */
async function interrupted(words: string[], signal: NodeJS.Signals) {
  const running = dsec(words);
  const ended = running.then(() => "ended");
  while (readdirSync(folder).length === 0) {
    if ((await Promise.race([ended, sleep(2)])) === "ended") break;
  }
  running.kill(signal);
  return running;
}

for (const [name, words] of COMMANDS) {
  for (const [signal, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const) {
    test(`${signal} ends trace ${name} with ${code}, and nothing is left`, async () => {
      let ended = await interrupted(["trace", name, ...words()], signal);
      // Where this process itself stood still, the other was done before it was told.
      for (let tries = 1; tries < 5 && ended.code === 0; tries++) {
        for (const file of readdirSync(folder)) rmSync(join(folder, file));
        ended = await interrupted(["trace", name, ...words()], signal);
      }
      expect(ended).toMatchObject({ code, signal: null });
      expect(readdirSync(folder)).toEqual([]);
    });
  }
}
