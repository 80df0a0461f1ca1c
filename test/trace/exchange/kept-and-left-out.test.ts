import { expect, test } from "vitest";
import type { EventType, TraceEvent } from "#trace/events/event.ts";
import { importTraces } from "#trace/exchange/import.ts";
import type { ImportNote } from "#trace/exchange/import-notes.ts";
import { validate } from "#trace/format/validate.ts";
import { eventsIn, OPTIONS, writtenTrace } from "./imports.ts";

type Taken = { id: string; labels: unknown; events: TraceEvent[]; notes: ImportNote[] };

async function taken(...records: unknown[]): Promise<Taken[]> {
  const text = records.map((record) => (typeof record === "string" ? record : JSON.stringify(record)));
  async function* chunks() {
    yield new TextEncoder().encode(text.join("\n"));
  }
  const all: Taken[] = [];
  for await (const trace of importTraces(chunks(), "input", "openai-messages", OPTIONS)) {
    const segment = await writtenTrace(trace);
    expect((await validate(segment)).problems).toEqual([]);
    const { trace_id: id, labels_json } = segment.header;
    const labels = labels_json === null ? null : JSON.parse(labels_json);
    all.push({ id, labels, events: await eventsIn(segment), notes: trace.notes ?? [] });
  }
  return all;
}

const ofItems = async (...output: unknown[]) => (await taken({ id: "r", output }))[0]!;

function ofType<T extends EventType>(events: TraceEvent[], type: T): TraceEvent<T>[] {
  return events.filter((event): event is TraceEvent & TraceEvent<T> => event.type === type);
}

const calls = (events: TraceEvent[]) =>
  ofType(events, "tool_call_start").map(({ tool, arguments_json }) => [tool, JSON.parse(arguments_json!)]);
/** Number, whether it failed, what the agent was given. */
const answers = (events: TraceEvent[]) =>
  ofType(events, "tool_call_end").map(({ call, is_error, answer }) => [
    call,
    is_error,
    answer === null ? null : JSON.parse(answer.output_json!),
  ]);
const said = (events: TraceEvent[]) =>
  ofType(events, "observation").map(({ source, content_json }) => [source, JSON.parse(content_json!)]);

test("what tools of the model's own host did are calls, with what they were asked and what came", async () => {
  const search = { type: "search", query: "otters", sources: [{ type: "url", url: "https://a.example/" }] };
  const { events, notes } = await ofItems(
    { type: "web_search_call", id: "ws_1", status: "completed", action: search },
    {
      type: "web_search_call",
      id: "ws_2",
      status: "failed",
      action: { type: "open_page", url: "https://b.example/" },
    },
    {
      type: "file_search_call",
      id: "fs_1",
      status: "completed",
      queries: ["a"],
      results: [{ file_id: "f", score: 0.5 }],
    },
    { type: "file_search_call", id: "fs_2", status: "searching", queries: ["b"], results: null },
    {
      ...{ type: "code_interpreter_call", id: "ci_1", status: "completed", container_id: "cntr_1" },
      ...{ code: "1+1", outputs: [{ type: "logs", logs: "2" }] },
    },
    {
      type: "image_generation_call",
      id: "ig_1",
      status: "completed",
      result: "iVBORw0KGgo=",
      revised_prompt: "an otter",
    },
    {
      type: "mcp_call",
      id: "mcp_1",
      server_label: "wiki",
      name: "ask",
      arguments: '{"q":1.0}',
      output: "yes",
      error: null,
    },
    {
      type: "mcp_call",
      id: "mcp_2",
      server_label: "wiki",
      name: "ask",
      arguments: "{}",
      output: null,
      error: { type: "http_error", code: 404 },
    },
  );
  expect(calls(events)).toEqual([
    ["web_search", { action: search }],
    ["web_search", { action: { type: "open_page", url: "https://b.example/" } }],
    ["file_search", { queries: ["a"] }],
    ["file_search", { queries: ["b"] }],
    ["code_interpreter", { container_id: "cntr_1", code: "1+1" }],
    ["image_generation", { revised_prompt: "an otter" }],
    ["wiki/ask", { q: 1 }],
    ["wiki/ask", {}],
  ]);
  expect(ofType(events, "tool_call_start")[6]!.arguments_json).toBe('{"q":1.0}');
  expect(answers(events)).toEqual([
    [1, false, null],
    [2, true, null],
    [3, false, [{ file_id: "f", score: 0.5 }]],
    // the fourth was under way
    [5, false, [{ type: "logs", logs: "2" }]],
    [6, false, "iVBORw0KGgo="],
    [7, false, "yes"],
    [8, true, { type: "http_error", code: 404 }],
  ]);
  expect(notes).toEqual([]);
});

test("what the model asked its program to do is answered by the item that names the call", async () => {
  const { events, notes } = await ofItems(
    {
      type: "computer_call",
      id: "cu_1",
      call_id: "c1",
      status: "completed",
      action: { type: "wait" },
      pending_safety_checks: [],
    },
    {
      type: "local_shell_call",
      id: "ls_1",
      call_id: "c2",
      status: "completed",
      action: { type: "exec", command: ["ls"], env: {} },
    },
    { type: "shell_call", id: "sh_1", call_id: "c3", status: "completed", action: { commands: ["false"] } },
    {
      type: "apply_patch_call",
      id: "ap_1",
      call_id: "c4",
      status: "completed",
      operation: { type: "delete_file", path: "a" },
    },
    { type: "custom_tool_call", id: "ct_1", call_id: "c5", name: "sql", input: "select 1" },
    {
      type: "tool_search_call",
      call_id: null,
      execution: "server",
      status: "completed",
      arguments: { paths: ["crm"] },
    },
    { type: "function_call", id: "fc_1", call_id: "c7", name: "f", arguments: "{}" },
    {
      type: "tool_search_output",
      call_id: null,
      execution: "server",
      status: "completed",
      tools: [{ name: "g" }],
    },
    { type: "custom_tool_call_output", call_id: "c5", output: "1" },
    { type: "apply_patch_call_output", call_id: "c4", status: "failed", output: "no such file" },
    {
      type: "shell_call_output",
      call_id: "c3",
      output: [{ stdout: "", stderr: "", outcome: { type: "exit", exit_code: 1 } }],
    },
    // its id is the call's
    { type: "local_shell_call_output", id: "c2", output: '{"stdout":"a"}' },
    {
      type: "computer_call_output",
      call_id: "c1",
      output: { type: "computer_screenshot", image_url: "data:," },
    },
  );
  expect(calls(events)).toEqual([
    ["computer", { action: { type: "wait" }, pending_safety_checks: [] }],
    ["local_shell", { action: { type: "exec", command: ["ls"], env: {} } }],
    ["shell", { action: { commands: ["false"] } }],
    ["apply_patch", { operation: { type: "delete_file", path: "a" } }],
    ["sql", "select 1"],
    ["tool_search", { paths: ["crm"] }],
    ["f", {}],
  ]);
  expect(answers(events)).toEqual([
    [6, false, [{ name: "g" }]],
    [5, false, 1],
    [4, true, "no such file"],
    [3, true, [{ stdout: "", stderr: "", outcome: { type: "exit", exit_code: 1 } }]],
    [2, false, { stdout: "a" }],
    [1, false, { type: "computer_screenshot", image_url: "data:," }],
  ]);
  expect(notes).toEqual([]);
});

test("items that are no calls and of which no more is known are kept as they stand, and counted", async () => {
  const items = [
    { type: "mcp_list_tools", id: "l", server_label: "wiki", tools: [] },
    { type: "mcp_approval_request", id: "q", name: "ask", arguments: "{}", server_label: "wiki" },
    { type: "mcp_approval_response", approval_request_id: "q", approve: true },
    { type: "item_reference", id: "msg_1" },
    { id: "msg_2" },
    { type: "compaction", encrypted_content: "x" },
    { type: "telepathy", n: 9_007_199 },
    { type: "telepathy", n: 2 },
    { content: "neither a role nor a type" },
    { type: "function_call", call_id: "c", arguments: "{}" },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "ok" }] },
  ];
  const { events, notes } = await ofItems(...items);
  expect(said(events)).toEqual([
    ["mcp_list_tools", items[0]],
    ["mcp_approval_request", items[1]],
    ["mcp_approval_response", items[2]],
    ["item_reference", items[3]],
    ["item_reference", items[4]],
    ["compaction", items[5]],
    ["telepathy", items[6]],
    ["telepathy", items[7]],
    ["item", items[8]],
    ["function_call", items[9]],
    ["assistant", [{ type: "output_text", text: "ok" }]],
  ]);
  const kept = "kept as an observation, as it stands";
  expect(notes).toEqual([
    { what: `an item of type "mcp_list_tools" is ${kept}`, count: 1, first: "message 1" },
    { what: `an item of type "mcp_approval_request" is ${kept}`, count: 1, first: "message 2" },
    { what: `an item of type "mcp_approval_response" is ${kept}`, count: 1, first: "message 3" },
    {
      what: "an item that is only referred to is not in the file, and left out",
      count: 2,
      first: "message 4",
    },
    { what: `an item of type "compaction" is ${kept}`, count: 1, first: "message 6" },
    { what: `an item of type "telepathy" is ${kept}`, count: 2, first: "message 7" },
    { what: `an item with neither a role nor a type is ${kept}`, count: 1, first: "message 9" },
    { what: `a call of a tool without a name is ${kept}`, count: 1, first: "message 10" },
  ]);
});

test("a call of a type that is not known yet is a call, and its answer finds it", async () => {
  const { events, notes } = await ofItems(
    { type: "teleport_call", id: "t", call_id: "c1", status: "completed", to: "x" },
    { type: "teleport_call_output", call_id: "c1", output: "there" },
    { type: "dream_call", id: "d", status: "completed", about: "y" },
  );
  expect(calls(events)).toEqual([
    ["teleport", { to: "x" }],
    ["dream", { about: "y" }],
  ]);
  expect(answers(events)).toEqual([
    [1, false, "there"],
    [2, false, null],
  ]);
  expect(notes).toEqual([]);
});

test("a history that was cut keeps the answers whose calls it lost, and all that follows", async () => {
  const orphan = { role: "tool", tool_call_id: "gone", content: '{"a":1}' };
  const item = { type: "function_call_output", call_id: "gone too", output: "x" };
  const [chat, responses] = await taken(
    {
      id: "chat",
      messages: [
        orphan,
        { role: "assistant", tool_calls: [{ id: "c", function: { name: "f", arguments: "{}" } }] },
        { role: "tool", tool_call_id: "c", content: "2" },
        { role: "tool", tool_call_id: "c", content: "again" },
        { role: "user", content: "go on" },
      ],
    },
    { id: "responses", input: [item, { role: "user", content: "go on" }] },
  );
  expect(said(chat!.events)).toEqual([
    ["tool", orphan],
    ["tool", { role: "tool", tool_call_id: "c", content: "again" }],
    ["user", "go on"],
  ]);
  expect(answers(chat!.events)).toEqual([[1, false, 2]]);
  const what =
    "an answer to a call that is not in the file, or was answered before, is kept as an observation, as it stands";
  expect(chat!.notes).toEqual([{ what, count: 2, first: "message 1" }]);
  expect(said(responses!.events)).toEqual([
    ["tool", item],
    ["user", "go on"],
  ]);
  expect(responses!.notes).toEqual([{ what, count: 1, first: "message 1" }]);
});

test("an assistant's message keeps what stands beside its words", async () => {
  const audio = { role: "assistant", content: null, audio: { id: "audio_1", transcript: "hi" } };
  const [{ events, notes }] = (await taken({
    id: "a",
    messages: [audio, { role: "assistant", content: "" }],
  })) as [Taken];
  expect(said(events)).toEqual([["assistant", audio]]);
  expect(notes).toEqual([]);
});

const completion = {
  ...{ id: "chatcmpl-1", object: "chat.completion", created: 1_724_858_089, model: "m-1" },
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "4", refusal: null } }],
  usage: { prompt_tokens: 24, completion_tokens: 8 },
};

test("a batch's output lines are a trace each: answers of every endpoint, and what went wrong", async () => {
  const line = (id: string, response: unknown, error: unknown = null) => ({
    ...{ id: `batch_req_${id}`, custom_id: id, response, error },
  });
  const ok = (body: unknown) => ({ status_code: 200, request_id: "q", body });
  const tooLong = {
    message: "too long",
    type: "invalid_request_error",
    param: "messages",
    code: "context_length_exceeded",
  };
  const [chat, response, legacy, refused, expired, plain, embedding, nothing] = await taken(
    line("chat", ok(completion)),
    line(
      "responses",
      ok({
        ...{ id: "resp_1", object: "response", status: "completed", model: "m-2", error: null },
        output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "5" }] }],
        usage: { input_tokens: 3, output_tokens: 1 },
      }),
    ),
    line(
      "legacy",
      ok({ object: "text_completion", model: "m-3", choices: [{ text: "6", finish_reason: "length" }] }),
    ),
    line("refused", { status_code: 400, request_id: "q", body: { error: tooLong } }),
    line("expired", null, { code: "batch_expired", message: "This request could not be executed in time." }),
    line("plain", { status_code: 502, request_id: "q", body: "Bad Gateway" }),
    line("embedding", ok({ object: "list", data: [{ embedding: [0.1] }], model: "e" })),
    line("nothing", null),
  );
  expect(chat!.id).toBe("batch_req_chat");
  expect(said(chat!.events)).toEqual([["assistant", "4"]]);
  expect(ofType(chat!.events, "completion")).toMatchObject([
    { model: "m-1", prompt_tokens: 24, finish_reason: "stop" },
  ]);
  expect(chat!.events[0]!.wall_us).toBe(1_724_858_089_000_000);
  expect(chat!.labels).toMatchObject({
    custom_id: "chat",
    response: { status_code: 200, request_id: "q", body: { id: "chatcmpl-1", model: "m-1" } },
  });
  expect(said(response!.events)).toEqual([["assistant", [{ type: "output_text", text: "5" }]]]);
  expect(ofType(response!.events, "completion")).toMatchObject([{ model: "m-2", prompt_tokens: 3 }]);
  expect(ofType(response!.events, "error")).toEqual([]);
  expect(said(legacy!.events)).toEqual([["assistant", "6"]]);
  const errors = [refused, expired, plain].map((trace) =>
    trace!.events.map((event) => event.type === "error" && [event.code, event.text, event.detail_json]),
  );
  expect(errors).toEqual([
    [["context_length_exceeded", "too long", JSON.stringify(tooLong)]],
    [["batch_expired", "This request could not be executed in time.", expect.any(String)]],
    [["REQUEST_FAILED", "Bad Gateway", '"Bad Gateway"']],
  ]);
  expect(refused!.labels).toMatchObject({ custom_id: "refused", response: { status_code: 400 } });
  expect(said(embedding!.events)).toEqual([
    ["answer", { object: "list", data: [{ embedding: [0.1] }], model: "e" }],
  ]);
  expect(embedding!.labels).toMatchObject({
    custom_id: "embedding",
    response: { status_code: 200, request_id: "q" },
  });
  expect(embedding!.notes).toEqual([
    {
      what: "an answer without a message is kept as an observation, as it stands",
      count: 1,
      first: "the answer",
    },
  ]);
  expect(nothing!.events).toEqual([]);
  expect(nothing!.notes).toEqual([
    { what: "there is neither a message nor an answer", count: 1, first: "the record" },
  ]);
});

test("a response that failed or stopped says why", async () => {
  const [failed] = await taken({
    ...{
      id: "resp_2",
      object: "response",
      status: "failed",
      error: { code: "server_error", message: "oops" },
    },
    output: [{ type: "reasoning", summary: [] }],
  });
  expect(ofType(failed!.events, "error")).toMatchObject([{ code: "server_error", text: "oops" }]);
  expect(failed!.labels).toMatchObject({ status: "failed" });
  const [labelled] = await taken({ id: "l", error: false, messages: [{ role: "user", content: "a" }] });
  expect(ofType(labelled!.events, "error")).toEqual([]);
});

test("requests and answers that stand together give both", async () => {
  const [pair] = await taken({
    custom_id: "p",
    method: "POST",
    body: { model: "m", messages: [{ role: "user", content: "2+2" }], temperature: 0.5 },
    response: { status_code: 200, body: completion },
  });
  expect(said(pair!.events)).toEqual([
    ["user", "2+2"],
    ["assistant", "4"],
  ]);
  expect(pair!.labels).toMatchObject({ method: "POST", body: { model: "m", temperature: 0.5 } });
});

test("labels that no header holds leave what stands beside a conversation out, and the conversation stays", async () => {
  const tools = [{ description: "x".repeat(2_000_000) }];
  const request = { model: "m", messages: [{ role: "user", content: "a" }], tools };
  const [{ events, labels, notes }] = (await taken({ custom_id: "l", request })) as [Taken];
  expect(said(events)).toEqual([["user", "a"]]);
  expect(labels).toEqual({ custom_id: "l" });
  const what = "labels of the request and the response are too long, and left out";
  expect(notes).toEqual([{ what, count: 1, first: "the record" }]);
});

test("notes are bounded, however many kinds of items there are", async () => {
  const { notes } = await ofItems(...Array.from({ length: 1_000 }, (_, at) => ({ type: `kind ${at}` })));
  expect(notes.length).toBeLessThan(30);
  expect(notes.reduce((sum, { count }) => sum + count, 0)).toBe(1_000);
  const [long] = (await ofItems({ type: "x".repeat(100_000) })).notes;
  expect(long!.what.length).toBeLessThan(200);
});
