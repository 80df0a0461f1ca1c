/** The ways a call goes from an agent to its upstream: straight, through DSec, and through chains with nothing in them. */
import { createServer } from "node:http";
import { processesOf } from "#bench/support/cpu.ts";
import { buildLoad, type Measured } from "#bench/support/load.ts";
import { compile, startModule, startProgram } from "#bench/support/programs.ts";
import { type BenchSystem, benchSystem } from "#bench/support/system.ts";
import { createClient } from "#sdk/client.ts";

/** Agents that each make their share of the calls, beginning one each `paceUs`, or one right after another. */
export type Agents = { agents: number; calls: number; paceUs: number };

export type Way = {
  measure(agents: Agents): Promise<Measured>;
  /** The processes between the agents and the upstream, whose CPU time is counted. */
  pids: number[];
};

/** `floor` takes the hops of the others (agent, executor, gateway, database, gateway, upstream and back) in bare processes. */
export const WAYS = ["direct", "dsec", "empty", "floor_direct", "floor"] as const;
export type Ways = Record<(typeof WAYS)[number], Way> & AsyncDisposable;

const ANSWER = JSON.stringify({ status: "in transit", history: Array(20).fill("a stop on the way") });
/** A request that is its own answer when it comes back: 800 bytes with its head, about what the others carry. */
const ECHOED = ["HTTP/1.1", "200", "x".repeat(700)];

/** @param folder takes programs and sockets */
export async function openWays(folder: string, signal: AbortSignal): Promise<Ways> {
  await using opened = new AsyncDisposableStack();
  const upstream = createServer((request, response) => {
    request.resume().on("end", () => {
      response.writeHead(200, { "content-type": "application/json", "content-length": ANSWER.length });
      response.end(ANSWER);
    });
  });
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  opened.defer(() => void upstream.close());
  const { port } = upstream.address() as { port: number };
  const url = `http://127.0.0.1:${port}`;
  const call = ["POST", "/v1/call", JSON.stringify({ method: "GET", url: `${url}/tracking` })];

  const system = opened.use(await benchSystem({ privateNetworks: ["127.0.0.1/32"] }));
  const load = await buildLoad(
    createClient({ gateway: system.url, apiKey: system.adminKey }),
    folder,
    signal,
  );
  const onHost = (target: number | string, request: string[]) => (agents: Agents) =>
    load.onHost(wordsFor(target, agents, request));
  const policy = {
    rules: [{ host: "127.0.0.1", port, plain_http: true, allow_private: ["127.0.0.1"] }],
  };

  const empty = await openEmpty(opened, folder, system, url);
  const floor = await openFloor(opened, folder);
  const closing = opened.move();
  return {
    direct: { measure: onHost(port, ["GET", "/tracking", ""]), pids: [] },
    dsec: {
      measure: (agents) => load.inSandbox(wordsFor("$SOCKET", agents, call), { policy }),
      pids: processesOf(system.folder),
    },
    empty: { measure: onHost(empty.target, call), pids: empty.pids },
    floor_direct: { measure: onHost(floor.upstream, ECHOED), pids: [] },
    floor: { measure: onHost(floor.target, ECHOED), pids: floor.pids },
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  };
}

/** A connection's first call is not counted: it is made once. */
function wordsFor(target: number | string, { agents, calls, paceUs }: Agents, request: string[]): string[] {
  return ["http", `${target}`, `${agents}`, `${calls}`, `${paceUs}`, ...request, "---", ...request];
}

/** The programs of DSec, each with nothing in it, over a database of the same server. */
async function openEmpty(
  opened: AsyncDisposableStack,
  folder: string,
  system: BenchSystem,
  upstream: string,
) {
  const database = await system.emptyDatabase();
  const socket = `${folder}/empty.sock`;
  const gateway = opened.use(await startModule("#bench/support/empty/call-gateway.ts", database, upstream));
  const executor = opened.use(
    await startModule("#bench/support/empty/call-executor.ts", socket, `http://127.0.0.1:${gateway.said[0]}`),
  );
  return { target: `unix:${socket}`, pids: [gateway.pid, executor.pid] };
}

async function openFloor(opened: AsyncDisposableStack, folder: string) {
  const program = await compile("relay", folder);
  const relay = async (...words: string[]) => opened.use(await startProgram(program, ...words));
  const portOf = ({ said }: { said: string[] }) => said[0]!;
  const upstream = await relay("0");
  const database = await relay("0");
  const gateway = await relay("0", portOf(database), portOf(upstream));
  const target = `unix:${folder}/floor.sock`;
  const executor = await relay(target, portOf(gateway));
  return { target, upstream: portOf(upstream), pids: [gateway.pid, executor.pid] };
}
