/** What is kept of an attempt that a fault of ours ends. The sandbox is the test's: it goes on talking, whatever it is told. */
import { openSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { ArtifactCache } from "#executor/artifact-cache.ts";
import type { HeldLease } from "#executor/leases.ts";
import { Place } from "#executor/place.ts";
import { Interrupted, runInSandbox } from "#executor/sandbox-run.ts";
import { LiveTrajectories } from "#executor/trace/live.ts";
import type { Sandbox } from "#native/index.ts";
import { ChannelRig } from "./channel/channel-under-test.ts";

test("a sandbox that still talks when a fault of ours has ended its attempt does not ruin the record of it", async () => {
  await using rig = await ChannelRig.open();
  const lease = await rig.lease();
  const hold = { lease_id: lease.lease_id, fence: lease.fence };
  const held: HeldLease = {
    lease,
    hold,
    heldUntilMs: Number.POSITIVE_INFINITY,
    stopped: new AbortController(),
  };
  const attempts = join(rig.directory, "attempts");
  await mkdir(attempts);
  const place = (await Place.make(rig.directory)).giveTo(attempts, hold);
  const stdout = Readable.from(
    (async function* () {
      for (;;) {
        await nextTurn();
        yield Buffer.from("still here\n");
      }
    })(),
  );
  const sandbox = {
    id: "talking",
    pid: process.pid,
    stdout,
    stderr: Readable.from([]),
    // No socket, so its proxy cannot serve.
    listeners: [openSync("/dev/null", "r")],
    ended: new Promise(() => {}),
    kill() {},
    destroy: async () => {},
  } as unknown as Sandbox;
  const controller = new AbortController();
  const running = runInSandbox(held, { kind: "host" }, place, () => {}, {
    live: { sink: () => ({ data() {}, truncated() {} }) },
    trajectories: new LiveTrajectories(rig.gateway, controller.signal),
    launcher: { launch: async () => sandbox },
    artifacts: await ArtifactCache.open(join(rig.directory, "artifacts"), () =>
      Promise.reject(new Error("none")),
    ),
    channels: rig.channels,
    client: rig.gateway,
    services: rig.services,
    measureFree: () => ({ memory_mb: 1_000_000, disk_mb: 1_000_000 }),
    onShortage() {},
    closing: controller.signal,
  });
  const interrupted = await running.catch((error: unknown) => error);
  controller.abort();
  expect(interrupted).toBeInstanceOf(Interrupted);
  const { cause, channel, ended } = interrupted as Interrupted;
  expect(cause).toMatchObject({ syscall: "listen" });
  expect(channel!.trace.count).toBeGreaterThan(0);
  expect(ended).toBeNull();
  expect(stdout.destroyed).toBe(true);
  await place.remove();
});
