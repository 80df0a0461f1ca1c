import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { dsec } from "./dsec.ts";

const folder = mkdtempSync(join(tmpdir(), "dsec-cli-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const COMMANDS = [
  ...["up", "gateway", "executor", "run", "task", "key", "secret", "signing-key"],
  ...["image", "trace", "verify", "doctor"],
];
const NESTED = [
  "task submit",
  "task get",
  "task list",
  "task cancel",
  "task logs",
  "task receipts",
  "task trace",
  "task observe",
  "task policy",
  "secret put",
  "secret list",
  "secret rm",
  "signing-key list",
  "signing-key rotate",
  "key create",
  "key list",
  "key revoke",
  "image import",
  "image list",
  "image rm",
  "trace validate",
  "trace seal",
  "trace parse",
  "trace search",
  "trace report",
  "trace analyze",
  "trace diff",
  "trace tail",
];

test("every subcommand explains itself with examples", async () => {
  const top = await dsec(["--help"]);
  expect(top.code).toBe(0);
  for (const name of COMMANDS) expect(top.stdout.toString()).toMatch(new RegExp(`^  ${name} `, "m"));
  for (const name of [...COMMANDS, ...NESTED]) {
    const help = await dsec([...name.split(" "), "--help"]);
    expect(help.code, name).toBe(0);
    expect(help.stdout.toString(), name).toContain("Examples:");
    expect(help.stdout.toString(), name).toContain(`dsec ${name.split(" ")[0]}`);
  }
  const asked = await dsec(["help", "run"]);
  expect(asked.stdout.toString()).toContain("Usage: dsec run");
});

test("wrong usage is exit code 2, says what is wrong and reads nothing", async () => {
  const wrong: [words: string[], says: RegExp][] = [
    [["frobnicate"], /unknown command/],
    [["task", "frob"], /unknown command/],
    [["task", "list", "--state", "sleeping"], /Allowed choices/],
    [["task", "list", "--limit", "0"], /--limit must be a whole number/],
    [["task", "get"], /missing required argument/],
    [["trace", "search", "x.trace"], /required option '-q, --query/],
    [["trace", "analyze", "x.trace", "--metric", "luck"], /Allowed choices/],
    [["trace", "report", "x.trace", "--metric", "luck"], /--metric must be one of/],
    [["up", "--port", "70000"], /--port must be/],
    [["key", "create", "x", "--scope", "root"], /--scope root is unknown/],
    [["task", "submit"], /command after --/],
    [["task", "submit", "--timeout", "5", "--", "true"], /--timeout must be a time with its unit/],
    [["task", "submit", "--memory", "5", "--", "true"], /--memory must be a size with its unit/],
    [["task", "submit", "--cpu", "1e3", "--", "true"], /--cpu must be a number of cores/],
    [["executor", "--gateway", "http://127.0.0.1:1", "--offer", "wheels=4"], /--offer must be AXIS=AMOUNT/],
    [["up", "--memory-redis", "http://user:hidden@localhost"], /--memory-redis must be redis:/],
    [["executor", "--memory-redis=localhost:6379"], /--memory-redis must be redis:/],
  ];
  for (const [words, says] of wrong) {
    const ended = await dsec(words, { cwd: folder });
    expect(ended.stderr, words.join(" ")).toMatch(says);
    expect(ended.stderr, words.join(" ")).not.toContain("hidden");
    expect(ended.code, words.join(" ")).toBe(2);
  }
});

test("dsec's own failures are 125 under run, where every other code is the command's", async () => {
  expect((await dsec(["run"], { cwd: folder })).code).toBe(125);
  expect((await dsec(["run", "--nonsense", "--", "true"], { cwd: folder })).code).toBe(125);
  const unreachable = await dsec(["run", "--gateway", "http://127.0.0.1:1", "--", "true"], { cwd: folder });
  expect(unreachable.code).toBe(125);
  expect(unreachable.stderr).toMatch(/error UNAUTHENTICATED: no API key/);
});

test("a failure names its code and the way out, and is JSON where a program listens", async () => {
  const told = await dsec(["task", "list"], { cwd: folder });
  expect(told.code).toBe(1);
  expect(told.stderr).toMatch(/^error CONFIG_INVALID: .*dsec up.*--gateway/);
  expect(told.stdout.toString()).toBe("");
  const json = await dsec(["task", "list", "--json"], { cwd: folder });
  expect(json.code).toBe(1);
  expect(JSON.parse(json.stdout.toString())).toMatchObject({ error: { code: "CONFIG_INVALID" } });
});
