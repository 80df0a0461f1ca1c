/**
 * What a sandbox cannot reach, by any spelling, redirect or name server. Refusals are judged by what the proxy sent:
 * every request that left is counted with the addresses it went to, and those are 127.0.0.1 alone.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { UpstreamRequest } from "#gateway/upstream-port.ts";
import {
  bodyOf,
  LOOPBACK,
  openTestProxy,
  packCall,
  reach,
  type Sandbox,
  type TestProxy,
} from "./proxy-under-test.ts";

let proxy: TestProxy;
let sandbox: Sandbox;
let port: number;
let other: number;
const sent: UpstreamRequest[] = [];
const hits: { url: string; method: string; headers: NodeJS.Dict<string | string[]>; body: string }[] = [];
/** Where `/go` leads. */
let redirect: { status: number; location?: string | string[] } = { status: 302 };

beforeAll(async () => {
  proxy = await openTestProxy();
  const send = proxy.upstream.send;
  proxy.upstream.send = (request) => {
    sent.push(request);
    return send(request);
  };
  const server = await proxy.serve(async (request, response) => {
    const body = (await bodyOf(request)).toString();
    hits.push({ url: request.url!, method: request.method!, headers: request.headers, body });
    if (request.url!.startsWith("/go")) {
      response.statusCode = redirect.status;
      if (redirect.location !== undefined) response.setHeader("location", redirect.location);
    }
    if (request.url === "/loop") response.writeHead(302, { location: "/loop" });
    const hop = /^\/hop\/(\d+)$/.exec(request.url!)?.[1];
    if (hop !== undefined) response.writeHead(302, { location: `/hop/${Number(hop) + 1}` });
    response.end("reached");
  });
  port = server.port;
  other = (
    await proxy.serve(async (request, response) => {
      hits.push({ url: `other${request.url}`, method: request.method!, headers: request.headers, body: "" });
      response.end("other");
    })
  ).port;
  sandbox = await proxy.lease({
    redirects_max: 20,
    rules: [
      { host: "allowed.test", port, plain_http: true, allow_private: LOOPBACK },
      { host: "allowed.test", port: 443 },
      { host: "second.test", port: other, plain_http: true, allow_private: LOOPBACK },
      { host: "public.test", plain_http: true },
      { host: "*.below.test", port, plain_http: true, allow_private: LOOPBACK },
      { host: "bücher.test", port, plain_http: true, allow_private: LOOPBACK },
      {
        host: "127.0.0.1",
        port,
        plain_http: true,
        path_prefix: "/v1",
        methods: ["GET"],
        allow_private: LOOPBACK,
      },
    ],
  });
  for (const name of ["allowed.test", "second.test", "a.below.test", "xn--bcher-kva.test"]) {
    proxy.names.set(name, ["127.0.0.1"]);
  }
});
afterEach(() => {
  for (const { addresses } of sent) {
    for (const address of addresses) expect(address).toMatch(/^(127\.0\.0\.1|::1)$/);
  }
  sent.length = 0;
  hits.length = 0;
});
afterAll(() => proxy?.close());

const P = "{port}";
const REFUSED: [url: string, code: string | RegExp][] = [
  // B26: addresses in every spelling
  ["http://[::ffff:127.0.0.2]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[::ffff:127.0.0.1]/", "PORT_NOT_ALLOWED"],
  ["http://[::ffff:a9fe:a9fe]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[::ffff:10.0.0.1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://0/", "ADDRESS_NOT_ALLOWED"],
  ["http://[::]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[::1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://2130706434/", "ADDRESS_NOT_ALLOWED"],
  ["http://017700000002/", "ADDRESS_NOT_ALLOWED"],
  ["http://0x7f.0.0.2/", "ADDRESS_NOT_ALLOWED"],
  ["http://127.2/", "ADDRESS_NOT_ALLOWED"],
  ["http://１２７.0.0.2/", "ADDRESS_NOT_ALLOWED"],
  ["http://169.254.169.254/latest/meta-data/", "ADDRESS_NOT_ALLOWED"],
  ["http://[fd00:ec2::254]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[64:ff9b::7f00:1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[2002:7f00:1::]/", "ADDRESS_NOT_ALLOWED"],
  ["http://10.0.0.1/", "ADDRESS_NOT_ALLOWED"],
  ["http://192.168.1.1/", "ADDRESS_NOT_ALLOWED"],
  ["http://100.64.0.1/", "ADDRESS_NOT_ALLOWED"],
  ["http://168.63.129.16/", "ADDRESS_NOT_ALLOWED"],
  ["http://[fe80::1%25eth0]/", "HOST_INVALID"],
  // B28: the root dot
  ["http://localhost./", "DOMAIN_NOT_ALLOWED"],
  ["http://metadata.google.internal./", "DOMAIN_NOT_ALLOWED"],
  [`http://allowed.test..:${P}/`, "HOST_INVALID"],
  // B29, B31: other names
  ["http://nottrusted.test/", "DOMAIN_NOT_ALLOWED"],
  ["http://notallowed.test/", "DOMAIN_NOT_ALLOWED"],
  ["http://allowed.test.evil.test/", "DOMAIN_NOT_ALLOWED"],
  ["http://a.allowed.test/", "DOMAIN_NOT_ALLOWED"],
  [`http://below.test:${P}/`, "DOMAIN_NOT_ALLOWED"],
  [`http://xbelow.test:${P}/`, "DOMAIN_NOT_ALLOWED"],
  ["http://bucher.test/", "DOMAIN_NOT_ALLOWED"],
  ["http://xn--a.test/", "HOST_INVALID"],
  // what parsers read differently
  ["http://allowed.test@evil.test/", "URL_INVALID"],
  ["http://user:pass@allowed.test/", "URL_INVALID"],
  ["http://allowed.test\\@evil.test/", "URL_INVALID"],
  ["http:\\\\evil.test/", "URL_INVALID"],
  ["http:/evil.test/", "URL_INVALID"],
  ["http:evil.test/", "URL_INVALID"],
  ["//evil.test/", "URL_INVALID"],
  ["/relative", "URL_INVALID"],
  ["", "URL_INVALID"],
  ["http://", "HOST_INVALID"],
  ["http://allowed.test\t.evil.test/", "URL_INVALID"],
  ["http://allowed.test\n.evil.test/", "URL_INVALID"],
  ["http://allowed.test\r\nHost: evil.test/", "URL_INVALID"],
  ["http://allowed.test /", "URL_INVALID"],
  ["http://allowed.test%00.evil.test/", "HOST_INVALID"],
  ["http://allowed.test%2eevil.test/", "HOST_INVALID"],
  ["http://allowed。test/", "PORT_NOT_ALLOWED"],
  ["http://allowed.test／evil.test/", /URL_INVALID|HOST_INVALID/],
  ["http://allowed.test#@evil.test/", "PORT_NOT_ALLOWED"],
  ["http://evil.test#@allowed.test/", "DOMAIN_NOT_ALLOWED"],
  ["http://evil.test?@allowed.test/", "DOMAIN_NOT_ALLOWED"],
  // ports and schemes
  ["http://allowed.test:1/", "PORT_NOT_ALLOWED"],
  ["http://allowed.test:0/", "URL_INVALID"],
  ["http://allowed.test:65536/", "URL_INVALID"],
  [`http://allowed.test:+${P}/`, "URL_INVALID"],
  ["http://allowed.test:22/", "PORT_NOT_ALLOWED"],
  ["ftp://allowed.test/", "URL_INVALID"],
  ["file:///etc/passwd", "URL_INVALID"],
  ["gopher://allowed.test/", "URL_INVALID"],
  ["data:text/plain,x", "URL_INVALID"],
  ["unix:/run/dsec/tool.sock", "URL_INVALID"],
  // paths under a prefix
  [`http://127.0.0.1:${P}/v2`, "PATH_NOT_ALLOWED"],
  [`http://127.0.0.1:${P}/v10`, "PATH_NOT_ALLOWED"],
  [`http://127.0.0.1:${P}/v1/../admin`, "PATH_NOT_ALLOWED"],
  [`http://127.0.0.1:${P}/v1/%2e%2e/admin`, "PATH_NOT_ALLOWED"],
  [`http://127.0.0.1:${P}/v1/..%2fadmin`, "PATH_NOT_ALLOWED"],
  [`http://127.0.0.1:${P}/v1/%252e%252e/admin`, "PATH_NOT_ALLOWED"],
  [`http://127.0.0.1:${P}/v1/..;/admin`, "PATH_NOT_ALLOWED"],
];

test.each(REFUSED)("%j is refused, and nothing is sent", async (url, code) => {
  const refused = await sandbox.refused(url.replace(P, String(port)));
  expect(refused.code).toMatch(code instanceof RegExp ? code : new RegExp(`^${code}$`));
  expect([400, 403]).toContain(refused.status);
  expect(sent).toEqual([]);
});

test("TRACE, CONNECT and methods beyond the rule are refused", async () => {
  const at = `http://127.0.0.1:${port}/v1`;
  expect(await sandbox.refused(at, { method: "TRACE" })).toMatchObject({
    code: "METHOD_NOT_ALLOWED_BY_POLICY",
  });
  expect(await sandbox.refused(at, { method: "POST" })).toMatchObject({
    code: "METHOD_NOT_ALLOWED_BY_POLICY",
  });
  expect(await sandbox.refused(at, { method: "CONNECT" })).toMatchObject({ code: "REQUEST_TARGET_INVALID" });
  expect(sent).toEqual([]);
});

test.each([
  ["ALLOWED.test", "/"],
  ["allowed.test.", "/"],
  ["a.below.test", "/"],
  ["BÜCHER.test", "/"],
  ["bu\u0308cher.test", "/"],
  ["xn--bcher-kva.test", "/"],
])(
  "%s is an allowed name in another spelling, and goes out as the canonical one (B28, B29)",
  async (host, path) => {
    const answer = await sandbox.call(`http://${host}:${port}${path}`);
    expect(answer.body.toString()).toBe("reached");
    expect(hits[0]!.headers.host).toMatch(/^(allowed|a\.below|xn--bcher-kva)\.test:\d+$/);
  },
);

test.each([
  ["only private", ["10.0.0.1"]],
  ["metadata", ["169.254.169.254"]],
  ["loopback, which no rule of this name opens", ["127.0.0.1"]],
  ["public and private mixed", ["93.184.216.34", "127.0.0.1"]],
  ["private first", ["10.0.0.1", "93.184.216.34"]],
  ["IPv4 in IPv6", ["::ffff:127.0.0.1"]],
  ["IPv6 loopback behind a public address", ["2606:2800:220:1::1", "::1"]],
  ["NAT64 of a private address", ["64:ff9b::a00:1"]],
  ["no address", []],
  ["what is no address", ["not-an-address"]],
])("an allowed name that resolves to %s is refused", async (_, answers) => {
  proxy.names.set("public.test", answers);
  expect(await sandbox.refused("http://public.test/")).toMatchObject({ code: "ADDRESS_NOT_ALLOWED" });
  expect(sent).toEqual([]);
});

test("a name that does not resolve is said to be unreachable, before any connection", async () => {
  proxy.names.delete("public.test");
  expect(await sandbox.refused("http://public.test/")).toMatchObject({
    code: "UPSTREAM_UNREACHABLE",
    status: 502,
  });
});

test("a name is asked for once for each call, and its answer is where the connection goes (B33)", async () => {
  proxy.asked.length = 0;
  const answers = [["127.0.0.1"], ["10.9.8.7"]];
  proxy.names.set("allowed.test", () => answers.shift() ?? ["10.9.8.7"]);
  expect((await sandbox.call(`http://allowed.test:${port}/`)).body.toString()).toBe("reached");
  expect(proxy.asked).toEqual(["allowed.test"]);
  // The kept connection must not carry the second call past the second judgement.
  expect(await sandbox.refused(`http://allowed.test:${port}/`)).toMatchObject({
    code: "ADDRESS_NOT_ALLOWED",
  });
  expect(hits.length).toBe(1);
  proxy.names.set("allowed.test", ["127.0.0.1"]);
});

test("a connection that one task's policy opened serves no task whose policy does not", async () => {
  expect((await sandbox.call(`http://allowed.test:${port}/`)).body.toString()).toBe("reached");
  const stranger = await proxy.lease({ rules: [{ host: "allowed.test", port, plain_http: true }] });
  expect(await stranger.refused(`http://allowed.test:${port}/`)).toMatchObject({
    code: "ADDRESS_NOT_ALLOWED",
  });
  expect(hits.length).toBe(1);
});

test("the next address is tried where the first does not answer", async () => {
  proxy.names.set("allowed.test", ["::1", "127.0.0.1"]);
  expect((await sandbox.call(`http://allowed.test:${port}/`)).body.toString()).toBe("reached");
  proxy.names.set("allowed.test", ["127.0.0.1"]);
});

test.each([
  ["metadata", "http://169.254.169.254/latest/", "ADDRESS_NOT_ALLOWED"],
  ["loopback without a scheme", "//127.0.0.2/", "ADDRESS_NOT_ALLOWED"],
  ["a host that no rule names", "http://evil.test/", "DOMAIN_NOT_ALLOWED"],
  ["another port", "http://allowed.test.:80/", "PORT_NOT_ALLOWED"],
  ["a public name with a private address", "http://public.test/", "ADDRESS_NOT_ALLOWED"],
  ["userinfo", "http://allowed.test@evil.test/", "URL_INVALID"],
  ["backslashes", "\\\\evil.test\\", "URL_INVALID"],
  ["a scheme with one slash", "http:/evil.test", "URL_INVALID"],
  ["a file", "file:///etc/passwd", "URL_INVALID"],
  ["a path that hides ..", `http://127.0.0.1:{port}/v1/..%2fadmin`, "PATH_NOT_ALLOWED"],
])("a redirect to %s ends the call with the hop named (B35)", async (_, location, code) => {
  proxy.names.set("public.test", ["10.0.0.1"]);
  redirect = { status: 302, location: location.replace(P, String(port)) };
  const answer = await sandbox.call(`http://allowed.test:${port}/go`);
  expect(answer.error).toMatchObject({ code, partial: false });
  expect(answer.head).toBeUndefined();
  expect(hits.map(({ url }) => url)).toEqual(["/go"]);
});

test("more than one Location is nobody's redirect", async () => {
  redirect = { status: 302, location: ["/", "http://evil.test/"] };
  const answer = await sandbox.call(`http://allowed.test:${port}/go`);
  expect(answer.error).toMatchObject({ code: "UPSTREAM_FAILED" });
});

test("a redirect without Location is the answer, and loops and too many hops end the call (B35)", async () => {
  redirect = { status: 302 };
  const answer = await sandbox.call(`http://allowed.test:${port}/go`);
  expect(answer.head).toMatchObject({ status: 302, redirects: [] });
  expect((await sandbox.call(`http://allowed.test:${port}/loop`)).error).toMatchObject({
    code: "TOO_MANY_REDIRECTS",
  });
  hits.length = 0;
  expect((await sandbox.call(`http://allowed.test:${port}/hop/0`)).error).toMatchObject({
    code: "TOO_MANY_REDIRECTS",
  });
  expect(hits.length).toBe(21);
});

test("credentials stay behind when a redirect goes to another origin, and stay on at the same (B35)", async () => {
  const headers: [string, string][] = [
    ["Authorization", "Bearer own"],
    ["X-Api-Key", "own"],
    ["Cookie", "own=1"],
    ["Accept", "text/plain"],
  ];
  redirect = { status: 302, location: `http://second.test:${other}/there` };
  const away = await sandbox.call(`http://allowed.test:${port}/go`, { headers });
  expect(away.head).toMatchObject({
    url: `http://second.test:${other}/there`,
    redirects: [`http://allowed.test:${port}/go`],
  });
  expect(hits[1]!.headers).toMatchObject({ accept: "text/plain" });
  for (const name of ["authorization", "x-api-key", "cookie"])
    expect(hits[1]!.headers).not.toHaveProperty(name);
  redirect = { status: 302, location: "/here" };
  await sandbox.call(`http://allowed.test:${port}/go`, { headers });
  expect(hits.at(-1)!.headers).toMatchObject({ authorization: "Bearer own", "x-api-key": "own" });
});

test("307 sends the body again, 302 and 303 do not, and a body that is gone leaves the redirect to the caller", async () => {
  redirect = { status: 307, location: "/again" };
  await sandbox.call(`http://allowed.test:${port}/go`, { method: "POST", body: "once more" });
  expect(hits.map(({ method, body }) => [method, body])).toEqual([
    ["POST", "once more"],
    ["POST", "once more"],
  ]);
  hits.length = 0;
  for (const status of [302, 303]) {
    redirect = { status, location: "/see" };
    await sandbox.call(`http://allowed.test:${port}/go`, {
      method: "POST",
      body: "not again",
      headers: [["Content-Type", "text/plain"]],
    });
    expect(hits.at(-1)).toMatchObject({ method: "GET", body: "", url: "/see" });
    expect(hits.at(-1)!.headers).not.toHaveProperty("content-type");
  }
  redirect = { status: 307, location: "/again" };
  const large = await sandbox.call(`http://allowed.test:${port}/go`, {
    method: "POST",
    body: "x".repeat(300_000),
  });
  expect(large.head).toMatchObject({ status: 307 });
});

test("each hop is signed as a call of its own", async () => {
  redirect = { status: 302, location: "/signed?x=1" };
  await sandbox.call(`http://allowed.test:${port}/go`);
  const [first, second] = hits.map(({ headers }) => {
    const [, claims] = String(headers["dsec-call-signature"]).split(".");
    return JSON.parse(Buffer.from(claims!, "base64url").toString());
  });
  expect(first).toMatchObject({ htu: `http://allowed.test:${port}/go` });
  expect(second).toMatchObject({ htu: `http://allowed.test:${port}/signed`, seq: first.seq });
  expect(second.jti).not.toBe(first.jti);
});

test("what the operator has not opened is refused at submit, and for tasks that run already", async () => {
  const policy = { rules: [{ host: "db.test", allow_private: ["10.0.0.0/8"] }] };
  expect(await proxy.client.refused("POST", "/v1/tasks", { command: ["true"], policy })).toMatchObject({
    code: "POLICY_FORBIDDEN",
    message: expect.stringContaining("10.0.0.0/8"),
  });
  const path = `/v1/tasks/${sandbox.lease.task_id}/policy`;
  expect(await proxy.client.refused("PUT", path, policy)).toMatchObject({ code: "POLICY_FORBIDDEN" });
  const invalid = { command: ["true"], policy: { rules: [{ host: "*" }] } };
  expect(await proxy.client.refused("POST", "/v1/tasks", invalid)).toMatchObject({
    code: "POLICY_INVALID",
    message: expect.stringContaining("policy.rules[0].host"),
  });
  expect(await proxy.client.refused("PUT", path, { rules: [{ hots: "x.test" }] })).toMatchObject({
    code: "POLICY_INVALID",
  });
});

test("a new policy decides about a running task's next calls within a second", async () => {
  const running = await proxy.lease(reach(port, {}, "allowed.test"));
  const url = `http://allowed.test:${port}/`;
  await running.call(url);
  const path = `/v1/tasks/${running.lease.task_id}/policy`;
  const before = await proxy.client.ok<{ policy_digest: string; updated_at: null }>("GET", path);
  expect(before.updated_at).toBeNull();
  const after = await proxy.client.ok<{ policy_digest: string }>("PUT", path, {});
  expect(after.policy_digest).not.toBe(before.policy_digest);
  await new Promise((resolve) => setTimeout(resolve, 1_050));
  expect(await running.refused(url)).toMatchObject({ code: "DOMAIN_NOT_ALLOWED" });
  const stranger = await proxy.gateway.client("tasks");
  expect(await stranger.refused("PUT", path, {})).toMatchObject({ code: "TASK_NOT_FOUND" });
});

test("an executor without the lease, or with an old fence, makes no calls", async () => {
  const thief = await proxy.gateway.executor();
  const head = sandbox.head(`http://allowed.test:${port}/`);
  expect(await thief.refused("POST", sandbox.path, packCall(head))).toMatchObject({
    code: "LEASE_NOT_FOUND",
  });
  const stale = sandbox.path.replace(/fence=\d+/, "fence=99");
  expect(await sandbox.executor.refused("POST", stale, packCall(head))).toMatchObject({
    code: "LEASE_FENCED",
  });
  expect(sent).toEqual([]);
});
