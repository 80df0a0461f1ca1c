/** A real sandbox whose recording finds no room: it is ended, and its client is told why. */
import { execFileSync } from "node:child_process";
import { mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { trajectoriesIn } from "#executor/trace/paths.ts";
import { eventually, Rig } from "#test/executor/executor-under-test.ts";
import { openTestGateway } from "#test/gateway/gateway-under-test.ts";
import { readTrace } from "#test/support/trace-file.ts";

const countIn = async (trajectory: string) => (await readTrace(await readFile(trajectory))).count;

test("on a full disk an attempt ends at once with what was full, and its trajectory stays readable", async () => {
  const gateway = await openTestGateway();
  const rig = await Rig.open(gateway);
  const traces = join(rig.directory, "data/traces");
  await mkdir(traces, { recursive: true });
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", traces]);
  try {
    await rig.start();
    const small = await rig.sh("echo fits");
    expect(small.task.state).toBe("succeeded");
    const script =
      "echo begun; until dsec-tool observe --wait 20000 | grep -q fill; do :; done; head -c 1500000 /dev/urandom; sleep 300";
    const { id } = await rig.submit({ command: ["sh", "-c", script], retries: 0, timeout_ms: 600_000 });
    // What is flushed before the disk is full stays readable.
    await eventually(async () => {
      const [trajectory] = await trajectoriesIn(traces);
      return trajectory !== undefined && (await stat(trajectory)).size > 0 && (await countIn(trajectory)) > 0;
    });
    await rig.client.ok("POST", `/v1/tasks/${id}/observations`, { content: "fill" });
    const { task } = await rig.finished(id);
    expect(task.state).toBe("dead");
    const message = task.result!.outcome.message!;
    expect(message).toMatch(
      /^STORE_UNAVAILABLE: the event log cannot be written: .*ENOSPC.*free space on its disk/,
    );
    const [day] = await readdir(traces);
    const names = (await readdir(join(traces, day!))).filter((name) => name.endsWith(".traj"));
    expect(names).toHaveLength(1);
    const { state, events } = await readTrace(await readFile(join(traces, day!, names[0]!)));
    expect([state, events[0]]).toMatchObject(["open", { type: "process", state: "exec" }]);
    // Once there is room, what comes next is recorded again.
    execFileSync("mount", ["-o", "remount,size=8m", traces]);
    expect((await rig.sh("echo again")).task.state).toBe("succeeded");
  } finally {
    // Its folder cannot be removed while something is mounted there, which the executor's files keep from being unmounted.
    await rig[Symbol.asyncDispose]().catch(() => {});
    execFileSync("umount", [traces]);
    await rm(rig.directory, { recursive: true, force: true });
    await gateway.close();
  }
});
