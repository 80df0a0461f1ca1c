import { isDigest } from "./ids.ts";
import { type Axis, neverFits, type Resources, WIRE_NAME } from "./resources.ts";

/** An executor that is connected, as it is judged for a task. */
export type Candidate = {
  capacity: Resources;
  /** What it said last that it has, and no more than its leases leave of its capacity. */
  free: Resources;
  images: readonly string[];
  draining: boolean;
};

export const WAIT_REASONS = [
  "retry_later",
  "no_executor",
  "all_draining",
  "no_image",
  "too_large",
  "no_room",
  "others_first",
  "about_to_start",
] as const;

/** Why a queued task does not run yet. `axis` goes with `too_large` and `no_room`. */
export type Wait = {
  reason: (typeof WAIT_REASONS)[number];
  /** In words, with the way out where there is one. */
  message: string;
  axis: Axis | null;
};

/**
 * @param asked what an attempt takes (`footprint`)
 * @param retryInMs how long its next attempt is held back after one that failed; 0 or less where it is not
 * @param ahead queued tasks that are before it, and whether there are more than were counted
 * @param executors all that are connected
 */
export function whyQueued(
  { asked, image, retryInMs }: { asked: Resources; image: string; retryInMs: number },
  ahead: { count: number; isMore: boolean },
  executors: readonly Candidate[],
): Wait {
  const is = (reason: Wait["reason"], message: string, axis: Axis | null = null) => ({
    ...{ reason, message, axis },
  });
  if (executors.length === 0) {
    return is("no_executor", "no executor is connected; start one: dsec executor --gateway URL");
  }
  const working = executors.filter(({ draining }) => !draining);
  if (working.length === 0) {
    return is(
      "all_draining",
      `each of the ${executors.length} executors connected is draining; start another`,
    );
  }
  const able = working.filter(({ images }) => hasImage(image, images));
  if (able.length === 0) {
    return is("no_image", `no executor has the image ${image}; import it there: dsec image import`);
  }
  const lacking = (of: (executor: Candidate) => Resources, executors: readonly Candidate[]) =>
    neverFits(asked, executors.map(of));
  const tooLarge = lacking(({ capacity }) => capacity, able);
  if (tooLarge !== undefined) {
    const { axis, largest } = tooLarge;
    const most = `the most that an executor has in all is ${shown(axis, largest)}`;
    return is("too_large", `it asks for ${shown(axis, asked[axis])} ${WIRE_NAME[axis]}; ${most}`, axis);
  }
  if (retryInMs > 0) {
    return is(
      "retry_later",
      `its next attempt begins in ${Math.ceil(retryInMs / 1000)} s, after one that failed`,
    );
  }
  const large = able.filter((executor) => neverFits(asked, [executor.capacity]) === undefined);
  const noRoom = lacking(({ free }) => free, large);
  const before = ahead.count === 0 ? "" : `; ${tasksBefore(ahead)}`;
  if (noRoom !== undefined) {
    const { axis, largest } = noRoom;
    const most = `the most that an executor has free is ${shown(axis, largest)}`;
    return is(
      "no_room",
      `it asks for ${shown(axis, asked[axis])} ${WIRE_NAME[axis]}; ${most}${before}`,
      axis,
    );
  }
  if (ahead.count > 0) return is("others_first", tasksBefore(ahead));
  return is("about_to_start", "an executor has room for it and takes it within a second or two");
}

function tasksBefore({ count, isMore }: { count: number; isMore: boolean }): string {
  return `${isMore ? "more than " : ""}${count} ${count === 1 ? "task is" : "tasks are"} before it`;
}

function shown(axis: Axis, amount: number): string {
  return String(wireAmount(axis, amount));
}

/** Digests are imported on demand, and every executor has its own host. */
export function hasImage(image: string, images: readonly string[]): boolean {
  return image === "host" || isDigest(image) || images.includes(image);
}

/** An amount as the wire has it: cores, not thousandths. */
export function wireAmount(axis: Axis, amount: number): number {
  return axis === "cpu_millis" ? amount / 1000 : amount;
}
