import { expect, test } from "vitest";
import { newId } from "#core/ids.ts";
import { AXES, INSUFFICIENT, type Resources } from "#core/resources.ts";
import { fromWire } from "#core/wire/common.ts";
import type { Lease } from "#core/wire/leases.ts";
import { type TaskRequest, TaskSpecSchema } from "#core/wire/tasks.ts";
import { outcomeOf, signalName } from "#executor/outcome.ts";
import { holdOfSandbox, planLaunch, sandboxId } from "#executor/plan.ts";
import type { SandboxEnd } from "#native/index.ts";

const DIGEST = `sha256:${"a".repeat(64)}` as const;

function lease(request: Partial<TaskRequest> = {}): Lease {
  return {
    lease_id: `lease_${"0".repeat(26)}`,
    task_id: `task_${"0".repeat(26)}`,
    key_id: `key_${"0".repeat(26)}`,
    fence: 3,
    attempt: 2,
    ttl_ms: 30_000,
    expires_at: "2030-01-01T00:00:00.000Z",
    spec: TaskSpecSchema.parse({ command: ["true"], ...request }),
    spec_digest: DIGEST,
  };
}

const PLENTY: Resources = {
  cpu_millis: 64_000,
  memory_mb: 65_536,
  gpu_memory_mb: 0,
  disk_iops: 10_000,
  network_mbps: 1_000,
  pids: 10_000,
  disk_mb: 100_000,
};
const PREPARED = {
  image: { kind: "host" as const },
  inputPaths: [] as string[],
  stdinPath: null,
  socketPath: "/attempt/tool.sock",
  environment: { DSEC_SEED: "7" },
  free: PLENTY,
};
const plan = (request: Partial<TaskRequest>, free = PLENTY) =>
  planLaunch(lease(request), { ...PREPARED, inputPaths: ["/cache/a"], free });

test("a plan has the task's limits in the launcher's units", () => {
  const resources = { cpu_cores: 0.25, memory_mb: 64, pids: 7, disk_mb: 10, disk_iops: 50 };
  expect(plan({ resources, timeout_ms: 1234 })).toMatchObject({
    limits: { cpuMillis: 250, memoryBytes: 64 * 2 ** 20, pids: 7, diskIops: 50, diskBytes: 10 * 2 ** 20 },
    timeoutMs: 1234,
  });
});

test("a task that asks for no disk does not get all of it", () => {
  expect(plan({ resources: { disk_mb: 0 } }).limits.diskBytes).toBe(2 ** 20);
});

test("a task's own environment stands above the default", () => {
  const { env } = plan({ env: { PATH: "/opt/bin", MINE: "1" } });
  expect(env).toMatchObject({
    PATH: "/opt/bin:/dsec/bin",
    MINE: "1",
    HOME: "/root",
    DSEC_TASK_ID: lease().task_id,
  });
});

test("two attempts of one task, or two fences of one lease, never share a sandbox's name", () => {
  const ids = [lease(), { ...lease(), fence: 4 }].map((held) => planLaunch(held, PREPARED).id);
  expect(new Set(ids).size).toBe(2);
  for (const id of ids) expect(id).toMatch(/^[a-z0-9_]{1,64}$/);
});

test("inputs keep their place and their path", () => {
  const inputs = [{ artifact: DIGEST, mount_path: "/data/in" }];
  expect(plan({ inputs }).mounts).toContainEqual({ source: "/cache/a", target: "/data/in" });
});

test("every sandbox has its socket, and the programs that speak to it", () => {
  const { mounts, env } = plan({});
  expect(mounts).toContainEqual({ source: "/attempt/tool.sock", target: "/run/dsec/tool.sock" });
  expect(mounts.map(({ target }) => target)).toEqual(expect.arrayContaining(["/dsec/bin", "/dsec/python"]));
  expect(env).toMatchObject({ DSEC_SOCKET: "/run/dsec/tool.sock", PYTHONPATH: "/dsec/python" });
  expect(env.PATH).toMatch(/:\/dsec\/bin$/);
});

test.each(AXES)(
  "a host that has less %s than it offered refuses by that axis, before anything is made",
  (axis) => {
    const resources = { gpu_memory_mb: 10, disk_iops: 10, network_mbps: 10 };
    const free = { ...PLENTY, gpu_memory_mb: 10 };
    const asked = fromWire(lease({ resources }).spec.resources);
    expect(() => plan({ resources }, { ...free, [axis]: asked[axis] })).not.toThrow();
    expect(() => plan({ resources }, { ...free, [axis]: asked[axis] - 1 })).toThrow(
      expect.objectContaining({
        code: INSUFFICIENT[axis],
        message: expect.stringMatching(
          new RegExp(`^task task_0+ asks for .* has only ${asked[axis] - 1} left`),
        ),
      }),
    );
  },
);

function end(given: Partial<SandboxEnd>): SandboxEnd {
  return {
    reason: "exited",
    exitCode: null,
    signal: null,
    message: null,
    usage: { cpuUs: 1, memoryPeakBytes: 1 },
    runUs: 1,
    ...given,
  };
}

test.each<[Partial<SandboxEnd>, object]>([
  [{ exitCode: 0 }, { reason: "exited", exit_code: 0, signal: null }],
  [{ exitCode: 137 }, { reason: "exited", exit_code: 137, signal: null }],
  [
    { reason: "signaled", signal: 9 },
    { reason: "signaled", exit_code: 137, signal: "SIGKILL" },
  ],
  [
    { reason: "signaled", signal: 11 },
    { reason: "signaled", exit_code: 139, signal: "SIGSEGV" },
  ],
  [
    { reason: "oom_killed", signal: 9 },
    { reason: "oom_killed", exit_code: 137, signal: "SIGKILL" },
  ],
  [{ reason: "oom_killed" }, { reason: "oom_killed", exit_code: 137, signal: null }],
  [
    { reason: "timed_out", signal: 9 },
    { reason: "timed_out", exit_code: null, signal: null },
  ],
  [
    { reason: "timed_out", exitCode: 0 },
    { reason: "timed_out", exit_code: 0, signal: null },
  ],
  [
    { reason: "killed", signal: 9 },
    { reason: "cancelled", exit_code: null, signal: null },
  ],
  [
    { reason: "disk_full", signal: 9, message: "m" },
    { reason: "disk_full", exit_code: null, message: "m" },
  ],
  [
    { reason: "command_not_found", message: "execve x: No such file or directory" },
    { reason: "command_not_found", exit_code: 127, message: "execve x: No such file or directory" },
  ],
  [
    { reason: "command_not_executable", message: "execve x: Permission denied" },
    { reason: "command_not_executable", exit_code: 126, message: "execve x: Permission denied" },
  ],
])("the end %j is the outcome %j (B06, B07)", (given, outcome) => {
  expect(outcomeOf(end(given))).toMatchObject(outcome);
});

test("every signal has a name that the wire takes", () => {
  for (let signal = 1; signal <= 64; signal++) expect(signalName(signal)).toMatch(/^SIG[A-Z0-9+]{1,12}$/);
  expect([6, 9, 32, 34, 64].map(signalName)).toEqual([
    "SIGABRT",
    "SIGKILL",
    "SIG32",
    "SIGRTMIN",
    "SIGRTMIN+30",
  ]);
});

test("a sandbox's name tells its lease, and no other name does", () => {
  const hold = { lease_id: newId("lease"), fence: 12 };
  expect(holdOfSandbox(sandboxId(hold))).toEqual(hold);
  const { lease_id } = hold;
  for (const other of [
    lease_id,
    `${lease_id}_`,
    `${lease_id}_1x`,
    `${lease_id}_01`,
    `x_${lease_id}_1`,
    "_1",
    "",
  ]) {
    expect(holdOfSandbox(other)).toBe(null);
  }
});
