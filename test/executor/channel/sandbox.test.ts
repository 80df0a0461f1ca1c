/** Agents in real sandboxes, and everything that they do through their socket. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { AttestationClaims } from "#core/wire/attestations.ts";
import type { ReceiptClaims } from "#core/wire/calls.ts";
import type { TaskRequest } from "#core/wire/tasks.ts";
import { readRecording } from "#executor/replay/recording.ts";
import { eventually, Rig } from "#test/executor/executor-under-test.ts";
import { cgroupsWith, mountsWith } from "#test/executor/host.ts";
import { openTestProxy, reach, type TestProxy } from "#test/gateway/proxy/proxy-under-test.ts";
import { readTrace } from "#test/support/trace-file.ts";

let proxy: TestProxy;
let rig: Rig;
let url: string;
let port: number;
const seen: { method: string; url: string; body: string }[] = [];
/** Claims of the call signatures that came with the requests. */
const signed: object[] = [];
beforeAll(async () => {
  proxy = await openTestProxy();
  ({ url, port } = await proxy.serve(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    signed.push(decodeJwt(request.headers["dsec-call-signature"] as string));
    seen.push({ method: request.method!, url: request.url!, body });
    if (request.url === "/down") response.writeHead(503).end("down");
    else
      response
        .writeHead(200, { "content-type": "application/json" })
        .end('{"user": {"id": 7, "tier": "gold"}}');
  }));
  rig = await Rig.open(proxy.gateway);
  await rig.start();
});
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
  await proxy?.close();
});

/** A shell script as an agent: its output, its attested claims and its events. */
async function agent(script: string, request: Partial<TaskRequest> = {}) {
  const { task, stdout, stderr, attestations } = await rig.sh(script, {
    policy: reach(port),
    timeout_ms: 60_000,
    ...request,
  });
  const claims = decodeJwt(attestations[0]!.jwt) as unknown as AttestationClaims;
  const answer = await rig.client.send("GET", `/v1/tasks/${task.id}/trace`);
  const trace = new Uint8Array(await answer.arrayBuffer());
  const { count, chain_head, events } = await readTrace(trace);
  expect(claims.dsec.trace).toMatchObject({ count, chain_head });
  return { task, out: stdout.toString(), err: stderr.toString(), claims, events, trace };
}

const tools: TaskRequest["tools"] = [
  {
    name: "add",
    kind: "exec",
    command: ["python3", "-c", "import json,sys; i=json.load(sys.stdin); print(json.dumps(i['a']+i['b']))"],
  },
  { name: "echo", kind: "exec", command: ["printf", "%s|", "{text}", "; id"] },
  {
    name: "who",
    kind: "exec",
    command: ["sh", "-c", "ls /work /run/dsec /dsec/bin; cat /proc/net/dev | grep -c : ; echo $DSEC_TOOL"],
  },
  { name: "broken", kind: "exec", command: ["sh", "-c", "echo why >&2; exit 3"] },
  {
    name: "forever",
    kind: "exec",
    command: ["sleep", "1000"],
    timeout_ms: 300,
    fallback: "it took too long",
  },
  { name: "absent", kind: "exec", command: ["/no/such/program"] },
  { name: "here", kind: "exec", where: "sandbox", command: ["sh", "-c", "cat mark; cat", "sh"] },
  { name: "here_forever", kind: "exec", where: "sandbox", command: ["sleep", "1000"], timeout_ms: 300 },
];

test("dsec-tool, curl and Python reach the tools, and receipts, log and attestation tell of every call", async () => {
  seen.length = 0;
  const get_user = { name: "get_user", kind: "http" as const, url: `${url}/users/{id}` };
  const script = `
set -e
dsec-tool list
dsec-tool exec --tool get_user --input '{"id":"7"}'
curl -s --unix-socket $DSEC_SOCKET -H 'content-type: application/json' -d '{"input":{"id":"8"}}' http://dsec/v1/tools/get_user | cut -c1-45
dsec-tool api-call --url ${url}/post --body 'hello' --header 'x-a: b'; echo
python3 -c 'from dsec.memory import Memory; m = Memory(); m["plan"] = ["look"]; m["plan"].append("book"); print(m["plan"])'
dsec-tool memory get plan
`;
  const { task, out, err, claims, events } = await agent(script, { tools: [get_user] });
  expect(err).toBe("");
  expect(task.state).toBe("succeeded");
  const user = '{"user": {"id": 7, "tier": "gold"}}';
  expect(out.split("\n")).toEqual([
    "get_user\t",
    user,
    `{"output":${user}`,
    user,
    "['look', 'book']",
    '["look","book"]',
    "",
  ]);
  expect(seen.map(({ method, url, body }) => [method, url, body])).toEqual([
    ["GET", "/users/7", ""],
    ["GET", "/users/8", ""],
    ["POST", "/post", "hello"],
  ]);
  expect(claims.dsec.calls.count).toBe(3);
  const { items } = await rig.client.ok<{ items: { receipt: string; seq: number }[] }>(
    "GET",
    `/v1/tasks/${task.id}/receipts`,
  );
  const receipts = items.map(({ receipt }) => decodeJwt(receipt) as unknown as ReceiptClaims);
  const ends = events.filter((event) => event.type === "tool_call_end");
  expect(
    ends.map(({ status, body_digest: body, json_digest: json, state }) => [status, { body, json }, state]),
  ).toEqual(receipts.map((receipt) => [receipt.status, receipt.fingerprint, "answered"]));
  const written = events.filter(({ type }) => type === "memory_write");
  expect(written.at(-1)).toMatchObject({ key: "plan", new: { value_json: '["look","book"]' } });
});

test("exec tools run in a sandbox of their own or within the agent's, as they are declared", async () => {
  const script = `
echo mark > mark; echo secret > hidden
dsec-tool exec --tool add --input '{"a":1.5,"b":2}'
dsec-tool exec --tool echo --input '{"text":"$(id) ; x"}'
dsec-tool exec --tool who
dsec-tool exec --tool broken; echo "exit $?"
dsec-tool exec --tool forever; echo "exit $?"
dsec-tool exec --tool absent; echo "exit $?"
dsec-tool exec --tool here --input '{"n":1.5}'; echo "exit $?"
dsec-tool exec --tool here_forever; echo "exit $?"
dsec-tool exec --tool nope; echo "exit $?"
`;
  const { out, err, events } = await agent(script, { tools: tools! });
  const lines = out.split("\n");
  expect(lines.slice(0, 2)).toEqual(["3.5", "$(id) ; x|; id|"]);
  // No socket, none of the agent's files, and of networks the loopback.
  expect(lines.slice(2, 10)).toEqual(["/dsec/bin:", "", "/run/dsec:", "ca.pem", "", "/work:", "1", "who"]);
  expect(lines.slice(lines.indexOf("who"))).toEqual([
    "who",
    "why",
    "exit 1",
    "it took too long",
    "exit 0",
    "execve /no/such/program: No such file or directory",
    "exit 1",
    "mark",
    '{"n":1.5}',
    "exit 0",
    "exit 4",
    "exit 3",
    "",
  ]);
  expect(err).toContain("TOOL_NOT_FOUND");
  const ends = events.filter((event) => event.type === "tool_call_end").map(({ state }) => state);
  expect(ends).toEqual([
    ...["answered", "answered", "answered", "answered", "fallback", "answered"],
    ...["answered", "timed_out"],
  ]);
  await eventually(
    async () =>
      (await cgroupsWith("_t")).filter((path) => /lease_[a-z0-9]+_\d+_t\d+/.test(path)).length === 0,
  );
  expect(await mountsWith("tool-")).toEqual([]);
});

test("what a failed tool wrote to its standard error reaches the agent and the trace, to its last 16 KiB", async () => {
  const script = `echo out; seq 9000 >&2; echo the reason >&2; exit 3`;
  const told: TaskRequest["tools"] = ["sandbox", "sibling"].map((where) => ({
    name: where,
    kind: "exec",
    where: where as "sandbox" | "sibling",
    command: ["sh", "-c", script],
  }));
  const calls = `
for tool in sandbox sibling; do
  dsec-tool exec --tool $tool > $tool.out 2> $tool.err; echo "exit $?"
  cat $tool.out; wc -c < $tool.err; tail -n 2 $tool.err
  dsec-tool exec --json --tool $tool 2>&1 | python3 -c '
import json, sys
answer = json.load(sys.stdin)
print(answer["output"].strip(), answer["call"]["exit_code"], len(answer["call"]["stderr"]), answer["call"]["stderr"][-11:])'
done`;
  const { out, err, events } = await agent(calls, { tools: told });
  const each = ["exit 1", "out", "16384", "9000", "the reason", "out 3 16384 the reason", ""];
  expect([out.split("\n"), err]).toEqual([[...each, ...each, ""], ""]);
  const ends = events.filter((event) => event.type === "tool_call_end");
  expect(ends.map(({ stderr }) => [stderr?.length, stderr?.endsWith("9000\nthe reason\n")])).toEqual(
    Array(4).fill([16_384, true]),
  );
});

test("a tool that cannot be started ends as in a shell, wherever it runs, and says why", async () => {
  const commands = ["/no/such/program", "/etc/passwd", "/dsec/bin"];
  const tools: NonNullable<TaskRequest["tools"]> = commands.flatMap((command, at) =>
    (["sandbox", "sibling"] as const).map((where) => ({
      name: `${where}_${at}`,
      kind: "exec" as const,
      where,
      command: [command],
    })),
  );
  const script = tools.map(({ name }) => `dsec-tool exec --tool ${name}; echo "exit $?"`).join("\n");
  const { out, events } = await agent(script, { tools });
  const said = [
    "execve /no/such/program: No such file or directory",
    "execve /etc/passwd: Permission denied",
    "execve /dsec/bin: Permission denied",
  ];
  expect(out.split("\n")).toEqual([...said.flatMap((line) => [line, "exit 1", line, "exit 1"]), ""]);
  const ends = events.filter((event) => event.type === "tool_call_end");
  expect(ends.map(({ exit_code, is_error }) => [exit_code, is_error])).toEqual(
    [127, 127, 126, 126, 126, 126].map((code) => [code, true]),
  );
});

test("what a tool's own programs ask for goes out by the task's policy, receipted and told as the tool's", async () => {
  seen.length = 0;
  proxy.names.set("upstream.test", ["127.0.0.1"]);
  const innerUrl = `http://upstream.test:${port}/inner`;
  const fetch = `
    curl -sS "$1" -o body -w '%{http_code} '; cat body; echo
    curl -sS http://elsewhere.example/ -o /dev/null -w '%{http_code}'; echo
    openssl x509 -in "$CURL_CA_BUNDLE" -noout -subject`;
  const tool = { name: "fetch", kind: "exec" as const, command: ["sh", "-ec", fetch, "sh", "{url}"] };
  const { task, out, err, claims, events, trace } = await agent(
    `dsec-tool exec --tool fetch --input '{"url":"${innerUrl}"}'; openssl x509 -in "$CURL_CA_BUNDLE" -noout -pubkey`,
    { tools: [tool], policy: reach(port, {}, "upstream.test") },
  );
  expect(err).toBe("");
  expect(out).toMatch(/^200 \{"user".*\n403\nsubject=CN = DSec sandbox authority\n-----BEGIN PUBLIC KEY/);
  expect(seen.map((request) => request.url)).toEqual(["/inner"]);
  const starts = events.filter((event) => event.type === "tool_call_start");
  const [outer, inner] = starts;
  expect(starts).toMatchObject([
    { tool: "fetch", kind: "exec", within: null },
    { tool: null, kind: "http", via: "proxy", url: innerUrl, within: outer!.call },
  ]);
  const ends = events.filter((event) => event.type === "tool_call_end");
  expect(ends).toMatchObject([
    { call: inner!.call, state: "answered", status: 200, call_seq: 1 },
    { call: outer!.call, state: "answered" },
  ]);
  expect(events.filter((event) => event.type === "error")).toMatchObject([
    { code: "DOMAIN_NOT_ALLOWED", call: outer!.call },
  ]);
  expect(claims.dsec.calls.count).toBe(1);
  const path = `/v1/tasks/${task.id}/receipts`;
  const { items } = await rig.client.ok<{ items: { receipt: string }[] }>("GET", path);
  expect(decodeJwt(items[0]!.receipt)).toMatchObject({ seq: 1, url: innerUrl });
  expect(signed.at(-1)).toMatchObject({ tool: "fetch", seq: 1 });
  // A replay gives the tool's answer again, and does not wait for what the tool asked for.
  const file = join(rig.directory, "fetch.trace");
  await writeFile(file, trace);
  const { calls, obstacles } = await readRecording(file);
  expect([calls.map(({ start }) => start.tool), obstacles]).toEqual([["fetch"], []]);
});

test("an operator's observation reaches the running agent, from the gateway to its next answer", async () => {
  const task = await rig.submit({
    command: ["sh", "-c", "echo ready; dsec-tool observe --wait 20000"],
    timeout_ms: 60_000,
  });
  await rig.until(task.id, ({ state }) => state === "running");
  await rig.client.ok("POST", `/v1/tasks/${task.id}/observations`, { content: { weather: ["storm", 1] } });
  const { stdout } = await rig.finished(task.id);
  expect(stdout.toString()).toBe('ready\n{"weather":["storm",1]}\n');
});

test("a sandbox cannot replace its socket, its tools, or reach its neighbour's", async () => {
  const { out } = await agent(`
rm -f /run/dsec/tool.sock 2>/dev/null && echo removed
mv /run/dsec/tool.sock /run/dsec/other 2>/dev/null && echo moved
echo x > /dsec/bin/dsec-tool 2>/dev/null && echo written
ls /run/dsec | grep sock
dsec-tool memory set k 1 && dsec-tool memory get k
`);
  expect(out).toBe("tool.sock\n1\n");
});

test("a redirected or failing upstream is told by dsec-tool's exit code", async () => {
  const { out } = await agent(`
dsec-tool api-call --url ${url}/down; echo " $?"
dsec-tool api-call --url http://elsewhere.example/ 2>/dev/null; echo "$?"
dsec-tool api-call --url ${url}/a --output f && cat f
`);
  expect(out).toBe('down 1\n3\n{"user": {"id": 7, "tier": "gold"}}');
});
