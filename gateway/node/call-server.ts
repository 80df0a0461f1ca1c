import type { IncomingMessage, ServerResponse } from "node:http";
import { ByteQueue } from "#core/byte-queue.ts";
import { DsecError } from "#core/errors.ts";
import { idPattern, type LeaseId } from "#core/ids.ts";
import { ANSWER_TYPE } from "#core/wire/calls.ts";
import type { Hold } from "#core/wire/leases.ts";
import { answerHeaders, logFailure, requestIdOf } from "../app.ts";
import type { ExecutorCaller } from "../auth.ts";
import type { Gateway } from "../environment.ts";
import { CallBounds } from "../proxy/proxy.ts";
import { failureReply } from "../reply.ts";
import { CALL_BYTES_MAX } from "../routes/calls.ts";

/**
 * The route `POST /v1/leases/{id}/proxy` on Node's own HTTP: the adapters to Request, Response and web streams take as
 * long as all else that a gateway does for a call. Takes what is plainly such a call and says so; anything else, and
 * whatever is odd about one, is the app's to answer.
 */
export function serveCalls(
  gateway: Gateway,
): (request: IncomingMessage, response: ServerResponse) => boolean {
  return (request, response) => {
    const hold = holdOf(request);
    if (hold === null) return false;
    void answer(gateway, hold, request, response);
    return true;
  };
}

const ROUTE = "/v1/leases/{id}/proxy (waits)";
const PATH = new RegExp(
  `^/v1/leases/(${idPattern("lease").source.slice(1, -1)})/proxy\\?fence=([1-9]\\d{0,14})$`,
);

function holdOf({ method, url, headers }: IncomingMessage): Hold | null {
  if (method !== "POST" || url === undefined) return null;
  const match = PATH.exec(url);
  if (match === null || headers["content-encoding"] !== undefined || headers.expect !== undefined)
    return null;
  if (!(Number(headers["content-length"]) <= CALL_BYTES_MAX)) return null;
  return { lease_id: match[1] as LeaseId, fence: Number(match[2]) };
}

async function answer(
  gateway: Gateway,
  hold: Hold,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const requestId = requestIdOf(one(request.headers["x-request-id"]));
  const headers = answerHeaders(requestId, gateway.now());
  const count = (status: number) =>
    gateway.metrics.count("dsec_http_requests_total", "Requests answered.", {
      method: "POST",
      route: ROUTE,
      status: String(status),
    });
  const bounds = new CallBounds();
  response.once("close", () => {
    if (!response.writableEnded) bounds.cancel();
  });
  try {
    const caller = await gateway.auth.authenticate(request.headers.authorization, ["executor"]);
    const { executorId } = caller as ExecutorCaller;
    const frames = await gateway.proxy.call(executorId, hold, bytesOf(request), bounds);
    count(200);
    response.writeHead(200, { ...headers, "Content-Type": ANSWER_TYPE });
    await send(frames, response);
  } catch (error) {
    logFailure(gateway, { requestId, method: "POST", route: ROUTE }, error);
    // Frames tell their own failures: what fails here has not begun, or cannot go on.
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const { status, headers: more, body } = failureReply(error, requestId);
    count(status);
    const bytes = Buffer.from(JSON.stringify(body));
    response.writeHead(status, {
      ...headers,
      ...more,
      "Content-Type": "application/json",
      "Content-Length": bytes.length,
    });
    response.end(bytes);
  }
}

/**
 * To whoever does not read, frames are not made. What is written within one tick, the head and the end of the answer
 * included, node:http sends by one system call; its own cork() would take five for each chunk.
 */
async function send(frames: AsyncGenerator<Uint8Array, undefined>, response: ServerResponse): Promise<void> {
  // Of a caller that has left all are read, and none is sent: it is reading that brings the call to its receipt.
  for await (const frame of frames) {
    if (!response.destroyed && !response.write(frame)) await drained(response);
  }
  response.end();
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.on("drain", done);
    response.on("close", done);
    if (response.destroyed) done();
  });
}

function bytesOf(request: IncomingMessage): ByteQueue {
  const queue = new ByteQueue({
    pause: () => request.pause(),
    resume: () => request.resume(),
    // What is still sent is read and dropped, so that the answer reaches its sender.
    stop: () => request.resume(),
  });
  request.on("data", (piece: Buffer) => queue.push(piece));
  request.once("end", () => queue.end());
  request.once("close", () => {
    // An error takes as long to make as a hash.
    if (queue.hasCome) return;
    queue.fail(new DsecError("CALL_CANCELLED", "the caller left before its call was whole"));
  });
  return queue;
}

function one(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}
