import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { made } from "#test/trace/format/made.ts";
import type { EventBody } from "#trace/events/event.ts";
import { type TimedEvent, writeTrace } from "#trace/node/files.ts";
import { dsec } from "./dsec.ts";

const folder = mkdtempSync(join(tmpdir(), "dsec-trace-validate-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const header = { trace_id: "t\u001b[31m", source: "test", started_wall_us: 0 };

const GOOD: EventBody[] = [
  { type: "plan_step", state: "begun", step: 1, name: "one" },
  { type: "tool_call_start", call: 1, kind: "http", via: "http", step: 1 },
  { type: "memory_read", op: "get", namespace: "task", key: "k", version: 1, call: 1 },
  { type: "tool_call_end", call: 1, state: "answered", tries: 1, duration_us: 5 },
  { type: "plan_step", state: "ended", step: 1, name: "one", status: "succeeded" },
];
const BAD: EventBody[] = [
  { type: "tool_call_end", call: 4, state: "answered", tries: 1, duration_us: 5 },
  ...GOOD,
  { type: "tool_call_start", call: 1, kind: "http", via: "http" },
  { type: "plan_step", state: "begun", step: 2, name: "two", parent: 1 },
  { type: "plan_step", state: "ended", step: 9, name: "nine" },
];

beforeAll(async () => {
  mkdirSync(join(folder, "more/deep"), { recursive: true });
  await writeTrace(join(folder, "good.trace"), header, timed(GOOD));
  await writeTrace(join(folder, "more/deep/bad.trace"), header, timed(BAD));
  writeFileSync(join(folder, "more/open.traj"), made(GOOD, { sealed: false }));
  writeFileSync(join(folder, "more/notes.txt"), "no trace");
  const good = readFileSync(join(folder, "good.trace"));
  writeFileSync(
    join(folder, "cut.traj"),
    Buffer.concat([made(GOOD, { sealed: false, flushEvery: 2 }), good.subarray(5, 50)]),
  );
});

function timed(bodies: EventBody[]): TimedEvent[] {
  return bodies.map((body, at) => ({ ...body, t_us: at, wall_us: at }));
}

test("a whole trace is valid, and what it holds is said without its control codes", async () => {
  const { code, stdout } = await dsec(["trace", "validate", join(folder, "good.trace")]);
  expect(code).toBe(0);
  const text = stdout.toString();
  expect(text).toMatch(/✓ valid .*good\.trace: .*sha256:[0-9a-f]{64}/);
  expect(text).toMatch(/t \(test\), sealed: 5 events, 1 of 1 calls ended, 1 of 1 steps ended, chain sha256:/);
  expect(text).not.toContain("\u001b");
});

test("folders and globs are gone through, and each file is a line of JSON", async () => {
  const { code, stdout } = await dsec([
    "trace",
    "validate",
    join(folder, "more"),
    join(folder, "*.traj"),
    "--json",
  ]);
  expect(code).toBe(1);
  const lines = stdout
    .toString()
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines.map(({ file, state }) => [file.slice(folder.length + 1), state])).toEqual([
    ["more/deep/bad.trace", "inconsistent"],
    ["more/open.traj", "valid"],
    ["cut.traj", "damaged"],
  ]);
  expect(lines[1].segments[0]).toMatchObject({ state: "open", events: 5, types: { plan_step: 2 } });
  expect(lines[2].damage.reason).toMatch(/no frame begins here/);
});

test("what contradicts what was told before is named by its event", async () => {
  const { stdout } = await dsec(["trace", "validate", join(folder, "more/deep/bad.trace"), "--json"]);
  expect(JSON.parse(stdout.toString()).segments[0].problems).toEqual([
    { seq: 1, what: "call 4 ends and never started" },
    { seq: 7, what: "call 1 starts again" },
    { seq: 8, what: "step 2 begins within step 1, but no step is the innermost open one" },
    { seq: 9, what: "step 9 is ended and is not open" },
  ]);
});

test("a word that names nothing, and a file that is no trace, are told apart", async () => {
  const absent = await dsec(["trace", "validate", join(folder, "absent-*.trace")]);
  expect([absent.code, absent.stderr]).toEqual([
    1,
    expect.stringMatching(/NOT_FOUND: .*no such file, folder or match/),
  ]);
  const text = await dsec(["trace", "validate", join(folder, "more/notes.txt")]);
  expect([text.code, text.stdout.toString()]).toEqual([
    1,
    expect.stringMatching(/refused.*\n.*this is no trace/),
  ]);
});

test("a damaged trajectory is sealed up to where it is whole, and what is left out is said", async () => {
  const sealed = await dsec(["trace", "seal", join(folder, "cut.traj")]);
  expect(sealed.code).toBe(0);
  expect(sealed.stderr).toMatch(/left out: all from offset \d+ on, for no frame begins here/);
  expect(sealed.stdout.toString()).toMatch(/cut\.trace: 5 events/);
  const again = await dsec(["trace", "seal", join(folder, "cut.traj")]);
  expect([again.code, again.stderr]).toEqual([1, expect.stringMatching(/TRACE_EXISTS/)]);
  const checked = await dsec(["trace", "validate", join(folder, "cut.trace")]);
  expect(checked.code).toBe(0);
});
