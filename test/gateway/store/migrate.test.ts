import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { migrate } from "#gateway/store/migrate.ts";
import { MIGRATIONS } from "#gateway/store/migrations.gen.ts";
import { postgresSql } from "#gateway/store/postgres-driver.ts";
import type { Sql } from "#gateway/store/sql.ts";
import { type PostgresServer, startPostgres } from "#test/support/postgres.ts";
import { migrationsModule } from "../../../setup/migrations.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server?.stop());

const recorded = async (sql: Sql): Promise<string[]> => {
  const rows = await sql.query<{ name: string }>("select name from migrations order by name");
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
    expect(applied.filter((list) => list.length > 0)).toEqual([names]);
    expect(await recorded(instances[0]!)).toEqual(names);
    await Promise.all(instances.map((sql) => sql.close()));
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
  expect(await recorded(sql)).toEqual(names);
  await sql.close();
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
  await expect(migrate(sql, { migrations: broken })).rejects.toThrow("no_such_function");
  expect(await sql.query("select to_regclass('next_one')::text as name")).toEqual([{ name: null }]);
  expect(await migrate(sql, { migrations: next })).toEqual(["9998_next"]);
  expect(await migrate(sql, { migrations: next })).toEqual([]);
  expect(await sql.query("select id from next_one")).toEqual([{ id: 1 }]);
  await sql.close();
});

test("one connection without prepared statements or session settings is enough, as behind a transaction pooler", async () => {
  const url = await server.emptyDatabase();
  const sql = postgresSql(url, { connectionsMax: 1, pooled: true });
  expect(await migrate(sql)).toEqual(names);
  await sql.close();
});

const digestsOf = (sql: Sql) =>
  sql.query<{ name: string; digest: string }>("select name, digest from migrations order by name");

test("a database whose migration is worded otherwise, or newer than the program, is refused and left as it is", async () => {
  const sql = postgresSql(await server.database(), { connectionsMax: 1 });
  const before = await digestsOf(sql);
  expect(before.every(({ digest }) => /^sha256:[0-9a-f]{64}$/.test(digest))).toBe(true);
  const reworded = [
    ...MIGRATIONS.map(({ name, sql }) => (name === names[2] ? { name, sql: `${sql} ` } : { name, sql })),
    { name: "9999_next", sql: "create table next_one (id int)" },
  ];
  const refusals = [
    { migrations: reworded, migration: names[2], says: `its migration ${names[2]} is not the one` },
    {
      migrations: MIGRATIONS.slice(0, -1),
      migration: names.at(-1),
      says: `it has the migration ${names.at(-1)}`,
    },
  ];
  for (const { migrations, migration, says } of refusals) {
    const refused = await migrate(sql, { database: "the database in /srv/dsec", migrations }).catch((e) => e);
    expect(refused).toMatchObject({ code: "DATABASE_INCOMPATIBLE", details: { migration } });
    expect(refused.message).toContain(says);
    expect(refused.message).toMatch(
      /^the database in \/srv\/dsec .*; run the version that made it, or .* --data folder/,
    );
  }
  expect(await digestsOf(sql)).toEqual(before);
  await sql.close();
});

test("a database from before digests were kept gets them, from eight instances at once", async () => {
  const url = await server.database();
  const first = postgresSql(url, { connectionsMax: 1 });
  const before = await digestsOf(first);
  await first.query("alter table migrations drop column digest");
  // What others keep in the same schema is nothing to us.
  await first.query("create table theirs (id int)");
  const next = { migrations: [...MIGRATIONS, { name: "9999_next", sql: "create table next_one (id int)" }] };
  const instances = Array.from({ length: 8 }, () => postgresSql(url, { connectionsMax: 1, pooled: true }));
  const applied = await Promise.all(instances.map((sql) => migrate(sql, next)));
  expect(applied.filter((list) => list.length > 0)).toEqual([["9999_next"]]);
  expect((await digestsOf(first)).slice(0, -1)).toEqual(before);
  expect(await first.query("select nspname from pg_namespace where nspname like 'dsec%'")).toEqual([]);
  await Promise.all([first, ...instances].map((sql) => sql.close()));
});

test("a database from before digests were kept whose migrations were others is refused", async () => {
  for (const [change, part] of [
    ["alter table tasks rename column state to stage", "table tasks"],
    ["alter table leases drop column fence", "table leases"],
    [
      "create or replace function dsec_now() returns timestamptz language sql as $$ select now() $$",
      "function dsec_now/0",
    ],
  ]) {
    const sql = postgresSql(await server.database(), { connectionsMax: 1 });
    await sql.query("alter table migrations drop column digest");
    await sql.query(change!);
    const refused = await migrate(sql).catch((error) => error);
    expect(refused).toMatchObject({ code: "DATABASE_INCOMPATIBLE" });
    expect(refused.message).toContain(`its ${part} is not what ${names.at(-1)} of this version leaves there`);
    expect(await recorded(sql)).toEqual(names);
    await sql.close();
  }
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
