/** Recordings that go on live: nothing that is recorded is done again, and what comes after it is done once. */
import { decodeJwt } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AttestationClaimsSchema } from "#core/wire/attestations.ts";
import { continuationOf } from "#executor/replay/continuation.ts";
import { eventually } from "#test/executor/executor-under-test.ts";
import { Replays } from "./replays.ts";

let replays: Replays;
beforeAll(async () => {
  replays = await Replays.open();
});
afterAll(() => replays?.[Symbol.asyncDispose]());

/** What the upstream is asked meanwhile. */
async function asked<T>(act: () => Promise<T>): Promise<{ result: T; bodies: string[] }> {
  const before = replays.asked.length;
  const result = await act();
  return { result, bodies: replays.asked.slice(before) };
}

const AGENT = `
dsec-tool memory set seen '["first"]' > /dev/null
dsec-tool exec --tool act --input '{"n":1}'
dsec-tool memory get seen
dsec-tool step begin second > /dev/null
dsec-tool exec --tool act --input '{"n":2}'
dsec-tool exec --tool act --input '{"n":3}'
echo $DSEC_TASK_ID $DSEC_SEED $DSEC_STARTED_AT
`;

test("what comes after the call is done once and is signed and attested, and what comes before it is not done again", async () => {
  const { recording, stdout } = await replays.recorded(AGENT, { nonce: "chosen once" });
  const { result, bodies } = await asked(() => replays.continued(recording, 2));
  expect(bodies).toEqual(['{"n":2}', '{"n":3}']);
  const { task, trace, attestations } = result;
  expect(task.state).toBe("succeeded");
  const [before, now] = [stdout, result.stdout.toString()].map((text) => text.split("\n")) as [
    string[],
    string[],
  ];
  expect(now.slice(0, 2)).toEqual(before.slice(0, 2));
  expect(now.slice(2, 4)).not.toEqual(before.slice(2, 4));
  // Task id, seed and start may be in what it asks for: they are what it was told at first.
  expect(now[4]).toBe(before[4]);

  expect(trace.header).toMatchObject({
    ...{ task_id: task.id, replayed_from_digest: recording.digest },
    ...{ replayed_until_call: 2, replayed_until_step: 1, told_wall_us: recording.header.started_wall_us },
  });
  const ends = trace.events.filter((event) => event.type === "tool_call_end");
  expect(ends.map(({ replayed, call_seq }) => [replayed, call_seq])).toEqual([
    ...[
      [true, 1],
      [null, 1],
      [null, 2],
    ],
  ]);
  const { dsec, eat_nonce } = AttestationClaimsSchema.parse(decodeJwt(attestations[0]!.jwt));
  expect([dsec.calls.count, eat_nonce]).toEqual([2, undefined]);
  expect(dsec.spec_digest).toBe(task.spec_digest);
  expect(task.spec.continues).toEqual({ trace: recording.digest, until_call: 2 });
});

test("a continuation is a recording that can be replayed, and gone on from again", async () => {
  const { recording } = await replays.recorded(AGENT);
  const once = await replays.continued(recording, 3);
  const again = await replays.recordingOf(once.task.id);
  expect(await replays.replayed(again)).toMatchObject({ state: "equal", calls: { answered: 3 } });
  const { result, bodies } = await asked(() => replays.continued(again, 3));
  expect(bodies).toEqual(['{"n":3}']);
  expect(result.stdout.toString().split("\n").at(-2)).toBe(once.stdout.toString().split("\n").at(-2));
});

test("an agent that leaves the record before its end ends there, in each attempt, and nothing goes live", async () => {
  const random = "$(cat /proc/sys/kernel/random/uuid)";
  const { recording } = await replays.recorded(
    `dsec-tool exec --tool look --input '{"id":"'${random}'"}'; dsec-tool exec --tool act --input '{"n":2}'`,
    { retries: 1 },
  );
  const { result, bodies } = await asked(() => replays.continued(recording, null));
  expect(bodies).toEqual([]);
  expect(result.task).toMatchObject({ state: "dead", attempts: 2 });
  expect(result.task.result!.outcome.message).toMatch(
    /^REPLAY_DIVERGED: .*call 1 was look.*arguments_digest differ/,
  );
});

test("an agent that ends before it could go on live has left the record", async () => {
  const { recording } = await replays.recorded(
    `curl -s --unix-socket $DSEC_SOCKET http://dsec/v1/clock | grep -q '"replaying":true' && exit 0
dsec-tool exec --tool act --input '{"n":1}'`,
    { retries: 0 },
  );
  const { result, bodies } = await asked(() => replays.continued(recording, null));
  expect(bodies).toEqual([]);
  expect(result.task.state).toBe("dead");
  expect(result.task.result!.outcome.message).toMatch(/^REPLAY_DIVERGED: .*ended before call 1 \(act\)/);
});

test("a continuation that loses its executor goes on where it was, and not where the recording ends", async () => {
  const script = `
echo begun
dsec-tool observe --wait 20000
dsec-tool exec --tool act --input '{"n":1}'
dsec-tool exec --tool act --input '{"n":2}'
dsec-tool observe --wait 20000
dsec-tool exec --tool act --input '{"n":3}'
`;
  const inject = (id: string, content: string) =>
    replays.rig.client.ok("POST", `/v1/tasks/${id}/observations`, { content });
  const from = replays.asked.length;
  const has = (count: number) => eventually(() => replays.asked.length === count);
  const { recording } = await replays.recorded(script, {}, async (id) => {
    await replays.rig.begun(id);
    await inject(id, "first");
    await has(from + 2);
    await inject(id, "of the recording");
  });
  await has(from + 3);
  const { result, bodies } = await asked(() =>
    replays.continued(recording, 2, async (id) => {
      await has(from + 4);
      await replays.executor.close();
      replays.executor = await replays.rig.start();
      // The first of this task, which has been given one that was another's.
      await inject(id, "of its own");
    }),
  );
  expect(result.task).toMatchObject({ state: "succeeded" });
  expect(bodies).toEqual(['{"n":2}', '{"n":3}']);
  const said = result.stdout.toString();
  expect([said.includes("first"), said.includes("of its own"), said.includes("recording")]).toEqual([
    true,
    true,
    false,
  ]);
  expect(result.trace.header.replayed_until_call).toBe(3);
});

test("what would be done again though it is no call is said before anything is submitted", async () => {
  const { recording } = await replays.recorded(
    "dsec-tool message send news '{}'; dsec-tool exec --tool act",
    {
      job: "job-of-replays",
    },
  );
  expect(() => continuationOf(recording, null, undefined)).toThrow(/sent messages on "news"/);
});
