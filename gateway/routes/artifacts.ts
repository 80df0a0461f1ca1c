/** Immutable content that tasks take as input. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import { DsecError } from "#core/errors.ts";
import type { Digest, KeyId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { DigestSchema } from "#core/wire/common.ts";
import { ArtifactQuerySchema, ArtifactSchema } from "#core/wire/tasks.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { content, json } from "../reply.ts";
import { rawBody } from "../request.ts";

export function artifactRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store, blobs } = gateway;

  serve(
    app,
    gateway,
    {
      method: "put",
      path: "/v1/artifacts",
      tag: "artifacts",
      summary: "Upload an artifact",
      description:
        "The body is the content. With `digest`, content of any other digest is refused (DIGEST_MISMATCH) and nothing is kept.",
      access: ["tasks"],
      query: ArtifactQuerySchema,
      body: "bytes",
      responses: { 201: { description: "its address and size in bytes", body: ArtifactSchema } },
    },
    async (c, { caller, query }) => {
      const body = rawBody(c, LIMITS.artifactBytes);
      const { digest, size } = await blobs.put(query.digest ?? null, body, LIMITS.artifactBytes);
      // After the content is safe: a record must never name what is not there.
      await store.recordArtifact(caller.key.id as KeyId, digest, size);
      return json(c, { artifact: digest, size }, 201);
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/artifacts/{digest}",
      tag: "artifacts",
      summary: "Download an artifact",
      description: "A key gets what it uploaded or what its tasks put out; an executor gets any.",
      access: ["tasks", "executor"],
      params: z.strictObject({ digest: DigestSchema }),
      responses: { 200: { description: "the bytes, unchanged", body: "application/octet-stream" } },
    },
    async (c, { caller, params }) => {
      const digest = params.digest as Digest;
      const missing = () =>
        new DsecError(
          "ARTIFACT_NOT_FOUND",
          `${digest} is not here for you; upload it first (PUT /v1/artifacts)`,
        );
      if (caller.kind === "key") {
        const unknown = await store.unknownArtifacts(caller.key.id as KeyId, [digest]);
        if (unknown.length > 0) throw missing();
      }
      return content(c, blobs, { digest, size: null, name: digest.slice("sha256:".length), missing });
    },
  );
  return app;
}
