import { z } from "zod";
import { WAIT_REASONS } from "../placement.ts";
import { TASK_STATES } from "../task.ts";
import { TaskIdSchema, TimeSchema } from "./common.ts";

/** Why a task does not run yet; `wait` is null where it is not queued. */
export const TaskWaitSchema = z.object({
  task_id: TaskIdSchema,
  state: z.enum(TASK_STATES),
  wait: z
    .object({
      reason: z.enum(WAIT_REASONS),
      /** In words, with the way out where there is one. */
      message: z.string(),
      /** The member of `resources` on which it does not fit; null with other reasons. */
      axis: z.string().nullable(),
      /** Queued tasks before it, at most `waitCounted`. */
      ahead: z.number().int().min(0),
      /** Executors that are connected. */
      executors: z.number().int().min(0),
      /** Not granted before: of a retry. */
      available_at: TimeSchema,
    })
    .nullable(),
});
export type TaskWait = z.infer<typeof TaskWaitSchema>;
