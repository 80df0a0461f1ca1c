/** Unmodified programs through everything: sandbox, loopback proxy, a gateway on a port, real upstreams. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocketServer } from "ws";
import { AttestationClaimsSchema } from "#core/wire/attestations.ts";
import { type ReceiptClaims, ReceiptClaimsSchema } from "#core/wire/calls.ts";
import type { PolicyRequest } from "#core/wire/policy.ts";
import { pinnedUpstream } from "#gateway/node/pinned-fetch.ts";
import { type RunningGateway, startGateway } from "#gateway/node/server.ts";
import { openTestGateway, type TestGateway } from "#test/gateway/gateway-under-test.ts";
import { readTrace } from "#test/support/trace-file.ts";
import type { TraceEvent } from "#trace/events/event.ts";
import { type Finished, Rig } from "../executor-under-test.ts";
import { EgressUnderTest } from "./egress-under-test.ts";
import { gitBackend, makeRepository } from "./git-server.ts";

const LOOPBACK = ["127.0.0.0/8"];

let upstreams: EgressUnderTest;
let gateway: TestGateway;
let running: RunningGateway;
let rig: Rig;
let plain: number;
let secure: number;
let asked: string[];

beforeAll(async () => {
  upstreams = await EgressUnderTest.start();
  const repositories = makeRepository(upstreams.folder);
  const plainServer = upstreams.plain((request, response) => {
    if (request.url !== "/slow") return void response.end("plain\n");
    response.write("the first part\n"); // and no other
  });
  new WebSocketServer({ server: plainServer, path: "/echo" }).on("connection", (socket) => {
    socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  plain = await upstreams.listen(plainServer);
  secure = await upstreams.listen(
    upstreams.secure((request, response) => {
      if (request.url!.startsWith("/git/")) return gitBackend(repositories)(request, response);
      let bytes = 0;
      request.on("data", (part) => (bytes += part.length));
      request.on("end", () => response.end(`${request.method} ${bytes}\n`));
    }),
  );
  asked = [];
  const resolve = async (name: string) => {
    asked.push(name);
    return name.endsWith(".test") ? ["127.0.0.1"] : [];
  };
  const upstream = pinnedUpstream({ resolve, ca: upstreams.upstreamAuthority.certificate });
  gateway = await openTestGateway({ privateNetworks: LOOPBACK, parts: { upstream } });
  running = await startGateway({ ports: gateway.ports, host: "127.0.0.1", port: 0 });
  rig = await Rig.open(gateway);
  await rig.start({ gatewayUrl: running.url, fetch: (request) => fetch(request) });
});
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
  await running?.close();
  await gateway?.close();
  await upstreams?.[Symbol.asyncDispose]();
});

const policy = (): PolicyRequest => ({
  rules: [
    { host: "tools.test", port: plain, plain_http: true, allow_private: LOOPBACK },
    { host: "tools.test", port: secure, allow_private: LOOPBACK },
    { host: "opaque.test", port: secure, opaque: true, allow_private: LOOPBACK },
  ],
});

const claimsOf = (jwt: string) => JSON.parse(Buffer.from(jwt.split(".")[1]!, "base64url").toString());

async function receiptsOf({ task }: Finished): Promise<ReceiptClaims[]> {
  const { items } = await rig.client.ok<{ items: { receipt: string }[] }>(
    "GET",
    `/v1/tasks/${task.id}/receipts`,
  );
  return items.map(({ receipt }) => ReceiptClaimsSchema.parse(claimsOf(receipt)));
}

async function eventsOf({ task }: Finished): Promise<TraceEvent[]> {
  const response = await rig.client.send("GET", `/v1/tasks/${task.id}/trace`);
  return (await readTrace(new Uint8Array(await response.arrayBuffer()))).events;
}

/** The gateway has compared the receipts' root with its own record before it attested. */
function attestedCalls({ attestations }: Finished): number {
  return AttestationClaimsSchema.parse(claimsOf(attestations[0]!.jwt)).dsec.calls!.count;
}

test("curl reaches HTTPS and HTTP, uploads 2 MiB, and is refused the rest; each call has its receipt", async () => {
  const script = `
    curl -sS https://tools.test:${secure}/ && curl -sS http://tools.test:${plain}/
    head -c 2097152 /dev/zero | curl -sS --data-binary @- https://tools.test:${secure}/up
    curl -sS -o /dev/null -w '%{http_code}\n' http://denied.test/
    curl -sS https://denied.test/ || echo "exit $?"`;
  const finished = await rig.sh(script, { policy: policy() });
  expect(finished.stderr.toString()).toContain("CONNECT tunnel failed, response 403");
  expect(finished.stdout.toString()).toBe("GET 0\nplain\nPOST 2097152\n403\nexit 56\n");
  const receipts = await receiptsOf(finished);
  expect(receipts.map(({ url, status, bytes_up, opaque }) => ({ url, status, bytes_up, opaque }))).toEqual([
    { url: `https://tools.test:${secure}/`, status: 200, bytes_up: 0, opaque: false },
    { url: `http://tools.test:${plain}/`, status: 200, bytes_up: 0, opaque: false },
    { url: `https://tools.test:${secure}/up`, status: 200, bytes_up: 2_097_152, opaque: false },
  ]);
  expect(receipts[0]!.fingerprint).not.toBeNull();
  expect(attestedCalls(finished)).toBe(3);
  expect(asked).not.toContain("denied.test");

  const events = await eventsOf(finished);
  const starts = events.filter((event) => event.type === "tool_call_start");
  expect(starts.map(({ via, method, url }) => [via, method, url])).toEqual([
    ["proxy", "GET", `https://tools.test:${secure}/`],
    ["proxy", "GET", `http://tools.test:${plain}/`],
    ["proxy", "POST", `https://tools.test:${secure}/up`],
  ]);
  const ends = events.filter((event) => event.type === "tool_call_end");
  expect(
    ends.map(({ call, state, call_seq, body_digest: body, json_digest: json }) => ({
      ...{ call, state, seq: call_seq, fingerprint: { body, json } },
    })),
  ).toEqual(
    receipts.map(({ seq, fingerprint }, index) => ({
      call: starts[index]!.call,
      state: "answered",
      seq,
      fingerprint,
    })),
  );
  const errors = events.filter((event) => event.type === "error" && event.via === "proxy");
  expect(errors).toMatchObject([
    { code: "DOMAIN_NOT_ALLOWED", method: "GET", url: "http://denied.test:80" },
    { code: "DOMAIN_NOT_ALLOWED", method: "CONNECT", url: "https://denied.test:443" },
  ]);
});

test("git clones over HTTPS with a server whose certificate only the gateway knows", async () => {
  const finished = await rig.sh(
    `git clone -q https://tools.test:${secure}/git/one.git here && cat here/README && wc -c < here/large`,
    { policy: policy() },
  );
  expect(finished.stderr.toString()).toBe("");
  expect(finished.stdout.toString()).toBe("cloned through the loopback proxy\n3000000\n");
  expect(attestedCalls(finished)).toBe(3);
});

test("an opaque host is reached through the gateway unopened, and its receipt says so", async () => {
  const script = `curl -sS -k -w '%{ssl_verify_result}\n' https://opaque.test:${secure}/`;
  const finished = await rig.sh(script, { policy: policy() });
  expect(finished.stdout.toString()).toMatch(/^GET 0\n[1-9]/); // not a certificate of the sandbox's own authority
  const receipts = await receiptsOf(finished);
  expect(receipts).toMatchObject([{ opaque: true, fingerprint: null, error: null, partial: false }]);
  expect(receipts[0]!.bytes_down).toBeGreaterThan(500);
  expect(attestedCalls(finished)).toBe(1);
});

test("a WebSocket speaks through the proxy, and has a receipt of its bytes", async () => {
  const finished = await rig.run({
    command: ["/usr/bin/python3", "-c", websocketClient(plain)],
    policy: policy(),
  });
  expect(finished.stderr.toString()).toBe("");
  expect(finished.stdout.toString()).toBe("HTTP/1.1 101 Switching Protocols\nhello through the gateway\n");
  expect(await receiptsOf(finished)).toMatchObject([{ status: 101, url: `http://tools.test:${plain}/echo` }]);
  expect(attestedCalls(finished)).toBe(1);
});

test("a client that leaves within an answer leaves a partial receipt, and the evidence still agrees", async () => {
  const script = `
    curl -sSN http://tools.test:${plain}/slow > part & until [ -s part ]; do sleep 0.05; done
    kill $!; wait $!; echo "exit $?"; cat part`;
  const finished = await rig.sh(script, { policy: policy() });
  expect(finished.stdout.toString()).toBe("exit 143\nthe first part\n");
  expect(finished.task.state).toBe("succeeded");
  expect(await receiptsOf(finished)).toMatchObject([{ status: 200, partial: true }]);
  expect(attestedCalls(finished)).toBe(1);
});

test("a sandbox that ends with calls under way has its evidence all the same", async () => {
  const script = `
    for i in 1 2 3 4 5; do curl -sSN http://tools.test:${plain}/slow > part$i & done
    for i in 1 2 3 4 5; do until [ -s part$i ]; do sleep 0.05; done; done`;
  const finished = await rig.sh(script, { policy: policy() });
  expect(finished.task.state).toBe("succeeded");
  expect(attestedCalls(finished)).toBe(5);
  const ends = (await eventsOf(finished)).filter((event) => event.type === "tool_call_end");
  expect(ends.map(({ state }) => state)).toEqual(Array.from({ length: 5 }, () => "cancelled"));
});

test("a policy that is widened while the task runs counts for the next request", async () => {
  const script = `until curl -sSf http://tools.test:${plain}/ 2>/dev/null; do sleep 0.1; done`;
  const task = await rig.submit({ command: ["sh", "-c", script], policy: {}, timeout_ms: 30_000 });
  await rig.until(task.id, ({ state }) => state === "running");
  await new Promise((resolve) => setTimeout(resolve, 300));
  await rig.client.ok("PUT", `/v1/tasks/${task.id}/policy`, policy());
  const finished = await rig.finished(task.id);
  expect(finished.task.state).toBe("succeeded");
  expect(finished.stdout.toString()).toBe("plain\n");
});

const websocketClient = (port: number) => `
import os, socket
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall(b"GET http://tools.test:${port}/echo HTTP/1.1\\r\\nHost: tools.test:${port}\\r\\nConnection: Upgrade\\r\\n"
          b"Upgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n")
head = b""
while not head.endswith(b"\\r\\n\\r\\n"): head += s.recv(1)
print(head.split(b"\\r\\n")[0].decode())
text, mask = b"hello through the gateway", os.urandom(4)
s.sendall(bytes([0x81, 0x80 | len(text)]) + mask + bytes(c ^ mask[i % 4] for i, c in enumerate(text)))
answer = b""
while len(answer) < 2 + len(text): answer += s.recv(100)
print(answer[2:].decode())
`;
