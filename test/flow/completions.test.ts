/** An agent that asks a model by a stock HTTP client, in the whole system, and its trace as people read it. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, createClient } from "#sdk/client.ts";
import { dsec } from "#test/cli/dsec.ts";
import { delta, finish, logprob, sse, USAGE, usageChunk } from "#test/trace/completions/answers.ts";
import { leftovers, type System, startSystem } from "./system.ts";

const ASKED = [
  delta({ role: "assistant", content: null }),
  delta({
    tool_calls: [{ index: 0, id: "c1", type: "function", function: { name: "track", arguments: "" } }],
  }),
  delta({ tool_calls: [{ index: 0, function: { arguments: '{"par' } }] }),
  delta({ tool_calls: [{ index: 0, function: { arguments: 'cel":7}' } }] }),
  finish("tool_calls"),
  usageChunk(USAGE),
];
const TOLD = [
  delta(
    { content: "In " },
    {
      logprobs: {
        content: [
          logprob("In ", -0.5, [
            ["In ", -0.5],
            ["At ", -1],
          ]),
        ],
      },
    },
  ),
  delta(
    { content: "Lund" },
    {
      logprobs: {
        content: [
          logprob("Lund", -0.1, [
            ["Lund", -0.1],
            ["In ", -3],
          ]),
        ],
      },
    },
  ),
  finish("stop"),
  usageChunk({ ...USAGE, completion_tokens: 2 }),
];
const TRACKING_MS = 400;

let system: System;
let client: Client;
let upstream: Server;
let port: number;
/** Conversations that the model has seen, and all that it has said. */
const asked: string[] = [];
let said = "";
beforeAll(async () => {
  upstream = createServer(async (request, response) => {
    const body = await text(request);
    if (request.url !== "/v1/chat/completions") {
      await sleep(TRACKING_MS);
      response.writeHead(200, { "content-type": "application/json" }).end('{"at":"Lund"}');
      return;
    }
    asked.push(body);
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const chunk of [...(asked.length === 1 ? ASKED : TOLD), "[DONE]"]) {
      said += sse(chunk);
      response.write(sse(chunk));
      await sleep(5);
    }
    response.end();
  });
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  port = (upstream.address() as AddressInfo).port;
  system = await startSystem({ privateNetworks: ["127.0.0.1/32"] });
  client = createClient({ gateway: system.url, apiKey: system.adminKey });
});
afterAll(async () => {
  await system?.stop();
  upstream?.close();
  expect(await leftovers(system.folder)).toEqual([]);
});

test("what a model said of itself and where the time went are in the trace, and the agent heard what was sent", async () => {
  const url = `http://127.0.0.1:${port}`;
  const agent = await client.artifacts.put(readFileSync(`${import.meta.dirname}/agents/model_loop.py`));
  const { id } = await client.tasks.submit({
    command: ["/usr/bin/python3", "/agent/loop.py", url],
    inputs: [{ artifact: agent.artifact, mount_path: "/agent/loop.py" }],
    outputs: ["heard"],
    tools: [{ name: "track", kind: "http", method: "POST", url: `${url}/track` }],
    policy: {
      rules: [{ host: "127.0.0.1", port, plain_http: true, allow_private: ["127.0.0.1"] }],
    },
    // By its address here the model is one that clients go to past their proxy.
    env: { NO_PROXY: "", no_proxy: "" },
    resources: { cpu_cores: 0.5, memory_mb: 64, pids: 16, disk_mb: 16 },
  });
  const task = await client.tasks.wait(id);
  const { digest, kept_bytes } = task.result!.stderr;
  const stderr = kept_bytes === 0 ? "" : Buffer.from(await client.artifacts.get(digest)).toString();
  expect(task, stderr).toMatchObject({ state: "succeeded" });
  const [heard] = task.result!.outputs;
  expect(Buffer.from(await client.artifacts.get(heard!.digest)).toString()).toBe(said);
  expect(asked).toHaveLength(2);
  expect(asked[1]).toContain("Lund");

  const folder = mkdtempSync(join(tmpdir(), "dsec-completions-"));
  try {
    const file = join(folder, "run.trace");
    const env = { DSEC_GATEWAY: system.url, DSEC_API_KEY: system.adminKey };
    const saved = await dsec(["task", "trace", id, "--output", file], { env });
    expect(saved.code, saved.stderr).toBe(0);
    const found = await dsec(["trace", "search", file, "--query", 'type == "completion"', "--json"]);
    expect(found.code, found.stderr).toBe(0);
    const completions = found.stdout
      .toString()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(completions.map(({ event }) => event)).toMatchObject([
      {
        ...{ call: 1, prompt_tokens: 19, cached_tokens: 8, finish_reason: "tool_calls", streamed: true },
        tool_calls: [{ id: "c1", name: "track", arguments_json: '{"parcel":7}' }],
      },
      { call: 3, completion_tokens: 2, finish_reason: "stop", tool_calls: [] },
    ]);
    const analyzed = await dsec(["trace", "analyze", file, "--metric", "bottleneck", "--json"]);
    const { parts } = JSON.parse(analyzed.stdout.toString());
    const usOf = (name: string) => parts.find(({ part }: { part: string }) => part === name)?.us;
    expect(usOf("network")).toBeGreaterThan(TRACKING_MS * 1000);
    for (const part of ["gateway", "serialization", "throttled", "cpu_wait"])
      expect(usOf(part), part).toBeGreaterThanOrEqual(part === "gateway" ? 1 : 0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
