import type { TaskRequest } from "#core/wire/tasks.ts";
import { seedOf } from "../channel/seed.ts";
import { checkContinuable, recordingUntil } from "./live-point.ts";
import { type Recording, recordedSpec } from "./recording.ts";

/**
 * The task that goes on from a recording: the recorded one, but that it is first given what is recorded. Seed and task id are
 * what the agent was told at first, for they may be in what it asks for.
 * @param untilCall the first call that is made live; null is the end of what is recorded
 * @throws NOT_REPLAYABLE, naming everything that stands in the way; NOT_FOUND where it has no such call
 */
export function continuationOf(
  recording: Recording,
  untilCall: number | null,
  image: string | undefined,
): TaskRequest {
  const spec = recordedSpec(recording);
  const taskId = recording.header.task_id!;
  checkContinuable(recordingUntil(recording, untilCall));
  return {
    ...spec,
    ...(image === undefined ? {} : { image }),
    env: { DSEC_TASK_ID: taskId, ...spec.env },
    seed: seedOf(taskId, spec),
    // Chosen once, so that an attestation could be told from older ones: it is not for another.
    nonce: null,
    trace: { ...spec.trace, level: "full" },
    fast_forward: true,
    continues: { trace: recording.digest, until_call: untilCall },
  };
}
