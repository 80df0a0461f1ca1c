/** How much of what happens in a task's sandbox is recorded. */
import { z } from "zod";
import { FenceSchema, strict } from "./common.ts";

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

const attempt = z.coerce.number().int().min(1).optional();
const offset = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).default(0);
const fence = z.coerce.number().pipe(FenceSchema);

/** Which attempt's recording is asked for, the newest where none is named, and of a trajectory from which byte on. */
export const TraceQuerySchema = z.strictObject({
  attempt,
  offset,
  follow: z
    .enum(["true", "false"])
    .default("false")
    .transform((text) => text === "true"),
});
/** `before` names the attempt by the fence of the one after it: those that were given back have the same number. */
export const LeaseTraceQuerySchema = z.strictObject({ fence, attempt, offset, before: fence.optional() });

export const TracePartQuerySchema = z.strictObject({ fence, offset });
/** How many bytes of the trajectory are known. */
export const TracePartResponseSchema = z.object({ size: z.number().int().min(0) });
