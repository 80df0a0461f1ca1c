import { expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { END_REASONS, type Outcome, processExitCode, retryBackoffMs, stateAfter } from "#core/task.ts";
import { TaskSpecSchema } from "#core/wire/tasks.ts";

const outcome = (reason: Outcome["reason"], exit_code: number | null = null): Outcome => ({
  reason,
  exit_code,
  signal: null,
  message: null,
});

test("only a fault of ours is retried; a result never is", () => {
  for (const reason of END_REASONS) {
    const state = stateAfter(outcome(reason, reason === "exited" ? 1 : null), 1);
    expect(state === "queued").toBe(reason === "launch_failed" || reason === "executor_lost");
  }
});

test("a task whose last attempt was lost is dead, not queued for ever", () => {
  expect(stateAfter(outcome("executor_lost"), 0)).toBe("dead");
});

test("a command that ended is not run again because its record failed, whatever tries are left", () => {
  expect(stateAfter(outcome("record_failed", 0), 5)).toBe("dead");
  expect(processExitCode(outcome("record_failed", 0))).toBe(125);
});

test("exit 0 alone is success", () => {
  expect(stateAfter(outcome("exited", 0), 2)).toBe("succeeded");
  expect(stateAfter(outcome("exited", 137), 2)).toBe("failed");
  expect(stateAfter(outcome("signaled", 137), 2)).toBe("failed");
});

test("no way of ending without a status looks like success to a shell", () => {
  for (const reason of END_REASONS) expect(processExitCode(outcome(reason))).not.toBe(0);
});

test("back-off doubles and is bounded", () => {
  const waits = [1, 2, 3, 4, 50].map((attempt) =>
    retryBackoffMs(attempt, LIMITS.retryBackoffBaseMs, LIMITS.retryBackoffMaxMs),
  );
  expect(waits).toEqual([500, 1000, 2000, 4000, 60_000]);
});

test("a misspelt or misplaced member of a task is refused, never ignored", () => {
  const good = { command: ["true"] };
  expect(TaskSpecSchema.safeParse(good).success).toBe(true);
  for (const bad of [
    { ...good, tiemout_ms: 5 },
    { ...good, resources: { memory: 5 } },
    { ...good, timeout_ms: "30" },
    { ...good, resources: { memory_mb: "512mb" } },
    { ...good, command: "true" },
    { ...good, command: [] },
    { ...good, image: "../x" },
    { ...good, env: { "A=B": "c" } },
    { ...good, command: ["a\0b"] },
    { ...good, command: ["\ud800"] },
    { ...good, inputs: [{ artifact: "sha256:00", mount_path: "/in" }] },
    { ...good, inputs: [{ artifact: `sha256:${"0".repeat(64)}`, mount_path: "/usr/bin/python3" }] },
    { ...good, inputs: [{ artifact: `sha256:${"0".repeat(64)}`, mount_path: "/in/../etc" }] },
    { ...good, outputs: ["../../etc/shadow"] },
    { ...good, working_directory: "relative" },
    { ...good, command: ["x".repeat(LIMITS.argumentBytes + 1)] },
    { ...good, command: ["€".repeat(LIMITS.argumentBytes / 2)] },
  ]) {
    expect(TaskSpecSchema.safeParse(bad).success, JSON.stringify(bad).slice(0, 100)).toBe(false);
  }
});
