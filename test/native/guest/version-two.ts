/** What only a host with version 2 can show. A part of the guest's tests: see vitest.config.ts. */
import { execFileSync, spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkCgroups, checkFolder, checkKernel } from "#cli/doctor/host.ts";
import { checkSandbox } from "#cli/doctor/sandbox.ts";
import { OwnGroups } from "#executor/cgroups.ts";
import { startLauncher } from "#native/index.ts";
import {
  cgroupPrefixOf,
  cgroupsOf,
  eventually,
  NO_TRACES,
  plan,
  testLauncher,
  tracesOf,
} from "../sandboxes.ts";

const TOP = "/sys/fs/cgroup";

const words = (path: string): string[] => readFileSync(path, "utf8").trim().split(/\s+/);
const memberOf = (pid: number): string =>
  readFileSync(`/proc/${pid}/cgroup`, "utf8").trim().replace("0::", TOP);

test("this is version 2 and nothing else", () => {
  expect(existsSync(join(TOP, "cgroup.controllers"))).toBe(true);
  expect(readFileSync("/proc/self/mountinfo", "utf8")).not.toMatch(/ - cgroup /);
});

test("a sandbox is born in its group, with every controller at hand", async () => {
  await using host = await testLauncher();
  const sandbox = await host.launcher.launch(plan(["sleep", "60"], { limits: { diskIops: 99 } }));
  const [group] = cgroupsOf(cgroupPrefixOf(host.stateDirectory));
  expect(memberOf(sandbox.pid)).toBe(group);
  expect(words(join(group!, "cgroup.controllers"))).toEqual(
    expect.arrayContaining(["cpu", "io", "memory", "pids"]),
  );
  expect(sandbox.observation).toMatchObject({ cgroup: "v2", limits: { diskIops: 99 } });
  await sandbox.destroy();
});

test("the doctor finds this host suitable, and says version 2", async () => {
  const data = mkdtempSync(join(tmpdir(), "dsec-doctor-"));
  const cgroups = checkCgroups();
  const checks = [...checkKernel(), ...cgroups, ...checkFolder("data", data), ...(await checkSandbox(data))];
  expect(checks.filter(({ status }) => status !== "ok")).toEqual([]);
  expect(cgroups.every(({ found }) => found.includes("cgroup v2"))).toBe(true);
  rmSync(data, { recursive: true });
});

test("groups lie below the one that systemd has handed over, and its processes make room", async () => {
  const home = memberOf(process.pid);
  const unit = join(TOP, "unit.service");
  mkdirSync(unit);
  // as systemd does for Delegate=yes
  const mark = "import os, sys; os.setxattr(sys.argv[1], 'trusted.delegate', b'1')";
  execFileSync("python3", ["-c", mark, unit]);
  writeFileSync(join(unit, "cgroup.procs"), String(process.pid));
  try {
    // the second finds itself below the unit's group already
    for (let start = 0; start < 2; start++) {
      await using host = await testLauncher();
      const sandbox = await host.launcher.launch(plan(["sleep", "60"]));
      expect(memberOf(sandbox.pid)).toBe(`${unit}/${cgroupPrefixOf(host.stateDirectory)}${sandbox.id}`);
      expect(memberOf(process.pid)).toBe(join(unit, "dsec-supervisor"));
      expect(readFileSync(join(unit, "cgroup.procs"), "utf8")).toBe("");
      // The unit's limits hold for what was moved out of it.
      writeFileSync(join(unit, "pids.max"), "3000");
      expect(OwnGroups.find().pids()).toBeLessThan(3000);
      expect(words(join(unit, "cgroup.subtree_control"))).toEqual(
        expect.arrayContaining(["cpu", "io", "memory", "pids"]),
      );
      await sandbox.destroy();
      expect(tracesOf(host.stateDirectory)).toEqual(NO_TRACES);
    }
  } finally {
    writeFileSync(join(home, "cgroup.procs"), String(process.pid));
  }
  await eventually("the launchers are gone", () => words(join(unit, "cgroup.events"))[1] === "0");
  rmdirSync(join(unit, "dsec-supervisor"));
  expect(readdirSync(unit, { withFileTypes: true }).filter((entry) => entry.isDirectory())).toEqual([]);
  rmdirSync(unit);
});

test("a left group whose processes keep forking dies in one stroke", async () => {
  const stateDirectory = mkdtempSync(join(tmpdir(), "dsec-forking-"));
  const group = join(TOP, `${cgroupPrefixOf(stateDirectory)}left`);
  mkdirSync(group);
  writeFileSync(join(group, "pids.max"), "64");
  const script = `echo 0 > ${group}/cgroup.procs; bomb() { bomb | bomb & }; bomb; while :; do bomb; done`;
  const bomb = spawn("bash", ["-c", script], { stdio: "ignore", detached: true });
  const exited = new Promise((resolve) => bomb.on("exit", (_, signal) => resolve(signal)));
  await eventually("it forks", () => words(join(group, "cgroup.procs")).length > 16, 60_000);
  const launcher = await startLauncher({ stateDirectory });
  expect(await exited).toBe("SIGKILL");
  expect(existsSync(group)).toBe(false);
  await launcher.close();
  rmSync(stateDirectory, { recursive: true });
});
