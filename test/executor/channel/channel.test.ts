import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { FRAME } from "#core/wire/calls.ts";
import type { TaskRequest } from "#core/wire/tasks.ts";
import { createMemory, taskNamespace } from "#executor/memory/memory.ts";
import { reach } from "#test/gateway/proxy/proxy-under-test.ts";
import { readTrace } from "#test/support/trace-file.ts";
import type { EventType, TraceEvent } from "#trace/events/event.ts";
import { type Answered, ChannelRig } from "./channel-under-test.ts";

let rig: ChannelRig;
/** What the upstream does is each test's own. */
let upstream: (request: IncomingMessage, response: ServerResponse) => void = (_request, response) =>
  response.end();
let url: string;
let port: number;
beforeAll(async () => {
  rig = await ChannelRig.open();
  ({ url, port } = await rig.proxy.serve((request, response) => upstream(request, response)));
});
afterAll(() => rig?.[Symbol.asyncDispose]());

const answerJson =
  (text: string, status = 200) =>
  (_request: IncomingMessage, response: ServerResponse) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(text);
  };
const asTask = (tools: TaskRequest["tools"], more: Partial<TaskRequest> = {}): Partial<TaskRequest> => ({
  policy: reach(port),
  tools: tools!,
  ...more,
});
const getUser = (more: object = {}) => ({
  name: "get_user",
  kind: "http" as const,
  url: `${url}/users/{id}`,
  parameters: { type: "object", properties: { id: { type: "string" } }, required: ["id"] },
  read_only: true,
  ...more,
});
const ofType = <T extends EventType>(events: TraceEvent[], type: T) =>
  events.filter((event) => event.type === type) as unknown as TraceEvent<T>[];

test("a tool's answer comes as it was written, and evidence, receipts and log tell of the same call", async () => {
  const seen: string[] = [];
  upstream = (request, response) => {
    seen.push(`${request.method} ${request.url}`);
    answerJson('{"id": 1.0, "big": 9007199254740993, "name": "Mía"}')(request, response);
  };
  const sandbox = await rig.channel(asTask([getUser()]));
  const answer = await sandbox.tool("get_user", { id: "a/b c", verbose: true });
  expect(answer.status).toBe(200);
  expect(seen).toEqual(["GET /users/a%2Fb%20c?verbose=true"]);
  expect(answer.body.toString()).toContain('"output":{"id": 1.0, "big": 9007199254740993, "name": "Mía"}');
  expect(answer.json).toMatchObject({
    is_error: false,
    call: { number: 1, tool: "get_user", seq: 1, status: 200, tries: 1 },
    observations: [],
  });

  const { record, events } = await sandbox.close();
  expect(record.calls.count).toBe(1);
  const [start] = ofType(events, "tool_call_start");
  const [end] = ofType(events, "tool_call_end");
  expect(start).toMatchObject({ call: 1, tool: "get_user", via: "http", step: null });
  expect(JSON.parse(start!.arguments_json!)).toEqual({ id: "a/b c", verbose: true });
  expect(end).toMatchObject({
    call: 1,
    state: "answered",
    status: 200,
    call_seq: 1,
    memory_changed: false,
    memory_digest: start!.memory_digest,
    answer: { output_json: '{"id": 1.0, "big": 9007199254740993, "name": "Mía"}' },
  });

  const claims = await rig.deliver(sandbox, record);
  expect(claims.dsec.calls).toEqual(record.calls);
  const { path: _here, ...attested } = record.trace;
  expect(claims.dsec.trace).toEqual(attested);
  const file = await rig.proxy.client.send("GET", `/v1/tasks/${sandbox.lease.task_id}/trace`);
  const read = await readTrace(new Uint8Array(await file.arrayBuffer()));
  const { lease_id, fence, attempt, spec_digest } = sandbox.lease;
  expect(read.header).toMatchObject({ lease_id, fence, attempt, spec_digest, level: "full" });
  expect(read.count).toBe(claims.dsec.trace!.count);
  expect(read.chain_head).toBe(claims.dsec.trace!.chain_head);
});

test("a byte that is changed in an attempt's trace is seen, wherever it is", async () => {
  const sandbox = await rig.channel();
  for (let i = 0; i < 3; i++) await sandbox.send("POST", "/v1/rewards", { components: { score: i } });
  const { record, events } = await sandbox.close();
  expect(events.map(({ seq }) => seq)).toEqual([1, 2, 3]);
  const trace = await readFile(record.trace.path);
  const seen: number[] = [];
  for (let at = 0; at < trace.length; at++) {
    const changed = Uint8Array.from(trace);
    changed[at]! ^= 0x10;
    const read = await readTrace(changed).catch(() => null);
    if (read === null || read.chain_head !== record.trace.chain_head || read.state !== "sealed")
      seen.push(at);
  }
  expect(seen).toHaveLength(trace.length);
});

test.each([
  ["nope", {}, 404, "TOOL_NOT_FOUND"],
  ["get_user", {}, 422, "TOOL_INPUT_INVALID"],
  ["get_user", { id: 7 }, 422, "TOOL_INPUT_INVALID"],
  ["get_user", { id: ".." }, 422, "TOOL_INPUT_INVALID"],
  ["get_user", { id: "" }, 422, "TOOL_INPUT_INVALID"],
])("tool %s with %j is refused before anything is sent", async (name, input, status, code) => {
  let asked = 0;
  upstream = (_request, response) => {
    asked++;
    response.end();
  };
  const sandbox = await rig.channel(asTask([getUser()]));
  const answer = await sandbox.tool(name, input);
  expect([answer.status, answer.json.error?.code]).toEqual([status, code]);
  const { record } = await sandbox.close();
  expect([asked, record.calls.count]).toEqual([0, 0]);
});

test("at its deadline a tool gives its fallback, and what came later is recorded and nothing else", async () => {
  const late = Promise.withResolvers<void>();
  upstream = async (request, response) => {
    await late.promise;
    answerJson('"too late"')(request, response);
  };
  const tool = getUser({ fallback: { unknown: true }, timeout_ms: 60_000 });
  const sandbox = await rig.channel(asTask([tool], { tool_timeout_ms: { get_user: 150 } }));
  const answer = await sandbox.tool("get_user", { id: "1" });
  expect(answer.json).toMatchObject({ output: { unknown: true }, fallback: true, is_error: false });
  late.resolve();
  while (sandbox.channel.calls.running().length > 0) await sleep(10);
  const { record, events } = await sandbox.close();
  expect(ofType(events, "tool_call_end")).toMatchObject([{ state: "fallback" }]);
  expect(ofType(events, "tool_call_late")).toMatchObject([{ call: 1, state: "answered", status: 200 }]);
  // The call was made, whatever the agent was told: its receipt says so.
  expect(record.calls.count).toBe(1);
  await rig.deliver(sandbox, record);
});

test("without a fallback a missed deadline is an error, and the sandbox's end ends what still runs", async () => {
  upstream = () => {};
  const sandbox = await rig.channel(asTask([getUser({ timeout_ms: 20 })]));
  const answer = await sandbox.tool("get_user", { id: "1" });
  expect([answer.status, answer.json.error!.code]).toEqual([504, "TOOL_TIMED_OUT"]);
  const { record, events } = await sandbox.close();
  expect(ofType(events, "tool_call_end")).toMatchObject([{ state: "timed_out", code: "TOOL_TIMED_OUT" }]);
  expect(ofType(events, "tool_call_late")).toMatchObject([{ state: "failed" }]);
  await rig.deliver(sandbox, record);
});

test("a tool is tried again where its retry policy says so, each try a call of its own", async () => {
  let asked = 0;
  upstream = (request, response) => {
    asked++;
    answerJson(`${asked}`, asked < 3 ? 503 : 200)(request, response);
  };
  const retry = { attempts: 4, backoff_ms: 1, on: ["status" as const] };
  const sandbox = await rig.channel(asTask([getUser({ retry })]));
  const answer = await sandbox.tool("get_user", { id: "1" });
  expect(answer.json).toMatchObject({ output: 3, call: { tries: 3, seq: 3, status: 200 } });
  const { record } = await sandbox.close();
  expect(record.calls.count).toBe(3);
  await rig.deliver(sandbox, record);
});

test("an upstream's error status is an answer that says so", async () => {
  upstream = answerJson('{"why":"no such user"}', 404);
  const sandbox = await rig.channel(asTask([getUser()]));
  const answer = await sandbox.tool("get_user", { id: "1" });
  expect(answer.status).toBe(200);
  expect(answer.json).toMatchObject({
    output: { why: "no such user" },
    is_error: true,
    call: { status: 404 },
  });
});

test("what the policy forbids is refused with its code, is recorded and sends nothing", async () => {
  const sandbox = await rig.channel(asTask([]));
  const answer = await sandbox.send("POST", "/v1/call", { url: "http://elsewhere.example/" });
  expect([answer.status, answer.json.error!.code]).toEqual([403, "DOMAIN_NOT_ALLOWED"]);
  const { record, events } = await sandbox.close();
  expect(ofType(events, "tool_call_end")).toMatchObject([{ state: "failed", code: "DOMAIN_NOT_ALLOWED" }]);
  expect(record.calls.count).toBe(0);
  await rig.deliver(sandbox, record);
});

test("a call of the agent's own carries bytes both ways, and repeated header fields in order", async () => {
  const bytes = Buffer.from([0, 255, 254, 13, 10, 128]);
  upstream = async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    response.writeHead(
      201,
      [
        ["x-got", String(request.headers["x-sent"])],
        ["set-cookie", "a=1"],
        ["set-cookie", "b=2"],
      ].flat(),
    );
    response.end(Buffer.concat(parts));
  };
  const sandbox = await rig.channel(asTask([]));
  const call = {
    method: "PUT",
    url: `${url}/x`,
    headers: { "x-sent": "caf\u00e9" },
    body_base64: bytes.toString("base64"),
  };
  const answer = await sandbox.send("POST", "/v1/call", call);
  expect(answer.json).toMatchObject({ status: 201, body_base64: bytes.toString("base64") });
  const headers = answer.json.headers as [string, string][];
  expect(headers.filter(([name]) => name.toLowerCase() === "set-cookie").map(([, value]) => value)).toEqual([
    "a=1",
    "b=2",
  ]);
  expect(headers).toContainEqual(["x-got", "caf\u00e9"]);
});

test("when the agent leaves, its call ends at the upstream too (B43)", async () => {
  const began = Promise.withResolvers<IncomingMessage>();
  upstream = (request) => began.resolve(request);
  const sandbox = await rig.channel(asTask([getUser()]));
  const leaving = new AbortController();
  const answer = sandbox.tool("get_user", { id: "1" }, { signal: leaving.signal });
  const request = await began.promise;
  const closed = once(request.socket, "close");
  leaving.abort();
  await expect(answer).rejects.toThrow();
  await closed;
  const { record, events } = await sandbox.close();
  expect(ofType(events, "tool_call_end")).toMatchObject([{ state: "cancelled" }]);
  await rig.deliver(sandbox, record);
});

test("a receipt whose answer was lost on its way is asked for, so that evidence and gateway agree", async () => {
  upstream = answerJson("1");
  const sandbox = await rig.channel(asTask([getUser()]));
  rig.onAnswer = async (request, answer) => {
    if (!new URL(request.url).pathname.endsWith("/proxy")) return answer;
    await answer.arrayBuffer(); // the gateway has done all of it
    throw new TypeError("fetch failed");
  };
  const lost = await sandbox.tool("get_user", { id: "1" });
  rig.onAnswer = (_request, answer) => answer;
  expect(lost.json.error!.code).toBe("GATEWAY_UNREACHABLE");
  expect((await sandbox.tool("get_user", { id: "2" })).status).toBe(200);
  const { record } = await sandbox.close();
  expect(record.calls.count).toBe(2);
  await rig.deliver(sandbox, record);
});

test("an answer stands though its receipt is not heard of, and the evidence asks for that", async () => {
  upstream = answerJson("1");
  const sandbox = await rig.channel(asTask([getUser()]));
  rig.onAnswer = async (request, answer) => {
    if (!new URL(request.url).pathname.endsWith("/proxy")) return answer;
    const frames = Buffer.from(await answer.arrayBuffer());
    let last = 0;
    for (let at = 0; at < frames.length; at += 5 + frames.readUInt32BE(at + 1)) last = at;
    expect(frames[last]).toBe(FRAME.receipt);
    return new Response(frames.subarray(0, last), answer);
  };
  const { json } = await sandbox.tool("get_user", { id: "1" });
  rig.onAnswer = (_request, answer) => answer;
  expect(json).toMatchObject({ output: 1, call: { fingerprint: { body: expect.any(String) } } });
  const { record } = await sandbox.close();
  expect(record.calls.count).toBe(1);
  await rig.deliver(sandbox, record);
});

test("memory that changed though no recorded write explains it is told with both digests", async () => {
  upstream = answerJson("1");
  const sandbox = await rig.channel(asTask([getUser()]));
  await sandbox.send("PUT", "/v1/memory/plan", '["look"]');
  expect((await sandbox.tool("get_user", { id: "1" })).status).toBe(200);
  // Somebody writes past the service, as a fault of ours would.
  const namespace = taskNamespace(sandbox.lease.task_id as TaskId);
  const past = createMemory({ store: rig.store });
  const identity = { taskId: sandbox.lease.task_id as TaskId, sandboxId: "stranger", owner: "x", grants: [] };
  await past.view(identity).put("plan", '["stolen"]');
  expect((await sandbox.tool("get_user", { id: "2" })).status).toBe(200);
  const { events } = await sandbox.close();
  const errors = ofType(events, "error");
  expect(errors).toMatchObject([{ code: "MEMORY_CHANGED_UNRECORDED", namespace, call: 2 }]);
  expect(errors[0]!.expected_digest).not.toBe(errors[0]!.actual_digest);
  const [, second] = ofType(events, "tool_call_start");
  expect(second!.memory_digest).toBe(errors[0]!.actual_digest);
});

test("what is kept for a task's digest goes with the channel, however that ends", async () => {
  for (const end of ["closed", "discarded"]) {
    const sandbox = await rig.channel(asTask([]));
    const { memory } = rig.services;
    const taskId = sandbox.lease.task_id as TaskId;
    await sandbox.send("PUT", "/v1/memory/plan", '["look"]');
    const { digest } = await memory.state(taskNamespace(taskId));
    if (end === "closed") await sandbox.close();
    await rig.channels.end(sandbox.channel);
    const identity = { taskId, sandboxId: "stranger", owner: "x", grants: [] };
    await createMemory({ store: rig.store }).view(identity).put("plan", '["stolen"]');
    // Of a digest that was still kept an audit would say that this differs from it.
    const audit = await memory.audit(taskNamespace(taskId));
    expect(audit.actual).not.toBe(digest);
    expect(audit.expected).toBe(audit.actual);
    await rig.giveBack(sandbox);
  }
});

test("every read and write of memory is an event, and a call says whether memory changed under it", async () => {
  upstream = answerJson("1");
  const sandbox = await rig.channel(asTask([getUser()]));
  upstream = async (request, response) => {
    await sandbox.send("PUT", "/v1/memory/seen", "1.0");
    answerJson("1")(request, response);
  };
  await sandbox.send("GET", "/v1/memory/seen");
  await sandbox.tool("get_user", { id: "1" });
  const { events } = await sandbox.close();
  expect(ofType(events, "memory_read")).toMatchObject([{ op: "get", key: "seen", old: null, version: 0 }]);
  expect(ofType(events, "memory_write")).toMatchObject([
    { op: "put", key: "seen", old: null, new: { value_json: "1.0" } },
  ]);
  expect(ofType(events, "tool_call_end")).toMatchObject([{ memory_changed: true }]);
  expect(ofType(events, "error")).toEqual([]);
});

test("a plan step that takes too long gives up its call, and refuses others until the agent ends it", async () => {
  const asked = Promise.withResolvers<void>();
  upstream = () => asked.resolve();
  const sandbox = await rig.channel(asTask([getUser()], { plan_step_timeout_ms: 10_000 }));
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  let given: Answered;
  try {
    const begun = await sandbox.send("POST", "/v1/steps", { name: "search", state: { page: 1 } });
    expect([begun.status, begun.json.step]).toEqual([201, 1]);
    const giving = sandbox.tool("get_user", { id: "1" });
    await asked.promise;
    vi.advanceTimersByTime(10_000);
    given = await giving;
  } finally {
    vi.useRealTimers();
  }
  expect([given.status, given.json.error!.code]).toEqual([504, "STEP_TIMED_OUT"]);
  expect((await sandbox.tool("get_user", { id: "1" })).json.error!.code).toBe("STEP_TIMED_OUT");
  expect((await sandbox.send("POST", "/v1/steps/1/end", {})).json.status).toBe("timed_out");
  upstream = answerJson("1");
  expect((await sandbox.tool("get_user", { id: "1" })).status).toBe(200);
  expect((await sandbox.send("POST", "/v1/steps/1/end", {})).json.error!.code).toBe("STEP_NOT_FOUND");
  const { events } = await sandbox.close();
  expect(ofType(events, "plan_step")).toMatchObject([
    { state: "begun", step: 1, name: "search", given_json: '{"page":1}' },
    { state: "timed_out", step: 1, calls: 1 },
    { state: "ended", step: 1, status: "timed_out" },
  ]);
  expect(ofType(events, "tool_call_start")[0]).toMatchObject({ step: 1 });
});

test("steps lie within one another, and the end of one ends those within it", async () => {
  const sandbox = await rig.channel();
  await sandbox.send("POST", "/v1/steps", { name: "outer" });
  await sandbox.send("POST", "/v1/steps", { name: "inner" });
  expect((await sandbox.send("POST", "/v1/steps/1/end", { status: "failed" })).json.status).toBe("failed");
  await sandbox.send("POST", "/v1/steps", { name: "open at the end" });
  const { events } = await sandbox.close();
  const ended = ofType(events, "plan_step").filter(({ state }) => state === "ended");
  expect(ended.map(({ name, status }) => [name, status])).toEqual([
    ["inner", "abandoned"],
    ["outer", "failed"],
    ["open at the end", "abandoned"],
  ]);
});

test("an observation from outside comes with the next answer, once, and is recorded with who injected it", async () => {
  upstream = answerJson("1");
  const sandbox = await rig.channel(asTask([getUser()]));
  const path = `/v1/tasks/${sandbox.lease.task_id}/observations`;
  const { client } = rig.proxy;
  const headers = { "idempotency-key": "once" };
  const sent = await client.ok<{ seq: number }>("POST", path, { content: { weather: "storm" } }, { headers });
  expect(await client.ok("POST", path, { content: { weather: "storm" } }, { headers })).toEqual(sent);
  const waiting = await rig.gateway.observations(0, [], AbortSignal.timeout(5000));
  expect(waiting).toHaveLength(1);
  // The gateway repeats what nobody said to have received.
  for (const one of [...waiting, ...waiting]) expect(rig.channels.inject(one)).toBe(true);
  const { lease_id, fence } = sandbox.lease;
  expect(
    await rig.gateway.observations(0, [{ lease_id, fence, through: 1 }], AbortSignal.timeout(5000)),
  ).toEqual([]);

  expect((await sandbox.send("GET", "/v1/tools")).headers["dsec-observations"]).toBe("1");
  const answer = await sandbox.tool("get_user", { id: "1" });
  expect(answer.json.observations).toMatchObject([
    { seq: 1, from: client.id, content: { weather: "storm" } },
  ]);
  expect((await sandbox.tool("get_user", { id: "1" })).json.observations).toEqual([]);

  await client.ok("POST", path, { content: "second" });
  const polled = sandbox.send("GET", "/v1/observations?wait_ms=10000");
  for (const one of await rig.gateway.observations(5000, [], AbortSignal.timeout(9000)))
    rig.channels.inject(one);
  expect((await polled).json.items).toMatchObject([{ seq: 2, content: "second" }]);
  const { events } = await sandbox.close();
  expect(ofType(events, "observation")).toMatchObject([
    { state: "injected", observation: 1, source: client.id, content_json: '{"weather":"storm"}' },
    { state: "given", observation: 1, call: 1 },
    { state: "injected", observation: 2, source: client.id },
    { state: "given", observation: 2, call: null },
  ]);
  const stranger = await rig.proxy.gateway.client("tasks");
  expect(await stranger.refused("POST", path, { content: 1 })).toMatchObject({ code: "TASK_NOT_FOUND" });
});

test("an observation that comes when the sandbox's end is being recorded was not received, and the trace is whole", async () => {
  const sandbox = await rig.channel();
  const path = `/v1/tasks/${sandbox.lease.task_id}/observations`;
  await rig.proxy.client.ok("POST", path, { content: "late" });
  const [late] = await rig.gateway.observations(0, [], AbortSignal.timeout(5000));
  const closing = sandbox.channel.close(AbortSignal.timeout(30_000));
  expect(rig.channels.inject(late!)).toBe(false);
  expect((await closing).trace.count).toBe(0);
  expect(rig.channels.inject(late!)).toBe(false);
  await sandbox.close();
  // Nobody has it, so it is named again.
  expect(await rig.gateway.observations(0, [], AbortSignal.timeout(5000))).toContainEqual(late);
  await rig.giveBack(sandbox);
});

test("what a call left behind when the sandbox ended is recorded before the trace is sealed, however long it takes", async () => {
  const asked = Promise.withResolvers<void>();
  const image = Promise.withResolvers<never>();
  const { findImage } = rig.exec;
  rig.exec.findImage = () => {
    asked.resolve();
    return image.promise;
  };
  const sandbox = await rig.channel({ tools: [{ name: "slow", kind: "exec", command: ["true"] }] });
  const left = sandbox.tool("slow").catch(() => "left");
  await asked.promise;
  const closing = sandbox.close();
  expect(await left).toBe("left");
  // Time enough for a whole other sandbox.
  await (await rig.channel()).close();
  image.reject(new Error("it went"));
  const { events } = await closing;
  rig.exec.findImage = findImage;
  expect(events.map(({ type }) => type)).toEqual(["tool_call_start", "tool_call_end", "tool_call_late"]);
  expect(events.slice(1)).toMatchObject([{ state: "cancelled" }, { call: 1, state: "failed" }]);
});

test("rewards, tokens and context are kept as they were told", async () => {
  const sandbox = await rig.channel();
  const reward = await sandbox.send("POST", "/v1/rewards", {
    components: { found: 1, polite: 0.5 },
    weights: { polite: 2 },
  });
  expect([reward.status, reward.json.sum]).toEqual([201, 2]);
  const again = { components: { polite: 0.5 }, weights: { polite: 0.5 } };
  expect((await sandbox.send("POST", "/v1/rewards", again)).json.sum).toBe(0.25);
  const [best, second] = [
    { id: 7, logprob: -0.25 },
    { id: 9, logprob: -2 },
  ];
  const token = { ...best, top: [second, best], log_sum_exp: 12.5 };
  expect((await sandbox.send("POST", "/v1/logits", { tokens: [token] })).status).toBe(201);
  const context = { messages: ["hello"] };
  const kept = await sandbox.send("POST", "/v1/context", { context });
  for (const [path, wrong] of [
    ["/v1/rewards", { components: {} }],
    ["/v1/rewards", { components: { a: "1" } }],
    ["/v1/rewards", { components: { a: 1 }, weights: { b: 1 } }],
    ["/v1/logits", { tokens: [{ id: -1, logprob: 0 }] }],
    ["/v1/logits", { tokens: [{ ...token, top: Array(LIMITS.logitTop + 1).fill(token.top[0]) }] }],
    ["/v1/context", {}],
  ] as const) {
    expect([path, (await sandbox.send("POST", path, wrong)).json.error?.code]).toEqual([
      path,
      "INVALID_REQUEST",
    ]);
  }
  const { events } = await sandbox.close();
  const found = { name: "found", value: 1, weight: 1, product: 1 };
  const polite = { name: "polite", value: 0.5, weight: 2, product: 1 };
  expect(ofType(events, "reward")).toMatchObject([
    {
      components: [
        { ...found, weight_change: null },
        { ...polite, weight_change: null },
      ],
      sum: 2,
    },
    { components: [{ ...polite, weight: 0.5, weight_change: -1.5, product: 0.25 }], sum: 0.25 },
  ]);
  expect(ofType(events, "token_logit")).toMatchObject([
    { tokens: [{ id: 7, logprob: -0.25, top_ids: [7, 9], top_logprobs: [-0.25, -2], log_sum_exp: 12.5 }] },
  ]);
  expect(ofType(events, "context")).toMatchObject([
    { context_json: JSON.stringify(context), context_digest: kept.json.digest },
  ]);
});

test("sandboxes of one job talk to each other, and to nobody of another job", async () => {
  const [one, two, other] = [
    await rig.channel({ job: "j1" }),
    await rig.channel({ job: "j1" }),
    await rig.channel({ job: "j2" }),
  ];
  expect((await two.send("GET", "/v1/messages/results")).json.items).toEqual([]);
  expect((await one.send("POST", "/v1/messages/results", '{"score":0.5}')).status).toBe(201);
  const { items } = (await two.send("GET", "/v1/messages/results")).json as { items: object[] };
  expect(items).toMatchObject([{ id: 1, from: one.lease.task_id, body: { score: 0.5 } }]);
  expect((await other.send("GET", "/v1/messages/results")).json.items).toEqual([]);
  expect(ofType((await one.close()).events, "message")).toMatchObject([
    { op: "send", channel: "results", items: [{ id: 1, from: null }] },
  ]);
  expect(ofType((await two.close()).events, "message")).toMatchObject([
    { op: "receive", items: [{ id: 1, from: one.lease.task_id }] },
  ]);
});

test.each([
  [{ tools: [{ name: "a", kind: "http", url: "ftp://x/" }] }, "tools[0].url"],
  [{ tools: [{ name: "a", kind: "http", url: "http://{host}/" }] }, "tools[0].url"],
  [{ tools: [{ name: "a b", kind: "http", url: "http://x/" }] }, "tools[0].name"],
  [
    { tools: [{ name: "a", kind: "http", url: "http://x/", parameters: { typ: "object" } }] },
    "tools[0].parameters",
  ],
  [
    { tools: [{ name: "a", kind: "http", url: "http://x/", parameters: { pattern: "(a+)+$" } }] },
    "tools[0].parameters",
  ],
  [
    {
      tools: [
        { name: "a", kind: "exec", command: ["true"] },
        { name: "a", kind: "exec", command: ["true"] },
      ],
    },
    "tools[1].name",
  ],
  [
    { tools: [{ name: "a", kind: "exec", command: ["true"] }], tool_timeout_ms: { b: 5 } },
    "tool_timeout_ms.b",
  ],
  [{ tool_timeout_ms: { nobody: 5 } }, "tool_timeout_ms.nobody"],
])("a task with %j is refused at submit, naming the place", async (spec, path) => {
  const refused = await rig.proxy.client.refused("POST", "/v1/tasks", { command: ["true"], ...spec });
  expect(refused.code).toBe("INVALID_REQUEST");
  expect((refused.details as { issues: { path: string }[] }).issues.map((issue) => issue.path)).toContain(
    path,
  );
});
