import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { NO_RESOURCES } from "#core/resources.ts";
import { OwnGroups } from "#executor/cgroups.ts";
import { HostRoom } from "#executor/host-room.ts";
import { Ledger } from "#executor/ledger.ts";
import { plan, shell, testLauncher } from "#test/native/sandboxes.ts";

const MEBIBYTE = 1024 * 1024;
const KEPT_DISK_MB = LIMITS.hostDiskFreeBytes / MEBIBYTE;
const KEPT_MEMORY_MB = LIMITS.hostMemoryFreeBytes / MEBIBYTE;

let root: string;
let data: string;
const tmpfs = (options: string) => execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", data]);
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "dsec-room-"));
  data = join(root, "data");
  mkdirSync(data);
  tmpfs("size=4g");
});
afterEach(() => {
  execFileSync("umount", ["-l", data]);
  rmSync(root, { recursive: true });
});

/** A process alone in a group of version 2 that may use so much of memory, and uses so much. */
function ownGroups(limitMb: number, usedMb: number): OwnGroups {
  const group = join(root, "v2/unit");
  mkdirSync(join(root, "proc"), { recursive: true });
  mkdirSync(group, { recursive: true });
  writeFileSync(join(root, "proc/cgroup"), "0::/unit\n");
  writeFileSync(join(root, "proc/mountinfo"), `29 23 0:25 / ${root}/v2 rw - cgroup2 cgroup2 rw\n`);
  writeFileSync(join(group, "memory.max"), String(limitMb * MEBIBYTE));
  writeFileSync(join(group, "memory.current"), String(usedMb * MEBIBYTE));
  return OwnGroups.find(join(root, "proc"));
}

test("what others use is missing, and what sandboxes use is not: it is theirs already", async () => {
  const groups = ownGroups(2000, 500);
  const sandboxes = [{ id: "s1", pid: process.pid, diskBytes: 0 }];
  const room = new HostRoom(data, groups, { sandboxes });
  expect(room.forSandboxes()).toEqual({ memory_mb: 1500 - KEPT_MEMORY_MB, disk_mb: 4096 - KEPT_DISK_MB });

  // A file that is nobody's sandbox's, and one of the same size in the layer of one.
  writeFileSync(join(data, "artifact"), Buffer.alloc(100 * MEBIBYTE));
  room.forget();
  expect(room.forSandboxes().disk_mb).toBe(3996 - KEPT_DISK_MB);
  writeFileSync(join(data, "layer"), Buffer.alloc(100 * MEBIBYTE));
  sandboxes[0]!.diskBytes = 100 * MEBIBYTE;
  room.forget();
  expect(room.forSandboxes().disk_mb).toBe(3996 - KEPT_DISK_MB);
  expect(room.free().disk_mb).toBe(3896);

  ownGroups(2000, 1900);
  room.forget();
  expect(room.forSandboxes().memory_mb).toBe(0);
});

test("a host that is full of sandboxes which use all they asked for is neither over nor short", () => {
  tmpfs(`remount,size=${KEPT_DISK_MB + 320}m`);
  const groups = ownGroups(4096, 0);
  const sandboxes: { id: string; pid: number; diskBytes: number }[] = [];
  const room = new HostRoom(data, groups, { sandboxes });
  const capacity = { ...NO_RESOURCES, cpu_millis: 8000, memory_mb: 2048, pids: 1000, disk_mb: 300 };
  const ledger = new Ledger(capacity, () => {
    room.forget();
    return room.forSandboxes();
  });
  const task = { ...NO_RESOURCES, cpu_millis: 1000, memory_mb: 256, pids: 16, disk_mb: 100 };
  for (let i = 0; i < 3; i++) {
    expect(ledger.take(task), `task ${i}`).toBe("taken");
    writeFileSync(join(data, `layer ${i}`), Buffer.alloc(100 * MEBIBYTE));
    sandboxes.push({ id: `s${i}`, pid: process.pid, diskBytes: 100 * MEBIBYTE });
  }
  expect(ledger.free().disk_mb).toBe(0);
  expect(ledger.take({ ...task, disk_mb: 0 })).toBe("taken");
  // One leaves, and what it had is free again.
  rmSync(join(data, "layer 0"));
  sandboxes.shift();
  ledger.give(task);
  expect(ledger.free().disk_mb).toBe(100);
});

test("what a running task has set aside and not used yet is kept for it", () => {
  const room = new HostRoom(data, ownGroups(4096, 0), { sandboxes: [] });
  const capacity = { ...NO_RESOURCES, cpu_millis: 8000, memory_mb: 4096, pids: 1000, disk_mb: 3072 };
  const ledger = new Ledger(capacity, () => room.forSandboxes());
  const task = { ...NO_RESOURCES, cpu_millis: 1000, memory_mb: 256, pids: 16, disk_mb: 1024 };
  expect([ledger.take(task), ledger.take(task)]).toEqual(["taken", "taken"]);
  tmpfs("remount,size=3g");
  room.forget();
  // 3072 are free, less what stays so and what both may still write.
  expect(ledger.free()).toMatchObject({ disk_mb: 3072 - KEPT_DISK_MB - 2048 });
});

test("the memory and the layer of a real sandbox are measured", async () => {
  await using host = await testLauncher();
  const room = new HostRoom(data, OwnGroups.find(), host.launcher);
  const before = room.forSandboxes();
  const script = "python3 -c 'held = bytearray(300 << 20); print(1, flush=True); input()'";
  const sandbox = await host.launcher.launch(
    plan(shell(`head -c 202M /dev/zero > layer; ${script} < <(sleep 60)`), {
      limits: { memoryBytes: 1 << 30, diskBytes: 1 << 30 },
    }),
  );
  await new Promise((resolve) => sandbox.stdout.once("data", resolve));
  // Less than a mebibyte more than was told last is not told.
  while (sandbox.diskBytes < 200 * MEBIBYTE) await sleep(20);
  room.forget();
  // The layer lies on another file system here, so that it shows as what sandboxes may have more.
  const { memory_mb, disk_mb } = room.forSandboxes();
  expect(disk_mb - before.disk_mb).toBeGreaterThanOrEqual(200);
  expect(disk_mb - before.disk_mb).toBeLessThan(220);
  const used = memory_mb - room.free().memory_mb + KEPT_MEMORY_MB;
  expect(used).toBeGreaterThan(250);
  expect(used).toBeLessThan(400);
  await sandbox.destroy();
  room.forget();
  expect(room.forSandboxes().disk_mb).toBe(before.disk_mb);
  expect([...host.launcher.sandboxes]).toEqual([]);
});
