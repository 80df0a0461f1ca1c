/** How answers and errors reach a program that believes to speak to its upstream. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { DsecError, ERROR_STATUS, type ErrorCode, errorBody } from "#core/errors.ts";
import { closeGently, endOnceRead } from "../lingering-close.ts";
import type { EgressAnswer, Fields } from "./call-port.ts";
import { forwardedAnswer, valuesOf } from "./fields.ts";

/**
 * Passes an answer on as it comes, no faster than the client takes it. Rejects where either side broke off; what the
 * client then has is visibly incomplete, for an answer that was cut must not look like a whole one.
 */
export async function sendAnswer(answer: EgressAnswer, response: ServerResponse): Promise<void> {
  const { status } = answer;
  if (status < 200)
    throw new DsecError("UPSTREAM_FAILED", `the upstream's final answer has status ${status}`);
  const hasBody = response.req.method !== "HEAD" && status !== 204 && status !== 304;
  const fields = forwardedAnswer(answer.headers);
  const length = hasBody ? declaredLength(fields) : null;
  const framed = hasBody && length === null ? without(fields, "content-length") : fields;
  response.sendDate = false; // the upstream's own is among the fields
  response.writeHead(status, framed.flat());
  // An event stream may be silent for long, and its client waits for the head. By a write of bytes: flushHeaders would
  // encode the head as UTF-8, and so once more what came in as bytes (B41).
  if (hasBody) response.write(Buffer.alloc(0));
  let left = length ?? Number.POSITIVE_INFINITY;
  let last: Uint8Array | undefined;
  for await (const part of answer.body) {
    if (!hasBody) continue;
    left -= part.length;
    if (left < 0) throw mismatch();
    // Who has counted the last byte thinks that it has the whole: it gets that only once the call has its receipt.
    if (left === 0) last = part;
    else if (!response.write(part)) await drained(response);
  }
  if (length !== null && left > 0) throw mismatch();
  response.end(last);
}

/**
 * Says why there is no answer: the error JSON, and Proxy-Status (RFC 9209) so that a 403 of the policy can be told from
 * an upstream's own. After the head only breaking off is left.
 */
export function sendError(error: unknown, response: ServerResponse): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const { body, fields, status } = errorReply(error);
  response.writeHead(status, fields.flat());
  response.write(response.req.method === "HEAD" ? Buffer.alloc(0) : body);
  endOnceRead(response.req, response);
}

/** For a connection that could not be read as HTTP: there is no request to answer. */
export function sendRawError(error: DsecError, socket: Duplex): void {
  const { body, fields, status } = errorReply(error);
  const head = [["Connection", "close"], ...fields].map(([name, value]) => `${name}: ${value}\r\n`).join("");
  socket.write(`HTTP/1.1 ${status} Refused\r\n${head}\r\n${body}`);
  closeGently(socket);
}

/** A response to a request that took its connection out of HTTP (CONNECT, Upgrade). The connection ends with it. */
export function responseOn(request: IncomingMessage, socket: Duplex): ServerResponse {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket as Socket);
  response.on("finish", () => {
    response.detachSocket(socket as Socket);
    closeGently(socket);
    response.emit("close");
  });
  return response;
}

function errorReply(error: unknown): { status: number; fields: Fields; body: string } {
  const envelope = errorBody(error, `req_${randomUUID()}`);
  const body = `${JSON.stringify(envelope)}\n`;
  const { code } = envelope.error;
  const fields: Fields = [
    ["Content-Type", "application/json"],
    ["Content-Length", String(Buffer.byteLength(body))],
    ["Cache-Control", "no-store"],
    ["Proxy-Status", `dsec; error=${proxyError(code)}; details="${code}"`],
  ];
  return { status: ERROR_STATUS[code], fields, body };
}

/** The nearest of the types that RFC 9209 section 2.3 registers. */
function proxyError(code: ErrorCode): string {
  switch (code) {
    case "ADDRESS_NOT_ALLOWED":
      return "destination_ip_prohibited";
    case "UPSTREAM_UNREACHABLE":
      return "destination_unavailable";
    case "CALL_TIMED_OUT":
      return "http_response_timeout";
    case "RESPONSE_TOO_LARGE":
      return "http_response_body_size";
    case "RESPONSE_UNDECODABLE":
      return "http_response_content_coding";
    case "UPSTREAM_FAILED":
      return "http_protocol_error";
    default: {
      const status = ERROR_STATUS[code];
      if (status === 403 || status === 429) return "http_request_denied";
      return status < 500 ? "http_request_error" : "proxy_internal_error";
    }
  }
}

/** One decimal Content-Length; anything else is not passed on (RFC 9110 section 8.6). */
function declaredLength(fields: Fields): number | null {
  const [value, ...more] = valuesOf(fields, "content-length");
  if (value === undefined || more.length > 0 || !/^[0-9]{1,15}$/.test(value)) return null;
  return Number(value);
}

function without(fields: Fields, name: string): Fields {
  return fields.filter(([given]) => given.toLowerCase() !== name);
}

async function drained(response: ServerResponse): Promise<void> {
  const waiting = new AbortController();
  const events = [once(response, "drain", waiting), once(response, "close", waiting)];
  try {
    if (!response.destroyed) await Promise.race(events);
  } finally {
    waiting.abort();
    await Promise.allSettled(events);
  }
  if (response.destroyed) throw new DsecError("CALL_CANCELLED", "the client left within the answer");
}

function mismatch(): DsecError {
  return new DsecError("UPSTREAM_FAILED", "the answer's body has not the length that its head says");
}
