import { execFile } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { Command, type Define } from "#cli/program.ts";
import { LIMITS } from "#core/limits.ts";
import { freePort } from "#test/support/free-port.ts";
import { DSEC, dsec } from "./dsec.ts";

const folder = mkdtempSync(join(tmpdir(), "dsec-cli-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const COMMANDS = [
  ...["up", "gateway", "executor", "run", "task", "key", "secret", "signing-key"],
  ...["image", "trace", "verify", "doctor"],
];

test("every subcommand explains itself with examples", async () => {
  const top = await dsec(["--help"]);
  expect(top.code).toBe(0);
  for (const name of COMMANDS) expect(top.stdout.toString()).toMatch(new RegExp(`^  ${name} `, "m"));
  expect(top.stdout.toString()).toMatch(/\nExamples:\n(.*\n)*.*dsec run/);
  const asked = await dsec(["help", "run"]);
  expect([asked.code, asked.stdout.toString()]).toEqual([0, expect.stringContaining("Usage: dsec run")]);

  for (const name of COMMANDS) {
    const nested = (await declared(name, [])).commands.map((command) => command.name());
    for (const words of [[], ...nested.map((word) => [word])]) {
      const help = await helpOf(name, words);
      expect(help, `${name} ${words}`).toContain(`Usage: ${["dsec", name, ...words].join(" ")}`);
      expect(help, `${name} ${words}`).toMatch(new RegExp(`\\nExamples:\\n(.*\\n)*.*dsec ${name}`));
    }
  }
});

/** The subcommand as `dsec` declares it when it is called with these words. */
async function declared(name: string, words: string[]): Promise<Command> {
  const { define } = (await import(`#cli/commands/${name}.ts`)) as { define: Define };
  const command = new Command("dsec").command(name);
  await define(command, words);
  return command;
}

async function helpOf(name: string, words: string[]): Promise<string> {
  const command = await declared(name, words);
  const asked = words.length === 0 ? command : command.commands.find((nested) => nested.name() === words[0])!;
  let text = "";
  asked.configureOutput({ writeOut: (part) => (text += part) }).outputHelp();
  return text;
}

test("wrong usage is exit code 2, says what is wrong and reads nothing", async () => {
  const wrong: [words: string[], says: RegExp][] = [
    [["frobnicate"], /unknown command/],
    [["task", "frob"], /unknown command/],
    [["help", "frobnicate"], /unknown command 'frobnicate'/],
    [["tsk", "--help"], /unknown command 'tsk'\n\(Did you mean task\?\)/],
    [["help", "task", "lst"], /unknown command 'lst'\n\(Did you mean list\?\)/],
    [["--frob"], /unknown option '--frob'\n\(see --help\)/],
    [["task", "list", "--state", "sleeping"], /Allowed choices/],
    [["task", "list", "--limit", "0"], /--limit must be a whole number/],
    [["task", "get"], /missing required argument/],
    [["trace", "search", "x.trace"], /required option '-q, --query/],
    [["trace", "analyze", "x.trace", "--metric", "luck"], /Allowed choices/],
    [["trace", "report", "x.trace", "--metric", "luck"], /--metric must be one of/],
    [["up", "--port", "70000"], /--port must be/],
    [
      ["up", "--issuer", "https://dsec.example/"],
      /--issuer must be an origin such as https:\/\/dsec.example,/,
    ],
    [["gateway", "--database", "mysql://user:hidden@db/dsec"], /--database must be postgres:/],
    [
      ["gateway", "--database", "postgres://user:hidden@one:5432,two:5432/dsec"],
      /--database must name one host/,
    ],
    [["doctor", "--database", "postgres://one,two/dsec"], /--database must name one host/],
    [["key", "create", "x", "--scope", "root"], /--scope root is unknown/],
    [["task", "submit"], /command after --/],
    [["task", "submit", "--spec", "x.json", "--memory", "64m"], /write --memory into the file/],
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

test("a gateway that is not there is named, with the way out", async () => {
  const nobody = `http://127.0.0.1:${await freePort()}`;
  const env = { DSEC_API_KEY: `dsk_${"0".repeat(26)}_${"A".repeat(43)}` };
  const unreachable = await dsec(["task", "list", "--gateway", nobody], { cwd: folder, env });
  expect(unreachable.stderr).toMatch(
    new RegExp(
      `^error GATEWAY_UNREACHABLE: gateway ${nobody} cannot be reached: .*ECONNREFUSED.*; is it running`,
    ),
  );
  expect(unreachable.code).toBe(1);
});

test("a failure names its code and the way out, and is JSON where a program listens", async () => {
  const told = await dsec(["task", "list"], { cwd: folder });
  expect(told.code).toBe(1);
  expect(told.stderr).toMatch(/^error CONFIG_INVALID: .*dsec up.*--gateway/);
  expect(told.stdout.toString()).toBe("");
  const json = await dsec(["task", "list", "--json"], { cwd: folder });
  expect(json.code).toBe(1);
  expect(JSON.parse(json.stdout.toString())).toMatchObject({ error: { code: "CONFIG_INVALID" } });
  const misspelt = await dsec(["task", "list", "--jsn", "--json"], { cwd: folder });
  expect(misspelt.code).toBe(2);
  expect(JSON.parse(misspelt.stdout.toString())).toEqual({
    error: { code: "CONFIG_INVALID", message: expect.stringContaining("unknown option '--jsn'") },
  });
});

test("files and pipes that cannot be given are refused by name", async () => {
  const own = mkdtempSync(join(tmpdir(), "dsec-given-"));
  const at = (name: string) => join(own, name);
  mkdirSync(at("packed"));
  symlinkSync("packed", at("to-a-folder"));
  symlinkSync("nowhere", at("to-nothing"));
  symlinkSync("loop", at("loop"));
  writeFileSync(at("sparse"), "");
  truncateSync(at("sparse"), LIMITS.artifactBytes + 1);
  symlinkSync("sparse", at("to-a-large-one"));
  const input = (file: string) => `'${DSEC}' task submit --input ${file} -- true`;
  const standard = `'${DSEC}' task submit --stdin -- true`;
  const spec = (file: string) => `'${DSEC}' task submit --spec ${file}`;
  const policy = (file: string) => `'${DSEC}' task policy task_01 ${file}`;
  const secret = `'${DSEC}' secret put TOKEN --host api.test`;
  const given: [line: string, says: RegExp][] = [
    [input("to-a-folder"), /^error CONFIG_INVALID: --input to-a-folder is a folder; pack it/],
    [input("to-nothing"), /^error NOT_FOUND: --input to-nothing: no such file/],
    [input("loop"), /^error NOT_FOUND: --input loop: it cannot be read: ELOOP/],
    [input("to-a-large-one"), /^error BODY_TOO_LARGE: --input to-a-large-one has \d+ bytes/],
    [`${standard} <packed`, /^error CONFIG_INVALID: standard input is a folder/],
    [`${standard} </dev/zero`, /^error BODY_TOO_LARGE: standard input has more than/],
    [`yes | ${standard}`, /^error BODY_TOO_LARGE: standard input has more than/],
    [`yes | ${secret}`, /^error BODY_TOO_LARGE: standard input has more than/],
    [
      `yes | head -c 64M | ${spec("-")}`,
      /^error BODY_TOO_LARGE: standard input has more than \d+ bytes; .*artifact/,
    ],
    [spec("sparse"), /^error BODY_TOO_LARGE: --spec sparse has more than \d+ bytes; .*artifact/],
    [spec("to-nothing"), /^error NOT_FOUND: --spec to-nothing cannot be read: ENOENT/],
    [`yes | head -c 64M | ${policy("-")}`, /^error BODY_TOO_LARGE: standard input has more than/],
    // and what comes late is waited for
    [`{ sleep 1; echo value; } | ${secret}`, /^error GATEWAY_UNREACHABLE/],
    [`{ sleep 1; echo '{}'; } | ${spec("-")}`, /^error GATEWAY_UNREACHABLE/],
  ];
  const env = { ...process.env, DSEC_GATEWAY: "http://127.0.0.1:1", DSEC_API_KEY: `dsk_${"0".repeat(43)}` };
  for (const [line, says] of given) {
    const ended = await promisify(execFile)("bash", ["-c", line], { cwd: own, env }).then(
      () => "",
      ({ stderr }) => stderr as string,
    );
    expect(ended, line).toMatch(says);
    expect(ended, line).not.toContain(".ts:");
  }
  rmSync(own, { recursive: true });
});

test("a command that only looks makes nothing of a misspelt data folder", async () => {
  for (const words of [
    ["signing-key", "list"],
    ["signing-key", "rotate"],
    ["image", "list"],
  ]) {
    const ended = await dsec([...words, "--data", "misspelt"], { cwd: folder });
    expect(ended.stderr).toMatch(/^error NOT_FOUND: there is no data folder .*misspelt/);
    expect(ended.code).toBe(1);
  }
  expect(readdirSync(folder)).toEqual([]);
});

test("a data folder that is a file is refused, and keeps its mode", async () => {
  const file = join(folder, "file");
  writeFileSync(file, "", { mode: 0o644 });
  const ended = await dsec(["up", "--data", file]);
  expect(ended.stderr).toMatch(/error CONFIG_INVALID: data folder .*file cannot be used/);
  expect(statSync(file).mode & 0o777).toBe(0o644);
  rmSync(file);
});

test("a full disk or a reader that went away ends a command without a stack trace", async () => {
  const full = openSync("/dev/full", "w");
  const onFull = await dsec(["run", "--help"], { stdout: full });
  closeSync(full);
  expect(onFull.stderr).toMatch(/^error OUTPUT_UNWRITABLE: standard output cannot be written: ENOSPC.*\n$/);
  expect(onFull.code).toBe(125);
  const unread = await dsec(["--help"], { stdout: "gone" });
  expect([unread.code, unread.stderr]).toEqual([141, ""]);
});
