import { MIGRATIONS } from "./migrations.gen.ts";
import type { Query, Sql } from "./sql.ts";

/**
 * Brings the database up to date; returns the names of the migrations that this call applied. Any number of
 * instances may start at once. Everything happens in one transaction under a transaction-level advisory lock: it
 * needs one connection only, so that it works through a transaction pooler, and an instance that is killed
 * half-way leaves nothing behind for the next to trip over.
 */
export async function migrate(sql: Sql, migrations = MIGRATIONS): Promise<string[]> {
  if ((await missing(sql.query, migrations)).length === 0) return [];
  return sql.transaction(async (query, script) => {
    await query("select pg_advisory_xact_lock($1::bigint)", [ADVISORY_LOCK]);
    await query(
      "create table if not exists migrations (name text primary key, applied_at timestamptz not null)",
    );
    const names: string[] = [];
    for (const migration of await missing(query, migrations)) {
      await script(migration.sql);
      await query("insert into migrations (name, applied_at) values ($1, clock_timestamp())", [
        migration.name,
      ]);
      names.push(migration.name);
    }
    return names;
  });
}

/** Any number that nothing else on the database locks; this one reads "DSec". */
const ADVISORY_LOCK = 0x44536563;

async function missing(query: Query, migrations: typeof MIGRATIONS): Promise<typeof MIGRATIONS> {
  const [table] = await query<{ there: boolean }>("select to_regclass('migrations') is not null as there");
  if (!table?.there) return migrations;
  const rows = await query<{ name: string }>("select name from migrations");
  const applied = new Set(rows.map((row) => row.name));
  return migrations.filter((migration) => !applied.has(migration.name));
}
