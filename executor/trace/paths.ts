/** Where the recordings of an executor lie: `traces/2026-01-31/TASK-ATTEMPT-LEASE.traj`, and `.trace` once they are sealed. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Lease } from "#core/wire/leases.ts";

const TRAJECTORY = ".traj";
const TRACE = ".trace";

/** The day is the day in UTC. Leases are unique, so names are. */
export function trajectoryPath(
  directory: string,
  lease: Pick<Lease, "task_id" | "attempt" | "lease_id">,
  at: Date,
): string {
  const day = at.toISOString().slice(0, 10);
  return join(directory, day, `${lease.task_id}-${lease.attempt}-${lease.lease_id}${TRAJECTORY}`);
}

export function tracePathOf(trajectory: string): string {
  return `${trajectory.slice(0, -TRAJECTORY.length)}${TRACE}`;
}

/** Whether the trajectory is of an attempt under the lease. */
export function isOf(trajectory: string, { lease_id }: Pick<Lease, "lease_id">): boolean {
  return trajectory.endsWith(`-${lease_id}${TRAJECTORY}`);
}

/** What was being recorded when an earlier life of the executor ended. */
export async function trajectoriesIn(directory: string): Promise<string[]> {
  const found: string[] = [];
  for (const day of await readdir(directory, { withFileTypes: true })) {
    // A link is not followed: it was not made here.
    if (!day.isDirectory() || !/^\d{4}-\d\d-\d\d$/.test(day.name)) continue;
    for (const file of await readdir(join(directory, day.name), { withFileTypes: true })) {
      if (file.isFile() && file.name.endsWith(TRAJECTORY)) found.push(join(directory, day.name, file.name));
    }
  }
  return found.sort();
}
