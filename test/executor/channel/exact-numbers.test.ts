import { afterAll, beforeAll, expect, test } from "vitest";
import { reach } from "#test/gateway/proxy/proxy-under-test.ts";
import { ChannelRig } from "./channel-under-test.ts";

let rig: ChannelRig;
beforeAll(async () => {
  rig = await ChannelRig.open();
});
afterAll(() => rig?.[Symbol.asyncDispose]());

test("numbers of a tool's input reach the tool, and its record, as they were written", async () => {
  const seen: string[] = [];
  const { url, port } = await rig.proxy.serve(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    seen.push(`${request.url} ${body}`);
    response.end("1");
  });
  const sandbox = await rig.channel({
    policy: reach(port),
    tools: [
      { name: "put", kind: "http", method: "POST", url: `${url}/put/{id}` },
      { name: "get", kind: "http", method: "GET", url: `${url}/get` },
      { name: "inside", kind: "exec", command: ["show", "{id}"], where: "sandbox" },
    ],
  });
  const input = '{"id":9007199254740993,"z":1.0,"a":[-0,{"b":1e2,"c":18446744073709551615}],"text":"1.0"}';
  const rest = input.replace('"id":9007199254740993,', "");
  expect((await sandbox.send("POST", "/v1/tools/put", `{"input":${input}}`)).status).toBe(200);
  const rpc = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"put","arguments":${input}}}`;
  expect((await sandbox.send("POST", "/mcp", rpc)).json).toMatchObject({ result: { isError: false } });
  const query = '{"input":{"id":9007199254740993,"l":[1.50,"x",{"n":9007199254740995}]}}';
  expect((await sandbox.send("POST", "/v1/tools/get", query)).status).toBe(200);
  expect(seen.slice(0, 2)).toEqual(Array(2).fill(`/put/9007199254740993 ${rest}`));
  const asked = new URL(seen[2]!.trim(), url).searchParams;
  expect([asked.get("id"), ...asked.getAll("l")]).toEqual([
    "9007199254740993",
    "1.50",
    "x",
    '{"n":9007199254740995}',
  ]);
  const begun = await sandbox.send("POST", "/v1/tools/inside/begin", `{"input":${input}}`);
  expect(begun.body.toString()).toContain('"command":["show","9007199254740993"]');
  expect(begun.body.toString()).toContain(`"input":${input}`);
  const { events } = await sandbox.close();
  const recorded = events.flatMap((event) =>
    event.type === "tool_call_start" ? [event.arguments_json] : [],
  );
  expect(recorded).toEqual([
    input,
    input,
    '{"id":9007199254740993,"l":[1.50,"x",{"n":9007199254740995}]}',
    input,
  ]);
});

test("an input whose numbers are doubles as they stand is recorded in its canonical form", async () => {
  const { url, port } = await rig.proxy.serve((_, response) => response.end("1"));
  const tool = { name: "put", kind: "http" as const, method: "POST" as const, url };
  const sandbox = await rig.channel({ policy: reach(port), tools: [tool] });
  await sandbox.send("POST", "/v1/tools/put", '{"input":{"b":1,"a":2.5}}');
  const { events } = await sandbox.close();
  expect(events.find((event) => event.type === "tool_call_start")).toMatchObject({
    arguments_json: '{"a":2.5,"b":1}',
  });
});
