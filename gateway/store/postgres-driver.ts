import postgres from "postgres";
import { DsecError } from "#core/errors.ts";
import { inTime } from "#core/in-time.ts";
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
  /** Makes a connection in place of postgres.js: a stream (Node's Duplex) that speaks the protocol. */
  socket?: (address: DatabaseAddress) => unknown;
  /**
   * How long a statement may be without its answer, in milliseconds, before the connections are given up; Infinity
   * where no network lies between. The server ends a statement, one that waits for a lock included, after four fifths
   * of it, unless `pooled`.
   */
  answerMsMax?: number;
};

/** Where the URL says that the server is: one host, in postgres.js's form for several. */
export type DatabaseAddress = { host: string[]; port: number[]; path: string | false };

/** A third of a lease's life: whoever renews it is told in time. */
const ANSWER_MS_MAX = 10_000;
const CONNECT_S_MAX = 5;
/** How long statements that are still answered have when connections are given up. */
const END_S_MAX = 5;

/**
 * Each statement is planned once for each connection: planning a batch takes longer than running it. Such a plan may
 * be made while a table is all but empty and must still be right when it is large, hence no sequential scans. And
 * compiling a statement takes longer than any of ours runs.
 */
export const SESSION = { plan_cache_mode: "force_generic_plan", enable_seqscan: "off", jit: "off" };

/**
 * `Sql` over postgres.js, which runs on Node and in workerd.
 *
 * STORE_UNAVAILABLE: the server does not answer, or not in time. Where a firewall or a NAT on the way forgets a
 * connection, nobody is told, and TCP gives up after a quarter of an hour only; therefore connections of which one does
 * not answer in time are left for new ones. What was asked of them may have been done.
 */
export function postgresSql(url: string, options: PostgresOptions = {}): Sql {
  const { answerMsMax = ANSWER_MS_MAX } = options;
  const prepare = !options.pooled;
  const session = Number.isFinite(answerMsMax)
    ? { ...SESSION, statement_timeout: Math.ceil(0.8 * answerMsMax) }
    : SESSION;
  // postgres.js takes `socket`, which its types leave out.
  const settings: postgres.Options<Record<string, never>> & Pick<PostgresOptions, "socket"> = {
    ...(options.socket ? { socket: options.socket } : {}),
    max: options.connectionsMax ?? 10,
    prepare,
    // Array types would be looked up on every new connection; the store uses none.
    fetch_types: false,
    connect_timeout: CONNECT_S_MAX,
    backoff: (attempt) => Math.min(5, 0.05 * 2 ** attempt),
    onnotice: () => {},
    connection: { application_name: options.name ?? "dsec", ...(options.pooled ? {} : session) },
  };
  let client = postgres(url, settings);
  const givenUp: Promise<void>[] = [];

  function answered<T>(ask: (client: postgres.Sql) => PromiseLike<T>): Promise<T> {
    const asked = client;
    return inTime(ask(asked), answerMsMax, () => {
      giveUp(asked);
      return unavailable(`no answer for ${answerMsMax} ms`);
    });
  }

  function giveUp(silent: postgres.Sql): void {
    if (silent !== client) return;
    client = postgres(url, settings);
    givenUp.push(silent.end({ timeout: END_S_MAX }));
  }

  return {
    async query<R>(text: string, parameters: readonly Parameter[] = []) {
      for (let attempt = 1; ; attempt++) {
        try {
          const rows = await answered((client) => client.unsafe(text, [...parameters], { prepare }));
          return rows as unknown as R[];
        } catch (error) {
          // The server rolled the statement back to break a deadlock: outside a transaction it can simply run again.
          if (codeOf(error) === "40P01" && attempt < 4) continue;
          throw asDsecError(error);
        }
      }
    },
    async transaction(work, { unhurried } = { unhurried: false }) {
      const begin = (client: postgres.Sql) =>
        client.begin(async (transaction) => {
          if (unhurried) await transaction.unsafe("set local statement_timeout = 0");
          return work(
            queryIn(transaction, prepare),
            async (text) => void (await transaction.unsafe(text).simple()),
          );
        });
      try {
        return (await (unhurried ? begin(client) : answered(begin))) as Awaited<ReturnType<typeof work>>;
      } catch (error) {
        throw asDsecError(error);
      }
    },
    async close() {
      await Promise.all([client.end({ timeout: END_S_MAX }), ...givenUp]);
    },
  };
}

/** @param prepare `unsafe` prepares nothing unless told to: each statement would be planned anew, over two round trips */
function queryIn(transaction: postgres.TransactionSql, prepare: boolean): Query {
  return async <R>(text: string, parameters: readonly Parameter[] = []) => {
    try {
      return (await transaction.unsafe(text, [...parameters], { prepare })) as unknown as R[];
    } catch (error) {
      throw asDsecError(error);
    }
  };
}

/** Failures of the connection or the server become STORE_UNAVAILABLE; what a statement did wrong stays as it is. */
function asDsecError(error: unknown): unknown {
  const code = codeOf(error);
  if (error instanceof DsecError || code === undefined) return error;
  // SQLSTATE classes: 08 connection, 53 resources, 57 the server stops, starts or ends what takes too long; the words are
  // postgres.js's and libuv's.
  if (!/^(08|53|57|CONNECT|E[A-Z]{4,})/.test(code)) return error;
  return unavailable(code, error);
}

function unavailable(why: string, cause?: unknown): DsecError {
  const what = why === "53100" ? "the database's disk is full" : "the database does not answer";
  const message = `${what} (${why}); it is tried again with the next request`;
  return new DsecError("STORE_UNAVAILABLE", message, { cause });
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : undefined;
}
