/** Agents that run in real sandboxes against real upstreams, and then again against nothing but their traces. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import type { TaskRequest } from "#core/wire/tasks.ts";
import type { Executor } from "#executor/main.ts";
import { listFolder, readStart } from "#executor/replay/look.ts";
import { type Recording, readRecording } from "#executor/replay/recording.ts";
import {
  openReplayHost,
  type ReplayEnd,
  type ReplayHost,
  type ReplaySettings,
  runReplay,
} from "#executor/replay/run-replay.ts";
import { dsec } from "#test/cli/dsec.ts";
import { eventually, Rig } from "#test/executor/executor-under-test.ts";
import { openTestProxy, reach, type TestProxy } from "#test/gateway/proxy/proxy-under-test.ts";

let proxy: TestProxy;
let rig: Rig;
let executor: Executor;
let url: string;
let port: number;
let folder: string;
let effects = 0;
let host: ReplayHost;
beforeAll(async () => {
  host = await openReplayHost();
  folder = await mkdtemp(join(tmpdir(), "dsec-replays-"));
  proxy = await openTestProxy();
  // Never the same answer twice: what comes out of a replay can only have come from its trace.
  ({ url, port } = await proxy.serve(async (request, response) => {
    for await (const _part of request);
    effects++;
    if (request.url === "/long") response.end("x".repeat(LIMITS.recordedAnswerBytes + 1));
    else if (request.url === "/down") response.writeHead(503).end("down");
    else if (request.url === "/hang") setTimeout(() => response.end("late"), 2_000);
    else response.writeHead(200, { "content-type": "application/json" }).end(`{"effect": ${effects}.0}`);
  }));
  rig = await Rig.open(proxy.gateway);
  executor = await rig.start();
});
afterAll(async () => {
  await host?.close();
  await rig?.[Symbol.asyncDispose]();
  await proxy?.close();
  await rm(folder, { recursive: true, force: true });
});

/** Runs an agent and reads its trace. */
async function recorded(
  script: string,
  request: Partial<TaskRequest> = {},
  meanwhile: (taskId: string) => Promise<void> = async () => {},
): Promise<{ recording: Recording; stdout: string; stderr: string; taskId: string }> {
  const submitted = await rig.submit({
    ...{ command: ["sh", "-c", script], policy: reach(port), timeout_ms: 60_000 },
    ...{ tools: toolsOf(), ...request },
  });
  await meanwhile(submitted.id);
  const { task, stdout, stderr } = await rig.finished(submitted.id);
  const answer = await rig.client.send("GET", `/v1/tasks/${task.id}/trace`);
  const file = join(folder, `${task.id}.trace`);
  await writeFile(file, new Uint8Array(await answer.arrayBuffer()));
  const recording = await readRecording(file);
  return { recording, stdout: stdout.toString(), stderr: stderr.toString(), taskId: task.id };
}

/** Runs it again. Nothing may reach the upstream meanwhile. */
async function replayed(recording: Recording, settings: Partial<ReplaySettings> = {}): Promise<ReplayEnd> {
  const before = effects;
  const end = await runReplay(recording, host, {
    fetchArtifact: () => Promise.reject(new Error("no inputs here")),
    imagesOf: folder,
    holdAt: null,
    onHeld: () => Promise.reject(new Error("nothing is to be held")),
    realTime: false,
    onProgress: () => {},
    signal: new AbortController().signal,
    ...settings,
  });
  expect(effects, "effects of a replay").toBe(before);
  return end;
}

const toolsOf = (): TaskRequest["tools"] => [
  { name: "act", kind: "http", method: "POST", url: `${url}/act` },
  { name: "look", kind: "http", url: `${url}/look/{id}`, read_only: true },
  { name: "down", kind: "http", url: `${url}/down` },
  { name: "hang", kind: "http", url: `${url}/hang`, timeout_ms: 300 },
  { name: "hang_default", kind: "http", url: `${url}/hang`, timeout_ms: 300, fallback: { nothing: null } },
  { name: "now", kind: "exec", command: ["date", "+%N"] },
  { name: "broken", kind: "exec", command: ["sh", "-c", "echo why >&2; exit 3"] },
  { name: "absent", kind: "exec", command: ["/no/such/program"] },
  { name: "here", kind: "exec", where: "sandbox", command: ["sh", "-c", "cat mark; cat", "sh"] },
];

const equal = { state: "equal", divergence: null, differences: [] };

test("tools of every kind give again what they gave, byte for byte, and nothing happens in the world", async () => {
  const { recording, stdout, stderr } = await recorded(`
set -u
echo mark > mark
for i in 1 2 3; do dsec-tool exec --tool act --input '{"b":2.0,"a":1}'; done
dsec-tool exec --tool look --input '{"id":"a/b"}'
curl -s --unix-socket $DSEC_SOCKET --json '{"input":{"id":"8"}}' http://dsec/v1/tools/look; echo
curl -s --unix-socket $DSEC_SOCKET --json '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"act","arguments":{}}}' http://dsec/mcp; echo
for tool in down hang hang_default now broken absent here nowhere; do dsec-tool exec --tool $tool; echo "$tool: $?"; done
dsec-tool api-call --url ${url}/post --body hello --header 'x-a: b'; echo
dsec-tool api-call --url http://127.0.0.1:1/; echo $?
curl -s --noproxy '' -d body ${url}/by-curl; echo
curl -s --noproxy '' -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:1/refused
python3 - <<'EOF'
import os, random, dsec
from dsec.memory import Memory
random.seed(dsec.seed()); print(random.random(), dsec.clock())
m = Memory(); m["n"] = [1]; m["n"].append(2.5); print(m["n"], os.environ["DSEC_SEED"], os.environ["DSEC_STARTED_AT"])
EOF
dsec-tool memory get n
curl -s --unix-socket $DSEC_SOCKET http://dsec/v1/clock | sed s/false/true/
exit 7
`);
  expect(recording.obstacles).toEqual([]);
  const end = await replayed(recording);
  expect(end, `${stdout}\n${stderr}`).toMatchObject({
    ...equal,
    calls: { answered: recording.calls.length, unused: [] },
  });
  expect(end.outcome).toMatchObject({ reason: "exited", exit_code: 7 });
  expect(end.stdout).toEqual(recording.streams.stdout);
  expect(end.stdout.bytes).toBe(stdout.length);
});

test("what one agent asked for in five equal calls is given in the same order, and not a sixth time (B68)", async () => {
  const { recording, stdout } = await recorded(`
for i in 1 2 3 4 5; do dsec-tool exec --tool act --input '{"a":1}'; done
if [ "\${DSEC_REPLAY-}" = 1 ]; then dsec-tool exec --tool act --input '{"a":1}'; echo $?; fi
`);
  expect(new Set(stdout.trim().split("\n")).size).toBe(5);
  const end = await replayed(recording);
  expect(end).toMatchObject({ state: "diverged", calls: { answered: 5, unused: [] } });
  expect(end.divergence).toMatchObject({ what: "call", call: null, recorded: null, given: { tool: "act" } });
  expect(end.divergence!.message).toBe("call 6 (act) is one more than the 5 that were recorded");
});

test("the order of members is no difference, and a value is: it is shown, and nothing is answered after it", async () => {
  const { recording } = await recorded(`
now() { [ "\${DSEC_REPLAY-}" = 1 ] && echo "$2" || echo "$1"; }
dsec-tool exec --tool act --input "$(now '{"a":1,"b":2}' '{"b":2,"a":1}')"
dsec-tool exec --tool act --input "$(now '{"a":1}' '{"a":2}')"; echo $?
dsec-tool exec --tool act --input '{"a":3}'; echo $?
`);
  const end = await replayed(recording);
  expect(end).toMatchObject({ state: "diverged", calls: { answered: 1 } });
  expect(end.divergence).toMatchObject({
    ...{ what: "call", call: 2, members: ["arguments_digest"] },
    recorded: { arguments_json: '{"a":1}' },
    given: { arguments_json: '{"a":2}' },
  });
  expect(end.calls.unused.map(({ call }) => call)).toEqual([2, 3]);
});

test("an agent that does less than it did is told apart from one that does the same", async () => {
  const { recording } = await recorded(`
dsec-tool exec --tool act --input '{"a":1}'
[ "\${DSEC_REPLAY-}" = 1 ] || dsec-tool exec --tool look --input '{"id":"2"}'
`);
  const end = await replayed(recording);
  expect(end).toMatchObject({
    state: "different",
    calls: { answered: 1, unused: [{ call: 2, tool: "look" }] },
  });
  expect(end.differences.map(({ what }) => what)).toEqual(["calls", "stdout"]);
});

test("calls of several threads get their own answers, in whatever order they come", async () => {
  const script = (order: string) => `
import os, threading, time
from dsec.tools import Client
def work(n):
    client = Client()
    # the first to come is the last in the replay
    time.sleep(0.15 * (7 - n if "DSEC_REPLAY" in os.environ else n))
    said[n] = [client.request("POST", "/v1/tools/" + tool, b'{"input":{"n":%d,"id":"%d"}}' % (n, n), {"content-type": "application/json"}).json()["output"] for tool in ${order}]
said = {}
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(said.items()))
`;
  const { recording } = await recorded("", { command: ["python3", "-c", script('["act", "look", "act"]')] });
  expect(recording.calls).toHaveLength(24);
  expect(await replayed(recording)).toMatchObject({ ...equal, calls: { answered: 24 } });
});

test("observations come with the same answers as they came", async () => {
  const { recording, stdout } = await recorded(
    `
echo begun
[ "\${DSEC_REPLAY-}" = 1 ] || sleep 1
curl -s --unix-socket $DSEC_SOCKET --json '{"input":{"a":1}}' http://dsec/v1/tools/act; echo
dsec-tool observe --wait 20000
dsec-tool exec --tool act --input '{"a":2}'
dsec-tool observe
`,
    {},
    async (taskId) => {
      const inject = (content: unknown) =>
        rig.client.ok("POST", `/v1/tasks/${taskId}/observations`, { content });
      await rig.begun(taskId);
      await inject({ said: 1.5 });
      await eventually(async () => {
        const { items } = await rig.client.ok<{ items: { seq: number }[] }>(
          "GET",
          `/v1/tasks/${taskId}/receipts`,
        );
        return items.length > 0;
      });
      await inject(["second"]);
    },
  );
  expect(stdout).toContain('"content":{"said":1.5}');
  expect(stdout).toContain('["second"]\n');
  expect(recording.observations.map(({ call }) => call)).toEqual([1, null]);
  expect(await replayed(recording)).toMatchObject(equal);
});

test("memory is real, and a read of something else is a divergence", async () => {
  const { recording } = await recorded(`
dsec-tool memory set plan '["look"]'
dsec-tool memory get plan
[ "\${DSEC_REPLAY-}" = 1 ] && dsec-tool memory set plan '["act"]'
dsec-tool memory get plan
dsec-tool exec --tool act --input '{"a":1}'
`);
  const end = await replayed(recording);
  expect(end).toMatchObject({ state: "diverged", calls: { answered: 0 } });
  expect(end.divergence).toMatchObject({
    what: "memory",
    members: ["value"],
    given: { op: "get", key: "plan" },
  });
});

test("memory begins as an earlier attempt left it", async () => {
  const { recording, stdout } = await recorded(
    `
dsec-tool memory get left 2> /dev/null || { dsec-tool memory set left '{"n": [1.0, "ü"]}'; echo left; sleep 60; }
dsec-tool memory set left 2; dsec-tool memory get left
`,
    { retries: 1 },
    async (taskId) => {
      await rig.begun(taskId);
      await executor.close();
      executor = await rig.start();
    },
  );
  expect(stdout).toBe('{"n":[1.0,"ü"]}\n2\n');
  expect(recording.memoryJson).toBe('{"left":{"n":[1.0,"ü"]}}');
  expect(await replayed(recording)).toMatchObject(equal);
});

test("an agent is kept waiting at a call, where its memory and files can be looked at and links lead nowhere", async () => {
  const { recording } = await recorded(`
dsec-tool memory set plan '{"n":1.0}' > /dev/null
echo content > file; mkdir sub; ln -s /etc/shadow link; mkfifo pipe
dsec-tool exec --tool act --input '{"a":1}'
dsec-tool exec --tool act --input '{"a":2}'
`);
  const at: number[] = [];
  const end = await replayed(recording, {
    holdAt: 1,
    onHeld: async ({ call, pid, memory, stdout }) => {
      at.push(call.start.call);
      if (call.start.call === 1) return { next: "go on", holdAt: 2 };
      expect(JSON.parse((await memory())!)).toEqual({ plan: { n: 1 } });
      expect(stdout().toString()).toBe(`${recording.calls[0]!.end!.answer!.output_json}\n`);
      expect(listFolder(pid, "/work").map(({ name, kind }) => `${name} ${kind}`)).toEqual([
        ...["file file", "link link", "pipe other", "sub directory"],
      ]);
      expect(readStart(pid, "/work/file", 100).toString()).toBe("content\n");
      for (const path of ["/work/link", "/work/pipe", "/work/../etc/shadow", "/work/absent"]) {
        expect(() => readStart(pid, path, 100), path).toThrow(/is a link to|neither file|without|not there/);
      }
      return { next: "end" };
    },
  });
  expect(at).toEqual([1, 2]);
  expect(end).toMatchObject({ state: "ended", differences: [] });
});

test("what a trace does not have is said before anything runs", async () => {
  const { recording } = await recorded("dsec-tool exec --tool act", { trace: { level: "error_only" } });
  await expect(replayed(recording)).rejects.toMatchObject({
    code: "NOT_REPLAYABLE",
    message: expect.stringContaining("its level is error_only, which keeps no answers"),
  });
  const long = await recorded(`dsec-tool api-call --url ${url}/long > /dev/null; dsec-tool exec --tool act`);
  expect(long.recording.obstacles).toEqual([expect.stringContaining("call 1 was not kept")]);
});

test("dsec trace replay says that an agent did the same again, where it did not, and how it stands at a call", async () => {
  const { recording } = await recorded(`
dsec-tool exec --tool act --input '{"a":1}'
dsec-tool memory set plan 1.0
dsec-tool exec --tool act --input '{"a":2}'
`);
  const { file } = recording;
  const same = await dsec(["trace", "replay", file]);
  expect([same.code, same.stdout.toString()]).toEqual([
    0,
    `✓ equal ${file}: 2 of 2 calls answered from the trace, outputs equal\n`,
  ]);
  const held = await dsec(["trace", "replay", file, "--call", "2"]);
  expect([held.code, JSON.parse(held.stdout.toString())]).toMatchObject([
    0,
    {
      call: {
        call: 2,
        tool: "act",
        arguments_json: '{"a":2}',
        answer: recording.calls[1]!.end!.answer!.output_json,
      },
      memory_json: '{"plan":1.0}',
      files: [],
    },
  ]);
  const absent = await dsec(["trace", "replay", file, "--call", "3"]);
  expect([absent.code, absent.stderr]).toEqual([1, expect.stringContaining("has no call 3; it has 2")]);
});

test("dsec trace replay shows a divergence and what differs", async () => {
  const { recording } = await recorded(`
n=1; [ "\${DSEC_REPLAY-}" = 1 ] && n=2
dsec-tool exec --tool look --input '{"id":"'$n'"}'
`);
  const { code, stdout } = await dsec(["trace", "replay", recording.file]);
  expect(code).toBe(1);
  const lines = stdout
    .toString()
    .split("\n")
    .map((line) => line.trim());
  expect(lines[0]).toBe(`✗ diverged ${recording.file}: 0 of 1 calls answered from the trace`);
  expect(lines).toContain("call 1 was look, and now it is look: arguments_digest differ");
  expect(lines).toContain(`arguments_json: recorded ${JSON.stringify('{"id":"1"}')}`);
  expect(lines).toContain(`now      ${JSON.stringify('{"id":"2"}')}`);
});
