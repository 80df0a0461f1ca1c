/** A recording that goes on live: as a task of a gateway, which first gives its agent what was recorded. */
import { createWriteStream } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { continuationOf } from "#executor/replay/continuation.ts";
import { livePointOf } from "#executor/replay/live-point.ts";
import type { Recording } from "#executor/replay/recording.ts";
import type { Client } from "#sdk/client.ts";
import { fileStream } from "./given-file.ts";
import { EXIT, note, printJson } from "./program.ts";
import { explainEnd, followTask, withStreams } from "./task-follow.ts";

export type ContinuationOptions = {
  image?: string;
  /** Where the task's inputs are, by their content; null where the gateway has them. */
  inputs: Map<Digest, string> | null;
  /** Where the trace of both halves is put. */
  keep?: string;
  json?: boolean;
};

/**
 * Submits the task that goes on from the recording, passes its output on, and says how it ended.
 * @param untilCall the first call that is made live; null is the end of what is recorded
 */
export async function continueLive(
  recording: Recording,
  untilCall: number | null,
  client: Client,
  options: ContinuationOptions,
): Promise<void> {
  const { file, digest } = recording;
  const request = continuationOf(recording, untilCall, options.image);
  await upload(client, file, digest);
  if (options.inputs !== null) {
    for (const { artifact } of request.inputs ?? []) {
      await upload(client, options.inputs.get(artifact as Digest)!, artifact as Digest);
    }
  }
  const { call, step } = livePointOf(recording, untilCall);
  const within = step === null ? "" : ` in plan step ${step}`;
  const { task, isRead } = await followTask(client, request, options, (id) => {
    note(`${id} is given what ${file} has before call ${call}${within}, and goes on live from there`);
  });
  if (options.keep !== undefined) {
    const trace = await client.tasks.trace(task.id);
    await pipeline(
      Readable.fromWeb(trace as Parameters<typeof Readable.fromWeb>[0]),
      createWriteStream(options.keep),
    );
  }
  if (options.json) {
    printJson({ file, trace_digest: digest, live: { call, step }, ...(await withStreams(client, task)) });
  } else explainEnd(task);
  process.exitCode = task.state === "succeeded" && isRead ? EXIT.done : EXIT.failed;
}

/** @throws DIGEST_MISMATCH where it was written to meanwhile */
async function upload(client: Client, file: string, digest: Digest): Promise<void> {
  const { artifact } = await client.artifacts.put(fileStream(file, file));
  if (artifact === digest) return;
  throw new DsecError("DIGEST_MISMATCH", `${file} was ${digest} when it was read, and is ${artifact} now`);
}
