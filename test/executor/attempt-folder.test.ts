import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "#core/ids.ts";
import type { Hold } from "#core/wire/leases.ts";
import { AttemptFolder } from "#executor/attempt-folder.ts";
import { Leases } from "#executor/leases.ts";
import { recoverAttempts } from "#executor/recover.ts";
import { emptyResult } from "#executor/run.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "dsec-attempts-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const FILES = 3_000;

async function attemptIn(attempts: string, hold: Hold): Promise<AttemptFolder> {
  return (await AttemptFolder.make(join(directory, "nobody's"))).giveTo(attempts, hold);
}

/** A finished attempt with many outputs, as it lies there until the gateway has it. */
async function finished(attempts: string): Promise<AttemptFolder> {
  const folder = await attemptIn(attempts, { lease_id: newId("lease"), fence: 1 });
  mkdirSync(folder.outputs);
  for (let n = 0; n < FILES; n++) writeFileSync(join(folder.outputs, String(n)), "output");
  writeFileSync(join(folder.path, "finish.json"), "{}");
  return folder;
}

/** Removes the folder in a process of its own, which is killed once some of the outputs are gone. */
async function removedAndKilled({ path }: AttemptFolder, attempts: string): Promise<void> {
  const module = resolve(import.meta.dirname, "../../executor/attempt-folder.ts");
  const script = `import { AttemptFolder } from ${JSON.stringify(module)};
    await new AttemptFolder(${JSON.stringify(path)}).remove();`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script], {
    cwd: resolve(import.meta.dirname, "../.."),
    stdio: "inherit",
  });
  const exit = once(child, "exit");
  while (outputsIn(attempts) === FILES) await new Promise((resolve) => setImmediate(resolve));
  child.kill("SIGKILL");
  await exit;
}

/** Of the one folder there is, whatever its name. */
function outputsIn(attempts: string): number {
  const [name] = readdirSync(attempts);
  if (name === undefined) return 0;
  try {
    return readdirSync(join(attempts, name, "outputs")).length;
  } catch (error) {
    // Removed between the two looks, or renamed: looked at again.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return FILES;
    throw error;
  }
}

test("an executor that is killed while it removes a delivered attempt finds none whose outputs are gone", async () => {
  let halfway = 0;
  // More rounds where this process had its turn only once all was removed.
  for (let round = 0; round < 5 || (halfway === 0 && round < 50); round++) {
    const attempts = await mkdtemp(join(directory, "a-"));
    await removedAndKilled(await finished(attempts), attempts);
    const left = await AttemptFolder.list(attempts);
    for (const folder of left) {
      if (existsSync(join(folder.path, "finish.json")) && outputsIn(attempts) < FILES) halfway++;
      expect(folder.hold).toBeNull();
    }
    // what is on its way out is removed by the next life, and nobody is told of it again
    const nobody = () => Promise.reject(new Error("nothing is to be told"));
    const client = {
      ...{ renew: nobody, putBlob: nobody, complete: nobody, fail: nobody, sendTrajectory: nobody },
    };
    const failures: unknown[] = [];
    await recoverAttempts({
      ...{ folders: left, trajectories: [], leases: new Leases(), client },
      ...{ collector: { sealLeft: nobody }, signal: new AbortController().signal },
      onFailure: (error) => failures.push(error),
    });
    expect(failures).toEqual([]);
    expect(readdirSync(attempts)).toEqual([]);
  }
  expect(halfway, "kills in the middle of a removal").toBeGreaterThan(0);
});

test("a finished attempt whose trace is gone is told as failed, and its folder does not stay for ever", async () => {
  const attempts = await mkdtemp(join(directory, "g-"));
  const hold = { lease_id: newId("lease"), fence: 1 };
  const folder = await attemptIn(attempts, hold);
  const result = emptyResult({ reason: "exited", exit_code: 0, signal: null, message: null });
  const trace = {
    digest: `sha256:${"1".repeat(64)}` as const,
    size: 1,
    path: join(attempts, "cleaned-up.trace"),
  };
  folder.writeFinish({ hold, complete: { fence: 1, result, evidence: "e" }, trace });
  const told: unknown[] = [];
  const nobody = () => Promise.reject(new Error("nothing else is to be told"));
  const fail = async (leaseId: string, { message }: { message: string }) =>
    void told.push([leaseId, message]);
  const renew = async () => ({
    leases: [{ state: "held" as const, lease_id: hold.lease_id, ttl_ms: 30_000, cancel_requested: false }],
    draining: false,
  });
  const failures: unknown[] = [];
  await recoverAttempts({
    ...{ folders: [folder], trajectories: [], leases: new Leases(), collector: { sealLeft: nobody } },
    ...{ client: { renew, putBlob: nobody, complete: nobody, fail, sendTrajectory: nobody } },
    ...{ signal: new AbortController().signal, onFailure: (error) => failures.push(error) },
  });
  expect(told).toEqual([
    [
      hold.lease_id,
      expect.stringMatching(/^INTERNAL: what lease_\w+ left cannot be read: cleaned-up\.trace/),
    ],
  ]);
  expect(readdirSync(attempts)).toEqual([]);
});
