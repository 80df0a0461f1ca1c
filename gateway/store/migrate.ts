import { DsecError } from "#core/errors.ts";
import { sha256 } from "#core/json.ts";
import { MIGRATIONS } from "./migrations.gen.ts";
import type { Query, Sql } from "./sql.ts";

/**
 * Brings the database up to date; returns the names of the migrations that this call applied. Any number of
 * instances may start at once. Everything happens in one transaction under a transaction-level advisory lock: it
 * needs one connection only, so that it works through a transaction pooler, and an instance that is killed
 * half-way leaves nothing behind for the next to trip over.
 *
 * Throws DATABASE_INCOMPATIBLE, having changed nothing, where the database has a migration that is not among these
 * or has one of them in another wording: statements written for these tables would fail on those, or do worse.
 * @param database what a person knows it by, for that refusal; holds no password
 */
export async function migrate(
  sql: Sql,
  { database = "the database", migrations = MIGRATIONS }: { database?: string; migrations?: Migrations } = {},
): Promise<string[]> {
  const shipped = await withDigests(migrations);
  const standing = judge(database, await applied(sql.query), shipped);
  if (standing.missing.length === 0 && standing.digested) return [];
  return sql.transaction(
    async (query, script) => {
      await query("select pg_advisory_xact_lock($1::bigint)", [ADVISORY_LOCK]);
      await query(
        "create table if not exists migrations (name text primary key, applied_at timestamptz not null, digest text)",
      );
      const { known, missing, digested } = judge(database, await applied(query), shipped);
      if (!digested) await adopt(database, query, script, known);
      for (const migration of missing) {
        await script(migration.sql);
        await query("insert into migrations (name, applied_at, digest) values ($1, clock_timestamp(), $2)", [
          migration.name,
          migration.digest,
        ]);
      }
      return missing.map(({ name }) => name);
    },
    { unhurried: true },
  );
}

type Migrations = readonly { name: string; sql: string }[];
type Migration = { name: string; sql: string; digest: string };
type Applied = { name: string; digest: string | null };

/** Any number that nothing else on the database locks; this one reads "DSec". */
const ADVISORY_LOCK = 0x44536563;

function withDigests(migrations: Migrations): Promise<Migration[]> {
  return Promise.all(migrations.map(async ({ name, sql }) => ({ name, sql, digest: await sha256(sql) })));
}

async function applied(query: Query): Promise<Applied[]> {
  const [table] = await query<{ there: boolean }>("select to_regclass('migrations') is not null as there");
  if (!table?.there) return [];
  // The first databases have no such column.
  return query<Applied>("select name, to_jsonb(m) ->> 'digest' as digest from migrations m order by name");
}

/** What the database has and lacks, and whether the digests of all that it has are kept there. */
function judge(
  database: string,
  applied: Applied[],
  shipped: Migration[],
): { known: Migration[]; missing: Migration[]; digested: boolean } {
  const missing = new Map(shipped.map((migration) => [migration.name, migration]));
  const known: Migration[] = [];
  for (const { name, digest } of applied) {
    const migration = missing.get(name);
    if (migration === undefined) {
      throw incompatible(database, `it has the migration ${name}, which this version does not know`, {
        name,
      });
    }
    if (digest !== null && digest !== migration.digest) {
      throw incompatible(database, `its migration ${name} is not the one of this version`, {
        name,
        applied: digest,
        shipped: migration.digest,
      });
    }
    known.push(migration);
    missing.delete(name);
  }
  return {
    known,
    missing: [...missing.values()],
    digested: applied.every(({ digest }) => digest !== null),
  };
}

/**
 * Gives the digests to a database that has none, provided that its tables and functions are what these migrations
 * make: they are made anew beside it, compared, and rolled back.
 */
async function adopt(
  database: string,
  query: Query,
  script: (text: string) => Promise<void>,
  known: Migration[],
): Promise<void> {
  const there = new Map((await schemaParts(query)).map(({ name, form }) => [name, form]));
  await query("savepoint before_adoption");
  await query("create schema dsec_adoption");
  await query("set local search_path to dsec_adoption");
  for (const { sql } of known) await script(sql);
  const expected = await schemaParts(query);
  await query("rollback to savepoint before_adoption");
  const other = expected.find(({ name, form }) => there.get(name) !== form);
  if (other !== undefined) {
    const { name } = known.at(-1)!;
    throw incompatible(database, `its ${other.name} is not what ${name} of this version leaves there`, {
      name,
    });
  }
  await query("alter table migrations add column if not exists digest text");
  for (const { name, digest } of known) {
    await query("update migrations set digest = $2 where name = $1 and digest is null", [name, digest]);
  }
}

/** The columns of each table and index, and the body of each function, of the current schema. */
function schemaParts(query: Query): Promise<{ name: string; form: string }[]> {
  return query(
    `select case c.relkind when 'i' then 'index ' else 'table ' end || c.relname as name,
       string_agg(a.attname || ' ' || t.typname || ' ' || a.attnotnull, ', ' order by a.attname) as form
     from pg_class c join pg_attribute a on a.attrelid = c.oid join pg_type t on t.oid = a.atttypid
     where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p', 'i')
       and a.attnum > 0 and not a.attisdropped and c.relname not like 'migrations%'
     group by c.oid
     union all
     select 'function ' || p.proname || '/' || p.pronargs, string_agg(md5(p.prosrc), ' ' order by md5(p.prosrc))
     from pg_proc p where p.pronamespace = current_schema()::regnamespace
     group by p.proname, p.pronargs
     order by 1`,
  );
}

function incompatible(
  database: string,
  why: string,
  { name, ...digests }: { name: string; applied?: string; shipped?: string },
): DsecError {
  return new DsecError(
    "DATABASE_INCOMPATIBLE",
    `${database} was made by another version of DSec: ${why}; ` +
      "run the version that made it, or begin anew with another --data folder or --database",
    { details: { migration: name, ...digests } },
  );
}
