import { hash } from "node:crypto";
import type { TaskSpec } from "#core/wire/tasks.ts";

/** Offered to agents that draw lots: the same in every attempt of a task, so that a replay draws the same. */
export function seedOf(taskId: string, { seed }: Pick<TaskSpec, "seed">): number {
  return seed ?? hash("sha256", `seed of ${taskId}`, "buffer").readUInt32BE();
}
