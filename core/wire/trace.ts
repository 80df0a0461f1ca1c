/** How much of what happens in a task's sandbox is recorded. */
import { z } from "zod";
import { strict } from "./common.ts";

export const TRACE_LEVELS = ["full", "error_only", "dynamic"] as const;

export const TraceSpecSchema = strict({
  /**
   * `full` keeps everything. `error_only` keeps that things happened, with their digests, and what went in and out only of
   * the last three calls before an error. `dynamic` is `error_only` until the first error and `full` from then on; a share
   * of the tasks, chosen by their ids, is `full` from the start.
   */
  level: z.enum(TRACE_LEVELS).default("full"),
  sample_share: z.number().min(0).max(1).default(0),
  /** The whole memory is recorded after each so many writes; 0 is never. What changes is recorded in any case. */
  memory_snapshot_interval: z.number().int().min(0).max(1_000_000).default(0),
});
export type TraceSpec = z.output<typeof TraceSpecSchema>;

/** Which attempt's trace is asked for; without it the newest. */
export const TraceQuerySchema = z.strictObject({
  attempt: z.coerce.number().int().min(1).optional(),
});
