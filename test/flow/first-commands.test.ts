/** What a new user types first: `npm start`'s examples, then the README's first commands, with no wait that has no reason. */
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Executor } from "#core/wire/executors.ts";
import { createClient } from "#sdk/client.ts";
import { dsec, type Ended } from "../cli/dsec.ts";
import { leftovers } from "./system.ts";

const ROUNDS = 20;
const MOST_MS = 3_000;

let folder: string;
let data: string;
let up: ReturnType<typeof dsec>;
let capacity: Executor["capacity"];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "dsec-first-commands-"));
  data = join(folder, "executor");
  const isServing = Promise.withResolvers<void>();
  let said = "";
  // As `npm start` does.
  up = dsec(["up", "--demo", "--port", "0"], {
    env: { DSEC_DATA: data },
    onStderr: (text) => {
      said += text;
      if (/In another terminal:/.test(said)) isServing.resolve();
    },
  });
  await Promise.race([isServing.promise, up.then((ended) => isServing.reject(new Error(ended.stderr)))]);
  await isServing.promise;
  const { url } = JSON.parse(readFileSync(join(data, "serving.json"), "utf8"));
  const apiKey = readFileSync(join(data, "admin.key"), "utf8").trim();
  ({ capacity } = (await createClient({ gateway: url, apiKey }).executors.list()).items[0]!);
});

afterAll(async () => {
  up.kill("SIGINT");
  expect((await up).code).toBe(0);
  expect(await leftovers(folder)).toEqual([]);
});

type Timed = Ended & { tookMs: number };
async function timed(...words: string[]): Promise<Timed> {
  const startMs = performance.now();
  const ended = await dsec(words, { cwd: folder, env: { DSEC_DATA: data } });
  return { ...ended, tookMs: performance.now() - startMs };
}

test(`the README's first commands end within ${MOST_MS} ms each, ${ROUNDS} times after one another`, async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const answer = await timed("run", "--", "python3", "-c", "print(6 * 7)");
    expect([answer.code, answer.stdout.toString(), answer.stderr], `round ${round}`).toEqual([0, "42\n", ""]);
    const killed = await timed("run", "--memory", "64m", "--timeout", "5s", "--", "tail", "/dev/zero");
    expect([killed.code, killed.stderr], `round ${round}`).toEqual([
      137,
      expect.stringMatching(/oom killed/),
    ]);
    for (const { tookMs } of [answer, killed]) expect(tookMs, `round ${round}`).toBeLessThan(MOST_MS);
  }
});

test("a task that needs all processors runs as soon as the small ones before it have ended", async () => {
  const quarter = String(Math.floor(capacity.cpu_cores * 250) / 1000);
  for (let round = 0; round < 5; round++) {
    // They overlap, and end in other turns than they began.
    const small = ["0.2", "0.05", "0.1", "0"].map((seconds) =>
      timed("run", "-q", "--cpu", quarter, "--memory", "64m", "--", "sleep", seconds),
    );
    expect((await Promise.all(small)).map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    const large = await timed("run", "--cpu", String(capacity.cpu_cores), "--memory", "64m", "--", "true");
    expect([large.code, large.stderr], `round ${round}`).toEqual([0, ""]);
    expect(large.tookMs, `round ${round}`).toBeLessThan(MOST_MS);
  }
});
