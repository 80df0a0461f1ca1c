/** Completions of models, as agents in real sandboxes ask for them by tools, by calls of their own and through the proxy. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { brotliCompressSync, gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import type { TaskRequest } from "#core/wire/tasks.ts";
import { Completions } from "#executor/trace/completions.ts";
import { Rig } from "#test/executor/executor-under-test.ts";
import { openTestProxy, reach, type TestProxy } from "#test/gateway/proxy/proxy-under-test.ts";
import { readTrace } from "#test/support/trace-file.ts";
import {
  CHAT,
  delta,
  finish,
  logprob,
  sse,
  TOOL_CALLS,
  TOOL_STREAM,
  USAGE,
  usageChunk,
} from "#test/trace/completions/answers.ts";
import type { EventType, TraceEvent } from "#trace/events/event.ts";

let proxy: TestProxy;
let rig: Rig;
let upstream: Server;
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let url: string;
beforeAll(async () => {
  upstream = createServer((request, response) => {
    void buffer(request).then(() => answer(request, response));
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

type Recorded = { events: TraceEvent[]; stdout: string };

async function recorded(script: string, request: Partial<TaskRequest> = {}): Promise<Recorded> {
  const tools = [
    { name: "ask", kind: "http" as const, method: "POST" as const, url: `${url}/v1/chat/completions` },
  ];
  const policy = reach(Number(new URL(url).port));
  const { task, stdout } = await rig.sh(script, { policy, tools, ...request });
  const file = await rig.client.send("GET", `/v1/tasks/${task.id}/trace`);
  const { events } = await readTrace(new Uint8Array(await file.arrayBuffer()));
  return { events, stdout: String(stdout) };
}

const ofType = <T extends EventType>({ events }: Recorded, type: T) =>
  events.filter((event) => event.type === type) as unknown as TraceEvent<T>[];

const send =
  (body: string | Buffer, headers: Record<string, string> = {}, status = 200) =>
  (_request: IncomingMessage, response: ServerResponse) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(body);
  };
const EVENTS = { "content-type": "text/event-stream" };
const USED = { prompt_tokens: 19, completion_tokens: 10, cached_tokens: 8 };
/** An unmodified program: curl, which NO_PROXY would otherwise send past the proxy. */
const CURL = `NO_PROXY= no_proxy= curl -sN -d '{"stream":true}'`;

test("a tool's answer that is a completion tells of it between the call's start and end", async () => {
  answer = send(JSON.stringify(CHAT));
  const run = await recorded("dsec-tool exec --tool ask --input '{}' >/dev/null");
  const types = run.events.map(({ type }) => type);
  expect(ofType(run, "completion")).toMatchObject([
    {
      ...{ call: 1, model: "gpt-4o-mini", ...USED, finish_reason: "tool_calls", streamed: false },
      tool_calls: [{ id: "call_abc", name: "get_weather" }],
    },
  ]);
  expect(types.indexOf("tool_call_start")).toBeLessThan(types.indexOf("completion"));
  expect(types.indexOf("completion")).toBeLessThan(types.indexOf("tool_call_end"));
});

test("an unmodified program streams one through the proxy, each byte as it was sent, and the trace tells of it", async () => {
  const best: [string, number][] = [
    ["Hi", -0.1],
    ["Yo", -2.5],
  ];
  const said = delta(
    { content: "Hi" },
    { logprobs: { content: [logprob("Hi", -0.1, best)], refusal: null } },
  );
  const stream = sse(said, ...TOOL_STREAM, usageChunk(USAGE), "[DONE]");
  answer = async (_request, response) => {
    response.writeHead(200, EVENTS);
    const bytes = Buffer.from(stream);
    for (let at = 0; at < bytes.length; at += 97) {
      response.write(bytes.subarray(at, at + 97));
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  };
  const run = await recorded(`${CURL} ${url}/v1/chat/completions`);
  expect(run.stdout).toBe(stream);
  expect(ofType(run, "tool_call_start")).toMatchObject([{ call: 1, via: "proxy" }]);
  expect(ofType(run, "completion")).toMatchObject([
    { call: 1, ...USED, finish_reason: "tool_calls", tool_calls: TOOL_CALLS, streamed: true },
  ]);
  expect(ofType(run, "token_logit")).toMatchObject([
    {
      ...{ call: 1, source: "assistant" },
      tokens: [
        { id: 0, text: "Hi", logprob: -0.1, top_ids: [0, 1], top_texts: ["Hi", "Yo"], log_sum_exp: null },
      ],
    },
  ]);
});

test("a call of the agent's own to a server that compresses and breaks off tells what had come", async () => {
  answer = send(gzipSync(JSON.stringify(CHAT)), { "content-encoding": "gzip" });
  const whole = await recorded(`dsec-tool api-call --url ${url}/x --body '{}' >/dev/null`);
  expect(ofType(whole, "completion")).toMatchObject([{ call: 1, ...USED }]);

  answer = (_request, response) => {
    response.writeHead(200, EVENTS);
    response.write(sse(...TOOL_STREAM.slice(0, 3)), () => setTimeout(() => response.destroy(), 50));
  };
  const cut = await recorded(`${CURL} ${url}/v1/chat/completions; true`);
  expect(ofType(cut, "tool_call_end")).toMatchObject([{ state: "failed" }]);
  expect(ofType(cut, "completion")).toMatchObject([
    { call: 1, finish_reason: null, tool_calls: [{ name: "track", arguments_json: '{"ord' }] },
  ]);
});

test("a program that undoes codings by itself is told as sent, and the trace tells what it said", async () => {
  const [whole, stream] = [JSON.stringify(CHAT), sse(...TOOL_STREAM, usageChunk(USAGE), "[DONE]")];
  answer = (request, response) => {
    const isWhole = request.url === "/whole";
    const coding = isWhole ? "br" : "gzip";
    const body = isWhole ? brotliCompressSync(whole) : gzipSync(stream);
    send(body, { "content-encoding": coding })(request, response);
  };
  const compressed = CURL.replace("curl", "curl --compressed");
  const run = await recorded(`${compressed} ${url}/stream; ${compressed} ${url}/whole`);
  expect(run.stdout).toBe(stream + whole);
  expect(ofType(run, "completion")).toMatchObject([
    { call: 1, ...USED, finish_reason: "tool_calls", tool_calls: TOOL_CALLS, streamed: true },
    { call: 2, model: "gpt-4o-mini", ...USED, streamed: false },
  ]);
  const types = run.events.map(({ type }) => type);
  expect(types.indexOf("completion")).toBeLessThan(types.indexOf("tool_call_end"));
  // what is recorded is what came, for a replay to give again
  const [first] = ofType(run, "tool_call_end");
  expect(Buffer.from(first!.answer!.body!)).toEqual(gzipSync(stream));
});

test("what a client leaves before its end is told as far as it had come", async () => {
  const stream = sse(...TOOL_STREAM);
  answer = (_request, response) => {
    response.writeHead(200, EVENTS);
    response.write(stream);
  };
  const run = await recorded(`
${CURL} ${url}/v1/chat/completions > answer &
until [ "$(cat answer | wc -c)" = ${Buffer.byteLength(stream)} ]; do sleep 0.05; done
kill $!`);
  expect(ofType(run, "tool_call_end")).toMatchObject([{ state: "cancelled" }]);
  expect(ofType(run, "completion")).toMatchObject([
    { call: 1, finish_reason: "tool_calls", tool_calls: TOOL_CALLS },
  ]);
});

test("neither an error, nor an answer that was only fetched, nor other JSON is one", async () => {
  answer = (request, response) => {
    if (request.url === "/failed") send(JSON.stringify(CHAT), {}, 500)(request, response);
    else if (request.url === "/other") send('{"choices":["a"],"usage":1}')(request, response);
    else send(JSON.stringify(CHAT))(request, response);
  };
  const call = (path: string, more = "") => `dsec-tool api-call --url ${url}${path} ${more} >/dev/null`;
  const script = [call("/failed", "--body x"), call("/fetched"), call("/other", "--body x")].join(";");
  const run = await recorded(`${script}; true`);
  expect(ofType(run, "tool_call_end").map(({ state }) => state)).toEqual([
    "answered",
    "answered",
    "answered",
  ]);
  expect(ofType(run, "completion")).toEqual([]);
});

test("at error_only the tokens and the tool calls are left out, the usage is kept", async () => {
  const said = delta({ content: "Hi" }, { logprobs: { content: [logprob("Hi", -0.1)] } });
  answer = send(sse(said, ...TOOL_STREAM, usageChunk(USAGE)), EVENTS);
  const run = await recorded(`dsec-tool api-call --url ${url}/x --body x >/dev/null`, {
    trace: { level: "error_only" },
  });
  expect(ofType(run, "completion")).toMatchObject([{ ...USED, finish_reason: "tool_calls", tool_calls: [] }]);
  expect(ofType(run, "token_logit")).toEqual([]);
});

test("answers that are read along hold no more than their bound together: those beyond it are given up", () => {
  const recordedCalls: unknown[] = [];
  const append = (_type: EventType, { call }: { call?: unknown }) => recordedCalls.push(call);
  const completions = new Completions({ append, checkRoom() {} });
  const padding = " ".repeat(LIMITS.completionBytes - 4096);
  const piece = Buffer.from(`${JSON.stringify(CHAT)}${padding}`);
  const ask = (from: number, count: number) => {
    const taps = Array.from({ length: count }, (_, at) => completions.follow(from + at, "POST", 200)!);
    for (const tap of taps) tap.push(piece);
    for (const tap of taps) tap.end();
  };
  const fit = LIMITS.completionsHeldBytes / LIMITS.completionBytes;
  ask(0, 4 * fit);
  expect(recordedCalls).toEqual(Array.from({ length: fit }, (_, at) => at));
  // what they held is there for others
  ask(100, 1);
  expect(recordedCalls.at(-1)).toBe(100);
});

test("a log that is full or gone fails no call, and nothing is appended after the end", () => {
  const appended: string[] = [];
  const full = new Completions({
    append: (type: EventType) => appended.push(type),
    checkRoom: () => {
      throw new Error("full");
    },
  });
  const tap = full.follow(1, "POST", 200)!;
  tap.push(Buffer.from(sse(...TOOL_STREAM, finish("stop"))));
  tap.end();
  expect(appended).toEqual([]);
  const closed = new Completions({ append: (type: EventType) => appended.push(type), checkRoom() {} });
  const late = closed.follow(1, "POST", 200)!;
  late.push(Buffer.from(sse(...TOOL_STREAM)));
  closed.close();
  expect(appended).toEqual(["completion"]);
  late.push(Buffer.from(sse(...TOOL_STREAM)));
  late.end();
  expect(appended).toEqual(["completion"]);
});

test("of an answer that decodes to hundreds of gigabytes a bounded part is read, so that its call can end", async () => {
  const appended: unknown[] = [];
  const append = (type: EventType, { call }: { call?: unknown }) => appended.push([type, call]);
  const completions = new Completions({ append, checkRoom() {} });
  const tap = completions.follow(1, "POST", 200, ["zstd"])!;
  tap.push(zstdCompressSync(Buffer.from(sse(...TOOL_STREAM))));
  // about 4 KB that are 128 MiB
  const frame = zstdCompressSync(Buffer.alloc(128 * 1024 * 1024));
  for (let bytes = frame.length; bytes < LIMITS.completionBytes / 2; bytes += frame.length) tap.push(frame);
  await tap.end();
  expect(appended).toEqual([["completion", 1]]);
});
