import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openPglite } from "#gateway/node/pglite.ts";
import { PgliteEngine } from "#gateway/node/pglite-engine.ts";
import { copyTemplate, STAMP, templateStamp } from "#gateway/node/pglite-template.ts";
import { postgresSql } from "#gateway/store/postgres-driver.ts";
import { createStore } from "#gateway/store/store.ts";
import { newKey, submit } from "./support.ts";

const folder = mkdtempSync(join(tmpdir(), "dsec-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const root = new URL("../../../", import.meta.url);
const locks = (data: string) =>
  readdirSync(dirname(data)).filter((name) => name.startsWith(`${basename(data)}.lock`));

test("what was stored is there when the folder is opened again", async () => {
  const data = join(folder, "kept", "data");
  const first = createStore(await openPglite(data));
  const { task } = await submit(first, await newKey(first));
  await first.close();
  const second = createStore(await openPglite(data));
  expect((await second.listTasks({ keyId: null, limit: 10 })).items).toEqual([task]);
  await second.close();
  expect(locks(data)).toEqual([]);
});

test("a folder that is open is not opened a second time, and one whose process was killed is", async () => {
  const data = join(folder, "locked");
  const { sql } = await openPglite(data);
  await expect(openPglite(data)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  expect(await sql.query("select 1 as one")).toEqual([{ one: 1 }]);
  await sql.close();

  const script = `import { openPglite } from "#gateway/node/pglite.ts";
    await openPglite(process.argv[1]); process.kill(process.pid, "SIGKILL");`;
  const args = ["--input-type=module-typescript", "-e", script, data];
  expect(spawnSync(process.execPath, args, { cwd: root }).signal).toBe("SIGKILL");
  expect(locks(data)).toHaveLength(1);
  const again = await openPglite(data);
  expect(await again.sql.query("select 1 as one")).toEqual([{ one: 1 }]);
  await again.sql.close();
});

test("a new database begins as no template of another version", () => {
  const template = join(folder, "template");
  mkdirSync(template);
  for (const [stamp, taken] of [
    [templateStamp(), true],
    ["0".repeat(64), false],
  ] as const) {
    writeFileSync(join(template, STAMP), stamp);
    const data = join(folder, `from ${stamp}`);
    copyTemplate(data, template);
    expect(existsSync(data)).toBe(taken);
  }
});

test("a process that finds the database of another version in its folder says so and ends", async () => {
  const data = join(folder, "another version");
  const { sql } = await openPglite(data);
  await sql.query("update migrations set digest = 'sha256:00' where name like '0003%'");
  await sql.close();
  const script = `import { openPglite } from "#gateway/node/pglite.ts";
    await openPglite(process.argv[1]).catch(({ code, message }) => console.log(code, message));`;
  const args = ["--input-type=module-typescript", "-e", script, data];
  const run = spawnSync(process.execPath, args, { cwd: root, timeout: 90_000 });
  expect(run.signal).toBe(null);
  expect(String(run.stdout)).toContain(
    `DATABASE_INCOMPATIBLE the database in ${data} was made by another version`,
  );
  expect(locks(data)).toEqual([]);
});

test("an embedded database that has ended refuses each statement", async () => {
  const engine = await PgliteEngine.start(join(folder, "ended"));
  const sql = postgresSql("postgres://postgres@embedded/postgres", {
    connectionsMax: 1,
    answerMsMax: Number.POSITIVE_INFINITY,
    socket: () => engine.connect(),
  });
  expect(await sql.query("select 1 as one")).toEqual([{ one: 1 }]);
  await engine.close();
  for (let i = 0; i < 3; i++) {
    await expect(sql.query("select 1")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  }
  await sql.close();
});

test("a temporary database leaves nothing behind, closed or not", async () => {
  const script = `import { openPglite } from "#gateway/node/pglite.ts";
    const { sql } = await openPglite(null); if (process.argv[1] === "close") await sql.close(); process.exit(0);`;
  for (const how of ["close", "exit"]) {
    const home = mkdtempSync(join(folder, "tmp-"));
    const args = ["--input-type=module-typescript", "-e", script, how];
    const run = spawnSync(process.execPath, args, { cwd: root, env: { ...process.env, TMPDIR: home } });
    expect(run.status, String(run.stderr)).toBe(0);
    expect(readdirSync(home)).toEqual([]);
  }
});
