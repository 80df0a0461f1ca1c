import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { TaskId } from "#core/ids.ts";
import { Door } from "#executor/channel/door.ts";
import { readRecording } from "#executor/replay/recording.ts";
import { restoreMemory } from "#executor/replay/restore-memory.ts";
import { ChannelRig } from "#test/executor/channel/channel-under-test.ts";

test("memory is restored as it was when a recording began, with what was left of each lifetime", async () => {
  await using rig = await ChannelRig.open();
  const { memory } = rig.services;
  const lease = await rig.lease();
  const identity = { taskId: lease.task_id as TaskId, sandboxId: "earlier", owner: "x", grants: [] };
  const view = memory.view(identity);
  const put = await view.put("lock", '"mine"', { ttlMs: 60_000 });
  await view.put("__proto__", "1", { ttlMs: 90_000 });
  await view.put("plan", "[1.0]");

  const directory = join(rig.directory, lease.lease_id);
  await mkdir(directory);
  const channel = await rig.channels.open(lease, directory, await Door.make(directory));
  const { trace } = await channel.close(AbortSignal.timeout(30_000));
  await rig.channels.end(channel);
  const recording = await readRecording(trace.path);

  await view.put("lock", '"for ever"');
  await view.put("later", "2");
  await restoreMemory(memory, recording, lease);
  const { entries } = await view.list();
  expect(entries.map(({ key, text }) => [key, text])).toEqual([
    ["__proto__", "1"],
    ["lock", '"mine"'],
    ["plan", "[1.0]"],
  ]);
  const [proto, lock, plan] = entries.map(({ expiresAtMs }) => expiresAtMs);
  // It counts from when the attempt begins that is given the recording.
  const nowMs = Date.now();
  expect(lock).toBeGreaterThanOrEqual(put.entry.expiresAtMs!);
  expect(lock).toBeLessThanOrEqual(nowMs + 60_000);
  expect(proto! - lock!).toBeGreaterThan(29_000);
  expect(proto).toBeLessThanOrEqual(nowMs + 90_000);
  expect(plan).toBe(null);
});
