import { migrate } from "#gateway/store/migrate.ts";
import { type PostgresOptions, postgresSql } from "#gateway/store/postgres-driver.ts";
import type { Sql } from "#gateway/store/sql.ts";
import type { Wake } from "#gateway/wake-port.ts";
import { databaseSocket } from "./database-socket.ts";
import { type ListenLog, listenWake } from "./listen.ts";

export type OpenedDatabase = { sql: Sql; wake: Wake & { close(): void | Promise<void> } };

/** A PostgreSQL database brought up to date, and wake-ups through its LISTEN and NOTIFY. */
export async function openPostgres(
  url: string,
  options: PostgresOptions & { log?: ListenLog } = {},
): Promise<OpenedDatabase> {
  const sql = postgresSql(url, { socket: databaseSocket, ...options });
  const { host, pathname } = new URL(url);
  try {
    await migrate(sql, { database: `the database ${host}${pathname}` });
  } catch (error) {
    await sql.close();
    throw error;
  }
  return { sql, wake: listenWake(url, options.log ? { log: options.log } : {}) };
}
