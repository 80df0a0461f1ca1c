/** Attestations, and the keys that verify them. */
import { OpenAPIHono } from "@hono/zod-openapi";
import type { TaskId } from "#core/ids.ts";
import {
  AttestationListSchema,
  JwksSchema,
  VerifyRequestSchema,
  VerifyResponseSchema,
} from "#core/wire/attestations.ts";
import { verifyAttestation } from "#trace/attestation/verify.ts";
import { ownerOf } from "../auth.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { json } from "../reply.ts";
import { TaskParams } from "./tasks.ts";

export function attestationRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store, keys, config, now } = gateway;
  const tag = "attestations";

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/tasks/{id}/attestations",
      tag,
      summary: "Get a task's attestations",
      description: "One for each attempt that ended under a living executor, newest first.",
      access: ["tasks", "admin"],
      params: TaskParams,
      responses: { 200: { description: "the attestations", body: AttestationListSchema } },
    },
    async (c, { caller, params }) =>
      json(c, { items: await store.listAttestations(params.id as TaskId, ownerOf(caller)) }),
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/attestations/verify",
      tag,
      summary: "Verify an attestation of this gateway",
      description:
        "For convenience: it asks for this gateway's word. The JWKS and any JOSE library do the same offline.",
      access: [],
      body: VerifyRequestSchema,
      responses: { 200: { description: "it holds; its claims", body: VerifyResponseSchema } },
    },
    async (c, { body }) => {
      const claims = await verifyAttestation(body.jwt, {
        jwks: keys.jwks(),
        issuer: config.issuer,
        nonce: body.nonce,
        now: now(),
      });
      return json(c, { valid: true, claims });
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/.well-known/jwks.json",
      tag,
      summary: "The keys that verify attestations (RFC 7517)",
      description:
        "The current key, the next one ahead of its use, and retired ones while a token of theirs is valid.",
      access: [],
      responses: { 200: { description: "the key set", body: JwksSchema } },
    },
    (c) => {
      // Short beside the time that the next key is published ahead, so that no verifier meets a key it cannot find.
      c.header("Cache-Control", "public, max-age=300");
      c.header("Access-Control-Allow-Origin", "*");
      return json(c, keys.jwks());
    },
  );
  return app;
}
