/** Observations that somebody outside puts into a running sandbox: the agent gets them with its next answer. */
import { z } from "zod";
import { LIMITS } from "../limits.ts";
import { FenceSchema, KeyIdSchema, LeaseIdSchema, strict, TimeSchema } from "./common.ts";

const seq = z.number().int().min(1);

export const ObservationRequestSchema = strict({
  /** Any JSON; what it means is between whoever injects and the agent. */
  content: z
    .unknown()
    .refine((value) => value !== undefined, "is missing")
    .refine(
      (value) => value === undefined || JSON.stringify(value).length <= LIMITS.observationBytes,
      `must be at most ${LIMITS.observationBytes} characters of JSON`,
    ),
});

export const ObservationSchema = z.object({
  /** Counts up by one in each task. */
  seq,
  /** The API key that injected it. */
  from: KeyIdSchema,
  at: TimeSchema,
  content: z.unknown(),
});
export type Observation = z.infer<typeof ObservationSchema>;

/** Long poll of an executor for what is to be injected into its sandboxes; it also says what has arrived there. */
export const ObservationsPollSchema = strict({
  wait_ms: z.number().int().min(0).max(LIMITS.longPollMs).default(LIMITS.longPollMs),
  received: z
    .array(strict({ lease_id: LeaseIdSchema, fence: FenceSchema, through: seq }))
    .max(LIMITS.renewBatch)
    .default([]),
});
export type ObservationsPoll = z.input<typeof ObservationsPollSchema>;

export const ObservationsForLeasesSchema = z.object({
  observations: z.array(
    z.object({ lease_id: LeaseIdSchema, fence: FenceSchema, observation: ObservationSchema }),
  ),
});
export type ObservationForLease = z.infer<typeof ObservationsForLeasesSchema>["observations"][number];
