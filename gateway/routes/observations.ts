/** Observations that an owner puts into a running sandbox; its trace says who did. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import type { KeyId, TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import {
  ObservationRequestSchema,
  ObservationSchema,
  ObservationsForLeasesSchema,
  ObservationsPollSchema,
} from "#core/wire/observations.ts";
import { ownerOf } from "../auth.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { json } from "../reply.ts";
import { longPoll } from "./long-poll.ts";
import { idempotencyKeyOf, TaskParams } from "./tasks.ts";

export function observationRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store } = gateway;

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/tasks/{id}/observations",
      tag: "tasks",
      summary: "Put an observation into a running sandbox",
      description:
        "The agent is given it with its next answer, and the trace says which key injected it. For a task that is still queued it waits for the sandbox.",
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
        look: async () => {
          const waiting = await store.waitingObservations(caller.executorId);
          return waiting.length > 0 ? waiting : null;
        },
      });
      return json(c, { observations: observations ?? [] });
    },
  );

  return app;
}
