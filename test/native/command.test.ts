import { chmodSync, closeSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  eventually,
  hostPidsWith,
  newMark,
  plan,
  run,
  runKept,
  SLOWNESS,
  shell,
  type TestLauncher,
  testLauncher,
} from "./sandboxes.ts";

let host: TestLauncher;
let scratch: string;
beforeAll(async () => {
  host = await testLauncher();
  scratch = mkdtempSync(join(tmpdir(), "dsec-command-"));
});
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  rmSync(scratch, { recursive: true });
});

describe("how a command ends is told by facts (B06)", () => {
  test.each([
    ["exit 0", { reason: "exited", exitCode: 0, signal: null }],
    ["exit 7", { reason: "exited", exitCode: 7, signal: null }],
    ["exit 137", { reason: "exited", exitCode: 137, signal: null }],
    ["kill -9 $$", { reason: "signaled", exitCode: null, signal: 9 }],
    ["kill -SEGV $$", { reason: "signaled", exitCode: null, signal: 11 }],
    ["kill -TERM $$", { reason: "signaled", exitCode: null, signal: 15 }],
    // the shell between turns the signal into an exit code, as every shell does
    ['sh -c "kill -9 \\$\\$"; exit $?', { reason: "exited", exitCode: 137, signal: null }],
  ])("%s", async (script, expected) => {
    const { end } = await run(host.launcher, shell(script));
    expect(end).toMatchObject(expected);
  });
});

describe("a command that cannot be started is told apart from one that failed", () => {
  test("a path that is not there", async () => {
    const { end } = await run(host.launcher, ["/usr/bin/nope"]);
    expect(end).toMatchObject({
      reason: "command_not_found",
      exitCode: null,
      signal: null,
      message: "execve /usr/bin/nope: No such file or directory",
    });
  });
  test("a name that is nowhere in PATH", async () => {
    const { end } = await run(host.launcher, ["nope"]);
    expect(end).toMatchObject({
      reason: "command_not_found",
      message: "execve nope: No such file or directory",
    });
  });
  test("a path through a file", async () => {
    const { end } = await run(host.launcher, ["/etc/passwd/nope"]);
    expect(end).toMatchObject({
      reason: "command_not_found",
      message: "execve /etc/passwd/nope: Not a directory",
    });
  });
  describe("a file that is there and does not start is one that was found", () => {
    let files: string;
    beforeAll(() => {
      files = mkdtempSync(join(scratch, "files-"));
      chmodSync(files, 0o755);
      writeFileSync(join(files, "plain"), "echo ran\n", { mode: 0o644 });
      writeFileSync(join(files, "no-program"), "echo ran\n", { mode: 0o755 });
      writeFileSync(join(files, "empty"), "", { mode: 0o755 });
      writeFileSync(join(files, "no-interpreter"), "#!/no/interpreter\n", { mode: 0o755 });
      writeFileSync(join(files, "cut-short"), readFileSync("/usr/bin/true").subarray(0, 100), {
        mode: 0o755,
      });
    });
    test.each([
      ["it may not be executed", "/files/plain", "Permission denied"],
      ["it is found in PATH and may not be executed", "plain", "Permission denied"],
      ["it is a folder", "/files", "Permission denied"],
      ["it is no program", "/files/no-program", "Exec format error"],
      ["it is found in PATH and is no program", "no-program", "Exec format error"],
      ["it is empty", "/files/empty", "Exec format error"],
      ["it is cut short", "/files/cut-short", "Exec format error"],
      ["its interpreter is not there", "/files/no-interpreter", "its interpreter or loader is not there"],
      [
        "found in PATH, its interpreter is not there",
        "no-interpreter",
        "its interpreter or loader is not there",
      ],
    ])("%s", async (_, command, why) => {
      const mounts = [{ source: files, target: "/files" }];
      const { end } = await run(host.launcher, [command], { mounts, env: { PATH: "/usr/bin:/files:/bin" } });
      expect(end).toMatchObject({
        reason: "command_not_executable",
        exitCode: null,
        signal: null,
        message: `execve ${command}: ${why}`,
      });
    });
    test("one that starts, further on in PATH, is taken", async () => {
      const mounts = [
        { source: join(files, "plain"), target: "/first/id" },
        { source: join(files, "no-interpreter"), target: "/second/id" },
      ];
      const env = { PATH: "/first:/second:/usr/bin" };
      const { end, stdout } = await run(host.launcher, ["id", "-u"], { mounts, env });
      expect([end.exitCode, stdout.toString()]).toEqual([0, "0\n"]);
    });
  });
  test("a name as long as an argument can be", async () => {
    const { end } = await run(host.launcher, ["x".repeat(131_000)]);
    expect(end.reason).toBe("command_not_found");
    expect(end.message).toMatch(/^execve x{4000,5000}: File name too long$/);
  });
  test("a command that itself exits with 127 was found", async () => {
    const { end } = await run(host.launcher, shell("exit 127"));
    expect(end).toMatchObject({ reason: "exited", exitCode: 127, message: null });
  });
  test("PATH of the sandbox decides, not that of the host", async () => {
    const { end } = await run(host.launcher, ["ls"], { env: { PATH: "/nowhere" } });
    expect(end.reason).toBe("command_not_found");
  });
});

describe("output is bytes, all of them (B03, B04)", () => {
  test.each([
    ["65,536 bytes to stdout", "head -c 65536 /dev/zero", 65_536, 0],
    ["65,537 bytes to stdout", "head -c 65537 /dev/zero", 65_537, 0],
    ["10 MiB to stdout", "head -c 10485760 /dev/zero", 10_485_760, 0],
    ["65,537 bytes to stderr only", "head -c 65537 /dev/zero >&2", 0, 65_537],
    ["10 MiB to stderr only", "head -c 10485760 /dev/zero >&2", 0, 10_485_760],
    [
      "1 MiB to stderr and then to stdout",
      "head -c 1048576 /dev/zero >&2; head -c 1048576 /dev/zero",
      1_048_576,
      1_048_576,
    ],
  ])("%s", async (_, script, stdoutBytes, stderrBytes) => {
    const { end, stdout, stderr } = await run(host.launcher, shell(script), { timeoutMs: 20_000 });
    expect([end.exitCode, stdout.length, stderr.length]).toEqual([0, stdoutBytes, stderrBytes]);
  });

  test("bytes that are not UTF-8 come through as they are", async () => {
    const { stdout, end } = await run(host.launcher, shell("printf '\\377\\376ok\\200caf\\351'; exit 5"));
    expect(stdout.toString("latin1")).toBe("\xff\xfeok\x80caf\xe9");
    expect(end.exitCode).toBe(5);
  });

  test("the end is told although nobody reads the output yet", async () => {
    const sandbox = await host.launcher.launch(plan(shell("printf here")));
    expect((await sandbox.ended).exitCode).toBe(0);
    let text = "";
    for await (const chunk of sandbox.stdout) text += chunk;
    expect(text).toBe("here");
    await sandbox.destroy();
  });

  test("the streams end when every process is dead, even if one in the background held them", async () => {
    const { stdout, end } = await run(host.launcher, shell("sleep 1000 & echo out"));
    expect([stdout.toString(), end.exitCode]).toEqual(["out\n", 0]);
  });
});

describe("standard input is at its end unless given (B08)", () => {
  test.each([["cat"], ["grep x"], ["python3"]])("%s ends at once", async (script) => {
    const { end } = await run(host.launcher, shell(script), { timeoutMs: 20_000 });
    expect(end.reason).toBe("exited");
  });

  test("a given file is what is read, and it cannot be written through /proc/self/fd/0", async () => {
    const stdinPath = join(scratch, "stdin");
    writeFileSync(stdinPath, "given\0bytes\n", { mode: 0o666 });
    const script = "cat; echo changed > /proc/self/fd/0 && echo WRITTEN; true";
    const { stdout } = await run(host.launcher, shell(script), { stdinPath });
    expect(stdout.toString()).toBe("given\0bytes\n");
    expect(readFileSync(stdinPath, "latin1")).toBe("given\0bytes\n");
  });

  test("a folder or a file that is not there is refused, and nothing is left", async () => {
    for (const stdinPath of [scratch, join(scratch, "none")]) {
      await expect(host.launcher.launch(plan(["cat"], { stdinPath }))).rejects.toThrow(stdinPath);
    }
  });
});

describe("the command starts in a clean state (B11)", () => {
  test("no signal is blocked or ignored, and SIGPIPE works", async () => {
    const script = `grep -E "Sig(Blk|Ign)" /proc/self/status; yes | head -1 >/dev/null; echo "\${PIPESTATUS[@]}"`;
    const { stdout, stderr } = await run(host.launcher, shell(script));
    expect(stdout.toString()).toBe("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n141 0\n");
    expect(stderr.length).toBe(0);
  });

  test("only descriptors 0 to 2 are open", async () => {
    const { stdout } = await run(host.launcher, [
      "python3",
      "-c",
      "import os; print(sorted(os.listdir('/proc/self/fd')))",
    ]);
    // 3 is the listing itself
    expect(stdout.toString()).toBe("['0', '1', '2', '3']\n");
  });

  test("umask and limits are the documented ones, nice is 0", async () => {
    const { stdout } = await run(
      host.launcher,
      shell("umask; ulimit -c; ulimit -Sn; ulimit -Ss; ulimit -f; nice; cat /proc/self/oom_score_adj"),
    );
    expect(stdout.toString()).toBe("0022\n0\n1024\n8192\nunlimited\n0\n0\n");
  });

  test("the environment is what the plan says and nothing more", async () => {
    const { stdout } = await run(host.launcher, ["/usr/bin/env"], { env: { ONE: "1", "A-B": "ä=b" } });
    expect(stdout.toString()).toBe("ONE=1\nA-B=ä=b\n");
  });

  test("host name, working directory and session are the sandbox's own", async () => {
    const script =
      "hostname; pwd; stat -c '%u %a' .; ps -o pid=,sid= -p $$ 2>/dev/null | tr -s ' ' || true; cat /proc/1/comm";
    const { stdout } = await run(host.launcher, shell(script), {
      workingDirectory: "/a/new/place",
      hostname: "box-7",
    });
    expect(stdout.toString()).toContain("box-7\n/a/new/place\n0 755\n");
  });
});

describe("sizes of hidden transports are no limits (B12, B55)", () => {
  test("an argument as long as the kernel allows, and many of them", async () => {
    const long = "x".repeat(131_071);
    const { stdout } = await run(host.launcher, [
      "python3",
      "-c",
      "import sys; print(*map(len, sys.argv[1:]))",
      long,
      long,
      long,
    ]);
    expect(stdout.toString()).toBe("131071 131071 131071\n");
  });
  test("a longer one is refused with the kernel's own words, and at once", async () => {
    await expect(host.launcher.launch(plan(["echo", "x".repeat(131_072)]))).rejects.toThrow(
      "Argument list too long",
    );
  });
  test("quotes, newlines and carriage returns in arguments arrive", async () => {
    const odd = "a'b\"c\n\r\n $HOME `id` \\ é\n";
    const { stdout } = await run(host.launcher, ["printf", "%s", odd]);
    expect(stdout.toString()).toBe(odd);
  });
});

describe("a plan that makes no sense is refused before anything is made", () => {
  test.each([
    ["a NUL in an argument", { argv: ["echo", "a\0b"] }, "NUL"],
    ["no command", { argv: [] }, "argv is empty"],
    ["an id that could leave its folder", { id: "../x" }, "is not [a-z0-9_]"],
    ["an '=' in a name", { env: { "A=B": "1" } }, "env holds a name"],
    ["no time", { timeoutMs: 0 }, "timeoutMs"],
    ["no processes", { limits: { pids: 1 } }, "limits.pids"],
    [
      "an image that is not there",
      { image: { kind: "erofs", path: "/nonexistent/image" } as const },
      "/nonexistent/image",
    ],
  ])("%s", async (_, changes, message) => {
    await expect(host.launcher.launch({ ...plan(["true"], changes) })).rejects.toThrow(message);
  });
});

describe("a deadline kills every descendant (B01)", () => {
  test.each([
    ["a child", 2, (mark: string) => `sleep ${mark} & sleep ${mark}`],
    [
      "one in a session of its own",
      3,
      (mark: string) => `setsid sleep ${mark} & setsid setsid sleep ${mark} & sleep ${mark}`,
    ],
    [
      "a double fork",
      3,
      (mark: string) => `(sleep ${mark} &) ; ( (setsid sleep ${mark} &) & ) ; sleep ${mark}`,
    ],
    [
      "a server",
      1,
      (mark: string) =>
        `mkdir ./${mark}; python3 -m http.server 3000 --directory ${mark} >/dev/null 2>&1 & wait`,
    ],
    [
      "one that ignores SIGTERM (B07b)",
      1,
      (mark: string) => `trap '' TERM INT HUP; while :; do sleep ${mark}; done`,
    ],
  ])("%s", async (_, programs, script) => {
    const mark = newMark();
    let begun = 0;
    // On a machine that stands still it may come before all of them have begun: then the next one comes later.
    for (let timeoutMs = 1_000 * SLOWNESS; begun < programs; timeoutMs *= 4) {
      const look = () => {
        begun = Math.max(begun, hostPidsWith(`\0${mark}\0`).length);
      };
      const looking = setInterval(look, 50);
      const { end, stdout } = await run(host.launcher, shell(`echo before; ${script(mark)}`), { timeoutMs });
      clearInterval(looking);
      expect(end).toMatchObject({ reason: "timed_out", exitCode: null, signal: 9 });
      expect(end.runUs).toBeGreaterThanOrEqual(timeoutMs * 1000);
      expect(end.runUs).toBeLessThan((timeoutMs + 20_000 * SLOWNESS) * 1000);
      expect(hostPidsWith(mark)).toEqual([]);
      if (begun > 0) expect(stdout.toString()).toBe("before\n");
    }
  });

  test("a kill that is asked for says so, and a second one changes nothing", async () => {
    const mark = newMark();
    const sandbox = await host.launcher.launch(plan(["sleep", mark]));
    sandbox.kill();
    sandbox.kill();
    expect((await sandbox.ended).reason).toBe("killed");
    sandbox.kill();
    expect(hostPidsWith(mark)).toEqual([]);
    await sandbox.destroy();
  });

  test("a command that ended before its kill keeps its own end", async () => {
    const { sandbox, end } = await runKept(host.launcher, ["true"]);
    sandbox.kill();
    expect(end.reason).toBe("exited");
    await sandbox.destroy();
  });
});

test("orphans are reaped, so the process table does not fill (B09)", async () => {
  const script = `
    set -- /proc/[0-9]*; before=$#
    for i in $(seq 500); do sh -c "(sleep 0.05 &) ; exit"; done
    for i in $(seq 300); do set -- /proc/[0-9]*; [ $# -le $before ] && break; sleep 0.1; done
    echo defunct $(grep -l "^State:.*Z" /proc/[0-9]*/status 2>/dev/null | wc -l)
    set -- /proc/[0-9]*; after=$#
    echo grown $((after - before))
    sh -c "exit 0" && echo forks`;
  const { stdout } = await run(host.launcher, shell(script), { limits: { pids: 64 } });
  expect(stdout.toString()).toBe("defunct 0\ngrown 0\nforks\n");
});

test("mounts show the host's file or folder, read-only, at a place made for it", async () => {
  const file = join(scratch, "input.txt");
  writeFileSync(file, "in\n", { mode: 0o600 });
  const mounts = [
    { source: file, target: "/work/inputs/a.txt" },
    { source: scratch, target: "/data/folder" },
  ];
  const script =
    "cat inputs/a.txt /data/folder/input.txt; echo x > inputs/a.txt; touch /data/folder/new; rm -f inputs/a.txt; ls inputs";
  const { stdout } = await run(host.launcher, shell(script), { mounts });
  expect(stdout.toString()).toBe("in\nin\na.txt\n");
  expect(readFileSync(file, "utf8")).toBe("in\n");
  expect(existsSync(join(scratch, "new"))).toBe(false);
});

test("a mount whose target would be hidden is refused instead of being silently missing", async () => {
  const refused = host.launcher.launch(
    plan(["true"], { mounts: [{ source: scratch, target: "/usr/hidden" }] }),
  );
  await expect(refused).rejects.toThrow("lies below another mount");
});

test("a descriptor of an output is the caller's own", async () => {
  const { sandbox } = await runKept(host.launcher, shell("echo out > /work/file"));
  const descriptor = sandbox.openOutput(Buffer.from("/work/file"));
  await sandbox.destroy();
  expect(readFileSync(descriptor!, "utf8")).toBe("out\n");
  closeSync(descriptor!);
  await eventually(
    "the folder is gone",
    () => !existsSync(join(host.stateDirectory, "sandboxes", sandbox.id)),
  );
});
