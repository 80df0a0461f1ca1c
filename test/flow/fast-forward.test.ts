/** A task whose executor is killed in the midst of what it does, twice, and that does each thing once all the same. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { TaskRequest } from "#core/wire/tasks.ts";
import { type Client, createClient } from "#sdk/client.ts";
import { EXECUTOR_KILL_TIMEOUT_MS, leftovers, type System, startSystem } from "./system.ts";

let system: System;
let client: Client;
let upstream: Server;
/** How often each thing was done. */
const done = new Map<string, number>();
beforeAll(async () => {
  upstream = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    const { pathname, searchParams } = new URL(request.url!, "http://upstream");
    const name = searchParams.get("name") ?? JSON.parse(body || "{}").name;
    if (pathname === "/act") done.set(name, (done.get(name) ?? 0) + 1);
    response.end(done.has(name) ? `${name} is done` : `${name} is not done`);
  });
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  system = await startSystem({ privateNetworks: ["127.0.0.1/32"] });
  client = createClient({ gateway: system.url, apiKey: system.adminKey });
});
afterAll(async () => {
  await system?.stop();
  upstream?.close();
  expect(await leftovers(system.folder)).toEqual([]);
});

test(
  "a task whose executor is killed twice does each thing once, and comes out as one that nothing happened to",
  async () => {
    const undisturbed = await client.tasks.wait((await client.tasks.submit(agent("calm"))).id);
    expect(undisturbed.state).toBe("succeeded");

    const { id } = await client.tasks.submit(agent("shaken"));
    for (const count of [3, 7]) {
      await until(() => countOf("shaken") >= count);
      await system.killExecutor();
      await system.startExecutor();
    }
    const task = await client.tasks.wait(id);
    expect(task.state).toBe("succeeded");
    const said = async (taskId: string) =>
      new TextDecoder().decode(await client.tasks.stream(taskId, "stdout"));
    expect(await said(id)).toBe((await said(undisturbed.id)).replaceAll("calm", "shaken"));
    const counts = Array.from({ length: 10 }, (_, n) => done.get(`shaken-${n}`));
    expect(counts).toEqual(new Array(10).fill(1));
    expect(task.attempts).toBe(3);
  },
  EXECUTOR_KILL_TIMEOUT_MS,
);

/** Does ten things; where it is not told what came of one, it looks before it does it again. */
function agent(name: string): TaskRequest {
  const { port } = upstream.address() as AddressInfo;
  const script = `
for n in 0 1 2 3 4 5 6 7 8 9; do
  input='{"name":"${name}-'$n'"}'
  said=$(dsec-tool exec --tool act --input "$input" 2> /dev/null) || said=$(dsec-tool exec --tool look --input "$input")
  case "$said" in *not*) said=$(dsec-tool exec --tool act --input "$input") ;; esac
  echo "$said"
  dsec-tool memory set "$n" "\\"$said\\""
  sleep 0.2
done
dsec-tool memory list`;
  const host = `http://127.0.0.1:${port}`;
  return {
    command: ["sh", "-c", script],
    ...{ fast_forward: true, retries: 3, timeout_ms: 60_000 },
    tools: [
      { name: "act", kind: "http", method: "POST", url: `${host}/act` },
      { name: "look", kind: "http", url: `${host}/look`, read_only: true },
    ],
    policy: {
      rules: [{ host: "127.0.0.1", port, plain_http: true, allow_private: ["127.0.0.1"] }],
    },
  };
}

function countOf(name: string): number {
  return [...done.keys()].filter((key) => key.startsWith(name)).length;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}
