/** Agents that run in real sandboxes against real upstreams, and then again against nothing but their traces. */
import { copyFile, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { importImage } from "#executor/images/import.ts";
import { ImageStore } from "#executor/images/store.ts";
import { listFolder, readStart } from "#executor/replay/look.ts";
import { type Recording, readRecording } from "#executor/replay/recording.ts";
import type { HeldSandbox, ReplaySettings } from "#executor/replay/run-replay.ts";
import { eventually } from "#test/executor/executor-under-test.ts";
import { Replays } from "./replays.ts";

let replays: Replays;
beforeAll(async () => {
  replays = await Replays.open();
});
afterAll(() => replays?.[Symbol.asyncDispose]());

const recorded = (...given: Parameters<Replays["recorded"]>) => replays.recorded(...given);
const replayed = (recording: Recording, settings: Partial<ReplaySettings> = {}) =>
  replays.replayed(recording, settings);

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
dsec-tool api-call --url ${replays.url}/post --body hello --header 'x-a: b'; echo
dsec-tool api-call --url http://127.0.0.1:1/; echo $?
curl -s --noproxy '' -d body ${replays.url}/by-curl; echo
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

test("a program gets each redirect and each coded body again as it came, and follows and undoes them itself", async () => {
  const { recording, stdout } = await recorded(`
curl -sS --noproxy '' -L -c jar -b jar --compressed -w '%{num_redirects} %{url_effective}\\n' ${replays.url}/go
curl -sS --noproxy '' -b jar ${replays.url}/coded | sha256sum; cat jar | tail -1`);
  expect(stdout).toMatch(/^visit=\d+ \d+\n1 http:\S+\/coded\n/);
  expect(recording.obstacles).toEqual([]);
  const end = await replayed(recording);
  expect(end).toMatchObject({ ...equal, calls: { answered: 3, unused: [] } });
  expect(end.stdout).toEqual(recording.streams.stdout);
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
  expect(end.divergence!.message).toBe(
    "call 6 (act) is one more than the 5 that were recorded; --continue-live goes on from there",
  );
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
clock() { curl -s -o /dev/null -D - --unix-socket $DSEC_SOCKET http://dsec/v1/clock; }
[ "\${DSEC_REPLAY-}" = 1 ] || until clock | grep -qi '^dsec-observations: 1'; do sleep 0.05; done
curl -s --unix-socket $DSEC_SOCKET --json '{"input":{"a":1}}' http://dsec/v1/tools/act; echo
dsec-tool observe --wait 20000
dsec-tool exec --tool act --input '{"a":2}'
dsec-tool observe
`,
    {},
    async (taskId) => {
      const inject = (content: unknown) =>
        replays.rig.client.ok("POST", `/v1/tasks/${taskId}/observations`, { content });
      await replays.rig.begun(taskId);
      await inject({ said: 1.5 });
      await eventually(async () => {
        const { items } = await replays.rig.client.ok<{ items: { seq: number }[] }>(
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
      await replays.rig.begun(taskId);
      await replays.executor.close();
      replays.executor = await replays.rig.start();
    },
  );
  expect(stdout).toBe('{"n":[1.0,"ü"]}\n2\n');
  expect(recording.memoryJson).toBe('{"left":{"n":[1.0,"ü"]}}');
  expect(await replayed(recording)).toMatchObject(equal);
});

test("an agent is kept waiting at a call, where its memory, files and processes can be looked at and links lead nowhere", async () => {
  const { recording } = await recorded(`
dsec-tool memory set plan '{"n":1.0}' > /dev/null
echo content > file; mkdir sub; ln -s /etc/shadow link; mkfifo pipe
cp /bin/sleep 'sub/) R (1'; 'sub/) R (1' 1000 &
dsec-tool exec --tool act --input '{"a":1}'
dsec-tool exec --tool act --input '{"a":2}'
kill $!
`);
  const at: number[] = [];
  const end = await replayed(recording, {
    holdAt: 1,
    onHeld: async ({ call, pid, memory, stdout, processes }) => {
      at.push(call!.start.call);
      if (call!.start.call === 1) return { next: "go on", holdAt: 2 };
      expect(JSON.parse((await memory())!)).toEqual({ plan: { n: 1 } });
      expect(stdout().toString()).toBe(`${recording.calls[0]!.end!.answer!.output_json}\n`);
      expect(listFolder(pid, "/work").map(({ name, kind }) => `${name} ${kind}`)).toEqual([
        ...["file file", "link link", "pipe other", "sub directory"],
      ]);
      expect(readStart(pid, "/work/file", 100).toString()).toBe("content\n");
      for (const path of ["/work/link", "/work/pipe", "/work/../etc/shadow", "/work/absent"]) {
        expect(() => readStart(pid, path, 100), path).toThrow(/is a link to|neither file|without|not there/);
      }
      // It has been started, and perhaps has not slept yet.
      const sleeping = () => processes().find(({ name }) => name === ") R (1");
      await eventually(() => sleeping()?.state === "S");
      const [init, agent] = processes();
      expect(init).toMatchObject({ pid: 1, parent_pid: 0 });
      expect(agent).toMatchObject({ parent_pid: 1, name: "sh", command: ["sh", "-c", expect.any(String)] });
      // Its name says that it runs, and as a child of init.
      expect(sleeping()).toMatchObject({
        ...{ parent_pid: agent!.pid, state: "S", command: ["sub/) R (1", "1000"] },
      });
      return { next: "end" };
    },
  });
  expect(at).toEqual([1, 2]);
  expect(end).toMatchObject({ state: "ended", differences: [] });
});

test("an agent that has left the record waits until somebody has looked at it, and its replay's trace says what of", async () => {
  const { recording } = await recorded(`
n=1; [ "\${DSEC_REPLAY-}" = 1 ] && n=2
dsec-tool exec --tool act --input '{"a":1}'
dsec-tool step begin second
dsec-tool exec --tool act --input '{"n":'$n'}'
`);
  const kept = join(replays.folder, "kept.trace");
  let held: HeldSandbox | null = null;
  const end = await replayed(recording, {
    keep: (path) => copyFile(path, kept),
    onHeld: async (sandbox) => {
      held = sandbox;
      // It was not answered yet, so its program is there.
      expect(sandbox.processes().map(({ name }) => name)).toContain("dsec-tool");
      return { next: "end" };
    },
  });
  expect(held).toMatchObject({ at: "divergence", call: null, divergence: { call: 2 } });
  expect(end.state).toBe("diverged");
  const again = await readRecording(kept);
  expect(again.header).toMatchObject({
    replayed_from_digest: recording.digest,
    ...{ replayed_until_call: 3, replayed_until_step: 1 },
    told_wall_us: recording.header.started_wall_us,
  });
  expect(again.calls.map(({ end }) => [end!.replayed, end!.told_wall_us, end!.code])).toEqual([
    [true, recording.calls[0]!.end!.wall_us, null],
    [null, null, "REPLAY_DIVERGED"],
  ]);
  expect(again.obstacles).toEqual([expect.stringContaining("left its record at call 3 (act)")]);
});

test("calls take as long as they took where that is asked for", async () => {
  const { recording } = await recorded("dsec-tool exec --tool slow");
  const kept = join(replays.folder, "slow.trace");
  const settings = { keep: (path: string) => copyFile(path, kept), realTime: true };
  expect(await replayed(recording, settings)).toMatchObject(equal);
  const [{ start, end }] = (await readRecording(kept)).calls as [Recording["calls"][number]];
  const recordedUs = recording.calls[0]!.end!.duration_us;
  expect(recordedUs).toBeGreaterThan(290_000);
  // A timer counts whole milliseconds from when its turn of the event loop began.
  expect(end!.t_us - start.t_us).toBeGreaterThan(recordedUs - 5_000);
});

test("an agent runs again in another image, and what comes out otherwise is said", async () => {
  const { recording } = await recorded(
    "cat /etc/marker 2> /dev/null || echo none; dsec-tool exec --tool act",
  );
  const root = join(replays.folder, "root");
  for (const path of ["bin", "etc"]) await mkdir(join(root, path), { recursive: true });
  await copyFile("/bin/busybox", join(root, "bin/busybox"));
  for (const name of ["sh", "cat", "echo"]) await symlink("busybox", join(root, "bin", name));
  await writeFile(join(root, "etc/marker"), "from the image\n");
  await importImage(await ImageStore.open(replays.folder), root, { name: "tiny" });
  const end = await replayed(recording, { image: "tiny" });
  expect(end).toMatchObject({ state: "different", calls: { answered: 1 }, divergence: null });
  expect(end.differences.map(({ what }) => what)).toEqual(["stdout"]);
  await expect(replayed(recording, { image: "absent" })).rejects.toMatchObject({ code: "IMAGE_NOT_FOUND" });
});

test("what a trace does not have is said before anything runs", async () => {
  const { recording } = await recorded("dsec-tool exec --tool act", { trace: { level: "error_only" } });
  await expect(replayed(recording)).rejects.toMatchObject({
    code: "NOT_REPLAYABLE",
    message: expect.stringContaining("its level is error_only, which keeps no answers"),
  });
  const long = await recorded(
    `dsec-tool api-call --url ${replays.url}/long > /dev/null; dsec-tool exec --tool act`,
  );
  expect(long.recording.obstacles).toEqual([expect.stringContaining("call 1 was not kept")]);
});
