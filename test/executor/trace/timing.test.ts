/** Where a trace says that the time of calls went, with real sandboxes, limits and a gateway. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { TaskRequest } from "#core/wire/tasks.ts";
import { throttledUs } from "#executor/trace/sandbox-cpu.ts";
import { Rig } from "#test/executor/executor-under-test.ts";
import { openTestProxy, reach, type TestProxy } from "#test/gateway/proxy/proxy-under-test.ts";
import { readTrace } from "#test/support/trace-file.ts";
import type { TraceEvent } from "#trace/events/event.ts";

const ANSWER_MS = 60;

let proxy: TestProxy;
let rig: Rig;
let upstream: Server;
/** Answers with 500 so many times. */
let failures = 0;
let url: string;
beforeAll(async () => {
  upstream = createServer(async (_request, response) => {
    await sleep(ANSWER_MS);
    response.writeHead(failures-- > 0 ? 500 : 200, { "content-type": "application/json" }).end("{}");
  });
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  proxy = await openTestProxy();
  rig = await Rig.open(proxy.gateway);
  await rig.start();
});
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
  await proxy?.close();
  upstream?.close();
});

type End = TraceEvent<"tool_call_end">;

async function endsOf(script: string, request: Partial<TaskRequest> = {}): Promise<End[]> {
  const retry = { attempts: 3, on: ["status" as const], backoff_ms: 1 };
  const spin = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
  const tools: TaskRequest["tools"] = [
    { name: "look", kind: "http", url, retry },
    { name: "denied", kind: "http", url: "http://denied.test/" },
    {
      ...{ name: "spin_apart", kind: "exec", resources: { cpu_cores: 0.1 } },
      command: ["sh", "-c", spin],
    },
    {
      ...{ name: "spin", kind: "exec", where: "sandbox" },
      command: ["sh", "-c", `for n in 1 2 3 4; do { ${spin}; } & done; wait`],
    },
  ];
  const policy = reach(Number(new URL(url).port));
  const { task } = await rig.sh(`${script}; true`, { policy, tools, ...request });
  const file = await rig.client.send("GET", `/v1/tasks/${task.id}/trace`);
  const { events } = await readTrace(new Uint8Array(await file.arrayBuffer()));
  return events.filter((event) => event.type === "tool_call_end") as End[];
}

const tool = (name: string) => `dsec-tool exec --tool ${name} --input '{}' >/dev/null 2>&1`;

test("a call's time is parted into the upstream's, the gateway's and the channel's, which together are no more than it", async () => {
  failures = 0;
  const ends = await endsOf(
    `${tool("look")}; dsec-tool api-call --url ${url} >/dev/null; NO_PROXY= no_proxy= curl -s ${url}`,
  );
  expect(ends).toHaveLength(3);
  for (const { timing, duration_us } of ends) {
    const { network_us, gateway_us } = timing!;
    expect(network_us).toBeGreaterThanOrEqual(ANSWER_MS * 1000 - 1000);
    expect(gateway_us).toBeGreaterThan(0);
    expect(network_us! + gateway_us!).toBeLessThanOrEqual(duration_us);
    expect(timing).toMatchObject({ snapshot_us: null, gpu_us: null });
  }
  for (const { timing } of ends.slice(0, 2)) expect(timing!.serialization_us).toBeGreaterThan(0);
  // what passes the proxy is no message of the channel's
  expect(ends[2]!.timing!.serialization_us).toBeNull();
});

test("tries add up; what is refused before it is sent was never on the network", async () => {
  failures = 2;
  const [retried, refused] = await endsOf(`${tool("look")}; ${tool("denied")}`);
  expect(retried).toMatchObject({ tries: 3, status: 200 });
  expect(retried!.timing!.network_us).toBeGreaterThanOrEqual(3 * (ANSWER_MS * 1000 - 1000));
  expect(refused).toMatchObject({ state: "failed", timing: { network_us: null } });
  expect(refused!.timing!.gateway_us).toBeGreaterThan(0);
});

test("a tool that works hard in a small sandbox says how long it was stopped by its limit and waited for a processor", async () => {
  const [end] = await endsOf(tool("spin"), { resources: { cpu_cores: 0.2 } });
  expect(end).toMatchObject({ state: "answered", exit_code: 0 });
  const { throttled_us, cpu_wait_us, network_us, gateway_us } = end!.timing!;
  // two tenths of a processor for four loops: most of the time they may not run
  expect(throttled_us).toBeGreaterThan(end!.duration_us / 10);
  expect(cpu_wait_us).toBeGreaterThan(0);
  expect([network_us, gateway_us]).toEqual([null, null]);
});

test("a tool in a sandbox of its own says what that one waited, and not the agent's", async () => {
  const [end] = await endsOf(tool("spin_apart"));
  expect(end).toMatchObject({ state: "answered", exit_code: 0 });
  expect(end!.timing!.throttled_us).toBeGreaterThan(end!.duration_us / 10);
});

test("a group's throttled time is read from either version", () => {
  expect(throttledUs("nr_periods 5\nnr_throttled 2\nthrottled_time 1500000\n")).toBe(1500);
  expect(throttledUs("usage_usec 9\nnr_throttled 2\nthrottled_usec 1500\n")).toBe(1500);
  expect(throttledUs("usage_usec 9\n")).toBeNull();
});
