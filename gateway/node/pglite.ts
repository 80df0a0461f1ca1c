import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { DsecError } from "#core/errors.ts";
import { migrate } from "#gateway/store/migrate.ts";
import { postgresSql } from "#gateway/store/postgres-driver.ts";
import type { Sql } from "#gateway/store/sql.ts";
import { createLocalWake, type LocalWake } from "#gateway/store/wake.ts";
import { type FolderLock, lockFolder } from "./folder-lock.ts";
import { PgliteEngine } from "./pglite-engine.ts";
import { copyTemplate } from "./pglite-template.ts";

/**
 * PostgreSQL in a thread of this process, brought up to date, and wake-ups for the one process that can have it open.
 * A new folder begins as a copy of the template.
 * @param directory where the data lives; null for a temporary folder that `close` removes
 */
export async function openPglite(directory: string | null): Promise<{ sql: Sql; wake: LocalWake }> {
  const folder = directory === null ? mkdtempSync(join(tmpdir(), "dsec-pglite-")) : resolve(directory);
  const data = directory === null ? join(folder, "data") : folder;
  const removeTemporary = () => directory === null && rmSync(folder, { recursive: true, force: true });
  process.once("exit", removeTemporary);
  const { release: unlock } = await lock(data);
  const release = async () => {
    await unlock();
    process.off("exit", removeTemporary);
    removeTemporary();
  };
  try {
    if (!existsSync(join(data, "PG_VERSION"))) copyTemplate(data);
    const sql = await pgliteSql(data);
    try {
      await migrate(sql, { database: `the database in ${data}` });
    } catch (error) {
      await sql.close(); // its thread would keep this process from ending
      throw error;
    }
    return { sql: { ...sql, close: () => sql.close().finally(release) }, wake: createLocalWake() };
  } catch (error) {
    await release();
    throw error;
  }
}

/**
 * `Sql` over a database folder that nobody else has open: one connection, statements one after another. The client is
 * PostgreSQL's own, so that each statement is planned once: PGlite's `query` plans each call anew, which takes longer
 * than running it.
 */
export async function pgliteSql(data: string): Promise<Sql> {
  const engine = await PgliteEngine.start(data);
  const sql = postgresSql("postgres://postgres@embedded/postgres", {
    connectionsMax: 1,
    answerMsMax: Number.POSITIVE_INFINITY,
    socket: () => engine.connect(),
  });
  return { ...sql, close: () => sql.close().finally(() => engine.close()) };
}

/** PGlite does not notice a second process in its folder, and two of them destroy it. */
async function lock(data: string): Promise<FolderLock> {
  const parent = dirname(data);
  mkdirSync(parent, { recursive: true });
  const taken = await lockFolder(parent, `${basename(data)}.lock`).catch((cause: Error) => {
    const message = `the database in ${data} cannot be locked: ${cause.message}; mend that, or keep it elsewhere`;
    throw new DsecError("CONFIG_INVALID", message, { cause });
  });
  if (taken !== undefined) return taken;
  throw new DsecError(
    "CONFIG_INVALID",
    `the database in ${data} is open in another process; stop that one, or use PostgreSQL for several gateways`,
  );
}
