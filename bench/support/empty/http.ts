/** What the programs of the empty chains are made of: node:http, undici and PostgreSQL by the shortest way. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import postgres from "postgres";
import type { Pool } from "undici";

/**
 * Serves on a Unix socket's path, or on a port of 127.0.0.1 that it prints as a line, says that it is ready, and ends the
 * process when its standard input ends. The body that `answer` resolves with goes out as it is; null where it answers by itself.
 */
export function serve(
  where: string | 0,
  answer: (request: IncomingMessage, body: Buffer, response: ServerResponse) => Promise<Buffer | null>,
): void {
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", async () => {
      const body = await answer(request, Buffer.concat(parts), response);
      if (body !== null) response.writeHead(200, { "content-length": body.length }).end(body);
    });
  });
  const listening = () => {
    const address = server.address();
    if (typeof address === "object" && address !== null) console.log(address.port);
    untilInputEnds().then(() => process.exit());
  };
  if (where === 0) server.listen(0, "127.0.0.1", listening);
  else server.listen(where, listening);
}

/** Tells whoever started this program that it is ready; resolves when its input ends, with which the program has to. */
export async function untilInputEnds(): Promise<null> {
  console.log("ready");
  await once(process.stdin.resume(), "end");
  return null;
}

/** The body of the answer, for which undici makes no stream. @param onPiece told of each piece of it as it comes */
export function exchange(
  pool: Pool,
  method: "GET" | "POST",
  path: string,
  body: Buffer | null,
  onPiece = () => {},
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    pool.dispatch(
      { method, path, body },
      {
        onRequestStart() {},
        onResponseStart() {},
        onResponseData(_, part) {
          parts.push(part);
          onPiece();
        },
        onResponseEnd: () => resolve(Buffer.concat(parts)),
        onResponseError: (_, error) => reject(error),
      },
    );
  });
}

/** A table of one text column, and the insertion of a row: prepared, and resolved when it is committed. */
export async function insertion(
  database: string,
  table: string,
): Promise<(text: string) => Promise<unknown>> {
  const sql = postgres(database, { fetch_types: false, onnotice: () => {} });
  await sql`create table if not exists ${sql(table)} (id bigint generated always as identity primary key, text text)`;
  return (text) => sql`insert into ${sql(table)} (text) values (${text})`;
}
