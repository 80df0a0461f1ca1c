/** A trajectory's bytes from the parts in which they came, to the end, or as they go on coming. */

import type { Context } from "hono";
import { DsecError } from "#core/errors.ts";
import type { TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Gateway } from "../environment.ts";
import { untilAborted } from "./long-poll.ts";

/** How far one is known. `fence` is null before there is an attempt; while it is held more may come. */
export type Trajectory = { fence: number | null; size: number; held: boolean };

const PARTS_PER_READ = 64;

/**
 * Reads only when the client has room. Ends where the attempt is held no more and all that came of it was read, when the
 * client leaves, or when the gateway stops: whoever asks on is told which it was.
 * @param following.next the trajectory as it is now; null where none will come
 */
export function trajectoryStream(
  gateway: Gateway,
  c: Context,
  taskId: TaskId,
  following: { from: number; next: () => Promise<Trajectory | null> },
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const left = new AbortController();
  const signal = untilAborted(left.signal, c.req.raw.signal, gateway.closing);
  const bytes = follow(gateway, taskId, following, signal);
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await bytes.next();
        if (done) controller.close();
        else controller.enqueue(value as Uint8Array<ArrayBuffer>);
      } catch (error) {
        // The head is sent: all that can still be said is that the stream broke. The client resumes by its offset.
        gateway.log({
          level: "error",
          message: "trajectory stream broke",
          task_id: taskId,
          error: String(error),
        });
        controller.error(error);
      }
    },
    async cancel() {
      left.abort();
      await bytes.return(undefined);
    },
  });
}

async function* follow(
  gateway: Gateway,
  taskId: TaskId,
  { from, next }: { from: number; next: () => Promise<Trajectory | null> },
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let offset = from;
  let fence: number | null = null;
  while (!signal.aborted) {
    // Listened for before looking, so that what comes in between wakes us.
    const woken = gateway.wake.wait(`trace:${taskId}`, LIMITS.wakePollMs, signal);
    const trajectory = await next();
    if (trajectory === null) return;
    fence ??= trajectory.fence;
    // The attempt that was followed has ended, and another has begun: that is another file.
    if (fence !== trajectory.fence) return;
    if (fence !== null && offset < trajectory.size) {
      for await (const part of partsFrom(gateway, taskId, fence, offset, trajectory.size)) {
        yield part;
        offset += part.length;
      }
    }
    if (!trajectory.held) return;
    await woken;
  }
}

async function* partsFrom(
  { store, blobs }: Gateway,
  taskId: TaskId,
  fence: number,
  from: number,
  end: number,
): AsyncGenerator<Uint8Array> {
  let offset = from;
  while (offset < end) {
    const parts = await store.listTrajectoryParts(taskId, fence, offset, PARTS_PER_READ);
    if (parts.length === 0) return;
    for (const part of parts) {
      if (part.content !== null) {
        const rest = part.content.subarray(offset - part.offset);
        yield rest;
        offset += rest.length;
        continue;
      }
      const blob = await blobs.get(part.digest);
      if (blob === null || blob.size !== part.size) {
        await blob?.body.cancel();
        throw new DsecError(
          "OUTPUT_NOT_FOUND",
          `bytes ${part.offset} and on of ${taskId} are no longer in the blob store`,
        );
      }
      let skip = offset - part.offset;
      for await (const chunk of blob.body as unknown as AsyncIterable<Uint8Array>) {
        const rest = chunk.subarray(skip);
        skip = Math.max(0, skip - chunk.length);
        if (rest.length === 0) continue;
        yield rest;
        offset += rest.length;
      }
    }
  }
}
