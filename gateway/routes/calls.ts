/** Tool calls, for executors: made in one step, or signed first; and the keys that upstreams verify them with. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import type { LeaseId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { JwksSchema } from "#core/wire/attestations.ts";
import { ANSWER_TYPE, CallRequestSchema, CallResponseSchema } from "#core/wire/calls.ts";
import { LeaseIdSchema } from "#core/wire/common.ts";
import { BlobQuerySchema as FenceQuerySchema } from "#core/wire/leases.ts";
import { PolicySchema } from "#core/wire/policy.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { CallBounds } from "../proxy/proxy.ts";
import { json, text } from "../reply.ts";
import { rawBody } from "../request.ts";

export function callRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { proxy, keys } = gateway;
  const access = ["executor"] as const;
  const tag = "calls";

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/leases/{id}/proxy",
      tag,
      summary: "Make a tool call",
      description:
        "The body is the length of the call's head (32 bits, big-endian), the head as JSON, and the body to send. The answer is a stream of frames that ends with the receipt; docs/tool-calls.md has both. By the head's `answer` redirects are followed and content codings undone (`final`), or the answer to this one request comes as it was sent (`verbatim`).",
      access,
      params: z.strictObject({ id: LeaseIdSchema }),
      query: FenceQuerySchema,
      body: "bytes",
      waits: true,
      responses: { 200: { description: "frames", body: ANSWER_TYPE } },
    },
    async (c, { caller, params, query }) => {
      const hold = { lease_id: params.id as LeaseId, fence: query.fence };
      const body = rawBody(c, CALL_BYTES_MAX) as ReadableStream<Uint8Array> & AsyncIterable<Uint8Array>;
      const bounds = new CallBounds();
      bounds.cancelWith(c.req.raw.signal);
      const frames = await proxy.call(caller.executorId, hold, body[Symbol.asyncIterator](), bounds);
      return c.body(streamOf(frames, bounds), 200, { "Content-Type": ANSWER_TYPE });
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/leases/{id}/policy",
      tag,
      summary: "Read the policy in force",
      description:
        "The task's own, or what its owner replaced it with. An executor refuses by it early what would be refused here in any case.",
      access,
      params: z.strictObject({ id: LeaseIdSchema }),
      query: FenceQuerySchema,
      responses: { 200: { description: "the policy", body: PolicySchema } },
    },
    async (c, { caller, params, query }) => {
      const hold = { lease_id: params.id as LeaseId, fence: query.fence };
      return json(c, (await gateway.store.findCallContext(caller.executorId, hold)).policy);
    },
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/calls",
      tag,
      summary: "Sign a tool call that is made later",
      description: "The signature is good for one call with the same members, within its 30 seconds.",
      access,
      body: CallRequestSchema,
      responses: { 200: { description: "the signature", body: CallResponseSchema } },
    },
    async (c, { caller, body }) => {
      const { jws, claims } = await proxy.issue(caller.executorId, body);
      const expires_at = new Date(claims.exp * 1000).toISOString();
      return json(c, { call_signature: jws, expires_at });
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/.well-known/http-message-signatures-directory",
      tag: "verification",
      summary: "Keys of the message signatures on tool calls",
      access: [],
      responses: { 200: { description: "a JWK set", body: JwksSchema } },
    },
    (c) => text(c, JSON.stringify(keys.jwks()), "application/http-message-signatures-directory+json"),
  );

  return app;
}

/** A call's head with its length, and its body. */
export const CALL_BYTES_MAX = 4 + LIMITS.callHeadBytes + LIMITS.callBodyBytes;

/** One frame for each pull, so that a slow reader slows the upstream and nothing piles up in between. */
function streamOf(
  frames: AsyncGenerator<Uint8Array, undefined>,
  bounds: CallBounds,
): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await frames.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        bounds.cancel();
        // Runs to its receipt: who leaves does not undo what was done.
        while (!(await frames.next()).done);
      },
    },
    { highWaterMark: 0 },
  );
}
