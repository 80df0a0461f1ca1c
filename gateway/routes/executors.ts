/** Executors: they enrol once, then say now and then that they live; administrators list and drain them. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import { type ExecutorId, newId } from "#core/ids.ts";
import { ExecutorIdSchema, PageQuerySchema } from "#core/wire/common.ts";
import {
  EnrolRequestSchema,
  EnrolResponseSchema,
  ExecutorPageSchema,
  ExecutorSchema,
  HeartbeatRequestSchema,
  HeartbeatResponseSchema,
} from "#core/wire/executors.ts";
import { verifyEnrolment } from "#trace/attestation/enrolment.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { json } from "../reply.ts";

export function executorRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store, config } = gateway;
  const tag = "executors";

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/executors/enrol",
      tag,
      summary: "Enrol an executor",
      description:
        "Afterwards the executor signs its own tokens with the key it enrolled. Its signature proves that it holds that key, and now: `iat` is the time of it by this gateway's `Date` header. Enrolling the same key again returns the same executor.",
      access: ["executors:enrol"],
      body: EnrolRequestSchema,
      responses: {
        200: { description: "its id, and the audience of its tokens", body: EnrolResponseSchema },
      },
    },
    async (c, { caller, body }) => {
      await verifyEnrolment(body, { keyId: caller.key.id, nowMs: gateway.now() });
      const executor_id = await store.enrolExecutor(newId("executor"), body);
      return json(c, { executor_id, issuer: config.issuer });
    },
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/executors/heartbeat",
      tag,
      summary: "Say that the executor lives, and what it has free",
      access: ["executor"],
      body: HeartbeatRequestSchema,
      responses: { 200: { description: "whether it is to drain", body: HeartbeatResponseSchema } },
    },
    async (c, { caller, body }) => json(c, await store.heartbeat(caller.executorId, body)),
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/executors",
      tag,
      summary: "List executors",
      access: ["admin"],
      query: PageQuerySchema,
      responses: { 200: { description: "a page of executors", body: ExecutorPageSchema } },
    },
    async (c, { query }) => json(c, await store.listExecutors(query)),
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/executors/{id}/drain",
      tag,
      summary: "Drain an executor",
      description: "It gets no new leases; what it runs may end.",
      access: ["admin"],
      params: z.strictObject({ id: ExecutorIdSchema }),
      responses: { 200: { description: "the executor", body: ExecutorSchema } },
    },
    async (c, { params }) => json(c, await store.drainExecutor(params.id as ExecutorId)),
  );
  return app;
}
