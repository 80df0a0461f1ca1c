import { execFileSync } from "node:child_process";
import { closeSync, openSync, readdirSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  hostPidsWith,
  NO_TRACES,
  newMark,
  plan,
  run,
  shell,
  type TestLauncher,
  testLauncher,
  tracesOf,
} from "./sandboxes.ts";

let host: TestLauncher;
beforeAll(async () => {
  host = await testLauncher();
  // The soft limit, so that few files fill it.
  execFileSync("prlimit", ["--pid", String(process.pid), "--nofile=512:"]);
});
afterAll(() => host[Symbol.asyncDispose]());

const descriptors = () => readdirSync("/proc/self/fd").length;

/** What happens while this process has room for so many descriptors more. */
async function withRoomFor<T>(free: number, act: () => Promise<T>): Promise<T> {
  const held: number[] = [];
  try {
    for (;;) held.push(openSync("/dev/null", "r"));
  } catch (error) {
    expect(error).toMatchObject({ code: "EMFILE" });
  }
  for (const descriptor of held.splice(0, free)) closeSync(descriptor);
  try {
    return await act();
  } finally {
    for (const descriptor of held) closeSync(descriptor);
  }
}

test.each([0, 1, 2, 4])(
  "a launch for whose descriptors there is no room, but for %i, is refused by name and leaves nothing",
  async (free) => {
    await run(host.launcher, ["true"]);
    const before = descriptors();
    const mark = newMark();
    const loopbackPorts = free < 3 ? [] : [3128, 3129];
    const refused = plan(shell(`sleep ${mark}; :`), { loopbackPorts });
    const error = await withRoomFor(free, () =>
      host.launcher.launch(refused).then(
        () => null,
        (error: Error) => error,
      ),
    );
    expect(error).toMatchObject({
      code: "LAUNCH_FAILED",
      message: expect.stringMatching(new RegExp(`^sandbox ${refused.id}: .*RLIMIT_NOFILE.* ${process.pid}$`)),
    });
    expect(hostPidsWith(mark)).toEqual([]);
    expect(tracesOf(host.stateDirectory)).toEqual(NO_TRACES);
    expect(descriptors()).toBe(before);
    const { stdout } = await run(host.launcher, shell("echo goes on"));
    expect(stdout.toString()).toBe("goes on\n");
  },
);

test("a launch for whose descriptors there is room has them all", async () => {
  // Four of its own; whatever else runs in this process may take one just then.
  const sandbox = await withRoomFor(8, () =>
    host.launcher.launch(plan(shell("exit 3"), { loopbackPorts: [3128] })),
  );
  expect(sandbox.listeners).toHaveLength(1);
  closeSync(sandbox.listeners[0]!);
  expect((await sandbox.ended).exitCode).toBe(3);
  await sandbox.destroy();
});
