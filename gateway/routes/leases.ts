/** Leases as executors use them. Every write carries the fence, and the store's own statement refuses a stale one. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { DsecError } from "#core/errors.ts";
import type { Digest, LeaseId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { DigestSchema, fromWire, LeaseIdSchema } from "#core/wire/common.ts";
import {
  AcquireRequestSchema,
  AcquireResponseSchema,
  BlobQuerySchema,
  CancellationsQuerySchema,
  CancellationsResponseSchema,
  CompleteRequestSchema,
  EventsRequestSchema,
  EventsResponseSchema,
  FailRequestSchema,
  type Hold,
  type Lease,
  ReleaseRequestSchema,
  RenewRequestSchema,
  RenewResponseSchema,
  StartRequestSchema,
} from "#core/wire/leases.ts";
import { type Result, TaskSchema } from "#core/wire/tasks.ts";
import type { ExecutorCaller } from "../auth.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import type { HeldLease } from "../ports.ts";
import { contentSize, json, noContent } from "../reply.ts";
import { rawBody } from "../request.ts";
import { issueAttestation } from "../signing/issue.ts";
import { longPoll } from "./long-poll.ts";

const LeaseParams = z.strictObject({ id: LeaseIdSchema });
const BlobParams = LeaseParams.extend({ digest: DigestSchema });
const QUEUE_POLL_MS = 1_000;

export function leaseRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store, blobs } = gateway;
  const access = ["executor"] as const;
  const tag = "leases";

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/leases",
      tag,
      summary: "Acquire leases",
      description:
        "Long poll with the free resource vector: answers with up to `max_leases` tasks that fit together, or with none after `wait_ms`.",
      access,
      body: AcquireRequestSchema,
      waits: true,
      responses: { 200: { description: "the leases granted", body: AcquireResponseSchema } },
    },
    async (c, { caller, body }) => {
      const free = fromWire(body.free);
      const leases = await longPoll(gateway, c, {
        topic: "queue",
        waitMs: body.wait_ms,
        pollMs: QUEUE_POLL_MS,
        look: async () => {
          const granted = await store.acquireLeases(caller.executorId, free, body.max_leases);
          return granted.length > 0 ? granted : null;
        },
      });
      if (leases !== null && c.req.raw.signal.aborted) return giveBack(gateway, c, caller, leases);
      gateway.metrics.count("dsec_leases_granted_total", "Leases granted.", {}, leases?.length ?? 0);
      return json(c, { leases: leases ?? [] });
    },
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/leases/renew",
      tag,
      summary: "Renew leases",
      description: "A lease that is lost must be dropped: kill its sandbox and write nothing more for it.",
      access,
      body: RenewRequestSchema,
      responses: { 200: { description: "each lease, held or lost", body: RenewResponseSchema } },
    },
    async (c, { caller, body }) => json(c, await store.renewLeases(caller.executorId, body.leases)),
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/leases/cancellations",
      tag,
      summary: "Wait for cancellations",
      description: "Long poll: the held leases whose task is to be cancelled, at once when there are any.",
      access,
      query: CancellationsQuerySchema,
      waits: true,
      responses: { 200: { description: "leases to cancel", body: CancellationsResponseSchema } },
    },
    async (c, { caller, query }) => {
      const leases = await longPoll(gateway, c, {
        topic: `cancel:${caller.executorId}`,
        waitMs: query.wait_ms,
        pollMs: LIMITS.cancelNoticeMs,
        look: async () => {
          const asked = await store.listCancellations(caller.executorId);
          return asked.length > 0 ? asked : null;
        },
      });
      return json(c, { leases: leases ?? [] });
    },
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/leases/events",
      tag,
      summary: "Send live output",
      description:
        "A batch over all leases of the executor. Events of leases that are lost are refused, the others kept.",
      access,
      body: EventsRequestSchema,
      bodyMaxBytes: LIMITS.eventsBodyBytes,
      responses: { 200: { description: "leases that were lost", body: EventsResponseSchema } },
    },
    async (c, { caller, body }) => json(c, await store.appendEvents(caller.executorId, body.events)),
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/leases/{id}/start",
      tag,
      summary: "Say that the command runs",
      access,
      params: LeaseParams,
      body: StartRequestSchema,
      responses: { 204: { description: "noted", body: null } },
    },
    async (c, { caller, params, body }) => {
      await store.startLease(caller.executorId, holdOf(params.id, body.fence));
      return noContent(c);
    },
  );

  serve(
    app,
    gateway,
    {
      method: "put",
      path: "/v1/leases/{id}/blobs/{digest}",
      tag,
      summary: "Upload an output or a captured stream",
      description:
        "Before completing: the result may only name content that is here. No bytes need no upload.",
      access,
      params: BlobParams,
      query: BlobQuerySchema,
      body: "bytes",
      responses: { 204: { description: "stored", body: null } },
    },
    async (c, { caller, params, query }) => {
      await store.findLease(caller.executorId, holdOf(params.id, query.fence));
      await blobs.put(params.digest as Digest, rawBody(c, LIMITS.outputFileBytes), LIMITS.outputFileBytes);
      return noContent(c);
    },
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/leases/{id}/complete",
      tag,
      summary: "Complete an attempt",
      description:
        "The evidence is checked against lease, result and uploads, then the attestation is issued. Repeating a call whose answer was lost returns the same task.",
      access,
      params: LeaseParams,
      body: CompleteRequestSchema,
      responses: { 200: { description: "the task, final", body: TaskSchema } },
    },
    async (c, { caller, params, body }) => {
      const hold = holdOf(params.id, body.fence);
      const held = await store.findLease(caller.executorId, hold);
      refuseTooMuch(held, body.result);
      const attestation = await attest(gateway, held, body.result, body.evidence);
      return json(c, await store.completeLease(caller.executorId, hold, body.result, attestation));
    },
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/leases/{id}/fail",
      tag,
      summary: "Report an attempt that a fault of the system ended",
      description: "The task is queued again while it has retries left, else it is dead.",
      access,
      params: LeaseParams,
      body: FailRequestSchema,
      responses: { 200: { description: "the task as it is now", body: TaskSchema } },
    },
    async (c, { caller, params, body }) => {
      const hold = holdOf(params.id, body.fence);
      const attestation =
        body.evidence === null
          ? null
          : await attest(gateway, await store.findLease(caller.executorId, hold), null, body.evidence);
      const outcome = {
        reason: "launch_failed",
        exit_code: null,
        signal: null,
        message: body.message,
      } as const;
      return json(c, await store.failLease(caller.executorId, hold, outcome, attestation));
    },
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/leases/{id}/release",
      tag,
      summary: "Give a lease back unused",
      description: "As on an orderly shutdown: the attempt does not count.",
      access,
      params: LeaseParams,
      body: ReleaseRequestSchema,
      responses: { 200: { description: "the task, queued again", body: TaskSchema } },
    },
    async (c, { caller, params, body }) =>
      json(c, await store.releaseLease(caller.executorId, holdOf(params.id, body.fence))),
  );

  return app;
}

function holdOf(id: string, fence: number): Hold {
  return { lease_id: id as LeaseId, fence };
}

/**
 * The client left while its leases were granted: nobody would run them until they expire. Best effort; what cannot
 * be released expires.
 */
async function giveBack(
  gateway: Gateway,
  c: Context,
  caller: ExecutorCaller,
  leases: Lease[],
): Promise<Response> {
  await Promise.all(
    leases.map(({ lease_id, fence }) =>
      gateway.store.releaseLease(caller.executorId, { lease_id, fence }).catch((error: unknown) => {
        gateway.log({
          level: "warn",
          message: "a lease for a client that left was not released",
          lease_id,
          error: String(error),
        });
      }),
    ),
  );
  return json(c, { leases: [] });
}

async function attest(
  { keys, config, now, blobs, metrics, crypto }: Gateway,
  held: HeldLease,
  result: Result | null,
  evidence: string,
) {
  const attestation = await issueAttestation({
    keys,
    issuer: config.issuer,
    now: now(),
    held,
    result,
    evidence,
    blobSize: (digest) => contentSize(blobs, digest),
    crypto,
  });
  metrics.count("dsec_attestations_issued_total", "Attestations issued.");
  return attestation;
}

/** Each upload is bounded as it comes; their sum can only be judged here. */
function refuseTooMuch(held: HeldLease, result: Result): void {
  const total = result.outputs.reduce((sum, { size }) => sum + size, 0);
  if (total <= LIMITS.outputTotalBytes) return;
  throw new DsecError(
    "OUTPUT_TOO_LARGE",
    `${held.taskId}: the outputs have ${total} bytes together, more than ${LIMITS.outputTotalBytes}`,
  );
}
