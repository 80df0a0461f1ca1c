/** Clients that a sandbox may hold: each gets an answer or a closed door, and nobody else notices. */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readlink, rm, stat } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { Door } from "#executor/channel/door.ts";
import type { Routes } from "#executor/channel/exchange.ts";
import { type Patience, serveSocket } from "#executor/channel/server.ts";
import { ChannelRig, type OpenChannel } from "./channel-under-test.ts";

let rig: ChannelRig;
let sandbox: OpenChannel;
let neighbour: OpenChannel;
beforeAll(async () => {
  rig = await ChannelRig.open();
});
beforeEach(async () => {
  [sandbox, neighbour] = [await rig.channel(), await rig.channel()];
});
afterEach(async () => {
  // Whatever was done: the door still opens, the neighbour's too, and the log is whole.
  for (const one of [sandbox, neighbour]) {
    expect((await one.send("PUT", "/v1/memory/alive", "1")).status).toBe(201);
    await one.close();
    await rig.giveBack(one);
  }
});
afterAll(() => rig?.[Symbol.asyncDispose]());

const post = (body: string | Uint8Array, headers = "") => {
  const bytes = Buffer.from(body);
  const head = `POST /v1/rewards HTTP/1.1\r\nhost: dsec\r\ncontent-type: application/json\r\nconnection: close\r\n`;
  return Buffer.concat([
    Buffer.from(`${head}${headers || `content-length: ${bytes.length}\r\n`}\r\n`),
    bytes,
  ]);
};
const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0);

const CASES: [what: string, bytes: Uint8Array | string, status: number][] = [
  ["a TLS ClientHello", Buffer.from("160301020001000001fc0303", "hex"), 400],
  ["random bytes", randomBytes(4096), 400],
  ["HTTP/2's preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400],
  ["HTTP/0.9", "GET /\r\n\r\n", 400],
  ["no Host", "GET /v1/tools HTTP/1.1\r\n\r\n", 400],
  ["two lengths", post("{}", "content-length: 2\r\ncontent-length: 3\r\n"), 400],
  [
    "a length and chunks (request smuggling)",
    post("0\r\n\r\n", "content-length: 5\r\ntransfer-encoding: chunked\r\n"),
    400,
  ],
  ["an unknown transfer coding", post("{}", "transfer-encoding: chunked, identity\r\n"), 400],
  ["a negative length", post("{}", "content-length: -2\r\n"), 400],
  ["a length with a plus", post("{}", "content-length: +2\r\n"), 400],
  ["a chunk size that overflows", post("fffffffffffffffff\r\n", "transfer-encoding: chunked\r\n"), 400],
  ["a chunk that is no number", post("xyz\r\n{}\r\n", "transfer-encoding: chunked\r\n"), 400],
  ["NUL in a header", "GET /v1/tools HTTP/1.1\r\nhost: dsec\r\nx: a\0b\r\n\r\n", 400],
  ["a bare CR in a header", "GET /v1/tools HTTP/1.1\r\nhost: dsec\r\nx: a\rb: c\r\n\r\n", 400],
  ["a header line that folds", "GET /v1/tools HTTP/1.1\r\nhost: dsec\r\nx: a\r\n b\r\n\r\n", 400],
  ["space before the colon", "GET /v1/tools HTTP/1.1\r\nhost : dsec\r\n\r\n", 400],
  [
    "too large a head",
    `GET /v1/tools HTTP/1.1\r\nhost: dsec\r\nx: ${"a".repeat(LIMITS.channelHeaderBytes)}\r\n\r\n`,
    400,
  ],
  ["too long a target", `GET /${"a".repeat(LIMITS.channelHeaderBytes)} HTTP/1.1\r\nhost: dsec\r\n\r\n`, 400],
  ["a body that is not UTF-8", post(Buffer.from([0x22, 0xff, 0xfe, 0x22])), 400],
  ["a byte-order mark", post('\uFEFF{"components":{"a":1}}'), 400],
  ["a name twice", post('{"components":{"a":1},"components":{"b":1}}'), 400],
  ["a lone surrogate", post('{"components":{"\\ud800":1}}'), 400],
  ["a number that is none", post('{"components":{"a":NaN}}'), 400],
  ["nesting without end", post("[".repeat(100_000)), 400],
  ["__proto__", post('{"__proto__":{"components":{"a":1}}}'), 400],
  [
    "a type that is not JSON",
    "POST /v1/rewards HTTP/1.1\r\nhost: dsec\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    415,
  ],
  ["more than a body may have", post(`"${"a".repeat(LIMITS.requestBodyBytes)}"`), 413],
];

test.each<{ what: string; bytes: Uint8Array | string; status: number }>(
  CASES.map(([what, bytes, status]) => ({ what, bytes, status })),
)("$what is answered $status and closed", async ({ bytes, status }) => {
  expect(statusOf(await sandbox.raw(bytes))).toBe(status);
});

test("a length that promises more than may come is not waited for", async () => {
  const socket = sandbox.connect();
  socket.write(post("", `content-length: ${LIMITS.channelBodyBytes * 100}\r\n`));
  const chunk = Buffer.alloc(1024 * 1024, 0x20);
  let ended = false;
  socket.on("error", () => {});
  socket.on("close", () => {
    ended = true;
  });
  let sent = 0;
  let answer = "";
  socket.on("data", (part) => {
    answer += part.toString("latin1");
  });
  while (!ended && sent < 3 * LIMITS.channelBodyBytes && answer === "") {
    if (!socket.write(chunk))
      await Promise.race([once(socket, "drain"), once(socket, "close"), once(socket, "data")]).catch(
        () => {},
      );
    sent += chunk.length;
  }
  expect(statusOf(answer)).toBe(413);
  socket.destroy();
  expect(sent).toBeLessThanOrEqual(2 * LIMITS.channelBodyBytes);
});

test("a request that is cut off is dropped, and leaves no event", async () => {
  const socket = sandbox.connect();
  socket.end(post('{"components":{"a":1}').subarray(0, -1));
  socket.resume();
  await closed(socket);
  const { events } = await sandbox.close();
  expect(events).toEqual([]);
  await rig.giveBack(sandbox);
  sandbox = await rig.channel();
});

test("pipelined requests are answered in their order, and no more than a share of them at once", async () => {
  const socket = sandbox.connect();
  socket.on("error", () => {});
  const count = 2_000;
  let answers = "";
  socket.on("data", (part) => {
    answers += part.toString("latin1");
  });
  const ending = closed(socket);
  const requests = Array.from(
    { length: count },
    (_, i) => `GET /v1/memory/k${i} HTTP/1.1\r\nhost: dsec\r\n\r\n`,
  );
  socket.end(requests.join(""));
  await ending;
  const named = [...answers.matchAll(/memory key \\"k(\d+)\\" is not there/g)].map(([, number]) =>
    Number(number),
  );
  expect(named.length).toBeGreaterThanOrEqual(LIMITS.channelRequests - 1);
  expect(named).toEqual(named.map((_, i) => i));
  const busy = [...answers.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status);
  expect(new Set(busy)).toEqual(new Set(named.length === count ? ["404"] : ["404", "429"]));
});

test("more connections than a sandbox may have are closed, and the neighbour's are not", async () => {
  const sockets: Socket[] = [];
  for (let i = 0; i < LIMITS.channelConnections; i++) sockets.push(await connected(sandbox));
  const extra = sandbox.connect();
  extra.on("error", () => {});
  extra.resume();
  await closed(extra);
  expect((await neighbour.send("GET", "/v1/tools")).status).toBe(200);
  for (const socket of sockets) expect(socket.destroyed).toBe(false);
  for (const socket of sockets) socket.destroy();
  await Promise.all(sockets.map(closed));
});

test("a client that does not read its answers is told to, and holds nobody up", async () => {
  const value = JSON.stringify("x".repeat(200 * 1024));
  for (let i = 0; i < 8; i++) await sandbox.send("PUT", `/v1/memory/big${i}`, value);
  const sockets = await Promise.all(
    Array.from({ length: LIMITS.channelConnections - 1 }, () => connected(sandbox)),
  );
  const page = "GET /v1/memory?prefix=big HTTP/1.1\r\nhost: dsec\r\n\r\n";
  for (const socket of sockets) {
    socket.pause();
    socket.write(page.repeat(8));
  }
  const statuses = new Set<number>();
  while (!statuses.has(429)) {
    expect((await neighbour.send("GET", "/v1/tools")).status).toBe(200);
    statuses.add((await sandbox.send("GET", "/v1/memory?prefix=big")).status);
  }
  for (const socket of sockets) socket.destroy();
  await Promise.all(sockets.map(closed));
});

test("descriptors that are sent along are dropped, and the executor holds none of them", async () => {
  const path = join(rig.directory, "secret");
  const script = `
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.connect(sys.argv[1])
fd = os.open(sys.argv[2], os.O_CREAT | os.O_RDWR)
for _ in range(64):
    socket.send_fds(s, [b"GET /v1/tools HTTP/1.1\\r\\nhost: dsec\\r\\n\\r\\n"], [fd] * 200)
s.shutdown(socket.SHUT_WR)
n = 0
while True:
    part = s.recv(65536)
    if not part: break
    n += part.count(b"HTTP/1.1 200")
print(n)
`;
  const { stdout } = await promisify(execFile)("python3", ["-c", script, sandbox.socketPath, path]);
  expect(Number(stdout)).toBe(64);
  expect(await openFiles()).not.toContain(path);
});

test.each<[what: string, send: (socket: Socket) => void]>([
  [
    "sends its head a byte at a time",
    (socket) => drip(socket, "GET /v1/tools HTTP/1.1\r\nhost: dsec\r\nx: "),
  ],
  ["sends nothing", () => {}],
  ["announces a body that does not come", (socket) => void socket.write(post("", "content-length: 100\r\n"))],
])("a client that %s is closed when its time is over", async (_what, send) => {
  const directory = await mkdtemp(join(tmpdir(), "dsec-slow-"));
  const patience: Patience = { headerMs: 200, requestMs: 400, idleMs: 600, checkEveryMs: 50 };
  const read: Routes = async (exchange) => {
    await exchange.body(1024);
    return { status: 204, headers: {}, body: null };
  };
  const server = await serveSocket(directory, "s", read, patience);
  try {
    const socket = connect(join(directory, "s"));
    socket.on("error", () => {});
    await once(socket, "connect");
    send(socket);
    socket.resume();
    await closed(socket);
  } finally {
    await server.close();
    await rm(directory, { recursive: true });
  }
});

test.each<[what: string, head: string, status: number]>([
  [
    "too large by its length",
    "POST /v1/rewards HTTP/1.1\r\nhost: dsec\r\ncontent-type: application/json",
    413,
  ],
  [
    "too large by its chunks",
    "POST /v1/rewards HTTP/1.1\r\nhost: dsec\r\ncontent-type: application/json",
    413,
  ],
  ["on no route", "POST /v1/nowhere HTTP/1.1\r\nhost: dsec", 404],
  ["of no JSON", "POST /v1/rewards HTTP/1.1\r\nhost: dsec", 415],
  ["no HTTP", "POST /v1/rewards HTTP/1.1\r\nhost dsec", 400],
])(
  "who sends the whole of a request %s, and for its last, reads why it was refused",
  async (what, head, status) => {
    const body = Buffer.alloc(4 * LIMITS.requestBodyBytes, 0x20);
    const framing = what.includes("chunks") ? "transfer-encoding: chunked" : `content-length: ${body.length}`;
    const framed = what.includes("chunks") ? chunked(body) : body;
    expect(
      await sendAllThenRead(sandbox.connect(), `${head}\r\nconnection: close\r\n${framing}\r\n\r\n`, framed),
    ).toBe(status);
  },
);

test("who is told that too much is under way reads so, however much it sends first", async () => {
  const directory = await mkdtemp(join(tmpdir(), "dsec-busy-"));
  const ending = new AbortController();
  const routes: Routes = async () => {
    if (!ending.signal.aborted) await once(ending.signal, "abort");
    return { status: 204, headers: {}, body: null };
  };
  const server = await serveSocket(directory, "s", routes);
  const waiting = connect(join(directory, "s"));
  waiting.on("error", () => {});
  waiting.write("GET / HTTP/1.1\r\nhost: dsec\r\n\r\n".repeat(LIMITS.channelRequests));
  const body = Buffer.alloc(4 * 1024 * 1024, 0x20);
  const head = `POST / HTTP/1.1\r\nhost: dsec\r\ncontent-length: ${body.length}\r\n\r\n`;
  try {
    // Until the others have arrived.
    let status = 204;
    while (status !== 429) {
      const asking = connect(join(directory, "s"));
      const answer = sendAllThenRead(asking, head, body);
      status = await Promise.race([answer, new Promise<number>((resolve) => setTimeout(resolve, 100, 204))]);
      asking.destroy();
      await answer.catch(() => {});
    }
  } finally {
    ending.abort();
    waiting.destroy();
    await server.close();
    await rm(directory, { recursive: true });
  }
});

test("a folder whose path is longer than a socket's may be still has its socket", async () => {
  const directory = await mkdtemp(join(tmpdir(), `dsec-${"long".repeat(30)}-`));
  const server = await serveSocket(directory, "tool.sock", async () => ({
    status: 204,
    headers: {},
    body: null,
  }));
  expect(await readdir(directory)).toEqual(["tool.sock"]);
  expect((await stat(join(directory, "tool.sock"))).mode & 0o777).toBe(0o666);
  await server.close();
  expect(await readdir(directory)).toEqual([]);
  await rm(directory, { recursive: true });
});

test("tools that begin within the sandbox and never end are bounded, and who ends one may begin another", async () => {
  const here = { name: "here", kind: "exec" as const, command: ["true"], where: "sandbox" as const };
  const agent = await rig.channel({ tools: [here] });
  const begin = async (count: number) => {
    const begun = Array.from({ length: count }, () =>
      agent.send("POST", "/v1/tools/here/begin", { input: {} }),
    );
    return Promise.all(begun);
  };
  const first = await begin(LIMITS.toolRunsOpen - 4);
  const statuses = (await begin(10)).map(({ status }) => status).sort();
  expect(statuses).toEqual([...Array(4).fill(201), ...Array(6).fill(429)]);
  const [refused] = await begin(1);
  expect(refused!.json.error).toMatchObject({
    code: "CHANNEL_BUSY",
    message: expect.stringContaining("tool here"),
  });

  const output = { stdout_base64: "", stderr_base64: "", exit_code: 0, signal: null, timed_out: false };
  const ended = await agent.send("POST", "/v1/tools/here/end", { call: first[0]!.json.call, ...output });
  expect(ended.status).toBe(200);
  expect((await begin(1))[0]!.status).toBe(201);
  await agent.close();
  await rig.giveBack(agent);
});

test("a channel that cannot be opened leaves none of its files open", async () => {
  const lease = await rig.lease({ channels: [{ name: "news" }] });
  const directory = join(rig.directory, lease.lease_id);
  await mkdir(directory);
  const door = await Door.make(directory);
  await expect(
    rig.channels.open(lease, directory, door, { signal: AbortSignal.abort(new Error("given up")) }),
  ).rejects.toThrow("given up");
  expect((await openFiles()).filter((path) => path.includes(lease.lease_id))).toEqual([]);
  expect(await readdir(directory)).toEqual([]);
  await rig.giveBack({ lease });
});

test("a full log stops what would go unrecorded", async () => {
  const context_json = JSON.stringify("x".repeat(LIMITS.contextBytes - 64));
  const context_digest = `sha256:${"0".repeat(64)}` as const;
  for (let bytes = context_json.length; bytes < LIMITS.eventLogBytes; bytes += context_json.length) {
    sandbox.channel.log.append("context", { context_digest, context_json });
  }
  // The last that there is room for, and the first that there is not.
  expect((await sandbox.send("POST", "/v1/context", { context: context_json })).status).toBe(201);
  expect((await sandbox.send("POST", "/v1/context", { context: "more" })).status).toBe(507);
  expect((await sandbox.send("PUT", "/v1/memory/k", "1")).json.error!.code).toBe("EVENT_LOG_FULL");
  // Sealing so much takes its time, and the lease has its own.
  await rig.giveBack(sandbox);
  const { trace } = await sandbox.channel.close(AbortSignal.timeout(30_000));
  expect((await stat(trace.path)).size).toBe(trace.size);
  sandbox = await rig.channel();
});

/** What this process has open, by the paths that the kernel tells. */
async function openFiles(): Promise<string[]> {
  const descriptors = await readdir("/proc/self/fd");
  // Those that are closed meanwhile are not open.
  return Promise.all(descriptors.map((open) => readlink(`/proc/self/fd/${open}`).catch(() => "")));
}

async function connected(channel: OpenChannel): Promise<Socket> {
  const socket = channel.connect();
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => (socket.closed ? resolve() : socket.once("close", () => resolve())));
}

function drip(socket: Socket, text: string): void {
  let at = 0;
  const timer = setInterval(() => {
    if (socket.destroyed) clearInterval(timer);
    else socket.write(text[at++] ?? "a");
  }, 20);
}

/** Reads nothing before everything is sent, as many a library does; then the status of the whole answer. */
async function sendAllThenRead(socket: Socket, head: string, body: Buffer): Promise<number> {
  socket.pause();
  await once(socket, "connect");
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    socket.write(head);
    socket.write(body, (error) => (error ? reject(error) : resolve()));
  });
  let answer = "";
  socket.on("data", (part) => {
    answer += part.toString("latin1");
  });
  socket.resume();
  await closed(socket);
  const length = Number(/content-length: (\d+)/i.exec(answer)?.[1]);
  expect(answer.split("\r\n\r\n")[1]).toHaveLength(length);
  return statusOf(answer);
}

function chunked(body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from("\r\n0\r\n\r\n")]);
}
