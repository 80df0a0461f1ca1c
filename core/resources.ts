import type { ErrorCode } from "./errors.ts";

/** What a task asks for and what an executor has. Every axis is a whole number, so that sums are exact. */
export type Resources = {
  /** thousandths of a core */
  cpu_millis: number;
  memory_mb: number;
  gpu_memory_mb: number;
  disk_iops: number;
  network_mbps: number;
  pids: number;
  disk_mb: number;
};

export type Axis = keyof Resources;

export const AXES = [
  "cpu_millis",
  "memory_mb",
  "gpu_memory_mb",
  "disk_iops",
  "network_mbps",
  "pids",
  "disk_mb",
] as const satisfies readonly Axis[];

/** The code a request is refused with when no executor could ever satisfy the axis. */
export const INSUFFICIENT: Record<Axis, ErrorCode> = {
  cpu_millis: "INSUFFICIENT_CPU",
  memory_mb: "INSUFFICIENT_MEMORY",
  gpu_memory_mb: "INSUFFICIENT_GPU_MEMORY",
  disk_iops: "INSUFFICIENT_DISK_IOPS",
  network_mbps: "INSUFFICIENT_NETWORK",
  pids: "INSUFFICIENT_PIDS",
  disk_mb: "INSUFFICIENT_DISK",
};

/** The member of the wire's `resources` that an axis is written as. */
export const WIRE_NAME: Record<Axis, string> = {
  cpu_millis: "cpu_cores",
  memory_mb: "memory_mb",
  gpu_memory_mb: "gpu_memory_mb",
  disk_iops: "disk_iops",
  network_mbps: "network_mbps",
  pids: "pids",
  disk_mb: "disk_mb",
};

export const NO_RESOURCES: Resources = {
  cpu_millis: 0,
  memory_mb: 0,
  gpu_memory_mb: 0,
  disk_iops: 0,
  network_mbps: 0,
  pids: 0,
  disk_mb: 0,
};

function zip(a: Resources, b: Resources, f: (x: number, y: number) => number): Resources {
  return Object.fromEntries(AXES.map((axis) => [axis, f(a[axis], b[axis])])) as Resources;
}

export function add(a: Resources, b: Resources): Resources {
  return zip(a, b, (x, y) => x + y);
}

export function subtract(a: Resources, b: Resources): Resources {
  return zip(a, b, (x, y) => x - y);
}

/** The first axis on which `asked` is larger than `free`, or undefined when everything fits. */
export function axisThatDoesNotFit(asked: Resources, free: Resources): Axis | undefined {
  return AXES.find((axis) => asked[axis] > free[axis]);
}

/**
 * The axis to name when no capacity holds the request. Axes are judged over the executor that comes nearest
 * (fewest failing axes), because each axis may fit somewhere while no single executor fits all of them.
 * `largest` is the most that any executor has on that axis.
 */
export function neverFits(
  asked: Resources,
  capacities: readonly Resources[],
): { axis: Axis; largest: number } | undefined {
  let nearest: Axis[] | undefined;
  for (const capacity of capacities) {
    const failing = AXES.filter((axis) => asked[axis] > capacity[axis]);
    if (failing.length === 0) return undefined;
    if (nearest === undefined || failing.length < nearest.length) nearest = failing;
  }
  const axis = nearest?.[0] ?? AXES.find((a) => asked[a] > 0) ?? "cpu_millis";
  return { axis, largest: Math.max(0, ...capacities.map((capacity) => capacity[axis])) };
}
