import { expect, test } from "vitest";
import type { RecordedCall, Recording } from "#executor/replay/recording.ts";
import { Replay } from "#executor/replay/replay.ts";
import { growth, LINEAR_BELOW } from "#test/support/growth.ts";

/** One after the other; every second one asks for the same as those before it. */
function recordedCalls(length: number): RecordedCall[] {
  return Array.from({ length }, (_, at) => {
    const asked = at % 2 === 0 ? "status" : `item ${at}`;
    const start = { call: at + 1, seq: 2 * at + 1, kind: "http", tool: "look", via: "http", url: asked };
    const end = { seq: 2 * at + 2, state: "answered", wall_us: at, told_wall_us: null };
    const unsaid = { where: null, method: null, passage: null, arguments_digest: null };
    return { start: { ...unsaid, ...start }, end, toolActed: false } as unknown as RecordedCall;
  });
}

test("what very many calls were answered is given again in time in proportion to their number", async () => {
  const header = { started_wall_us: 0, told_wall_us: null };
  const signal = new AbortController().signal;
  const replayed = async (count: number) => {
    const calls = recordedCalls(count);
    const recording = { header, calls, observations: [], reads: [], lastActSeq: 2 * count };
    const replay = new Replay(recording as unknown as Recording, {
      ...{ mode: "fast_forward", holdAt: null, realTime: false, onCall() {} },
      onHeld: async () => ({ holdAt: null }),
    });
    for (const call of calls) {
      expect(await replay.next(call.start, signal)).toEqual({ kind: "recorded", call });
      replay.ended(call);
    }
    expect(replay.isLive).toBe(true);
  };
  expect(await growth(20_000, replayed)).toBeLessThan(LINEAR_BELOW);
});
