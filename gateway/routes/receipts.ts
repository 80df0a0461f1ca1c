/** What came of a task's calls, and the policy that decides about its next ones. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import type { LeaseId, TaskId } from "#core/ids.ts";
import { jsonDigest } from "#core/json.ts";
import { refusePrivateBeyond } from "#core/policy/compile.ts";
import { ReceiptPageSchema } from "#core/wire/calls.ts";
import { DigestSchema, LeaseIdSchema, PageQuerySchema, TimeSchema } from "#core/wire/common.ts";
import { BlobQuerySchema as FenceQuerySchema } from "#core/wire/leases.ts";
import { type Policy, PolicySchema } from "#core/wire/policy.ts";
import { ownerOf } from "../auth.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { json } from "../reply.ts";
import { TaskParams } from "./tasks.ts";

const PolicyInForceSchema = z.object({
  policy: PolicySchema,
  /** what call signatures name as `policy_digest` */
  policy_digest: DigestSchema,
  /** null while the policy is the one that the task was submitted with */
  updated_at: TimeSchema.nullable(),
});

export function receiptRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store, config } = gateway;
  const access = ["tasks", "admin"] as const;

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/tasks/{id}/receipts",
      tag: "calls",
      summary: "List the receipts of a task's calls",
      description: "In the order of attempts and of their calls.",
      access,
      params: TaskParams,
      query: PageQuerySchema,
      responses: { 200: { description: "a page of receipts", body: ReceiptPageSchema } },
    },
    async (c, { caller, params, query }) =>
      json(c, await store.listReceipts(params.id as TaskId, ownerOf(caller), query)),
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/leases/{id}/receipts",
      tag: "calls",
      summary: "List the receipts of an attempt",
      description: "For an executor whose answers were lost: its evidence must name all of them.",
      access: ["executor"],
      params: z.strictObject({ id: LeaseIdSchema }),
      query: PageQuerySchema.extend(FenceQuerySchema.shape),
      responses: { 200: { description: "a page of receipts", body: ReceiptPageSchema } },
    },
    async (c, { caller, params, query: { fence, ...page } }) => {
      const hold = { lease_id: params.id as LeaseId, fence };
      return json(c, await store.listLeaseReceipts(caller.executorId, hold, page));
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/tasks/{id}/policy",
      tag: "calls",
      summary: "Get the policy in force",
      access,
      params: TaskParams,
      responses: { 200: { description: "the policy", body: PolicyInForceSchema } },
    },
    async (c, { caller, params }) => {
      const { policy, updatedAt } = await store.getPolicy(params.id as TaskId, ownerOf(caller));
      return json(c, await inForce(policy, updatedAt));
    },
  );

  serve(
    app,
    gateway,
    {
      method: "put",
      path: "/v1/tasks/{id}/policy",
      tag: "calls",
      summary: "Replace the policy of a task that is not over",
      description: "Every gateway judges by it within a second. The task's spec stays as it was submitted.",
      access,
      params: TaskParams,
      body: PolicySchema,
      bodyInvalid: "POLICY_INVALID",
      responses: { 200: { description: "the policy", body: PolicyInForceSchema } },
    },
    async (c, { caller, params, body: policy }) => {
      refusePrivateBeyond(policy, config.privateNetworks ?? []);
      const { updatedAt } = await store.replacePolicy(params.id as TaskId, ownerOf(caller), policy);
      return json(c, await inForce(policy, updatedAt));
    },
  );

  return app;
}

async function inForce(policy: Policy, updatedAt: string | null) {
  return { policy, policy_digest: await jsonDigest(policy), updated_at: updatedAt };
}
