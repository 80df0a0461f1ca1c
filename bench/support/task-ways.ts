/** The ways a command is started and its first byte comes back: through DSec, through chains with nothing in them, by crun. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { makeBundle, WHERE_CRUN_RUNS } from "#bench/support/crun.ts";
import { pathOf, startModule, startProgram } from "#bench/support/programs.ts";
import { openGateway } from "#cli/compose.ts";
import { startExecutor } from "#executor/main.ts";
import { startPostgres } from "#test/support/postgres.ts";

export const WAYS = ["embedded", "postgres", "empty", "empty_crun", "crun"] as const;

/** Milliseconds to the first byte, `count` times one after another, after some that do not count. */
export type Way = (warmUp: number, count: number) => Promise<number[]>;
export type Ways = Record<(typeof WAYS)[number], Way> & AsyncDisposable;

/** @param folder takes all data */
export async function openWays(folder: string, command: string[], signal: AbortSignal): Promise<Ways> {
  await using opened = new AsyncDisposableStack();
  const postgres = await startPostgres({ durable: true });
  opened.defer(() => postgres.stop());
  const bundle = join(folder, "bundle");
  await makeBundle(bundle, command);

  /** What a program that measures prints, after its words WARM_UP COUNT. */
  const measuredBy =
    ([program, ...words]: readonly string[], rest: string[] = [], env = process.env): Way =>
    async (warmUp, count) => {
      const given = [...words, `${warmUp}`, `${count}`, ...rest];
      const { stdout } = await promisify(execFile)(program!, given, { env, signal });
      return JSON.parse(stdout) as number[];
    };
  const module = (specifier: string) => [process.execPath, pathOf(specifier)];

  async function dsec(data: string, way: "in-process" | "http", database?: string): Promise<Way> {
    const log = () => {};
    const { gateway, adminKey, folder, close } = await openGateway({
      data,
      host: "127.0.0.1",
      port: 0,
      database,
      log,
    });
    opened.defer(close);
    const executor = await startExecutor({
      gatewayUrl: gateway.url,
      token: adminKey,
      dataDirectory: folder.executor,
      log,
      ...(way === "in-process" ? { fetch: gateway.fetch } : {}),
    });
    opened.defer(() => executor.close());
    const client = [...module("#bench/support/spine-client.ts"), gateway.url];
    return measuredBy(client, command, { ...process.env, DSEC_API_KEY: adminKey });
  }

  async function empty(way: "crun" | "launcher"): Promise<Way> {
    const database = await postgres.emptyDatabase();
    const gateway = opened.use(await startModule("#bench/support/empty/task-gateway.ts", database));
    const url = `http://127.0.0.1:${gateway.said[0]}`;
    const executor = [...module("#bench/support/empty/task-executor.ts"), url, way];
    const started =
      way === "crun"
        ? [...WHERE_CRUN_RUNS, ...executor, bundle]
        : [...executor, join(folder, "launcher"), ...command];
    opened.use(await startProgram(started[0]!, ...started.slice(1)));
    return measuredBy([...module("#bench/support/empty/task-client.ts"), url]);
  }

  const ways = {
    embedded: await dsec(join(folder, "embedded"), "in-process"),
    postgres: await dsec(join(folder, "postgres"), "http", await postgres.database()),
    empty: await empty("launcher"),
    empty_crun: await empty("crun"),
    crun: measuredBy([...WHERE_CRUN_RUNS, ...module("#bench/support/crun-client.ts"), bundle]),
  };
  const closing = opened.move();
  return { ...ways, [Symbol.asyncDispose]: () => closing.disposeAsync() };
}
