/** Leases while they are held. Every write carries the fence, and the store's own statement refuses a stale one. */
import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import { LIMITS } from "#core/limits.ts";
import { fromWire } from "#core/wire/common.ts";
import {
  AcquireRequestSchema,
  AcquireResponseSchema,
  CancellationsQuerySchema,
  CancellationsResponseSchema,
  EventsRequestSchema,
  EventsResponseSchema,
  type Lease,
  RenewRequestSchema,
  RenewResponseSchema,
} from "#core/wire/leases.ts";
import type { ExecutorCaller } from "../auth.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { json } from "../reply.ts";
import { longPoll } from "./long-poll.ts";

export function leaseRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store } = gateway;
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
        "Long poll with the free resource vector: answers with up to `max_leases` tasks that fit together, or with none after `wait_ms` or once `POST /v1/leases/end-poll` is called.",
      access,
      body: AcquireRequestSchema,
      waits: true,
      responses: { 200: { description: "the leases granted", body: AcquireResponseSchema } },
    },
    async (c, { caller, body }) => {
      const free = fromWire(body.free);
      const ended = new AbortController();
      const unfollow = gateway.wake.follow(`end-poll:${caller.executorId}`, () => ended.abort());
      const leases = await longPoll(gateway, c, {
        topic: "queue",
        ended: ended.signal,
        waitMs: body.wait_ms,
        look: async () => {
          const granted = await store.acquireLeases(caller.executorId, free, body.max_leases);
          return granted.length > 0 ? granted : null;
        },
        meanwhile: async (sleep) => {
          const granted = await store.awaitLease(caller.executorId, free, sleep);
          return granted === null ? null : [granted];
        },
      }).finally(unfollow);
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
      path: "/v1/leases/end-poll",
      tag,
      summary: "End the polls for leases that stand",
      description:
        "Those of the calling executor, at whichever gateway, are answered now with what they have. For an executor of which more came free than its poll offers: the next poll then offers all of it. A poll that has not arrived yet is not ended.",
      access,
      responses: { 204: { description: "they are being answered", body: null } },
    },
    async (c, { caller }) => {
      gateway.wake.notify(`end-poll:${caller.executorId}`);
      return c.body(null, 204);
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
      summary: "Say that commands run, and send their live output",
      description:
        "A batch over all leases of the executor. Events of leases that are lost are refused, the others kept.",
      access,
      body: EventsRequestSchema,
      bodyMaxBytes: LIMITS.eventsBodyBytes,
      responses: { 200: { description: "leases that were lost", body: EventsResponseSchema } },
    },
    async (c, { caller, body }) => json(c, await store.appendEvents(caller.executorId, body.events)),
  );

  return app;
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
