import { DsecError, type ErrorCode } from "#core/errors.ts";
import type { Digest, ExecutorId, LeaseId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { faultText, readAs } from "#core/schema-faults.ts";
import { CALL_TYPE, type CallHead, ReceiptPageSchema } from "#core/wire/calls.ts";
import {
  type Enrolment,
  EnrolResponseSchema,
  type HeartbeatRequest,
  HeartbeatResponseSchema,
} from "#core/wire/executors.ts";
import {
  type AcquireRequest,
  CancellationsResponseSchema,
  type CompleteRequest,
  type EventsRequest,
  EventsResponseSchema,
  type FailRequest,
  GrantsSchema,
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
import { TaskSpecSchema } from "#core/wire/tasks.ts";
import { TracePartResponseSchema } from "#core/wire/trace.ts";
import { signEnrolment } from "#trace/attestation/enrolment.ts";
import { dialTunnel, type GatewayTunnel } from "./egress/gateway-tunnel.ts";
import { BUILD } from "./evidence.ts";
import { type Fetch, GatewayCalls } from "./gateway-calls.ts";
import type { GatewayClock } from "./gateway-clock.ts";
import type { Identity } from "./identity.ts";
import type { MessageGateway } from "./messages/bus.ts";
import { messageGateway } from "./messages/message-gateway.ts";

/** Uploads and downloads slower than this are given up and tried anew. */
const TRANSFER_BYTES_PER_MS = 256;

/** Leases that were granted: those to run, and those whose tasks are none for this executor. */
export type Granted = { leases: Lease[]; unsupported: Unsupported[] };
/** The error is TASK_UNSUPPORTED. */
export type Unsupported = { hold: Hold; error: DsecError };

/**
 * The executor's calls to its gateway, one method for each route. A call is made once and rejects with the
 * gateway's own code, or GATEWAY_UNREACHABLE where no answer of a gateway came; `retry.ts` decides about more.
 */
export class GatewayClient {
  readonly messages: MessageGateway;
  readonly #calls: GatewayCalls;
  readonly #sign: Identity["sign"];

  /** @param options.fetch in place of HTTP, for a gateway in the same process */
  constructor(options: { gatewayUrl: string; fetch?: Fetch | undefined; identity: Identity }) {
    this.#calls = new GatewayCalls(options);
    this.#sign = options.identity.sign;
    this.messages = messageGateway(this.#calls);
  }

  get clock(): GatewayClock {
    return this.#calls.clock;
  }

  /** Enrols with an API key of scope `executors:enrol`. The same key pair gets the same executor id each time. */
  async enrol(apiKey: string, enrolment: Enrolment): Promise<ExecutorId> {
    const once = async () => {
      const json = await signEnrolment(enrolment, { apiKey, nowMs: this.clock.nowMs(), sign: this.#sign });
      return this.#calls.json(EnrolResponseSchema, "POST", "/v1/executors/enrol", { json, apiKey });
    };
    const answer = await once().catch((error: unknown) => {
      // By this host's clock, which the very refusal has corrected: once more.
      if (error instanceof DsecError && error.code === "ENROLMENT_UNTIMELY") return once();
      throw error;
    });
    const executorId = answer.executor_id as ExecutorId;
    this.#calls.enrolled(executorId, answer.issuer);
    return executorId;
  }

  async heartbeat(beat: HeartbeatRequest, signal: AbortSignal): Promise<{ draining: boolean }> {
    return this.#calls.json(HeartbeatResponseSchema, "POST", "/v1/executors/heartbeat", {
      json: beat,
      signal,
    });
  }

  async acquire(request: AcquireRequest, signal: AbortSignal): Promise<Granted> {
    const waitMs = request.wait_ms;
    const answer = await this.#calls.json(GrantsSchema, "POST", "/v1/leases", {
      json: request,
      signal,
      waitMs,
    });
    const granted: Granted = { leases: [], unsupported: [] };
    for (const lease of answer.leases) {
      const spec = readAs(TaskSpecSchema, lease.spec);
      if (spec.ok) granted.leases.push({ ...lease, spec: spec.value });
      else granted.unsupported.push(unsupported(lease, faultText(spec.faults[0])));
    }
    return granted;
  }

  /** Has the gateway answer the poll that stands, with what it has by now. */
  async endPoll(signal: AbortSignal): Promise<void> {
    await this.#calls.done("POST", "/v1/leases/end-poll", { signal });
  }

  async renew(leases: Hold[], signal: AbortSignal): Promise<RenewResponse> {
    return this.#calls.json(RenewResponseSchema, "POST", "/v1/leases/renew", { json: { leases }, signal });
  }

  /** Holds of this executor whose tasks were cancelled, as soon as there is one or after `waitMs`. */
  async cancellations(waitMs: number, signal: AbortSignal): Promise<Hold[]> {
    const path = `/v1/leases/cancellations?wait_ms=${waitMs}`;
    return (await this.#calls.json(CancellationsResponseSchema, "GET", path, { signal, waitMs })).leases;
  }

  /** Stores that commands run, and their live output; returns the leases that are held no more. */
  async sendEvents(events: EventsRequest["events"], signal: AbortSignal): Promise<LeaseId[]> {
    const answer = await this.#calls.json(EventsResponseSchema, "POST", "/v1/leases/events", {
      json: { events },
      signal,
    });
    return answer.lost as LeaseId[];
  }

  async complete(leaseId: string, request: CompleteRequest, signal: AbortSignal): Promise<void> {
    await this.#calls.done("POST", `/v1/leases/${leaseId}/complete`, { json: request, signal });
  }

  async fail(leaseId: string, request: FailRequest, signal: AbortSignal): Promise<void> {
    await this.#calls.done("POST", `/v1/leases/${leaseId}/fail`, { json: request, signal });
  }

  async release(hold: Hold, signal: AbortSignal): Promise<void> {
    await this.#calls.done("POST", `/v1/leases/${hold.lease_id}/release`, {
      json: { fence: hold.fence },
      signal,
    });
  }

  /** Uploads content under its digest on behalf of a lease. */
  async putBlob(hold: Hold, digest: Digest, content: Blob, signal: AbortSignal): Promise<void> {
    await this.#calls.done("PUT", `/v1/leases/${hold.lease_id}/blobs/${digest}?fence=${hold.fence}`, {
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
    return (await this.#calls.json(TracePartResponseSchema, "POST", path, { body: bytes, signal, waitMs }))
      .size;
  }

  /**
   * What was recorded of an earlier attempt of the task whose lease is held: the newest whose fence is below `before`.
   * OUTPUT_NOT_FOUND where there is none.
   */
  async earlierTrace(hold: Hold, before: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const path = `/v1/leases/${hold.lease_id}/trace?fence=${hold.fence}&before=${before}`;
    return this.#content(path, LIMITS.eventLogBytes, signal);
  }

  /** The content of an artifact as it comes; the caller checks its digest. */
  async getArtifact(digest: Digest, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    return this.#content(`/v1/artifacts/${digest}`, LIMITS.artifactBytes, signal);
  }

  /** Content as it comes. Reading it rejects with GATEWAY_UNREACHABLE where it breaks off, as the call does. */
  async #content(path: string, maxBytes: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const waitMs = maxBytes / TRANSFER_BYTES_PER_MS;
    const { body } = await this.#calls.call("GET", path, { signal, waitMs });
    return unbroken(body, `gateway ${this.#calls.url}: GET ${path}`, signal);
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
    return (await this.#calls.call("POST", path, { body: request, contentType: CALL_TYPE, signal, waitMs }))
      .body;
  }

  /** A connection that is passed through, opaque TLS or a WebSocket (egress/gateway-tunnel.ts). */
  tunnel(hold: Hold, head: CallHead, signal: AbortSignal): Promise<GatewayTunnel> {
    const url = `${this.#calls.url.replace(/^http/, "ws")}/v1/leases/${hold.lease_id}/tunnel?fence=${hold.fence}`;
    return dialTunnel(url, `Bearer ${this.#calls.bearer()}`, head, signal);
  }

  /** The policy of the lease's task as it is now. */
  async policy(hold: Hold, signal: AbortSignal): Promise<Policy> {
    const path = `/v1/leases/${hold.lease_id}/policy?fence=${hold.fence}`;
    return this.#calls.json(PolicySchema, "GET", path, { signal });
  }

  /** Receipts of the lease's calls, for those whose answers were lost. */
  async receipts(hold: Hold, cursor: string | null, signal: AbortSignal) {
    const page = `limit=${LIMITS.pageMax}${cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
    const path = `/v1/leases/${hold.lease_id}/receipts?fence=${hold.fence}&${page}`;
    return this.#calls.json(ReceiptPageSchema, "GET", path, { signal });
  }

  /** What is to be injected into sandboxes of this executor, as soon as there is something or after `waitMs`. */
  async observations(
    waitMs: number,
    received: ObservationsPoll["received"],
    signal: AbortSignal,
  ): Promise<ObservationForLease[]> {
    const json = { wait_ms: waitMs, received };
    const answer = await this.#calls.json(ObservationsForLeasesSchema, "POST", "/v1/leases/observations", {
      ...{ json, signal, waitMs },
    });
    return answer.observations;
  }
}

function unsupported({ lease_id, fence, task_id }: Hold & { task_id: string }, fault: string): Unsupported {
  const message =
    `task ${task_id}: its spec is none that ${BUILD} runs: ${fault}; ` +
    "submit it anew as this says, or run executors of the version that took it";
  return { hold: { lease_id, fence }, error: new DsecError("TASK_UNSUPPORTED", message) };
}

async function* unbroken(
  body: AsyncIterable<Uint8Array>,
  call: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (cause) {
    signal.throwIfAborted();
    throw new DsecError("GATEWAY_UNREACHABLE", `${call}: its answer broke off`, { cause });
  }
}

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
