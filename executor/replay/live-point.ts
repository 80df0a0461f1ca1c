/** The point of a recording up to which it answers: the call before which a replay stops, or goes on live. */
import { DsecError } from "#core/errors.ts";
import { NOT_GIVEN, type Recording } from "./recording.ts";

/** @throws NOT_REPLAYABLE naming everything that stands in the way */
export function checkReplayable({ file, obstacles }: Pick<Recording, "file" | "obstacles">): void {
  if (obstacles.length === 0) return;
  const [first, ...rest] = obstacles;
  const more = rest.length === 0 ? "" : `; and ${rest.length} more: ${rest.slice(0, 9).join("; ")}`;
  throw new DsecError("NOT_REPLAYABLE", `${file} cannot be replayed: ${first}${more}`, {
    details: { obstacles: obstacles.slice(0, 100) },
  });
}

/** @throws NOT_REPLAYABLE also where it did something that is not done by a call, and would be done again */
export function checkContinuable({ file, obstacles, sends }: Recording): void {
  const [send] = sends;
  const again =
    send === undefined
      ? []
      : [`it sent messages on ${JSON.stringify(send.channel)}, which would be sent again`];
  checkReplayable({ file, obstacles: [...obstacles, ...again] });
}

export type LivePoint = {
  /** The first call that the recording does not answer any more. */
  call: number;
  /** The innermost plan step that is open there. */
  step: number | null;
};

/** @param untilCall null is the end of what is recorded */
export function livePointOf({ calls, lastStep }: Recording, untilCall: number | null): LivePoint {
  const numbers = calls.map(({ start }) => start.call);
  if (untilCall === null) return { call: Math.max(0, ...numbers) + 1, step: lastStep };
  return { call: untilCall, step: calls.find(({ start }) => start.call === untilCall)?.start.step ?? null };
}

/**
 * What an agent is given that goes on live before this call: the calls before it, also those that were still under way when
 * it began, and what had come from outside until then.
 * @throws NOT_FOUND where it has no such call
 */
export function recordingUntil(recording: Recording, untilCall: number | null): Recording {
  if (untilCall === null) return recording;
  const { file, calls } = recording;
  const at = calls.find(({ start }) => start.call === untilCall);
  if (at === undefined)
    throw new DsecError("NOT_FOUND", `${file} has no call ${untilCall}; it has ${calls.length}`);
  const { seq } = at.start;
  return {
    ...recording,
    calls: calls.filter(({ start }) => start.seq < seq),
    reads: recording.reads.filter((read) => read.seq < seq),
    sends: recording.sends.filter((send) => send.seq < seq),
    observations: recording.observations
      .filter(({ injectedSeq }) => injectedSeq < seq)
      .map((given) => (given.givenSeq !== null && given.givenSeq < seq ? given : { ...given, ...NOT_GIVEN })),
    lastStep: at.start.step,
  };
}
