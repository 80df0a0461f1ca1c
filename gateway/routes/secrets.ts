/** Secrets of an API key, which policies name and the proxy injects. Nobody reads a value back. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import { DsecError } from "#core/errors.ts";
import type { KeyId } from "#core/ids.ts";
import { SecretCreateSchema, SecretListSchema, SecretNameSchema, SecretSchema } from "#core/wire/secrets.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { sealContext } from "../proxy/secrets.ts";
import { json, noContent } from "../reply.ts";

export function secretRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store, secretCipher } = gateway;
  const access = ["tasks"] as const;
  const tag = "secrets";

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/secrets",
      tag,
      summary: "Make or replace a secret",
      description:
        "Only tasks of the same key can use it, and only for the hosts that it names. Running tasks use a new value within a second.",
      access,
      body: SecretCreateSchema,
      responses: {
        201: { description: "made", body: SecretSchema },
        200: { description: "replaced", body: SecretSchema },
      },
    },
    async (c, { caller, body: { name, value, hosts } }) => {
      if (secretCipher === undefined) {
        throw new DsecError("PROXY_UNAVAILABLE", "this gateway has no key to seal secrets with");
      }
      const keyId = caller.key.id as KeyId;
      const sealed = await secretCipher.seal(value, sealContext(keyId, { name, hosts }));
      const { secret, created } = await store.putSecret(keyId, { name, hosts, sealed });
      return json(c, secret, created ? 201 : 200);
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/secrets",
      tag,
      summary: "List the key's secrets, without their values",
      access,
      responses: { 200: { description: "all of them", body: SecretListSchema } },
    },
    async (c, { caller }) => json(c, { items: await store.listSecrets(caller.key.id as KeyId) }),
  );

  serve(
    app,
    gateway,
    {
      method: "delete",
      path: "/v1/secrets/{name}",
      tag,
      summary: "Delete a secret",
      description: "Calls whose policy names it are refused within a second.",
      access,
      params: z.strictObject({ name: SecretNameSchema }),
      responses: { 204: { description: "gone", body: null } },
    },
    async (c, { caller, params }) => {
      await store.deleteSecret(caller.key.id as KeyId, params.name);
      return noContent(c);
    },
  );

  return app;
}
