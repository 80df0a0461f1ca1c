import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DsecError } from "#core/errors.ts";
import type { Fetch } from "#executor/gateway-calls.ts";
import { GatewayClient, isLeaseLost } from "#executor/gateway-client.ts";
import { type Identity, openIdentity } from "#executor/identity.ts";
import { backoffMs, isPassing, untilAnswered } from "#executor/retry.ts";
import { CAPACITY, openTestGateway, type TestGateway } from "#test/gateway/gateway-under-test.ts";

let directory: string;
let identity: Identity;
let gateway: TestGateway;
let token: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "dsec-client-"));
  identity = await openIdentity(directory);
  gateway = await openTestGateway();
  token = (await gateway.client("executors:enrol")).secret;
});
afterAll(async () => {
  await gateway?.close();
  await rm(directory, { recursive: true, force: true });
});

const live = new AbortController().signal;
const ENROL = {
  capacity: CAPACITY,
  images: [],
  build: "test",
  host: { hostname: "h", kernel: "6", cgroup: "v1" as const, arch: "x64" },
};
const clientOver = (fetch: Fetch) =>
  new GatewayClient({ gatewayUrl: "https://dsec.example/", fetch, identity });
const direct: Fetch = (request) => gateway.app.fetch(request);
const brokenOff = () =>
  new Response(
    new ReadableStream({
      start: (controller) => controller.enqueue(new Uint8Array([0x7b])),
      pull: (controller) => controller.error(new TypeError("terminated")),
    }),
  );
const beat = { capacity: CAPACITY, free: CAPACITY, images: [], running: 0 };

test.each([-600_000, 600_000, 3_600_000])(
  "an executor whose host clock is %i ms off is believed, as it goes by the gateway's (B60)",
  async (skewMs) => {
    gateway.clock.nowMs = Date.now() + skewMs;
    const client = clientOver(direct);
    await client.enrol(token, { ...ENROL, public_key: identity.publicKey });
    expect(await client.heartbeat(beat, live)).toEqual({ draining: false });
    // The gateway's clock steps while a token is in use: the first refusal teaches the new time.
    gateway.clock.nowMs -= 7_200_000;
    expect(await client.heartbeat(beat, live)).toEqual({ draining: false });
    gateway.clock.nowMs = Date.now();
  },
);

test("a refusal carries the gateway's own code and message", async () => {
  const error = await clientOver(direct)
    .enrol("dsk_wrong", { ...ENROL, public_key: identity.publicKey })
    .catch((e: unknown) => e);
  expect(error).toBeInstanceOf(DsecError);
  expect(error).toMatchObject({ code: "UNAUTHENTICATED" });
  expect((error as Error).message).not.toContain("dsk_wrong");
});

test("writes for a lease that nobody holds are told apart from an outage", async () => {
  const client = clientOver(direct);
  await client.enrol(token, { ...ENROL, public_key: identity.publicKey });
  const hold = { lease_id: `lease_${"0".repeat(26)}`, fence: 1 };
  const error = await client.release(hold, live).catch((e: unknown) => e);
  expect(isLeaseLost(error)).toBe(true);
  expect(isPassing(error)).toBe(false);
});

test.each<[string, () => Response | Promise<Response>]>([
  ["no connection", () => Promise.reject(new TypeError("fetch failed"))],
  ["a proxy's page", () => new Response("<html>502</html>", { status: 502 })],
  ["an empty page", () => new Response("", { status: 200 })],
  ["another protocol", () => Response.json({ executors: [] })],
  ["half an answer", () => new Response('{"executor_id": "exec_', { status: 200 })],
  [
    "an unknown error code",
    () => Response.json({ error: { code: "TEAPOT", message: "", request_id: "" } }, { status: 418 }),
  ],
  ["a body that breaks off", () => brokenOff()],
])(
  "%s in place of the gateway is GATEWAY_UNREACHABLE, and tried again until it answers",
  async (_, answer) => {
    let calls = 0;
    const client = clientOver((request) => (++calls <= 2 ? answer() : direct(request)));
    const failures: string[] = [];
    const id = await untilAnswered(() => client.enrol(token, { ...ENROL, public_key: identity.publicKey }), {
      signal: live,
      onFailure: (error) => failures.push(error.code),
    });
    expect(id).toMatch(/^exec_/);
    expect(failures).toEqual(["GATEWAY_UNREACHABLE", "GATEWAY_UNREACHABLE"]);
  },
);

test.each<[string, (client: GatewayClient) => Promise<AsyncIterable<Uint8Array>>]>([
  ["an artifact", (client) => client.getArtifact(`sha256:${"0".repeat(64)}`, live)],
  [
    "an earlier attempt's trace",
    (client) => client.earlierTrace({ lease_id: `lease_${"0".repeat(26)}`, fence: 2 }, 2, live),
  ],
])("content that breaks off while %s is read is GATEWAY_UNREACHABLE too", async (_, download) => {
  const client = clientOver((request) => (request.method === "GET" ? brokenOff() : direct(request)));
  await client.enrol(token, { ...ENROL, public_key: identity.publicKey });
  const content = await download(client);
  const read = async () => {
    for await (const _part of content);
  };
  await expect(read()).rejects.toMatchObject({ code: "GATEWAY_UNREACHABLE" });
});

test("trying again ends with the signal's reason", async () => {
  const stop = new AbortController();
  const client = clientOver(() => {
    stop.abort("enough");
    throw new TypeError("fetch failed");
  });
  const call = untilAnswered(() => client.enrol(token, { ...ENROL, public_key: identity.publicKey }), {
    signal: stop.signal,
  });
  await expect(call).rejects.toBe("enough");
});

test("a gateway that fails in itself at the same call is not asked for ever", async () => {
  let calls = 0;
  const failing = () => {
    calls++;
    return Response.json({ error: { code: "INTERNAL", message: "m", request_id: "r" } }, { status: 500 });
  };
  const client = clientOver(failing);
  const call = untilAnswered(() => client.enrol(token, { ...ENROL, public_key: identity.publicKey }), {
    signal: live,
  });
  await expect(call).rejects.toMatchObject({ code: "INTERNAL" });
  expect(calls).toBe(6);
});

test("waits double up to five seconds with jitter, and are as long as the gateway asks", () => {
  for (let tries = 1; tries < 40; tries++) {
    const ceiling = Math.min(5_000, 100 * 2 ** (tries - 1));
    const wait = backoffMs(tries);
    expect(wait).toBeGreaterThanOrEqual(ceiling / 2);
    expect(wait).toBeLessThanOrEqual(ceiling);
  }
  const limited = new DsecError("RATE_LIMITED", "m", { details: { retry_after_ms: 30_000 } });
  expect(backoffMs(1, limited)).toBeGreaterThanOrEqual(30_000);
});

test("an answer of the same process that comes after its caller has left is told that nobody reads it", async () => {
  const answered = Promise.withResolvers<Response>();
  const cancelled = Promise.withResolvers<void>();
  let gatewayOf: Fetch = direct;
  const client = clientOver((request) => gatewayOf(request));
  await client.enrol(token, { ...ENROL, public_key: identity.publicKey });
  gatewayOf = () => answered.promise;
  const caller = new AbortController();
  const asking = client.heartbeat(beat, caller.signal);
  caller.abort(new Error("left"));
  await expect(asking).rejects.toThrow("left");
  answered.resolve(new Response(new ReadableStream({ cancel: () => cancelled.resolve() })));
  await cancelled.promise;
});
