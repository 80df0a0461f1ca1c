import postgres from "postgres";
import { DsecError } from "#core/errors.ts";
import type { Parameter, Query, Sql } from "./sql.ts";

export type PostgresOptions = {
  connectionsMax?: number;
  /**
   * The connection goes through a pooler that may give each transaction another session (PgBouncer, Hyperdrive):
   * no prepared statements and no session settings then.
   */
  pooled?: boolean;
  /** The application name that pg_stat_activity shows. */
  name?: string;
  /** Makes the connection in place of TCP: a stream (Node's Duplex) that speaks the protocol, open already. */
  socket?: () => unknown;
};

/**
 * Each statement is planned once for each connection: planning a batch takes longer than running it. Such a plan may
 * be made while a table is all but empty and must still be right when it is large, hence no sequential scans. And
 * compiling a statement takes longer than any of ours runs.
 */
export const SESSION = { plan_cache_mode: "force_generic_plan", enable_seqscan: "off", jit: "off" };

/** `Sql` over postgres.js, which runs on Node and in workerd. */
export function postgresSql(url: string, options: PostgresOptions = {}): Sql {
  // postgres.js takes `socket`, which its types leave out.
  const settings: postgres.Options<Record<string, never>> & { socket?: () => unknown } = {
    ...(options.socket ? { socket: options.socket } : {}),
    max: options.connectionsMax ?? 10,
    prepare: !options.pooled,
    // Array types would be looked up on every new connection; the store uses none.
    fetch_types: false,
    connect_timeout: 10,
    backoff: (attempt) => Math.min(5, 0.05 * 2 ** attempt),
    onnotice: () => {},
    connection: { application_name: options.name ?? "dsec", ...(options.pooled ? {} : SESSION) },
  };
  const client = postgres(url, settings);
  const prepare = !options.pooled;
  return {
    query: queryOver(client, prepare),
    async transaction(work) {
      try {
        return (await client.begin((transaction) =>
          work(
            queryOver(transaction, prepare),
            async (text) => void (await transaction.unsafe(text).simple()),
          ),
        )) as Awaited<ReturnType<typeof work>>;
      } catch (error) {
        throw asDsecError(error);
      }
    },
    close: () => client.end({ timeout: 5 }),
  };
}

/** @param prepare `unsafe` prepares nothing unless told to: each statement would be planned anew, over two round trips */
function queryOver(client: postgres.Sql | postgres.TransactionSql, prepare: boolean): Query {
  return async <R>(text: string, parameters: readonly Parameter[] = []) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return (await client.unsafe(text, [...parameters], { prepare })) as unknown as R[];
      } catch (error) {
        // The server rolled the statement back to break a deadlock: outside a transaction it can simply run again.
        if (codeOf(error) === "40P01" && !("savepoint" in client) && attempt < 4) continue;
        throw asDsecError(error);
      }
    }
  };
}

/** Failures of the connection or the server become STORE_UNAVAILABLE; what a statement did wrong stays as it is. */
function asDsecError(error: unknown): unknown {
  const code = codeOf(error);
  if (error instanceof DsecError || code === undefined) return error;
  // SQLSTATE classes: 08 connection, 53 resources, 57P server stops or starts; the words are postgres.js's and libuv's.
  const unavailable = /^(08|53|57P|CONNECT|E[A-Z]{4,})/.test(code);
  if (!unavailable) return error;
  const what = code === "53100" ? "the database's disk is full" : "the database does not answer";
  const message = `${what} (${code}); it is tried again with the next request`;
  return new DsecError("STORE_UNAVAILABLE", message, { cause: error });
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : undefined;
}
