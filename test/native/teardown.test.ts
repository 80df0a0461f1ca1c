import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startLauncher } from "#native/index.ts";
import {
  cgroupPrefixOf,
  cgroupRoot,
  cgroupsOf,
  eventually,
  hostPidsWith,
  NO_TRACES,
  newMark,
  plan,
  run,
  runKept,
  shell,
  type TestLauncher,
  testLauncher,
  tracesOf,
} from "./sandboxes.ts";

let host: TestLauncher;
beforeAll(async () => {
  host = await testLauncher();
});
afterAll(() => host[Symbol.asyncDispose]());

/** The pid of the launcher that holds the folder, from its command line; its own children have the same. */
function launcherPid(stateDirectory: string): number {
  const pids = hostPidsWith(stateDirectory).filter((pid) => parentOf(pid) === process.pid);
  expect(pids.length).toBe(1);
  return pids[0]!;
}

/** Null for a process that is gone. */
function parentOf(pid: number): number | null {
  try {
    return Number(/^PPid:\t(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))![1]);
  } catch {
    return null;
  }
}

/** Roots that no sandbox has yet. */
function blanksIn(stateDirectory: string): number {
  const folder = join(stateDirectory, "blanks");
  return existsSync(folder) ? readdirSync(folder).length : 0;
}

/** Nothing is made ahead any more, which takes a process of the launcher's for a moment each time. */
const stockIsFull = (stateDirectory: string) =>
  eventually("the stock of roots is full", () => blanksIn(stateDirectory) === 8);

function descriptorsOf(pid: number | "self"): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

describe("destroying a sandbox leaves nothing", () => {
  test("of a living one either, and a second time is a no-op", async () => {
    const mark = newMark();
    const sandbox = await host.launcher.launch(plan(shell(`setsid sleep ${mark} & sleep ${mark}`)));
    expect(tracesOf(host.stateDirectory).folders).toEqual([sandbox.id]);
    await sandbox.destroy();
    await sandbox.destroy();
    expect((await sandbox.ended).reason).toBe("killed");
    expect(hostPidsWith(mark)).toEqual([]);
    expect(tracesOf(host.stateDirectory)).toEqual(NO_TRACES);
  });

  test("an id can be used again afterwards and not before", async () => {
    const again = plan(["true"], { id: "again" });
    const first = await host.launcher.launch(again);
    await expect(host.launcher.launch(again)).rejects.toThrow("again already exists");
    await first.destroy();
    const second = await host.launcher.launch(again);
    expect((await second.ended).exitCode).toBe(0);
    await second.destroy();
  });

  test("files of other owners, modes without access, deep trees, long and odd names", async () => {
    const script = `
      mkdir locked && touch locked/in && chmod 0 locked
      python3 - <<'P'
import os
os.chdir("/work")
for _ in range(3000):
    os.mkdir("d" * 40); os.chdir("d" * 40)
open("bottom", "w").close()
P
      mkdir wide && cd wide && seq 3000 | xargs touch
      touch -- "-rf" $'new\\nline' $'\\377' "$(printf 'n%.0s' $(seq 255))"
      chmod 04777 -- -rf; ln -s / root; mkfifo fifo`;
    const { sandbox, end, stderr } = await runKept(host.launcher, shell(script));
    expect([end.exitCode, stderr.toString()]).toEqual([0, ""]);
    await sandbox.destroy();
    expect(tracesOf(host.stateDirectory)).toEqual(NO_TRACES);
    expect(existsSync("/etc/passwd")).toBe(true);
  });

  test("a failed launch neither (B14)", async () => {
    const failures = [
      { limits: { memoryBytes: 1 } },
      { workingDirectory: "/etc/passwd/x" },
      { mounts: [{ source: "/nonexistent", target: "/x" }] },
      { mounts: [{ source: "/etc/hostname", target: "/etc" }] },
    ];
    for (const changes of failures) {
      // a limit too small for init may also let the launch pass and kill it at once
      const outcome = await host.launcher.launch(plan(["true"], changes)).catch((error: Error) => error);
      if (!(outcome instanceof Error)) await outcome.destroy();
      expect(tracesOf(host.stateDirectory)).toEqual(NO_TRACES);
    }
    expect((await run(host.launcher, ["true"])).end.exitCode).toBe(0);
  });
});

describe("nothing leaks", () => {
  test("200 sandboxes one after another", async () => {
    // The stocks are filled beside it, which takes the most slots that one sandbox after another can.
    const beside = await host.launcher.launch(plan(["sleep", "1000"]));
    await stockIsFull(host.stateDirectory);
    await beside.destroy();
    const pid = launcherPid(host.stateDirectory);
    expect(descriptorsOf(pid)).toBeGreaterThan(40);
    const before = [descriptorsOf(pid), descriptorsOf("self")];
    for (let i = 0; i < 200; i++) {
      const { end, stdout } = await run(host.launcher, ["echo", String(i)]);
      expect([end.exitCode, stdout.toString()]).toEqual([0, `${i}\n`]);
    }
    expect(tracesOf(host.stateDirectory)).toEqual(NO_TRACES);
    await eventually(
      "descriptors are as before",
      () => descriptorsOf(pid) <= before[0]! && descriptorsOf("self") <= before[1]!,
    );
  });

  test("50 at once, each with its own output, ids and end", async () => {
    const runs = await Promise.all(
      Array.from({ length: 50 }, (_, i) => runKept(host.launcher, shell(`echo ${i}; sleep 0.3; exit ${i}`))),
    );
    expect(runs.map(({ end }) => end.exitCode)).toEqual(runs.map((_, i) => i));
    expect(runs.map(({ stdout }) => stdout.toString())).toEqual(runs.map((_, i) => `${i}\n`));
    await Promise.all(runs.map(({ sandbox }) => sandbox.destroy()));
    expect(tracesOf(host.stateDirectory)).toEqual(NO_TRACES);
  });

  test("output that nobody reads", async () => {
    const before = descriptorsOf("self");
    for (let i = 0; i < 10; i++) {
      const sandbox = await host.launcher.launch(plan(["echo", "unread"]));
      await sandbox.ended;
      await sandbox.destroy();
    }
    await eventually("descriptors are as before", () => descriptorsOf("self") <= before);
  });
});

test("roots that were made ahead are never two sandboxes', and go with the launcher", async () => {
  const stateDirectory = mkdtempSync(join(tmpdir(), "dsec-blanks-"));
  const launcher = await startLauncher({ stateDirectory });
  await stockIsFull(stateDirectory);
  // More than are ready: each finds an empty layer, and what it leaves in it is in nobody else's.
  const once = shell("mkdir /work/mine && ls -A /work /tmp /root /home");
  const all = await Promise.all(Array.from({ length: 20 }, () => run(launcher, once)));
  const listing = "/home:\n\n/root:\n\n/tmp:\n\n/work:\nmine\n";
  expect(all.map(({ stdout }) => stdout.toString())).toEqual(all.map(() => listing));
  await stockIsFull(stateDirectory);
  await launcher.close();
  expect(blanksIn(stateDirectory)).toBe(0);
  rmSync(stateDirectory, { recursive: true });
});

describe("a launcher that is killed takes everything with it, and the next removes the rest", () => {
  test("processes die at once; cgroups, folders and mounts are gone after the next start", async () => {
    const stateDirectory = mkdtempSync(join(tmpdir(), "dsec-crash-"));
    const first = await startLauncher({ stateDirectory });
    const mark = newMark();
    const running = await Promise.all(
      Array.from({ length: 5 }, () => first.launch(plan(shell(`(setsid sleep ${mark} &); sleep ${mark}`)))),
    );
    await eventually("the commands run", () => hostPidsWith(`sleep\0${mark}`).length === 10);
    const pid = launcherPid(stateDirectory);
    process.kill(pid, "SIGKILL");
    const lost = await first.lost;
    expect(lost).toMatchObject({ code: "LAUNCHER_LOST" });
    for (const sandbox of running)
      await expect(sandbox.ended).rejects.toMatchObject({ code: "LAUNCHER_LOST" });
    await expect(first.launch(plan(["true"]))).rejects.toMatchObject({ code: "LAUNCHER_LOST" });
    await eventually("every process is dead", () => hostPidsWith(mark).length === 0);
    // what needs a hand is still there, as it would be after a power cut
    expect(tracesOf(stateDirectory).folders.length).toBe(5);
    expect(tracesOf(stateDirectory).cgroups.length).toBeGreaterThanOrEqual(5);
    expect(tracesOf(stateDirectory).mounts).toEqual([]);

    const second = await startLauncher({ stateDirectory });
    expect(tracesOf(stateDirectory)).toEqual(NO_TRACES);
    expect((await run(second, ["true"])).end.exitCode).toBe(0);
    await second.close();
    await first.close();
    rmSync(stateDirectory, { recursive: true });
  });

  test("a living process in a left cgroup is killed by the next start", async () => {
    const stateDirectory = mkdtempSync(join(tmpdir(), "dsec-left-"));
    const name = `${cgroupPrefixOf(stateDirectory)}left`;
    const group = join(cgroupRoot("pids"), name);
    mkdirSync(join(group, "inner"), { recursive: true });
    const { spawn } = await import("node:child_process");
    const child = spawn("sleep", [newMark()], { stdio: "ignore" });
    writeFileSync(join(group, "inner", "cgroup.procs"), String(child.pid));
    const exited = new Promise((resolve) => child.on("exit", (_, signal) => resolve(signal)));
    const launcher = await startLauncher({ stateDirectory });
    expect(await exited).toBe("SIGKILL");
    expect(existsSync(group)).toBe(false);
    await launcher.close();
    rmSync(stateDirectory, { recursive: true });
  });

  test("clean-up never walks through a link (B70)", async () => {
    const stateDirectory = mkdtempSync(join(tmpdir(), "dsec-link-"));
    const precious = mkdtempSync(join(tmpdir(), "dsec-precious-"));
    writeFileSync(join(precious, "file"), "kept");
    mkdirSync(join(stateDirectory, "sandboxes"));
    symlinkSync(precious, join(stateDirectory, "sandboxes/link"));
    symlinkSync(precious, join(stateDirectory, "host-image"));
    const launcher = await startLauncher({ stateDirectory });
    await launcher.close();
    expect(readFileSync(join(precious, "file"), "utf8")).toBe("kept");
    rmSync(stateDirectory, { recursive: true });
    rmSync(precious, { recursive: true });
  });
});

describe("a launcher", () => {
  test("refuses a folder that another living one holds, and leaves that one alone", async () => {
    const sandbox = await host.launcher.launch(plan(["sleep", "60"]));
    await expect(startLauncher({ stateDirectory: host.stateDirectory })).rejects.toMatchObject({
      code: "HOST_UNSUITABLE",
      message: expect.stringContaining("another living launcher"),
    });
    expect(existsSync(`/proc/${sandbox.pid}`)).toBe(true);
    await sandbox.destroy();
  });

  test("that is closed ends every sandbox first, and a second close is a no-op", async () => {
    const own = await testLauncher();
    const mark = newMark();
    const sandbox = await own.launcher.launch(plan(["sleep", mark]));
    await own.launcher.close();
    await own.launcher.close();
    expect((await sandbox.ended).reason).toBe("killed");
    expect(hostPidsWith(mark)).toEqual([]);
    expect(tracesOf(own.stateDirectory)).toEqual(NO_TRACES);
    expect(hostPidsWith(own.stateDirectory)).toEqual([]);
    await expect(own.launcher.launch(plan(["true"]))).rejects.toMatchObject({ code: "LAUNCHER_LOST" });
    rmSync(own.stateDirectory, { recursive: true });
  });

  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)("leaves it to Node to end on %s", async (signal) => {
    await using own = await testLauncher();
    await stockIsFull(own.stateDirectory);
    // The helpers have the launcher's command line.
    const pids = hostPidsWith(own.stateDirectory);
    expect(pids.length).toBe(3);
    const running = runKept(own.launcher, shell("echo begun; sleep 0.5; echo ended"));
    for (const pid of pids) process.kill(pid, signal);
    const { sandbox, end, stdout } = await running;
    expect([end.reason, stdout.toString()]).toEqual(["exited", "begun\nended\n"]);
    await sandbox.destroy();
    await stockIsFull(own.stateDirectory);
    expect(hostPidsWith(own.stateDirectory)).toEqual(pids);
  });

  test("ends with the process that started it, sweeping up first", async () => {
    const stateDirectory = mkdtempSync(join(tmpdir(), "dsec-orphan-"));
    const { spawn } = await import("node:child_process");
    const mark = newMark();
    const program = `
      import { startLauncher } from "#native/index.ts";
      const launcher = await startLauncher({ stateDirectory: ${JSON.stringify(stateDirectory)} });
      await launcher.launch(${JSON.stringify(plan(["sleep", mark]))});
      console.log("running");`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
      cwd: new URL("../..", import.meta.url),
      stdio: ["ignore", "pipe", "inherit"],
    });
    await new Promise((resolve) => child.stdout.once("data", resolve));
    // The program's own command line has the mark too.
    await eventually("the command runs", () => hostPidsWith(`sleep\0${mark}`).length > 0);
    await stockIsFull(stateDirectory);
    for (const pid of hostPidsWith(stateDirectory)) if (pid !== child.pid) process.kill(pid, "SIGTERM");
    child.kill("SIGKILL");
    await eventually(
      "sandbox and launcher are gone",
      () => hostPidsWith(mark).length + hostPidsWith(stateDirectory).length === 0,
    );
    expect(tracesOf(stateDirectory)).toEqual(NO_TRACES);
    rmSync(stateDirectory, { recursive: true });
  });

  test("shows none of its mounts on the host, and shares no namespace of its sandboxes", () => {
    const pid = launcherPid(host.stateDirectory);
    expect(readlinkSync(`/proc/${pid}/ns/mnt`)).not.toBe(readlinkSync("/proc/self/ns/mnt"));
    expect(tracesOf(host.stateDirectory).mounts).toEqual([]);
  });

  test("tries a sandbox before it takes plans: a file system that cannot map ids is refused at the start", async () => {
    const folder = mkdtempSync(join(tmpdir(), "dsec-unsuitable-"));
    const [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map((name) =>
      join(folder, name),
    );
    for (const path of [lower!, upper!, work!, merged!]) mkdirSync(path);
    const layers = `lowerdir=${lower},upperdir=${upper},workdir=${work}`;
    execFileSync("mount", ["-t", "overlay", "overlay", "-o", layers, merged!]);
    try {
      const stateDirectory = join(merged!, "state");
      await expect(startLauncher({ stateDirectory })).rejects.toMatchObject({
        code: "HOST_UNSUITABLE",
        message: expect.stringMatching(/MOUNT_ATTR_IDMAP.*use a file system with idmapped mounts/),
      });
      expect(cgroupsOf(cgroupPrefixOf(stateDirectory))).toEqual([]);
      expect(hostPidsWith(stateDirectory)).toEqual([]);
    } finally {
      execFileSync("umount", [merged!]);
      rmSync(folder, { recursive: true });
    }
  });

  test("says what is missing when its folder cannot be made", async () => {
    await expect(startLauncher({ stateDirectory: "/proc/none/state" })).rejects.toMatchObject({
      code: "HOST_UNSUITABLE",
      message: expect.stringContaining("/proc/none/state"),
    });
  });
});
