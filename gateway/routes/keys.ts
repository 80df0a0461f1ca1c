/** API keys, managed by administrators. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import { DsecError } from "#core/errors.ts";
import type { KeyId } from "#core/ids.ts";
import { KeyIdSchema, PageQuerySchema } from "#core/wire/common.ts";
import { KeyCreatedSchema, KeyCreateSchema, KeyPageSchema, KeySchema } from "#core/wire/keys.ts";
import { mintKey } from "../auth.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { json } from "../reply.ts";

export function keyRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store, auth, now } = gateway;
  const access = ["admin"] as const;
  const tag = "keys";

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/keys",
      tag,
      summary: "Create an API key",
      description:
        "The answer is the only one that ever holds the secret; there is no Idempotency-Key to repeat it.",
      access,
      body: KeyCreateSchema,
      responses: { 201: { description: "the key and its secret", body: KeyCreatedSchema } },
    },
    async (c, { body: { name, scopes, expires_at } }) => {
      if (expires_at !== null && Date.parse(expires_at) <= now()) {
        throw new DsecError(
          "INVALID_REQUEST",
          `the request body: expires_at: ${expires_at} has passed already`,
        );
      }
      const { id, secret, secretHash } = await mintKey();
      const key = await store.createKey({
        id,
        name,
        scopes: [...new Set(scopes)],
        expiresAt: expires_at,
        secretHash,
      });
      return json(c, { ...key, secret }, 201);
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/keys",
      tag,
      summary: "List API keys",
      access,
      query: PageQuerySchema,
      responses: { 200: { description: "a page of keys, without secrets", body: KeyPageSchema } },
    },
    async (c, { query }) => json(c, await store.listKeys(query)),
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/keys/{id}/revoke",
      tag,
      summary: "Revoke an API key",
      description: "Every gateway refuses it within a second. Its running tasks go on.",
      access,
      params: z.strictObject({ id: KeyIdSchema }),
      responses: { 200: { description: "the key", body: KeySchema } },
    },
    async (c, { params }) => {
      const key = await store.revokeKey(params.id as KeyId);
      auth.forgetKey(params.id as KeyId);
      return json(c, key);
    },
  );
  return app;
}
