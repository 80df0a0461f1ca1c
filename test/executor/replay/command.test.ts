/** `dsec trace replay` as people and programs run it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningGateway, startGateway } from "#gateway/node/server.ts";
import { dsec } from "#test/cli/dsec.ts";
import { dsecInTerminal } from "#test/cli/terminal-session.ts";
import { Replays } from "./replays.ts";

let replays: Replays;
beforeAll(async () => {
  replays = await Replays.open();
});
afterAll(() => replays?.[Symbol.asyncDispose]());

test("that an agent did the same again is one line, and a call that it never made is refused", async () => {
  const { recording } = await replays.recorded("dsec-tool exec --tool act");
  const { file } = recording;
  const same = await dsec(["trace", "replay", file]);
  expect([same.code, same.stdout.toString()]).toEqual([
    0,
    `✓ equal ${file}: 1 of 1 calls answered from the trace, outputs equal\n`,
  ]);
  const absent = await dsec(["trace", "replay", file, "--call", "3"]);
  expect([absent.code, absent.stderr]).toEqual([1, expect.stringContaining("has no call 3; it has 1")]);
});

test("of a divergence is shown what differs, and the agent's memory, files and processes", async () => {
  const { recording } = await replays.recorded(`
dsec-tool memory set plan '"a \\u001b[2J b"'; echo content > file
n=1; [ "\${DSEC_REPLAY-}" = 1 ] && n=2
dsec-tool exec --tool look --input '{"id":"'$n'"}'
`);
  const { code, stdout } = await dsec(["trace", "replay", recording.file]);
  expect(code).toBe(1);
  const lines = stdout.toString().split("\n");
  const told = lines.map((line) => line.trim());
  expect(told[0]).toBe(`✗ diverged ${recording.file}: 0 of 1 calls answered from the trace`);
  expect(told).toContain("call 1 was look, and now it is look: arguments_digest differ");
  expect(told).toContain(`arguments_json: recorded ${JSON.stringify('{"id":"1"}')}`);
  expect(told).toContain(`now      ${JSON.stringify('{"id":"2"}')}`);
  expect(told).toContain(String.raw`memory  {"plan":"a \u001b[2J b"}`);
  expect(told).toContain("file  8 B");
  expect(told.find((line) => line.includes("dsec-tool exec --tool look"))).toMatch(/^\d+ +\d+ +[SR] +/);
  expect(stdout.includes(0x1b)).toBe(false);
});

const AGENT = `
echo content > file
dsec-tool memory set plan 1.0
dsec-tool exec --tool act --input '{"n":1}'
dsec-tool step begin second > /dev/null
dsec-tool exec --tool act --input '{"n":2}'
`;

test("for a program all of an agent's state at a plan step is one JSON value", async () => {
  const { recording } = await replays.recorded(AGENT);
  const { code, stdout } = await dsec(["trace", "replay", recording.file, "--step", "1", "--json"]);
  expect([code, JSON.parse(stdout.toString())]).toMatchObject([
    0,
    {
      state: "ended",
      held: {
        call: { call: 2, tool: "act", arguments_json: '{"n":2}', state: "answered" },
        memory_json: '{"plan":1.0}',
        files: [{ name: "file", kind: "file", size: 8 }],
        processes: [{ pid: 1 }, { parent_pid: 1, name: "sh" }, { name: "dsec-tool" }],
      },
    },
  ]);
});

test("in a terminal one can look around where the agent waits, and go on", async () => {
  const { recording } = await replays.recorded(AGENT);
  const terminal = dsecInTerminal(["trace", "replay", recording.file, "--call", "1"], replays.folder);
  const prompt = "[q]uit> ";
  expect(await terminal.until(prompt)).toContain("call 1 of 2");
  const asked = async (line: string) => {
    terminal.type(line);
    // What is typed is shown too.
    return (await terminal.until(prompt)).replace(line, "");
  };
  expect(await asked("m")).toContain('{"plan":1.0}');
  expect(await asked("ls")).toContain("file  8 B");
  expect(await asked("cat /work/file")).toContain("content");
  expect(await asked("cat /work/absent")).toContain("absent: not there");
  expect(await asked("ps")).toMatch(/PID +PARENT +STATE +COMMAND[\s\S]*dsec-tool exec --tool act/);
  expect(await asked("what")).toContain("n: next call, c: to the end");
  expect(await asked("n")).toContain("call 2 of 2");
  expect(await asked("o")).toContain(recording.calls[0]!.end!.answer!.output_json!);
  terminal.type("c");
  expect(await terminal.until("outputs equal\r\n")).toContain("✓ equal");
  expect(await terminal.ended).toBe(0);
});

test("with --continue-live a replay goes on live from a plan step, through the gateway that is named", async () => {
  const { recording, stdout } = await replays.recorded(AGENT);
  const [first] = stdout.split("\n");
  let gateway: RunningGateway | null = null;
  try {
    gateway = await startGateway({ ports: replays.proxy.gateway.ports, host: "127.0.0.1", port: 0 });
    const before = replays.asked.length;
    const live = await dsec(
      ["trace", "replay", recording.file, "--step", "1", "--continue-live", "--gateway", gateway.url],
      { env: { DSEC_API_KEY: replays.rig.client.secret }, cwd: replays.folder },
    );
    expect([live.code, live.stderr]).toEqual([
      0,
      expect.stringMatching(
        /^task_\w+ is given what .* has before call 2 in plan step 1, and goes on live from there\n$/,
      ),
    ]);
    expect(live.stdout.toString()).toBe(`${first}\n{"effect": ${before + 1}.0}\n`);
    expect(replays.asked.slice(before)).toEqual(['{"n":2}']);
  } finally {
    await gateway?.close();
  }
});
