/** How an attempt ends: what it left is uploaded, the evidence over it is judged, and the lease is over. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import { DsecError } from "#core/errors.ts";
import type { Digest, LeaseId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Outcome } from "#core/task.ts";
import { DigestSchema, LeaseIdSchema } from "#core/wire/common.ts";
import {
  BlobQuerySchema,
  CompleteRequestSchema,
  type FailRequest,
  FailRequestSchema,
  type Hold,
  ReleaseRequestSchema,
} from "#core/wire/leases.ts";
import { type Result, TaskSchema } from "#core/wire/tasks.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import type { HeldLease } from "../ports.ts";
import { contentSize, json, noContent } from "../reply.ts";
import { rawBody } from "../request.ts";
import { issueAttestation, type Reported } from "../signing/issue.ts";

export const LeaseParams = z.strictObject({ id: LeaseIdSchema });
const BlobParams = LeaseParams.extend({ digest: DigestSchema });

export function leaseEndRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store, blobs } = gateway;
  const access = ["executor"] as const;
  const tag = "leases";

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
      description:
        "The task is queued again while it has retries left, else it is dead. Where its command had ended, it is dead at once, as record_failed: nothing is run twice.",
      access,
      params: LeaseParams,
      body: FailRequestSchema,
      responses: { 200: { description: "the task as it is now", body: TaskSchema } },
    },
    async (c, { caller, params, body }) => {
      const hold = holdOf(params.id, body.fence);
      const outcome = outcomeOf(body);
      const attestation =
        body.evidence === null
          ? null
          : await attest(gateway, await store.findLease(caller.executorId, hold), { outcome }, body.evidence);
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

function outcomeOf({ message, ended }: FailRequest): Outcome {
  if (ended === null) return { reason: "launch_failed", exit_code: null, signal: null, message };
  return { reason: "record_failed", ...ended, message };
}

export function holdOf(id: string, fence: number): Hold {
  return { lease_id: id as LeaseId, fence };
}

async function attest(
  { keys, config, now, blobs, metrics, crypto, store }: Gateway,
  held: HeldLease,
  result: Reported,
  evidence: string,
) {
  const attestation = await issueAttestation({
    keys,
    issuer: config.issuer,
    now: now(),
    held,
    result,
    evidence,
    calls: await finishedCalls(store, held),
    blobSize: (digest) => contentSize(blobs, digest),
    crypto,
  });
  metrics.count("dsec_attestations_issued_total", "Attestations issued.");
  return attestation;
}

/** A call that is still running could get a receipt that the evidence cannot know of. */
async function finishedCalls(store: Gateway["store"], { taskId, leaseId, fence }: HeldLease) {
  const { open, ...calls } = await store.summarizeCalls(taskId, fence);
  if (open === 0) return calls;
  throw new DsecError(
    "EVIDENCE_MISMATCH",
    `lease ${leaseId} of task ${taskId}: ${open} of its calls have no receipt yet; wait for them or for their time to pass`,
    { details: { member: "calls.count", open } },
  );
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
