/** Bodies in motion: handed on as they come, bounded in size and time, and stopped when nobody wants them. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { createGzip, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ReceiptClaims } from "#core/wire/calls.ts";
import { leastMs } from "#test/support/least-ms.ts";
import {
  claimsOf,
  digest,
  openTestProxy,
  packCall,
  reach,
  readAnswer,
  type Sandbox,
  type TestProxy,
} from "./proxy-under-test.ts";

const closedAtMs = new Map<string, number>();
const written = new Map<string, number>();
const asked = new Set<string>();
/** Events that the caller has read, by path. */
const read = new Map<string, number>();

async function arrived(path: string, event: number): Promise<void> {
  while ((read.get(path) ?? 0) <= event) await sleep(2);
}

const MIB = 1024 * 1024;

const BOMB = gzipSync(Buffer.alloc(200 * MIB));

/** @param next what the event after the one of this number waits for */
async function events(
  response: ServerResponse,
  count: number,
  zipped: boolean,
  next: (event: number) => Promise<unknown>,
): Promise<void> {
  response.writeHead(200, {
    "content-type": "text/event-stream",
    ...(zipped ? { "content-encoding": "gzip" } : {}),
  });
  const out = zipped ? createGzip() : response;
  if (zipped) (out as ReturnType<typeof createGzip>).pipe(response);
  response.flushHeaders();
  for (let i = 0; i < count && !response.destroyed; i++) {
    out.write(`data: ${i}\r\n\r\n`);
    if (zipped) (out as ReturnType<typeof createGzip>).flush();
    await next(i);
  }
  out.end();
}

async function flood(path: string, response: ServerResponse): Promise<void> {
  const piece = Buffer.alloc(64 * 1024);
  for (let bytes = 0; bytes < 512 * MIB && !response.destroyed; bytes += piece.length) {
    written.set(path, bytes);
    if (response.write(piece)) continue;
    const waiting = new AbortController();
    const either = ["drain", "close"].map((event) => once(response, event, { signal: waiting.signal }));
    await Promise.race(either);
    waiting.abort();
    await Promise.allSettled(either);
  }
  response.end();
}

describe.each(["app", "http"] as const)("over the %s of a gateway", (over) => {
  let proxy: TestProxy;
  let sandbox: Sandbox;
  let url: string;
  let port: number;
  beforeAll(async () => {
    closedAtMs.clear();
    written.clear();
    asked.clear();
    read.clear();
    proxy = await openTestProxy({ over });
    ({ url, port } = await proxy.serve((request, response) => {
      const path = request.url!;
      asked.add(path);
      response.on("close", () => closedAtMs.set(path, performance.now()));
      if (path.startsWith("/events"))
        return void events(response, 5, path.endsWith("gzip"), (event) => arrived(path, event));
      if (path.startsWith("/forever"))
        return void events(response, Number.POSITIVE_INFINITY, false, () => sleep(100));
      if (path.startsWith("/silent")) return;
      if (path.startsWith("/flood")) return void flood(path, response);
      if (path.startsWith("/bomb")) {
        response.writeHead(200, { "content-encoding": "gzip" });
        return void response.end(BOMB);
      }
      if (path.startsWith("/take")) {
        let bytes = 0;
        request.on("data", (part: Buffer) => {
          bytes += part.length;
          written.set(path, bytes);
        });
        return void request.on("end", () => response.end(String(bytes)));
      }
      if (path.startsWith("/early")) {
        response.writeHead(401, { connection: "close", "content-length": 11 });
        response.write("who are you");
        // as servers do that want to be heard (RFC 9112 section 9.6)
        return void request.resume().once("end", () => response.end());
      }
      response.end(path);
    }));
    sandbox = await proxy.lease(reach(port));
  });
  afterAll(() => proxy?.close());

  test.each(["/events", "/events-gzip"])(
    "%s: each event is handed on before there is another (B43)",
    async (path) => {
      const answer = await readAnswer(await sandbox.send(sandbox.head(`${url}${path}`)), ({ body }) => {
        read.set(path, body.toString().split("\r\n\r\n").length - 1);
        return false;
      });
      expect(answer.body.toString()).toBe([0, 1, 2, 3, 4].map((i) => `data: ${i}\r\n\r\n`).join(""));
      expect(answer.error).toBeUndefined();
    },
  );

  test("when the caller leaves, the upstream sees the close within a second, and the receipt says so (B43)", async () => {
    const tookMs = await leastMs(1_000, async () => {
      const leaving = new AbortController();
      const head = sandbox.head(`${url}/forever`);
      closedAtMs.delete("/forever");
      const response = await sandbox.send(head, "", leaving.signal);
      const { body } = await readAnswer(response, (answer) => answer.dataAtMs.length >= 2);
      const leftAtMs = performance.now();
      leaving.abort();
      await expect.poll(() => closedAtMs.get("/forever")).toBeDefined();
      await expect
        .poll(async () => (await sandbox.receipts()).claims.find(({ seq }) => seq === head.seq))
        .toMatchObject({ error: "CALL_CANCELLED", partial: true, status: 200 });
      const receipt = (await sandbox.receipts()).claims.find(({ seq }) => seq === head.seq)!;
      expect(receipt.bytes_down).toBeGreaterThanOrEqual(body.length);
      return closedAtMs.get("/forever")! - leftAtMs;
    });
    expect(tookMs).toBeLessThan(1_000);
  });

  test("a caller who leaves before any answer closes the upstream too", async () => {
    const leaving = new AbortController();
    const sending = sandbox
      .send(sandbox.head(`${url}/silent-left`), "", leaving.signal)
      .then((response) => readAnswer(response))
      .catch(() => {});
    await expect.poll(() => asked.has("/silent-left")).toBe(true);
    leaving.abort();
    await expect.poll(() => closedAtMs.has("/silent-left")).toBe(true);
    await sending;
  });

  test("an upstream that is silent is given up at the call's time, and the answer says which (B43)", async () => {
    const tookMs = await leastMs(2_000, async () => {
      const startMs = performance.now();
      const answer = await sandbox.call(`${url}/silent`, { head: { timeout_ms: 300 } });
      expect(answer.error).toMatchObject({ code: "CALL_TIMED_OUT", partial: false });
      return performance.now() - startMs;
    });
    expect(tookMs).toBeLessThan(2_000);
    await expect.poll(() => closedAtMs.has("/silent")).toBe(true);
    const begin = () => sandbox.call(`${url}/forever-timed`, { head: { timeout_ms: 500 } });
    let started = await begin();
    // Where all stands still for that long, the time is over before there is an answer.
    for (let tries = 1; tries < 3 && started.head === undefined; tries++) started = await begin();
    expect(started.error).toMatchObject({ code: "CALL_TIMED_OUT", partial: true });
    expect(claimsOf(started.error!.receipt!)).toMatchObject({
      status: 200,
      fingerprint: { body: digest(started.body) },
    });
  });

  test("the policy's time bounds what a call may ask for", async () => {
    const hurried = await proxy.lease(reach(port, { timeout_ms_max: 200 }));
    const answer = await hurried.call(`${url}/silent-policy`, { head: { timeout_ms: 60_000 } });
    expect(answer.error).toMatchObject({
      code: "CALL_TIMED_OUT",
      message: expect.stringContaining("200 ms"),
    });
  });

  test("an event stream that goes on lasts as long as the policy says, and no longer", async () => {
    const limited = await proxy.lease(reach(port, { timeout_ms_max: 1_500 }));
    const quietMs = await leastMs(500, async () => {
      const startMs = performance.now();
      const answer = await limited.call(`${url}/forever-limited`, { head: { timeout_ms: 3_600_000 } });
      const partial = answer.head !== undefined;
      expect(answer.error).toMatchObject({ code: "CALL_TIMED_OUT", partial });
      expect(performance.now() - startMs).toBeGreaterThanOrEqual(1_490);
      return startMs + 1_500 - (answer.dataAtMs.at(-1) ?? startMs);
    });
    expect(quietMs, "from its last event to the end of its time").toBeLessThan(500);
  });

  test("a caller that does not read makes the upstream wait, and nothing piles up in between (B43)", async () => {
    const roomy = await proxy.lease(reach(port, { response_bytes_max: 1024 * MIB }));
    const response = await roomy.send(roomy.head(`${url}/flood`));
    const reader = response.body!.getReader();
    await reader.read();
    // What the kernel's socket buffers hold, and no more than that, however long it takes to fill them.
    let before: number;
    do {
      before = written.get("/flood")!;
      await new Promise((resolve) => setTimeout(resolve, 300));
    } while (written.get("/flood") !== before && before < 32 * MIB);
    expect(before).toBeLessThan(32 * MIB);
    await reader.cancel();
    await expect.poll(() => closedAtMs.has("/flood")).toBe(true);
  });

  test("an answer is bounded by its decoded bytes, so that a small bomb stays small", async () => {
    const bounded = await proxy.lease(reach(port, { response_bytes_max: MIB }));
    expect(BOMB.length).toBeLessThan(MIB);
    const answer = await bounded.call(`${url}/bomb`);
    expect(answer.error).toMatchObject({ code: "RESPONSE_TOO_LARGE", partial: true });
    expect(answer.body.length).toBeLessThanOrEqual(MIB);
    const exact = await proxy.lease(reach(port, { response_bytes_max: 6 }));
    expect((await exact.call(`${url}/exact`)).body.toString()).toBe("/exact");
    expect((await exact.call(`${url}/exact1`)).error).toMatchObject({ code: "RESPONSE_TOO_LARGE" });
  });

  test("a large request streams through while it is still being sent", async () => {
    const piece = Buffer.alloc(MIB, 7);
    const whole = Buffer.concat(Array.from({ length: 8 }, () => piece));
    const packed = packCall(sandbox.head(`${url}/take`, { method: "POST", body: whole }), whole);
    let release: () => void = () => {};
    const half = new Promise<void>((resolve) => {
      release = resolve;
    });
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        controller.enqueue(packed.subarray(0, packed.length / 2));
        await half;
        controller.enqueue(packed.subarray(packed.length / 2));
        controller.close();
      },
    });
    const sending = sandbox.executor.fetch(sandbox.path, {
      method: "POST",
      headers: { authorization: `Bearer ${await sandbox.executor.token()}` },
      body,
      duplex: "half",
    } as RequestInit);
    const answer = sending.then((response) => readAnswer(response));
    await expect.poll(() => written.get("/take") ?? 0).toBeGreaterThan(2 * MIB);
    release();
    expect((await answer).body.toString()).toBe(String(8 * MIB));
  });

  test("an early refusal reaches the caller although the body was not taken (B40)", async () => {
    const answer = await sandbox.call(`${url}/early`, { method: "POST", body: "x".repeat(2 * MIB) });
    expect(answer.head).toMatchObject({ status: 401 });
    expect(answer.body.toString()).toBe("who are you");
  });

  test.each([
    ["nothing", new Uint8Array(0)],
    ["half a length", Uint8Array.from([0, 0])],
    ["a length without a head", Uint8Array.from([0, 0, 0, 9])],
    ["no JSON", Buffer.concat([Buffer.from([0, 0, 0, 3]), Buffer.from("{x}")])],
    ["a head that never ends", Uint8Array.from([255, 255, 255, 255, 1])],
    ["no UTF-8", Buffer.concat([Buffer.from([0, 0, 0, 2]), Buffer.from([0xff, 0xfe])])],
  ])("a call that is %s is refused", async (_, bytes) => {
    const refused = await sandbox.executor.refused("POST", sandbox.path, bytes);
    expect(refused.status).toBeGreaterThanOrEqual(400);
    expect(refused.status).toBeLessThan(500);
  });

  test("a call whose body is shorter or longer than it says is refused before anything is sent", async () => {
    for (const content_length of [3, 7]) {
      const head = sandbox.head(`${url}/take-wrong`, {
        method: "POST",
        body: "words",
        head: { content_length },
      });
      const refused = await sandbox.executor.refused("POST", sandbox.path, packCall(head, "words"));
      expect(refused).toMatchObject({ code: "INVALID_REQUEST" });
    }
    expect(written.has("/take-wrong")).toBe(false);
  });

  test("32 calls at once each get their own answer and receipt", async () => {
    const busy = await proxy.lease(reach(port));
    const answers = await Promise.all(Array.from({ length: 32 }, (_, i) => busy.call(`${url}/n${i}`)));
    answers.forEach((answer, i) => {
      expect(answer.body.toString()).toBe(`/n${i}`);
      expect(claimsOf<ReceiptClaims>(answer.receipt!.receipt).seq).toBe(i + 1);
    });
    const { jwts } = await busy.receipts();
    expect(jwts).toEqual(answers.map(({ receipt }) => receipt!.receipt));
  });
});
