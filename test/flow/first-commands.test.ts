/** What a new user types first: `npm start`'s examples, then the README's first commands, with no wait that has no reason. */
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Executor } from "#core/wire/executors.ts";
import { type Client, createClient } from "#sdk/client.ts";
import { dsec, type Ended } from "../cli/dsec.ts";
import { leftovers } from "./system.ts";

const ROUNDS = 20;
const MOST_MS = 3_000;

let folder: string;
let data: string;
let up: ReturnType<typeof dsec>;
let client: Client;
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
  client = createClient({ gateway: url, apiKey });
  ({ capacity } = (await client.executors.list()).items[0]!);
});

afterAll(async () => {
  up.kill("SIGINT");
  expect((await up).code).toBe(0);
  expect(await leftovers(folder)).toEqual([]);
});

const command = (...words: string[]) => dsec(words, { cwd: folder, env: { DSEC_DATA: data } });

/** How long each task waited for an executor, in ms: a loaded machine makes whole commands slow, but no task wait. */
async function waits(): Promise<number[]> {
  const found: number[] = [];
  for await (const { id } of client.tasks.all()) {
    const atMs = new Map<string, number>();
    for await (const event of client.tasks.events(id))
      if (event.type === "state") atMs.set(event.state, Date.parse(event.at));
    found.push(atMs.get("leased")! - atMs.get("queued")!);
  }
  return found;
}

test(`of the README's first commands, ${ROUNDS} times after one another, none waits for an executor`, async () => {
  const tookMs: number[] = [];
  const timed = async (...words: string[]): Promise<Ended> => {
    const startMs = performance.now();
    const ended = await command(...words);
    tookMs.push(performance.now() - startMs);
    return ended;
  };
  for (let round = 0; round < ROUNDS; round++) {
    const answer = await timed("run", "--", "python3", "-c", "print(6 * 7)");
    expect([answer.code, answer.stdout.toString(), answer.stderr], `round ${round}`).toEqual([0, "42\n", ""]);
    const killed = await timed("run", "--memory", "64m", "--timeout", "5s", "--", "tail", "/dev/zero");
    expect([killed.code, killed.stderr], `round ${round}`).toEqual([
      137,
      expect.stringMatching(/oom killed/),
    ]);
  }
  const waited = await waits();
  expect(waited.length).toBeGreaterThanOrEqual(2 * ROUNDS);
  expect(Math.max(...waited.slice(0, 2 * ROUNDS))).toBeLessThan(MOST_MS);
  expect(tookMs.sort((a, b) => a - b)[ROUNDS]).toBeLessThan(MOST_MS);
});

test("a task that needs all processors runs as soon as the small ones before it have ended", async () => {
  const quarter = String(Math.floor(capacity.cpu_cores * 250) / 1000);
  for (let round = 0; round < 5; round++) {
    // They overlap, and end in other turns than they began.
    const small = ["0.2", "0.05", "0.1", "0"].map((seconds) =>
      command("run", "-q", "--cpu", quarter, "--memory", "64m", "--", "sleep", seconds),
    );
    expect((await Promise.all(small)).map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    const all = ["--cpu", String(capacity.cpu_cores), "--memory", "64m"];
    expect((await command("run", "-q", ...all, "--", "true")).code).toBe(0);
    expect((await waits())[0], `round ${round}`).toBeLessThan(MOST_MS);
  }
});
