import type { z } from "zod";
import { DsecError, type ErrorCode } from "#core/errors.ts";
import type { Digest, ExecutorId, LeaseId } from "#core/ids.ts";
import { parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { CALL_TYPE, type CallHead, ReceiptPageSchema } from "#core/wire/calls.ts";
import { ErrorBodySchema } from "#core/wire/common.ts";
import {
  type EnrolRequest,
  EnrolResponseSchema,
  type HeartbeatRequest,
  HeartbeatResponseSchema,
} from "#core/wire/executors.ts";
import {
  type AcquireRequest,
  AcquireResponseSchema,
  CancellationsResponseSchema,
  type CompleteRequest,
  type EventsRequest,
  EventsResponseSchema,
  type FailRequest,
  type Hold,
  type Lease,
  type RenewResponse,
  RenewResponseSchema,
} from "#core/wire/leases.ts";
import {
  type ObservationForLease,
  ObservationsForLeasesSchema,
  type ObservationsPoll,
} from "#core/wire/observations.ts";
import { type Policy, PolicySchema } from "#core/wire/policy.ts";
import { TracePartResponseSchema } from "#core/wire/trace.ts";
import { dialTunnel, type GatewayTunnel } from "./egress/gateway-tunnel.ts";
import { GatewayClock } from "./gateway-clock.ts";
import { type GatewayAnswer, GatewayConnections } from "./gateway-connections.ts";
import type { Identity } from "./identity.ts";
import type { MessageGateway } from "./messages/bus.ts";
import { messageGateway } from "./messages/message-gateway.ts";

/** `globalThis.fetch`, or a gateway app's own in the same process. */
export type Fetch = (request: Request) => Response | Promise<Response>;

/** An answer comes within this, or the gateway counts as unreachable. Long polls have their wait on top. */
const ANSWER_TIMEOUT_MS = 10_000;
/** Uploads and downloads slower than this are given up and tried anew. */
const TRANSFER_BYTES_PER_MS = 256;

/**
 * The executor's calls to its gateway, one method for each route. A call is made once and rejects with the
 * gateway's own code, or GATEWAY_UNREACHABLE where no answer of a gateway came; `retry.ts` decides about more.
 */
export class GatewayClient {
  readonly #url: string;
  readonly #fetch: Fetch;
  /** Null for a gateway in the same process. */
  readonly #connections: GatewayConnections | null;
  readonly #identity: Identity;
  readonly clock = new GatewayClock();
  readonly messages: MessageGateway;
  #enrolled: { executorId: ExecutorId; issuer: string } | null = null;
  #token: { text: string; useUntilMs: number } | null = null;

  constructor(options: { gatewayUrl: string; fetch?: Fetch | undefined; identity: Identity }) {
    this.#url = options.gatewayUrl.replace(/\/+$/, "");
    this.#fetch = options.fetch ?? ((request) => fetch(request));
    this.#connections = options.fetch === undefined ? new GatewayConnections(this.#url) : null;
    this.#identity = options.identity;
    this.messages = messageGateway({ json: this.#json.bind(this), call: this.#call.bind(this) });
  }

  /** Enrols with an API key of scope `executors:enrol`. The same key pair gets the same executor id each time. */
  async enrol(apiKey: string, request: EnrolRequest): Promise<ExecutorId> {
    const answer = await this.#json(EnrolResponseSchema, "POST", "/v1/executors/enrol", {
      json: request,
      apiKey,
    });
    this.#enrolled = { executorId: answer.executor_id as ExecutorId, issuer: answer.issuer };
    this.#token = null;
    return this.#enrolled.executorId;
  }

  async heartbeat(beat: HeartbeatRequest, signal: AbortSignal): Promise<{ draining: boolean }> {
    return this.#json(HeartbeatResponseSchema, "POST", "/v1/executors/heartbeat", { json: beat, signal });
  }

  async acquire(request: AcquireRequest, signal: AbortSignal): Promise<Lease[]> {
    const waitMs = request.wait_ms;
    const answer = await this.#json(AcquireResponseSchema, "POST", "/v1/leases", {
      json: request,
      signal,
      waitMs,
    });
    return answer.leases;
  }

  async renew(leases: Hold[], signal: AbortSignal): Promise<RenewResponse> {
    return this.#json(RenewResponseSchema, "POST", "/v1/leases/renew", { json: { leases }, signal });
  }

  /** Holds of this executor whose tasks were cancelled, as soon as there is one or after `waitMs`. */
  async cancellations(waitMs: number, signal: AbortSignal): Promise<Hold[]> {
    const path = `/v1/leases/cancellations?wait_ms=${waitMs}`;
    return (await this.#json(CancellationsResponseSchema, "GET", path, { signal, waitMs })).leases;
  }

  async start(hold: Hold, signal: AbortSignal): Promise<void> {
    await this.#call("POST", `/v1/leases/${hold.lease_id}/start`, { json: { fence: hold.fence }, signal });
  }

  /** Stores live output; returns the leases that are held no more. */
  async sendEvents(events: EventsRequest["events"], signal: AbortSignal): Promise<LeaseId[]> {
    const answer = await this.#json(EventsResponseSchema, "POST", "/v1/leases/events", {
      json: { events },
      signal,
    });
    return answer.lost as LeaseId[];
  }

  async complete(leaseId: string, request: CompleteRequest, signal: AbortSignal): Promise<void> {
    await this.#call("POST", `/v1/leases/${leaseId}/complete`, { json: request, signal });
  }

  async fail(leaseId: string, request: FailRequest, signal: AbortSignal): Promise<void> {
    await this.#call("POST", `/v1/leases/${leaseId}/fail`, { json: request, signal });
  }

  async release(hold: Hold, signal: AbortSignal): Promise<void> {
    await this.#call("POST", `/v1/leases/${hold.lease_id}/release`, { json: { fence: hold.fence }, signal });
  }

  /** Uploads content under its digest on behalf of a lease. */
  async putBlob(hold: Hold, digest: Digest, content: Blob, signal: AbortSignal): Promise<void> {
    await this.#call("PUT", `/v1/leases/${hold.lease_id}/blobs/${digest}?fence=${hold.fence}`, {
      body: content,
      signal,
      waitMs: Math.ceil(content.size / TRANSFER_BYTES_PER_MS),
    });
  }

  /** Sends a part of a running attempt's trajectory; returns how far it is known there. TRACE_GAP where that is not so far. */
  async sendTrajectory(
    hold: Hold,
    offset: number,
    bytes: Uint8Array<ArrayBuffer>,
    signal: AbortSignal,
  ): Promise<number> {
    const path = `/v1/leases/${hold.lease_id}/trace?fence=${hold.fence}&offset=${offset}`;
    const waitMs = Math.ceil(bytes.length / TRANSFER_BYTES_PER_MS);
    return (await this.#json(TracePartResponseSchema, "POST", path, { body: bytes, signal, waitMs })).size;
  }

  /**
   * What was recorded of an earlier attempt of the task whose lease is held: the newest whose fence is below `before`.
   * OUTPUT_NOT_FOUND where there is none.
   */
  async earlierTrace(hold: Hold, before: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const path = `/v1/leases/${hold.lease_id}/trace?fence=${hold.fence}&before=${before}`;
    const waitMs = LIMITS.eventLogBytes / TRANSFER_BYTES_PER_MS;
    const response = await this.#call("GET", path, { signal, waitMs });
    return response.body ?? new Blob([]).stream();
  }

  /** The content of an artifact as it comes; the caller checks its digest. */
  async getArtifact(digest: Digest, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const waitMs = LIMITS.artifactBytes / TRANSFER_BYTES_PER_MS;
    const response = await this.#call("GET", `/v1/artifacts/${digest}`, { signal, waitMs });
    return response.body ?? new Blob([]).stream();
  }

  /** A proxied call: the frames of its answer as they come (channel/proxy-client.ts). It is made once, whatever happens. */
  async proxy(
    hold: Hold,
    request: Blob | Uint8Array<ArrayBuffer>,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>> {
    const path = `/v1/leases/${hold.lease_id}/proxy?fence=${hold.fence}`;
    const waitMs = timeoutMs + LIMITS.callGraceMs;
    if (this.#connections === null) {
      const options = { body: request, contentType: CALL_TYPE, signal, waitMs };
      const { body } = await this.#call("POST", path, options);
      return (body ?? new Blob([]).stream()) as AsyncIterable<Uint8Array> & ReadableStream<Uint8Array>;
    }
    const first = await this.#post(this.#connections, path, request, waitMs, signal);
    if (!(first instanceof DsecError)) return first;
    if (first.code !== "UNAUTHENTICATED") throw first;
    this.#token = null;
    const second = await this.#post(this.#connections, path, request, waitMs, signal);
    if (second instanceof DsecError) throw first;
    return second;
  }

  /** A connection that is passed through, opaque TLS or a WebSocket (egress/gateway-tunnel.ts). */
  tunnel(hold: Hold, head: CallHead, signal: AbortSignal): Promise<GatewayTunnel> {
    const url = `${this.#url.replace(/^http/, "ws")}/v1/leases/${hold.lease_id}/tunnel?fence=${hold.fence}`;
    return dialTunnel(url, `Bearer ${this.#bearer()}`, head, signal);
  }

  /** The policy of the lease's task as it is now. */
  async policy(hold: Hold, signal: AbortSignal): Promise<Policy> {
    const path = `/v1/leases/${hold.lease_id}/policy?fence=${hold.fence}`;
    return this.#json(PolicySchema, "GET", path, { signal });
  }

  /** Receipts of the lease's calls, for those whose answers were lost. */
  async receipts(hold: Hold, cursor: string | null, signal: AbortSignal) {
    const page = `limit=${LIMITS.pageMax}${cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
    const path = `/v1/leases/${hold.lease_id}/receipts?fence=${hold.fence}&${page}`;
    return this.#json(ReceiptPageSchema, "GET", path, { signal });
  }

  /** What is to be injected into sandboxes of this executor, as soon as there is something or after `waitMs`. */
  async observations(
    waitMs: number,
    received: ObservationsPoll["received"],
    signal: AbortSignal,
  ): Promise<ObservationForLease[]> {
    const json = { wait_ms: waitMs, received };
    const answer = await this.#json(ObservationsForLeasesSchema, "POST", "/v1/leases/observations", {
      ...{ json, signal, waitMs },
    });
    return answer.observations;
  }

  async #json<Schema extends z.ZodType>(
    schema: Schema,
    method: string,
    path: string,
    options: CallOptions,
  ): Promise<z.output<Schema>> {
    const response = await this.#call(method, path, options);
    let answer: unknown;
    try {
      answer = parseJson(new Uint8Array(await response.arrayBuffer()), `answer to ${method} ${path}`);
    } catch (cause) {
      throw this.#unreachable(method, path, "its answer is cut off or not JSON", cause);
    }
    const parsed = schema.safeParse(answer);
    if (parsed.success) return parsed.data;
    throw this.#unreachable(
      method,
      path,
      `its answer is not of this protocol: ${parsed.error.message}`,
      parsed.error,
    );
  }

  async #call(method: string, path: string, options: CallOptions): Promise<Response> {
    const timeout = AbortSignal.timeout(ANSWER_TIMEOUT_MS + (options.waitMs ?? 0));
    const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
    const headers: Record<string, string> = { authorization: `Bearer ${options.apiKey ?? this.#bearer()}` };
    if (options.idempotencyKey !== undefined) headers["idempotency-key"] = options.idempotencyKey;
    let body: Blob | Uint8Array<ArrayBuffer> | string | undefined = options.body;
    if (options.json !== undefined) {
      headers["content-type"] = "application/json";
      body = JSON.stringify(options.json);
    } else if (body !== undefined) {
      headers["content-type"] = options.contentType ?? "application/octet-stream";
    }
    const response = await this.#answer(method, path, { headers, signal, body: body ?? null }, options);
    if (response.ok) return response;
    const text = await response.text().catch((cause: unknown) => {
      throw this.#unreachable(method, path, "its answer broke off", cause);
    });
    const refusal = this.#refusal(method, path, response.status, response.headers.get("retry-after"), text);
    // The token may have been made by a clock that this very answer has corrected: once more with a new one.
    if (refusal.code === "UNAUTHENTICATED" && options.apiKey === undefined) {
      this.#token = null;
      headers.authorization = `Bearer ${this.#bearer()}`;
      const second = await this.#answer(method, path, { headers, signal, body: body ?? null }, options);
      if (second.ok) return second;
    }
    throw refusal;
  }

  async #answer(method: string, path: string, init: RequestInit, options: CallOptions): Promise<Response> {
    const sentAtMs = performance.now();
    let response: Response;
    try {
      const request = new Request(this.#url + path, { method, ...init });
      // A gateway in the same process answers when it likes; an abort or the time limit does not wait for it.
      response = await Promise.race([this.#fetch(request), rejectOnAbort(request.signal)]);
    } catch (cause) {
      options.signal?.throwIfAborted();
      throw this.#unreachable(method, path, (cause as Error).message, cause);
    }
    this.clock.observe(response.headers.get("date"), sentAtMs, performance.now());
    return response;
  }

  #bearer(): string {
    if (this.#enrolled === null) throw new Error("the executor calls its gateway before it has enrolled");
    const nowMs = this.clock.nowMs();
    // Also renewed where the clock was corrected backwards, for the token would then be from the future.
    const lifeMs = (LIMITS.executorTokenTtlS * 1000) / 2;
    if (this.#token === null || nowMs > this.#token.useUntilMs || nowMs < this.#token.useUntilMs - lifeMs) {
      const { executorId, issuer } = this.#enrolled;
      this.#token = { text: this.#identity.token(executorId, issuer, nowMs), useUntilMs: nowMs + lifeMs };
    }
    return this.#token.text;
  }

  /** The body of an answer, or the refusal that it is. */
  async #post(
    connections: GatewayConnections,
    path: string,
    content: Blob | Uint8Array<ArrayBuffer>,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array> | DsecError> {
    const headers = { authorization: `Bearer ${this.#bearer()}`, "content-type": CALL_TYPE };
    const sentAtMs = performance.now();
    let answer: GatewayAnswer;
    try {
      const timeoutMs = ANSWER_TIMEOUT_MS + waitMs;
      answer = await connections.post(path, headers, content, { timeoutMs, signal });
    } catch (cause) {
      signal.throwIfAborted();
      throw this.#unreachable("POST", path, (cause as Error).message, cause);
    }
    this.clock.observe(answer.header("date"), sentAtMs, performance.now());
    if (answer.status === 200) return answer.body;
    let text: string;
    try {
      text = await textOf(answer.body);
    } catch (cause) {
      return this.#unreachable("POST", path, "its answer broke off", cause);
    }
    return this.#refusal("POST", path, answer.status, answer.header("retry-after"), text);
  }

  #refusal(method: string, path: string, status: number, retryAfter: string | null, text: string): DsecError {
    let parsed: z.infer<typeof ErrorBodySchema> | undefined;
    try {
      parsed = ErrorBodySchema.parse(parseJson(text, "error answer"));
    } catch {
      return this.#unreachable(method, path, `status ${status} without an error of this protocol`);
    }
    const { code, message, details } = parsed.error;
    const retryAfterS = Number(retryAfter ?? Number.NaN);
    return new DsecError(code, message, {
      details: {
        ...details,
        ...(Number.isFinite(retryAfterS) ? { retry_after_ms: retryAfterS * 1000 } : {}),
      },
    });
  }

  #unreachable(method: string, path: string, why: string, cause?: unknown): DsecError {
    const message = `gateway ${this.#url}: ${method} ${path}: ${why}`;
    return new DsecError("GATEWAY_UNREACHABLE", message.slice(0, LIMITS.errorTextChars), { cause });
  }
}

/** Of a refusal: whatever answers with more than that is no gateway of ours. */
async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of body) {
    size += part.length;
    if (size > LIMITS.requestBodyBytes) throw new Error("it is too long for a refusal");
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

export type CallOptions = {
  json?: unknown;
  body?: Blob | Uint8Array<ArrayBuffer>;
  /** of the body, which otherwise is application/octet-stream */
  contentType?: string;
  idempotencyKey?: string;
  /** in place of the executor's own token */
  apiKey?: string;
  signal?: AbortSignal;
  /** how long the answer may take beyond the usual */
  waitMs?: number;
};

/** True where the gateway has refused for good: the lease is another's or nobody's, whatever is tried. */
export function isLeaseLost(error: unknown): boolean {
  return error instanceof DsecError && LEASE_LOST.has(error.code);
}

const LEASE_LOST = new Set<ErrorCode>([
  "LEASE_FENCED",
  "LEASE_EXPIRED",
  "LEASE_NOT_FOUND",
  "TASK_ALREADY_FINISHED",
  "TASK_NOT_FOUND",
]);
