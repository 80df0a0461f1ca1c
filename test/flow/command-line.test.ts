/** The `dsec` command as people use it: real processes, a real gateway, real sandboxes. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { DSEC, dsec } from "../cli/dsec.ts";
import { mountsWith, processesOf, processesWith } from "../executor/host.ts";
import { leftovers } from "./system.ts";

let folder: string;
let data: string;
let up: ReturnType<typeof dsec>;
const inFolder = (words: string[], options: Parameters<typeof dsec>[1] = {}) =>
  dsec(words, { cwd: folder, ...options, env: { DSEC_DATA: data, ...options.env } });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "dsec-commands-"));
  // where leftovers() looks for an executor's folders
  data = join(folder, "executor");
  up = dsec(["up", "--port", "0"], { env: { DSEC_DATA: data } });
  await until(() => existsSync(join(data, "serving.json")));
  await until(async () => (await inFolder(["run", "-q", "--", "true"])).code === 0);
});

afterAll(async () => {
  up.kill("SIGINT");
  expect((await up).code).toBe(0);
  expect(await leftovers(folder)).toEqual([]);
});

test("run ends as the command ended, whatever that was", async () => {
  const cases: [words: string[], code: number, says: RegExp][] = [
    [["--", "sh", "-c", "exit 7"], 7, /^$/],
    [["--", "sh", "-c", "kill -KILL $$"], 137, /signaled by SIGKILL/],
    [["--", "sh", "-c", "exit 137"], 137, /^$/],
    [["--timeout", "700ms", "--", "sleep", "60"], 124, /timed out/],
    [["--memory", "32m", "--", "tail", "/dev/zero"], 137, /oom killed/],
    [["--", "no-such-command"], 127, /command not found.*no-such-command/],
    [["--", "/etc/passwd"], 126, /command not executable.*\/etc\/passwd: Permission denied/],
    [["--memory", "900t", "--", "true"], 125, /INSUFFICIENT_MEMORY.*memory_mb|INVALID_REQUEST/],
    [["--image", "never-imported:1", "--", "true"], 125, /IMAGE_NOT_FOUND.*never-imported/],
  ];
  for (const [words, code, says] of cases) {
    const ended = await inFolder(["run", ...words]);
    expect(ended.stderr, words.join(" ")).toMatch(says);
    expect(ended.code, words.join(" ")).toBe(code);
  }
});

test("output is passed on byte for byte, each stream to its own (B04)", async () => {
  const program =
    "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096); sys.stderr.write('beside\\n')";
  const ended = await inFolder(["run", "--", "python3", "-c", program]);
  expect(ended.code).toBe(0);
  expect(ended.stdout.equals(Buffer.from(Array.from({ length: 1 << 20 }, (_, i) => i % 256)))).toBe(true);
  expect(ended.stderr).toBe("beside\n");
});

test("what goes on past what is sent live arrives as well, and is saved later as it was", async () => {
  const lines = "400000";
  const whole = Buffer.from(Array.from({ length: Number(lines) }, (_, i) => `${i + 1}\n`).join(""));
  expect(whole.length).toBeGreaterThan(LIMITS.streamLiveBytes);
  const submitted = await inFolder([
    "task",
    "submit",
    "--output",
    "end",
    "--",
    "sh",
    "-c",
    `seq ${lines}; echo over > end`,
  ]);
  const id = submitted.stdout.toString().trim();
  const logs = await inFolder(["task", "logs", id]);
  expect(logs.stdout.equals(whole)).toBe(true);
  expect((await inFolder(["task", "save", id, "later"])).code).toBe(0);
  expect(readFileSync(join(folder, "later/end"), "utf8")).toBe("over\n");
  expect((await inFolder(["verify", "later"])).code).toBe(0);
  const again = await inFolder(["run", "--save", "later", "--", "true"]);
  expect([again.code, again.stderr]).toEqual([125, expect.stringContaining("later holds files already")]);
});

test("run returns though its own standard input stays open and silent (B08)", async () => {
  const ended = await inFolder(["run", "--", "sh", "-c", "cat; echo end of input"], { stdin: "open" });
  expect(ended.stdout.toString()).toBe("end of input\n");
  expect(ended.code).toBe(0);
  const late = await inFolder(["run", "--timeout", "700ms", "--", "sh", "-c", "cat; sleep 60"], {
    stdin: "open",
  });
  expect([late.code, late.stderr]).toEqual([124, expect.stringContaining("timed out")]);
});

test("standard input is given where it is asked for", async () => {
  const ended = await inFolder(["run", "--stdin", "--", "tr", "a-z", "A-Z"], { stdin: "hello\n" });
  expect(ended.stdout.toString()).toBe("HELLO\n");
});

test("a config that never comes to an answer is a failure that is told", async () => {
  writeFileSync(join(folder, "never.config.ts"), "export default () => new Promise(() => {});");
  const ended = await inFolder(["run", "--config", "never.config.ts", "--", "true"]);
  expect(ended.stderr).toMatch(
    /^error CONFIG_INVALID: --config never.config.ts failed: .*nothing will ever settle\n$/,
  );
  expect(ended.code).toBe(125);
});

test("Ctrl-C cancels the task and ends with 130", async () => {
  const mark = `86420.${Date.now() % 10_000}`;
  const running = inFolder(["run", "--", "sleep", mark]);
  await until(async () => (await processesOf(`sleep ${mark}`)).length > 0);
  running.kill("SIGINT");
  const ended = await running;
  expect(ended.code).toBe(130);
  // By its id, unless a slow machine runs it before this command has read the answer.
  expect(ended.stderr).toMatch(/cancelling (task_|the task, once)/);
  expect(await processesOf(`sleep ${mark}`)).toEqual([]);
});

test("a saved result verifies, and no longer does when it was changed", async () => {
  writeFileSync(join(folder, "numbers.txt"), "1\n2\n39\n");
  const script =
    "awk '{n+=$1} END {print n}' /inputs/numbers.txt | tee deep.txt; mkdir -p a/b; cp deep.txt a/b/total.txt";
  const words = [
    "run",
    "--input",
    "numbers.txt",
    "--output",
    "**/*.txt",
    "--nonce",
    "nonce-of-mine",
    "--save",
    "result",
  ];
  const ended = await inFolder([...words, "--", "sh", "-c", script]);
  expect(ended.stdout.toString()).toBe("42\n");
  expect(readFileSync(join(folder, "result/a/b/total.txt"), "utf8")).toBe("42\n");
  const verified = await inFolder(["verify", "result", "--nonce", "nonce-of-mine", "--json"]);
  expect(verified.code).toBe(0);
  expect(JSON.parse(verified.stdout.toString())[0].files.sort()).toEqual([
    "a/b/total.txt",
    "deep.txt",
    "stdout",
  ]);
  writeFileSync(join(folder, "result/a/b/total.txt"), "43\n");
  const changed = await inFolder(["verify", "result"]);
  expect(changed.code).toBe(1);
  expect(changed.stdout.toString()).toContain("DIGEST_MISMATCH");
});

test("no output takes the place of another or of what is saved beside it, and each is verified", async () => {
  const long = "n".repeat(250);
  const script = `mkdir -p /tmp/y attestation.jwt work stderr/deep y/z; echo streamed
    for file in stdout jwks.json attestation.jwt/x work/stdout stderr/deep/x ${long} /tmp/y/z y/z/a; do echo $file >$file; done`;
  const words = ["--output", "**", "--output", "/tmp/y/z", "--save", "meeting"];
  const ended = await inFolder(["run", ...words, "--", "sh", "-c", script]);
  expect([ended.code, ended.stderr]).toEqual([0, ""]);
  const saved = (path: string) => readFileSync(join(folder, "meeting", path), "utf8");
  expect(saved("stdout")).toBe("streamed\n");
  expect(saved("work/stdout")).toBe("stdout\n");
  expect(saved("work/work/stdout")).toBe("work/stdout\n");
  expect(saved("work/jwks.json")).toBe("jwks.json\n");
  expect(saved("work/attestation.jwt/x")).toBe("attestation.jwt/x\n");
  expect(saved("work/stderr/deep/x")).toBe("stderr/deep/x\n");
  expect(saved(long)).toBe(`${long}\n`);
  const verified = await inFolder(["verify", "meeting", "--json"]);
  expect(verified.code, verified.stdout.toString()).toBe(0);
  expect(JSON.parse(verified.stdout.toString())[0].files).toHaveLength(9);
});

test("run --save ends with 130 where Ctrl-C left no result to save", async () => {
  const core = ["--cpu", "1"];
  const filling = Array.from({ length: availableParallelism() }, () =>
    inFolder(["task", "submit", ...core, "--", "sleep", "600"]),
  );
  const before = (await Promise.all(filling)).map(({ stdout }) => stdout.toString().trim());
  const label = ["--label", "test=queued"];
  const waiting = inFolder(["run", ...core, ...label, "--save", "queued", "--", "true"]);
  await until(async () => {
    const listed = await inFolder(["task", "list", ...label, "--json"]);
    return JSON.parse(listed.stdout.toString()).length === 1;
  });
  waiting.kill("SIGINT");
  const ended = await waiting;
  expect([ended.code, ended.stderr]).toEqual([130, expect.stringContaining("left no result to save")]);
  for (const id of before) await inFolder(["task", "cancel", id]);
});

test("tasks are submitted, found, followed, cancelled and verified by id", async () => {
  const submitted = await inFolder([
    "task",
    "submit",
    "--label",
    "test=tasks",
    "--",
    "sh",
    "-c",
    "echo a; echo b >&2",
  ]);
  const id = submitted.stdout.toString().trim();
  expect(id).toMatch(/^task_/);
  const logs = await inFolder(["task", "logs", id]);
  expect([logs.stdout.toString(), logs.stderr]).toEqual(["a\n", "b\n"]);
  const listed = JSON.parse(
    (await inFolder(["task", "list", "--label", "test=tasks", "--json"])).stdout.toString(),
  );
  expect(listed.map((task: { id: string }) => task.id)).toEqual([id]);
  expect(JSON.parse((await inFolder(["task", "get", id, "--json"])).stdout.toString()).state).toBe(
    "succeeded",
  );
  const verified = await inFolder(["verify", id]);
  expect(verified.code).toBe(0);
  expect(verified.stdout.toString()).toContain("✓ verified");

  writeFileSync(join(folder, "task.json"), JSON.stringify({ command: ["sleep", "600"] }));
  const long = (await inFolder(["task", "submit", "--spec", "task.json"])).stdout.toString().trim();
  await inFolder(["task", "cancel", long]);
  await until(
    async () =>
      JSON.parse((await inFolder(["task", "get", long, "--json"])).stdout.toString()).state === "cancelled",
  );
  writeFileSync(join(folder, "task.json"), '{"command": ["true"], "command": ["false"]}');
  expect((await inFolder(["task", "submit", "--spec", "task.json"])).stderr).toMatch(
    /MALFORMED_JSON.*repeated/,
  );
});

test("lists fit the terminal that they are printed in, and are whole in a pipe", async () => {
  const id = (await inFolder(["task", "submit", "--", "echo", "word ".repeat(40)])).stdout.toString().trim();
  expect((await inFolder(["task", "list"])).stdout.toString()).toMatch(new RegExp(`${id} .*Z  .{59}…`));
  for (const columns of [132, 100, 80, 50]) {
    const command = `stty cols ${columns}; exec '${DSEC}' task list`;
    const { stdout } = spawnSync("script", ["--quiet", "--return", "--command", command, "/dev/null"], {
      env: { ...process.env, DSEC_DATA: data, NO_COLOR: "1" },
      encoding: "utf8",
    });
    expect(stdout).toContain(id);
    for (const line of stdout.split(/\r?\n/)) expect(line.length, line).toBeLessThanOrEqual(columns);
  }
});

test("keys are made, used and revoked", async () => {
  const made = JSON.parse((await inFolder(["key", "create", "laptop", "--json"])).stdout.toString());
  const env = { DSEC_API_KEY: made.secret };
  expect((await inFolder(["task", "list"], { env })).code).toBe(0);
  expect((await inFolder(["key", "list"], { env })).stderr).toMatch(/error FORBIDDEN/);
  expect((await inFolder(["key", "revoke", made.id])).code).toBe(0);
  await until(async () => /error KEY_REVOKED/.test((await inFolder(["task", "list"], { env })).stderr));
});

test("an image is imported under its digest and a name, listed, and removed", async () => {
  mkdirSync(join(folder, "root/etc"), { recursive: true });
  writeFileSync(join(folder, "root/etc/name"), "mine\n");
  const imported = await inFolder(["image", "import", "root", "mine:1"]);
  const digest = imported.stdout.toString().trim();
  expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
  const again = JSON.parse((await inFolder(["image", "import", "root", "--json"])).stdout.toString());
  expect(again.digest).toBe(digest);
  const images = JSON.parse((await inFolder(["image", "list", "--json"])).stdout.toString());
  expect(images).toMatchObject([{ digest, names: ["mine:1"] }]);
  expect((await inFolder(["image", "rm", "mine:1"])).code).toBe(0);
  expect((await inFolder(["image", "rm", "mine:1"])).stderr).toMatch(/error IMAGE_NOT_FOUND/);
});

test("doctor finds this host fit, down to a sandbox that starts", async () => {
  const checks = JSON.parse((await inFolder(["doctor", "--json"])).stdout.toString());
  const failing = checks.filter(({ status }: { status: string }) => status === "fail");
  expect(failing).toEqual([]);
  expect(checks.find(({ name }: { name: string }) => name === "sandbox").found).toMatch(
    /7 of 7 namespaces.*seccomp mode 2.*capabilities over its own ids alone/,
  );
});

test("doctor tries the data folder's own file system, whatever the folder above is on", async () => {
  const [above, own] = [join(folder, "above"), join(folder, "volume")];
  mkdirSync(above);
  mkdirSync(own);
  const script = `mount -t tmpfs none "$1" && mkdir "$1/data" && mount --bind "$2" "$1/data" && mount -o remount,ro "$1" &&
    exec "$0" doctor --data "$1/data" --json`;
  const { stdout, stderr } = spawnSync("unshare", ["--mount", "sh", "-c", script, DSEC, above, own], {
    encoding: "utf8",
  });
  const checks: { name: string; status: string }[] = JSON.parse(stdout);
  expect(
    checks.find(({ name }) => name === "sandbox"),
    stderr,
  ).toMatchObject({ status: "ok" });
  expect(readdirSync(own)).toEqual([]);
});

test("the example tasks end as they must, each verified offline from its folder", async () => {
  const ended = await dsec(["up", "--once", "--json"], { env: { DSEC_DATA: join(folder, "demo") } });
  expect(ended.stderr).toContain("All 8 tasks ended as they must");
  expect(ended.code).toBe(0);
  const results = JSON.parse(ended.stdout.toString());
  expect(results.map(({ asExpected }: { asExpected: boolean }) => asExpected)).toEqual(Array(8).fill(true));
  for (const { name } of results) {
    for (const file of ["output.json", "attestation.jwt"]) {
      expect(existsSync(join(folder, "demo/demo", name, file)), `${name}/${file}`).toBe(true);
    }
  }
  expect((await dsec(["verify", join(folder, "demo/demo")])).code).toBe(0);
  expect(await processesWith(join(folder, "demo"))).toEqual([]);
  expect(await mountsWith(join(folder, "demo"))).toEqual([]);
});

test("a running task is told what to observe, and its trace, receipts and policy can be looked at and changed", async () => {
  const submitted = await inFolder(["task", "submit", "--", "dsec-tool", "observe", "--wait", "25000"]);
  const id = submitted.stdout.toString().trim();
  expect((await inFolder(["task", "policy", id, "-"], { stdin: '{"rules":[{"host":"a.test"}]}' })).code).toBe(
    0,
  );
  const misspelt = await inFolder(["task", "policy", id, "-"], { stdin: '{"rule":[]}' });
  expect([misspelt.code, misspelt.stderr]).toEqual([1, expect.stringContaining("POLICY_INVALID")]);
  expect((await inFolder(["task", "observe", id, '{"hint":"look again"}'])).code).toBe(0);
  const logs = await inFolder(["task", "logs", id]);
  expect(logs.stdout.toString()).toContain("look again");
  const events = await inFolder(["trace", "tail", id, "--json"]);
  expect(JSON.parse(events.stdout.toString())).toContainEqual(
    expect.objectContaining({ type: "observation" }),
  );
  expect((await inFolder(["task", "trace", id, "-o", "observed.trace"])).code).toBe(0);
  expect((await inFolder(["trace", "validate", "observed.trace"])).code).toBe(0);
  expect(JSON.parse((await inFolder(["task", "receipts", id, "--json"])).stdout.toString())).toEqual([]);
});

test("a secret goes in by standard input, and no command shows it again", async () => {
  const value = "Bearer of-a-test-0123";
  const put = await inFolder(["secret", "put", "TOKEN", "--host", "api.test"], { stdin: `${value}\n` });
  expect(put.code, put.stderr).toBe(0);
  const list = await inFolder(["secret", "list", "--json"]);
  expect(JSON.parse(list.stdout.toString())).toMatchObject([{ name: "TOKEN", hosts: ["api.test"] }]);
  expect(list.stdout.toString() + put.stdout + put.stderr).not.toContain("of-a-test");
  expect((await inFolder(["secret", "rm", "TOKEN"])).code).toBe(0);
  expect((await inFolder(["secret", "rm", "TOKEN"])).stderr).toContain("SECRET_NOT_FOUND");
});

test("a second process on the same folder is refused and told who has it", async () => {
  const second = await inFolder(["up", "--port", "0"]);
  expect(second.code).toBe(1);
  expect(second.stderr).toMatch(
    /CONFIG_INVALID: data folder .* is in use by process \d+, which serves http:/,
  );
});

test("without a gateway, run starts all it needs for its own time and leaves nothing behind", async () => {
  const env = { DSEC_DATA: join(folder, "own") };
  const ended = await dsec(["run", "--", "sh", "-c", "echo alone; exit 3"], { cwd: folder, env });
  expect([ended.stdout.toString(), ended.code]).toEqual(["alone\n", 3]);
  expect(await processesWith(join(folder, "own"))).toEqual([]);
  expect(await mountsWith(join(folder, "own"))).toEqual([]);
});

test("a reader that goes away ends the task instead of a stack trace", async () => {
  const { spawn } = await import("node:child_process");
  const child = spawn("bash", ["-c", `"${DSEC}" run -- yes | head -n 2; echo "codes \${PIPESTATUS[0]}"`], {
    env: { ...process.env, DSEC_DATA: data },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  child.stdout.on("data", (chunk) => (text += chunk));
  child.stderr.on("data", (chunk) => (text += chunk));
  await new Promise((resolve) => child.once("close", resolve));
  expect(text).toMatch(/^y\ny\n/);
  expect(text).toContain("codes 141");
  expect(text).not.toMatch(/EPIPE|at .*\.ts/);
});

test("a reader that goes away leaves nothing behind of the trace that it looked at", async () => {
  // so short that nothing of it was sent live: all of it is read from the trace
  const ran = await inFolder(["run", "--json", "--", "true"]);
  const temporary = join(folder, "temporary");
  mkdirSync(temporary);
  const words = ["trace", "tail", JSON.parse(ran.stdout.toString()).task.id];
  const whole = await inFolder(words, { env: { TMPDIR: temporary } });
  expect([whole.code, whole.stderr, whole.stdout.length > 0]).toEqual([0, "", true]);
  const unread = await inFolder(words, { env: { TMPDIR: temporary }, stdout: "gone" });
  expect([unread.code, readdirSync(temporary)]).toEqual([141, []]);
});

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + 60_000;
  while (!(await condition())) {
    if (performance.now() > deadlineMs) throw new Error("waited for a minute in vain");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
