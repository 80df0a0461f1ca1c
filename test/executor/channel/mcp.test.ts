import { afterAll, beforeAll, expect, test } from "vitest";
import { reach } from "#test/gateway/proxy/proxy-under-test.ts";
import { ChannelRig, type OpenChannel } from "./channel-under-test.ts";

let rig: ChannelRig;
let sandbox: OpenChannel;
beforeAll(async () => {
  rig = await ChannelRig.open();
  const { url, port } = await rig.proxy.serve((request, response) => {
    if (request.url === "/slow") return;
    response.writeHead(request.url === "/missing" ? 404 : 200, { "content-type": "application/json" });
    response.end(request.url === "/text" ? '"plain words"' : '{"price": 1.50}');
  });
  const tool = (name: string, more: object = {}) => ({
    name,
    kind: "http" as const,
    url: `${url}/${name}`,
    ...more,
  });
  sandbox = await rig.channel({
    policy: reach(port),
    tools: [
      tool("price", {
        description: "the price",
        parameters: { properties: { of: { type: "string" } } },
        read_only: true,
      }),
      tool("text"),
      tool("missing"),
      tool("slow", { timeout_ms: 50 }),
      { name: "elsewhere", kind: "http", url: "http://elsewhere.example/" },
      { name: "inside", kind: "exec", command: ["true"], where: "sandbox" },
    ],
  });
});
afterAll(() => rig?.[Symbol.asyncDispose]());

async function rpc(method: string, params?: object) {
  const answer = await sandbox.send("POST", "/mcp", {
    jsonrpc: "2.0",
    id: 7,
    method,
    ...(params ? { params } : {}),
  });
  expect([answer.status, answer.json.id, answer.json.jsonrpc]).toEqual([200, 7, "2.0"]);
  return answer.json as unknown as { result: Result; error?: { code: number; message: string } };
}
type Result = {
  protocolVersion: string;
  tools: { name: string; inputSchema: object; annotations: object }[];
  content: { type: string; text: string }[];
  structuredContent?: object;
  isError: boolean;
};

test("a client begins, is told of the tools and calls them", async () => {
  const params = {
    protocolVersion: "2025-03-26",
    capabilities: {},
    clientInfo: { name: "test", version: "1" },
  };
  expect((await rpc("initialize", params)).result).toMatchObject({
    protocolVersion: "2025-03-26",
    capabilities: { tools: {} },
    serverInfo: { name: "dsec" },
  });
  const told = await sandbox.send("POST", "/mcp", { jsonrpc: "2.0", method: "notifications/initialized" });
  expect([told.status, told.body.length]).toEqual([202, 0]);
  expect((await rpc("ping")).result).toEqual({});
  const { tools } = (await rpc("tools/list")).result;
  expect(tools.map(({ name }) => name)).toEqual(["price", "text", "missing", "slow", "elsewhere"]);
  expect(tools[0]).toEqual({
    name: "price",
    description: "the price",
    inputSchema: { type: "object", properties: { of: { type: "string" } } },
    annotations: { readOnlyHint: true },
  });
  const { result } = await rpc("tools/call", { name: "price", arguments: { of: "tea" } });
  expect(result).toMatchObject({ content: [{ type: "text", text: '{"price": 1.50}' }], isError: false });
  expect(result.structuredContent).toEqual({ price: 1.5 });
  expect((await rpc("tools/call", { name: "text" })).result.content).toEqual([
    { type: "text", text: "plain words" },
  ]);
});

test("a client that asks for a version of the future is offered ours", async () => {
  expect((await rpc("initialize", { protocolVersion: "2099-01-01" })).result.protocolVersion).toBe(
    "2025-06-18",
  );
});

test("what a tool fails of is told to the model, and what the client got wrong to the client", async () => {
  expect((await rpc("tools/call", { name: "missing" })).result.isError).toBe(true);
  for (const [name, code] of [
    ["slow", "TOOL_TIMED_OUT"],
    ["elsewhere", "DOMAIN_NOT_ALLOWED"],
  ]) {
    const { result } = await rpc("tools/call", { name });
    expect([name, result.isError, result.content[0]!.text.split(":")[0]]).toEqual([name, true, code]);
  }
  for (const [method, params, code] of [
    ["tools/call", { name: "nope" }, -32602],
    ["tools/call", { name: "inside" }, -32602],
    ["tools/call", { name: "price", arguments: { of: 1 } }, -32602],
    ["tools/call", { arguments: {} }, -32602],
    ["resources/list", {}, -32601],
  ] as const) {
    expect([method, params, (await rpc(method, params)).error?.code]).toEqual([method, params, code]);
  }
  for (const message of [
    [],
    [{ jsonrpc: "2.0", id: 1, method: "ping" }],
    { id: 1, method: "ping" },
    "ping",
    null,
  ]) {
    const answer = await sandbox.send("POST", "/mcp", JSON.stringify(message));
    expect([answer.status, (answer.json.error as unknown as { code: number }).code]).toEqual([400, -32600]);
  }
  expect((await sandbox.send("GET", "/mcp")).status).toBe(405);
});

test("an observation from outside is put beside the tool's own content", async () => {
  const observation = {
    seq: 1,
    from: rig.proxy.client.id,
    at: new Date().toISOString(),
    content: "storm ahead",
  };
  sandbox.channel.inject(observation);
  const { result } = await rpc("tools/call", { name: "text" });
  expect(result.content.map(({ text }) => text)).toEqual(["plain words", JSON.stringify({ observation })]);
});

const IDS = [
  "7",
  '"7"',
  "9007199254740993",
  "-9223372036854775808",
  "18446744073709551615",
  "1.0",
  "1e2",
  "-0",
  '""',
  '"\\u00e9"',
  '"9007199254740993"',
];

test.each(IDS)("a request of id %s is answered with that id, digit for digit", async (id) => {
  const asSent = id.startsWith('"') ? JSON.stringify(JSON.parse(id)) : id;
  for (const rest of [
    '"method":"ping"',
    '"method":"tools/call","params":{"name":"text","arguments":{"id":{"id":5.0}}}',
    '"method":"tools/call","params":{"name":"nope"}',
    '"method":"tools/call","params":{"name":"elsewhere"}',
    '"method":"no/such"',
  ]) {
    const answer = await sandbox.send("POST", "/mcp", `{"jsonrpc":"2.0","id":${id},${rest}}`);
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toContain(`{"jsonrpc":"2.0","id":${asSent},`);
  }
});

test("what is no request is answered with a null id, and a request of an id that none may have too", async () => {
  for (const id of ["null", "true", "{}", "[1]", "1e400"]) {
    const answer = await sandbox.send("POST", "/mcp", `{"jsonrpc":"2.0","id":${id},"method":"ping"}`);
    expect([answer.status, answer.json.id]).toEqual([400, null]);
  }
});
