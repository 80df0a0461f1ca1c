/** What was recorded of a task's attempts. */
import { OpenAPIHono } from "@hono/zod-openapi";
import { decodeJwt } from "jose";
import { DsecError } from "#core/errors.ts";
import type { Digest, KeyId, TaskId } from "#core/ids.ts";
import { type AttestationClaims, AttestationClaimsSchema } from "#core/wire/attestations.ts";
import { TraceQuerySchema } from "#core/wire/trace.ts";
import { ownerOf } from "../auth.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { content } from "../reply.ts";
import { TaskParams } from "./tasks.ts";

export function traceRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/tasks/{id}/trace",
      tag: "tasks",
      summary: "Download the trace of a task",
      description:
        "The sealed recording of one attempt, the newest unless `attempt` says which. Its count, chain head and digest are in that attempt's attestation. Attempts that failed have theirs too.",
      access: ["tasks", "admin"],
      params: TaskParams,
      query: TraceQuerySchema,
      responses: { 200: { description: "the file, unchanged", body: "application/octet-stream" } },
    },
    async (c, { caller, params, query }) => {
      const id = params.id as TaskId;
      const { attempt, trace } = (await attestedClaims(gateway, id, ownerOf(caller), query.attempt)).dsec;
      if (trace === null) {
        throw new DsecError(
          "OUTPUT_NOT_FOUND",
          `attempt ${attempt} of ${id} came to no sandbox: nothing was recorded`,
        );
      }
      const missing = () =>
        new DsecError(
          "OUTPUT_NOT_FOUND",
          `the trace of attempt ${attempt} of ${id} is no longer in the blob store`,
        );
      const name = `${id}-${attempt}.trace`;
      return content(c, gateway.blobs, { digest: trace.digest as Digest, size: trace.size, name, missing });
    },
  );

  return app;
}

/** What was attested of an attempt; of the newest that was, where none is named. */
async function attestedClaims(
  { store }: Gateway,
  id: TaskId,
  owner: KeyId | null,
  attempt: number | undefined,
): Promise<AttestationClaims> {
  // Our own signatures, made from the evidence and kept beside it; the newest first.
  const attested = (await store.listAttestations(id, owner)).map(({ jwt }) =>
    AttestationClaimsSchema.parse(decodeJwt(jwt)),
  );
  const found = attested.find(({ dsec }) => attempt === undefined || dsec.attempt === attempt);
  if (found !== undefined) return found;
  const { state } = await store.getTask(id, owner);
  const attempts = attested.map(({ dsec }) => dsec.attempt).join(", ");
  const which = attempt === undefined ? "no attempt of it" : `attempt ${attempt} of it never`;
  throw new DsecError(
    "OUTPUT_NOT_FOUND",
    `${id} is ${state} and ${which} ended under a living executor; ${attempts === "" ? "wait for its end" : `there are traces of ${attempts}`}`,
  );
}
