/** What is recorded of a sandbox, at which level, with agents in real sandboxes and through their sockets. */
import { writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { AttestationClaims } from "#core/wire/attestations.ts";
import type { TaskRequest } from "#core/wire/tasks.ts";
import { dsec } from "#test/cli/dsec.ts";
import { Rig } from "#test/executor/executor-under-test.ts";
import { openTestProxy, reach, type TestProxy } from "#test/gateway/proxy/proxy-under-test.ts";
import { readTrace } from "#test/support/trace-file.ts";
import type { EventType, TraceEvent } from "#trace/events/event.ts";

let proxy: TestProxy;
let rig: Rig;
let upstream: Server;
let url: string;
let port: number;
beforeAll(async () => {
  upstream = createServer((request, response) => {
    const wrong = request.url!.endsWith("/broken");
    response.writeHead(wrong ? 500 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify({ asked: request.url, secret: "told" }));
  });
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  port = (upstream.address() as AddressInfo).port;
  url = `http://127.0.0.1:${port}`;
  proxy = await openTestProxy();
  rig = await Rig.open(proxy.gateway);
  await rig.start();
});
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
  await proxy?.close();
  upstream?.close();
});

type Recorded = { events: TraceEvent[]; claims: AttestationClaims; level: string | null; bytes: Uint8Array };

async function recorded(script: string, request: Partial<TaskRequest> = {}): Promise<Recorded> {
  const tools = [{ name: "look", kind: "http" as const, url: `${url}/{what}`, read_only: true }];
  const { task, attestations } = await rig.sh(script, { policy: reach(port), tools, ...request });
  const claims = decodeJwt(attestations[0]!.jwt) as unknown as AttestationClaims;
  const answer = await rig.client.send("GET", `/v1/tasks/${task.id}/trace`);
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const { events, header, chain_head, count } = await readTrace(bytes);
  expect(claims.dsec.trace).toMatchObject({ count, chain_head });
  return { events, claims, level: header.level, bytes };
}

const ofType = <T extends EventType>({ events }: Recorded, type: T) =>
  events.filter((event) => event.type === type) as unknown as TraceEvent<T>[];

const look = (what: string) => `dsec-tool exec --tool look --input '{"what":"${what}"}' >/dev/null`;

test("a command's begin, its bytes as they were and its end are in its trace", async () => {
  const run = await recorded(`printf 'ab\\377'; echo to-stderr >&2; exit 3`);
  const [exec, exit] = ofType(run, "process");
  expect(exec).toMatchObject({ state: "exec", pid: 2, argv: ["sh", "-c", expect.any(String)] });
  expect(exit).toMatchObject({ state: "exit", pid: 2, exit_code: 3, signal: null, reason: "exited" });
  expect(exit!.cpu_us).toBe(run.claims.dsec.usage!.cpu_us);
  const bytesOf = (stream: string) =>
    Buffer.concat(
      ofType(run, "output")
        .filter((event) => event.stream === stream)
        .map(({ data }) => data),
    );
  expect([...bytesOf("stdout")]).toEqual([97, 98, 255]);
  expect(bytesOf("stderr").toString()).toBe("to-stderr\n");
  expect(ofType(run, "error")).toMatchObject([{ code: "EXIT_NOT_ZERO", payloads: [] }]);
  const times = run.events.map(({ t_us }) => t_us);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
});

test.each([
  ["kill -SEGV $$", {}, "signal", { signal: 11, reason: "signaled" }, "SIGNALED"],
  ["sleep 60", { timeout_ms: 300 }, "exit", { reason: "timed_out" }, "TIMED_OUT"],
  [
    "exec python3 -c 'bytearray(200_000_000)'",
    { resources: { memory_mb: 32 } },
    "oom",
    { reason: "oom_killed" },
    "OOM_KILLED",
  ],
])("%s ends its trace with how it ended", async (script, request, state, end, code) => {
  const run = await recorded(script, request);
  expect(ofType(run, "process").at(-1)).toMatchObject(state === "exit" ? end : { state, ...end });
  expect(ofType(run, "error")).toMatchObject([{ code }]);
});

test("what a call was given and answered is kept whole, for a replay", async () => {
  const run = await recorded(look("sky"));
  expect(ofType(run, "tool_call_start")).toMatchObject([{ tool: "look", arguments_json: '{"what":"sky"}' }]);
  const answer = { output_json: '{"asked":"/sky","secret":"told"}', head_json: null, body: null };
  expect(ofType(run, "tool_call_end")).toMatchObject([{ state: "answered", is_error: false, answer }]);
  const own = await recorded(`dsec-tool api-call --url ${url}/x --body hello`);
  const [start] = ofType(own, "tool_call_start");
  expect(Buffer.from(start!.body!).toString()).toBe("hello");
  const [end] = ofType(own, "tool_call_end");
  expect(JSON.parse(end!.answer!.head_json!)).toMatchObject({ status: 200, url: `${url}/x` });
  expect(JSON.parse(Buffer.from(end!.answer!.body!).toString())).toEqual({ asked: "/x", secret: "told" });
});

test("a tool that answers with an error stands there with memory and the three calls up to it", async () => {
  const script = `dsec-tool memory set plan '["look"]'; ${["a", "b", "c"].map(look).join(";")}; ${look("broken")}; true`;
  const run = await recorded(script);
  const [error, ...rest] = ofType(run, "error");
  expect(rest).toEqual([]);
  expect(error).toMatchObject({ code: "TOOL_ERROR", call: 4, via: "http", memory_json: '{"plan":["look"]}' });
  expect(error!.memory_digest).toBe(ofType(run, "tool_call_end").at(-1)!.memory_digest);
  expect(error!.payloads.map(({ call, sent, received }) => [call, sent, received])).toEqual([
    [2, '{"what":"b"}', '{"asked":"/b","secret":"told"}'],
    [3, '{"what":"c"}', '{"asked":"/c","secret":"told"}'],
    [4, '{"what":"broken"}', '{"asked":"/broken","secret":"told"}'],
  ]);
});

test("an exception that a program reports is an error with its stack", async () => {
  const program = [
    "import dsec.report",
    "def deep(): return {}['absent']",
    "try:",
    "    deep()",
    "except KeyError as problem:",
    "    dsec.report.error(problem)",
  ].join("\n");
  const run = await recorded(`python3 -c "${program}"`);
  const [error] = ofType(run, "error");
  expect(error).toMatchObject({ code: "KeyError", text: "'absent'", call: null });
  expect(error!.stack).toMatch(/Traceback[\s\S]*in deep[\s\S]*KeyError: 'absent'/);
});

test("at error_only what happened is kept, what passed is not, but for the calls before an error", async () => {
  const trace = { level: "error_only" as const };
  const script = `echo noise; dsec-tool memory set k 1; ${look("quiet")}; ${look("broken")}; true`;
  const run = await recorded(script, { trace });
  expect(run.level).toBe("error_only");
  expect(ofType(run, "output")).toEqual([]);
  for (const start of ofType(run, "tool_call_start")) {
    expect(start).toMatchObject({ arguments_json: null, body: null, tool: "look" });
    expect(start.arguments_digest).toMatch(/^sha256:/);
  }
  const ends = ofType(run, "tool_call_end");
  expect(ends).toMatchObject([
    { answer: null, status: 200 },
    { answer: null, status: 500 },
  ]);
  expect(ends[0]!.output_digest).toMatch(/^sha256:/);
  expect(ofType(run, "memory_write")).toMatchObject([{ key: "k", new: { value_json: "1" } }]);
  const [error] = ofType(run, "error");
  expect(error!.payloads.map(({ sent }) => sent)).toEqual(['{"what":"quiet"}', '{"what":"broken"}']);
});

test("dynamic keeps everything from the first error on, and a share of tasks from the start", async () => {
  const script = `${look("before")}; ${look("broken")}; ${look("after")}`;
  const run = await recorded(script, { trace: { level: "dynamic" } });
  expect(run.level).toBe("dynamic");
  expect(ofType(run, "tool_call_end").map(({ answer }) => answer !== null)).toEqual([false, false, true]);
  const sampled = await recorded(look("x"), { trace: { level: "dynamic", sample_share: 1 } });
  expect(sampled.level).toBe("full");
  expect(ofType(sampled, "tool_call_end")[0]!.answer).not.toBeNull();
});

test("the whole memory is recorded after every so many writes, and deltas lead from one to the next", async () => {
  const writes = [1, 2, 3, 4, 5].map((n) => `dsec-tool memory set k${n} ${n}`).join(";");
  const run = await recorded(writes, { trace: { memory_snapshot_interval: 2 } });
  const snapshots = ofType(run, "memory_snapshot");
  expect(snapshots.map(({ version, entries_json }) => [version, JSON.parse(entries_json)])).toEqual([
    [2, { k1: 1, k2: 2 }],
    [4, { k1: 1, k2: 2, k3: 3, k4: 4 }],
  ]);
  expect(ofType(run, "memory_write").map(({ version }) => version)).toEqual([1, 2, 3, 4, 5]);
});

test("a question finds memory as it was in the sandbox, also after reads, and a report how the command ended", async () => {
  const { bytes, events } = await recorded(
    `dsec-tool step begin plan; dsec-tool memory set state '"sent"'; dsec-tool memory get state; dsec-tool memory get other; echo last`,
  );
  const file = join(rig.directory, "asked.trace");
  await writeFile(file, bytes);
  const asked = async (query: string) => {
    const { stdout } = await dsec(["trace", "search", file, "--query", query, "--json"]);
    const found = stdout.toString().trim().split("\n");
    return found.filter((line) => line !== "").map((line) => (JSON.parse(line) as { seq: number }).seq);
  };
  const [written] = events.filter(({ type }) => type === "memory_write");
  const from = written!.seq;
  expect(await asked('memory_state.state == "sent"')).toEqual(
    events.map(({ seq }) => seq).filter((seq) => seq >= from),
  );
  const report = await dsec(["trace", "report", file, "--json"]);
  expect(JSON.parse(report.stdout.toString())).toMatchObject({ trace: { outcome: "succeeded" } });
  const parsed = (await dsec(["trace", "parse", file])).stdout.toString();
  expect(parsed).toContain('memory_read get state: "sent"');
  expect(parsed).toContain("memory_read get other: nothing");
});
