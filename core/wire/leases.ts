import { z } from "zod";
import { LIMITS } from "../limits.ts";
import {
  DigestSchema,
  FenceSchema,
  KeyIdSchema,
  LeaseIdSchema,
  ResourcesSchema,
  strict,
  TaskIdSchema,
  TimeSchema,
  text,
} from "./common.ts";
import { OutcomeSchema, ResultSchema, TaskSpecSchema } from "./tasks.ts";

export const AcquireRequestSchema = strict({
  free: ResourcesSchema,
  max_leases: z.number().int().min(1).max(LIMITS.leaseBatch).default(1),
  /** How long the gateway may hold the request open when nothing fits. */
  wait_ms: z.number().int().min(0).max(LIMITS.longPollMs).default(LIMITS.longPollMs),
});
export type AcquireRequest = z.infer<typeof AcquireRequestSchema>;

/** A granted lease. `ttl_ms` is a duration: an executor counts it on its monotonic clock from before it asked. */
export const LeaseSchema = z.object({
  lease_id: LeaseIdSchema,
  task_id: TaskIdSchema,
  /** Whose task it is: what its sandboxes share, they share with those of this key alone. */
  key_id: KeyIdSchema,
  fence: FenceSchema,
  attempt: z.number().int().min(1),
  ttl_ms: z.number().int().min(1),
  expires_at: TimeSchema,
  spec: TaskSpecSchema,
  spec_digest: DigestSchema,
});
export type Lease = z.output<typeof LeaseSchema>;
export const AcquireResponseSchema = z.object({ leases: z.array(LeaseSchema) });
/** As an executor reads it, which judges each spec by itself: one that its version does not take is to cost no other task. */
export const GrantsSchema = z.object({ leases: z.array(LeaseSchema.extend({ spec: z.unknown() })) });

/** What every write of an executor carries. */
export const HoldSchema = strict({ lease_id: LeaseIdSchema, fence: FenceSchema });
export type Hold = z.infer<typeof HoldSchema>;

export const RenewRequestSchema = strict({ leases: z.array(HoldSchema).min(1).max(LIMITS.renewBatch) });
/** `held` with what is asked of the holder, or `lost`: kill the sandbox and write nothing more. */
export const RenewResponseSchema = z.object({
  leases: z.array(
    z.discriminatedUnion("state", [
      z.object({
        state: z.literal("held"),
        lease_id: LeaseIdSchema,
        ttl_ms: z.number().int(),
        cancel_requested: z.boolean(),
      }),
      z.object({ state: z.literal("lost"), lease_id: LeaseIdSchema }),
    ]),
  ),
  draining: z.boolean(),
});
export type RenewResponse = z.infer<typeof RenewResponseSchema>;

/**
 * Long poll for cancellations among the leases that the executor holds: answers at once when one is asked for,
 * with an empty list after `wait_ms`.
 */
export const CancellationsQuerySchema = z.strictObject({
  wait_ms: z.coerce.number().int().min(0).max(LIMITS.longPollMs).default(LIMITS.longPollMs),
});
export const CancellationsResponseSchema = z.object({ leases: z.array(HoldSchema) });

/**
 * What running attempts say, batched over the executor's leases: first that the command runs, then its live output.
 * `offset` counts bytes of that stream in this attempt.
 */
export const EventsRequestSchema = strict({
  events: z
    .array(
      z.discriminatedUnion("type", [
        strict({ type: z.literal("running"), lease_id: LeaseIdSchema, fence: FenceSchema }),
        strict({
          type: z.enum(["stdout", "stderr"]),
          lease_id: LeaseIdSchema,
          fence: FenceSchema,
          offset: z.number().int().min(0),
          data: z.base64().max(Math.ceil(LIMITS.eventDataBytes / 3) * 4),
        }),
        strict({
          type: z.literal("truncated"),
          lease_id: LeaseIdSchema,
          fence: FenceSchema,
          stream: z.enum(["stdout", "stderr"]),
        }),
      ]),
    )
    .min(1)
    .max(LIMITS.eventsPerBatch),
});
export type EventsRequest = z.infer<typeof EventsRequestSchema>;
/** Leases whose events were refused because they are held no more; the others were stored. */
export const EventsResponseSchema = z.object({ lost: z.array(LeaseIdSchema) });

/** The end of an attempt that ran: what it left, and the evidence over it (a JWS, typ dsec-evidence+jwt). */
export const CompleteRequestSchema = strict({
  fence: FenceSchema,
  result: ResultSchema,
  evidence: z.string().max(LIMITS.evidenceBytes),
});
export type CompleteRequest = z.infer<typeof CompleteRequestSchema>;

/** The end of an attempt that a fault of ours ended: it is retried, or the task is dead. */
export const FailRequestSchema = strict({
  fence: FenceSchema,
  message: text(LIMITS.errorTextChars),
  evidence: z.string().max(LIMITS.evidenceBytes).nullable(),
  /** How the command had ended, where only what was recorded of it failed: it is never run again. */
  ended: OutcomeSchema.pick({ exit_code: true, signal: true }).nullable().default(null),
});
export type FailRequest = z.infer<typeof FailRequestSchema>;

/** Gives the lease back unused, as on an orderly shutdown: the attempt does not count. */
export const ReleaseRequestSchema = strict({ fence: FenceSchema });

/** Uploads of an attempt's content carry their fence in the query; the body is the content. */
export const BlobQuerySchema = z.strictObject({
  fence: z.coerce.number().pipe(FenceSchema),
});
