import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Agent, fetch as socketFetch } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { reach } from "#test/gateway/proxy/proxy-under-test.ts";
import { ChannelRig, type OpenChannel } from "./channel-under-test.ts";

/** The Model Context Protocol's own client, over the sandbox's socket. */
let rig: ChannelRig;
let sandbox: OpenChannel;
let agent: Agent;
let client: Client;

beforeAll(async () => {
  rig = await ChannelRig.open();
  const { url, port } = await rig.proxy.serve((_request, response) => {
    response.writeHead(200, { "content-type": "application/json" }).end('{"price": 1.50}');
  });
  sandbox = await rig.channel({
    policy: reach(port),
    tools: [
      {
        name: "price",
        kind: "http",
        url: `${url}/{of}`,
        description: "the price",
        parameters: { properties: { of: { type: "string" } }, required: ["of"] },
        read_only: true,
      },
    ],
  });
  agent = new Agent({ connect: { socketPath: sandbox.channel.socketPath } });
  client = new Client({ name: "stock", version: "1.0.0" });
  const overSocket = (input: unknown, init: unknown) =>
    socketFetch(String(input), { ...(init as object), dispatcher: agent });
  await client.connect(
    new StreamableHTTPClientTransport(new URL("http://dsec/mcp"), {
      fetch: overSocket as unknown as typeof fetch,
    }),
  );
});
afterAll(async () => {
  await client?.close();
  await agent?.close();
  await rig?.[Symbol.asyncDispose]();
});

test("a stock MCP client connects, lists the task's tools and calls one", async () => {
  expect(client.getServerVersion()).toMatchObject({ name: "dsec" });
  const { tools } = await client.listTools();
  expect(tools).toEqual([
    {
      name: "price",
      description: "the price",
      inputSchema: { type: "object", properties: { of: { type: "string" } }, required: ["of"] },
      annotations: { readOnlyHint: true },
    },
  ]);
  const answer = await client.callTool({ name: "price", arguments: { of: "tea" } });
  expect(answer).toMatchObject({
    content: [{ type: "text", text: '{"price": 1.50}' }],
    structuredContent: { price: 1.5 },
    isError: false,
  });
  await client.ping();
});

test("it is told of a wrong argument and of a tool that is not there", async () => {
  await expect(client.callTool({ name: "price", arguments: {} })).rejects.toThrow('it lacks the member "of"');
  await expect(client.callTool({ name: "nothing" })).rejects.toThrow(/nothing/);
});
