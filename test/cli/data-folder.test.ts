import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import {
  findServing,
  lockDataFolder,
  makeDataFolder,
  readAdminKey,
  writeAdminKey,
  writeServing,
} from "#cli/data-folder.ts";
import { lockFolder } from "#gateway/node/folder-lock.ts";

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

test("a folder that is served in another container on the same volume is in use here too", async () => {
  // Longer than the address of a socket can be.
  const folder = makeDataFolder(join(parent, "container", "d".repeat(120)));
  const program = `
    const { lockDataFolder, makeDataFolder, writeServing } = await import(${JSON.stringify(resolve(import.meta.dirname, "../../cli/data-folder.ts"))});
    const folder = makeDataFolder(${JSON.stringify(folder.path)});
    await lockDataFolder(folder);
    writeServing(folder, "http://127.0.0.1:7331");
    console.log("locked");
    setInterval(() => {}, 1000);`;
  const own = ["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"];
  const container = spawn("unshare", [...own, process.execPath, "--input-type=module", "-e", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void container.kill("SIGKILL"));
  await new Promise((resolve) => container.stdout.once("data", resolve));
  await expect(lockDataFolder(folder)).rejects.toThrow(/in use by process 1,.*7331/);
  expect(await findServing(folder)).toEqual({ url: "http://127.0.0.1:7331", pid: 1 });
  container.kill("SIGKILL");
  await new Promise((resolve) => container.once("close", resolve));
  expect(await findServing(folder)).toBeUndefined();
  const lock = await lockDataFolder(folder);
  await lock.release();
});

test("of many that find a dead process's lock at once no two take it, and nothing else is removed", async () => {
  const folder = join(parent, "raced");
  mkdirSync(folder);
  writeFileSync(join(folder, "lock.txt"), "mine");
  const program = `
    const { lockFolder } = await import(${JSON.stringify(resolve(import.meta.dirname, "../../gateway/node/folder-lock.ts"))});
    await lockFolder(${JSON.stringify(folder)}, "lock");
    process.kill(process.pid, "SIGKILL");`;
  for (let round = 0; round < 3; round++) {
    spawnSync(process.execPath, ["--input-type=module", "-e", program]);
    expect(readdirSync(folder)).toHaveLength(2);
    const taken = await Promise.all(Array.from({ length: 8 }, () => lockFolder(folder, "lock")));
    expect(taken.filter((lock) => lock !== undefined).length).toBeLessThanOrEqual(1);
    for (const lock of taken) await lock?.release();
    const alone = await lockFolder(folder, "lock");
    expect(alone).toBeDefined();
    await alone!.release();
    expect(readdirSync(folder)).toEqual(["lock.txt"]);
  }
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
