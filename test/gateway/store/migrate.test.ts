import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { migrate } from "#gateway/store/migrate.ts";
import { MIGRATIONS } from "#gateway/store/migrations.gen.ts";
import { postgresSql } from "#gateway/store/postgres-driver.ts";
import { type PostgresServer, startPostgres } from "#test/support/postgres.ts";
import { migrationsModule } from "../../../setup/migrations.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server?.stop());

const recorded = async (url: string): Promise<string[]> => {
  const sql = postgresSql(url, { connectionsMax: 1 });
  const rows = await sql.query<{ name: string }>("select name from migrations order by name");
  await sql.close();
  return rows.map(({ name }) => name);
};
const names = MIGRATIONS.map(({ name }) => name);

test("the migrations built into the gateway are those in migrations/", () => {
  const embedded = new URL("../../../gateway/store/migrations.gen.ts", import.meta.url);
  expect(readFileSync(embedded, "utf8")).toBe(migrationsModule());
  expect(names).toEqual([...names].sort());
});

test("eight instances may start at once on an empty database, twenty times over (B59)", async () => {
  for (let round = 0; round < 20; round++) {
    const url = await server.emptyDatabase();
    const instances = Array.from({ length: 8 }, () => postgresSql(url, { connectionsMax: 1 }));
    const applied = await Promise.all(instances.map((sql) => migrate(sql)));
    await Promise.all(instances.map((sql) => sql.close()));
    expect(applied.filter((list) => list.length > 0)).toEqual([names]);
    expect(await recorded(url)).toEqual(names);
  }
});

test("an instance killed in the middle of migrating leaves the work to the next (B59)", async () => {
  const url = await server.emptyDatabase();
  const child: ChildProcess = spawn(process.execPath, ["--input-type=module-typescript", "-e", SLOW, url], {
    cwd: new URL("../../../", import.meta.url),
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout!, "data"); // its first migration is applied and it is in the middle of the second
  child.kill("SIGKILL");
  await once(child, "exit");
  const sql = postgresSql(url, { connectionsMax: 1 });
  expect(await migrate(sql)).toEqual(names);
  await sql.close();
  expect(await recorded(url)).toEqual(names);
});

test("a new migration is applied once to a database that has the older ones, and a broken one leaves nothing", async () => {
  const url = await server.database();
  const sql = postgresSql(url, { connectionsMax: 1 });
  const next = [
    ...MIGRATIONS,
    { name: "9998_next", sql: "create table next_one (id int); insert into next_one values (1)" },
  ];
  const broken = [
    ...next,
    { name: "9999_broken", sql: "create table broken (id int); select no_such_function()" },
  ];
  await expect(migrate(sql, broken)).rejects.toThrow("no_such_function");
  expect(await sql.query("select to_regclass('next_one')::text as name")).toEqual([{ name: null }]);
  expect(await migrate(sql, next)).toEqual(["9998_next"]);
  expect(await migrate(sql, next)).toEqual([]);
  expect(await sql.query("select id from next_one")).toEqual([{ id: 1 }]);
  await sql.close();
});

test("one connection without prepared statements or session settings is enough, as behind a transaction pooler", async () => {
  const url = await server.emptyDatabase();
  const sql = postgresSql(url, { connectionsMax: 1, pooled: true });
  expect(await migrate(sql)).toEqual(names);
  await sql.close();
});

/** Says so once it is inside the second migration, which then does not end. */
const SLOW = `
import { migrate } from "#gateway/store/migrate.ts";
import { MIGRATIONS } from "#gateway/store/migrations.gen.ts";
import { postgresSql } from "#gateway/store/postgres-driver.ts";
const sql = postgresSql(process.argv[1], { connectionsMax: 1 });
const spied = { ...sql, transaction: (work) => sql.transaction((query, script) => work(query, async (text) => {
  await script(text);
  if (text === MIGRATIONS[1].sql) { console.log("in the middle"); await new Promise((resolve) => setTimeout(resolve, 600_000)); }
})) };
await migrate(spied);
`;
