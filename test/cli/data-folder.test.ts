import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import {
  findServing,
  lockDataFolder,
  makeDataFolder,
  readAdminKey,
  writeAdminKey,
  writeServing,
} from "#cli/data-folder.ts";

const parent = mkdtempSync(join(tmpdir(), "dsec-data-"));
afterAll(() => rmSync(parent, { recursive: true, force: true }));

test("a data folder serves one process at a time, and the second is told who has it", async () => {
  const folder = makeDataFolder(join(parent, "one"));
  const lock = await lockDataFolder(folder);
  writeServing(folder, "http://127.0.0.1:7330");
  await expect(lockDataFolder(folder)).rejects.toThrow(new RegExp(`in use by process ${process.pid}.*7330`));
  expect(await findServing(folder)).toEqual({ url: "http://127.0.0.1:7330", pid: process.pid });
  await lock.release();
  expect(await findServing(folder)).toBeUndefined();
  const again = await lockDataFolder(folder);
  await again.release();
});

test("the lock is on the folder, whatever path leads to it", async () => {
  const folder = makeDataFolder(join(parent, "two"));
  const lock = await lockDataFolder(folder);
  await expect(
    lockDataFolder(makeDataFolder(join(parent, "..", parent.split("/").at(-1)!, "two"))),
  ).rejects.toThrow(/in use/);
  const other = await lockDataFolder(makeDataFolder(join(parent, "three")));
  await other.release();
  await lock.release();
});

test("a killed process leaves no lock behind", async () => {
  const folder = makeDataFolder(join(parent, "four"));
  const program = `
    const { lockDataFolder, makeDataFolder } = await import(${JSON.stringify(resolve(import.meta.dirname, "../../cli/data-folder.ts"))});
    await lockDataFolder(makeDataFolder(${JSON.stringify(folder.path)}));
    console.log("locked");
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  await expect(lockDataFolder(folder)).rejects.toThrow(/in use/);
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("close", resolve));
  const lock = await lockDataFolder(folder);
  await lock.release();
});

test("folder and admin key are for their owner only", () => {
  const folder = makeDataFolder(join(parent, "five"));
  expect(readAdminKey(folder)).toBeUndefined();
  writeAdminKey(folder, "dsk_secret");
  expect(readAdminKey(folder)).toBe("dsk_secret");
  expect(statSync(folder.path).mode & 0o777).toBe(0o700);
  expect(statSync(join(folder.path, "admin.key")).mode & 0o777).toBe(0o600);
});

test("a folder that cannot be used is refused by name", () => {
  expect(() => makeDataFolder("/proc/nothing/here")).toThrow(
    /data folder \/proc\/nothing\/here cannot be used/,
  );
});
