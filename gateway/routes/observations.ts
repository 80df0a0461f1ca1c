/** Observations that an owner puts into a running sandbox, and the event log in which they are found again. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import { decodeJwt } from "jose";
import { DsecError } from "#core/errors.ts";
import type { Digest, KeyId, TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { type AttestationClaims, AttestationClaimsSchema } from "#core/wire/attestations.ts";
import {
  ObservationRequestSchema,
  ObservationSchema,
  ObservationsForLeasesSchema,
  ObservationsPollSchema,
} from "#core/wire/observations.ts";
import { ownerOf } from "../auth.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { content, json } from "../reply.ts";
import { longPoll } from "./long-poll.ts";
import { idempotencyKeyOf, TaskParams } from "./tasks.ts";

const POLL_MS = 1_000;

export function observationRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store, blobs } = gateway;

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/tasks/{id}/observations",
      tag: "tasks",
      summary: "Put an observation into a running sandbox",
      description:
        "The agent is given it with its next answer, and the event log says which key injected it. For a task that is still queued it waits for the sandbox.",
      access: ["tasks", "admin"],
      params: TaskParams,
      headers: z.object({ "idempotency-key": z.string().min(1).max(LIMITS.idempotencyKeyChars).optional() }),
      body: ObservationRequestSchema,
      responses: {
        201: { description: "the observation, on its way", body: ObservationSchema },
        200: {
          description: "the observation that this Idempotency-Key made before",
          body: ObservationSchema,
        },
      },
    },
    async (c, { caller, params, body }) => {
      const { observation, created } = await store.addObservation({
        taskId: params.id as TaskId,
        owner: ownerOf(caller),
        keyId: caller.key.id as KeyId,
        content: body.content,
        idempotencyKey: idempotencyKeyOf(c),
      });
      return json(c, observation, created ? 201 : 200);
    },
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/leases/observations",
      tag: "leases",
      summary: "Wait for observations",
      description:
        "Long poll: what is to be put into sandboxes of this executor, until it says in `received` that it is there.",
      access: ["executor"],
      body: ObservationsPollSchema,
      waits: true,
      responses: {
        200: { description: "observations by lease, in order", body: ObservationsForLeasesSchema },
      },
    },
    async (c, { caller, body }) => {
      await store.observationsReceived(caller.executorId, body.received);
      const observations = await longPoll(gateway, c, {
        topic: `observe:${caller.executorId}`,
        waitMs: body.wait_ms,
        pollMs: POLL_MS,
        look: async () => {
          const waiting = await store.waitingObservations(caller.executorId);
          return waiting.length > 0 ? waiting : null;
        },
      });
      return json(c, { observations: observations ?? [] });
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/tasks/{id}/log",
      tag: "tasks",
      summary: "Download a task's event log",
      description:
        "JSON lines: everything that the deciding attempt did through its socket. Its count, chain head and digest are in the attestation.",
      access: ["tasks", "admin"],
      params: TaskParams,
      responses: { 200: { description: "the bytes, unchanged", body: "application/octet-stream" } },
    },
    async (c, { caller, params }) => {
      const id = params.id as TaskId;
      const { events } = (await attestedClaims(gateway, id, ownerOf(caller))).dsec;
      const missing = () =>
        new DsecError("OUTPUT_NOT_FOUND", `the event log of ${id} is no longer in the blob store`);
      return content(c, blobs, {
        digest: events.digest as Digest,
        size: events.size,
        name: `${id}.events.jsonl`,
        missing,
      });
    },
  );

  return app;
}

/** What was attested of the attempt that decided. */
async function attestedClaims(
  { store }: Gateway,
  id: TaskId,
  owner: KeyId | null,
): Promise<AttestationClaims> {
  const task = await store.getTask(id, owner);
  const attestations = await store.listAttestations(id, owner);
  const deciding = attestations.find((attestation) => attestation.id === task.attestation_id);
  if (deciding === undefined) {
    throw new DsecError(
      "OUTPUT_NOT_FOUND",
      `${id} is ${task.state} and no attempt of it has been attested; wait for its end`,
    );
  }
  // Our own signature, made from the evidence and kept beside it.
  return AttestationClaimsSchema.parse(decodeJwt(deciding.jwt));
}
