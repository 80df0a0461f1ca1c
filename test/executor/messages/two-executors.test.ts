/** A job whose two sandboxes run on two executors: one in this process, and one of its own that is killed. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningGateway, startGateway } from "#gateway/node/server.ts";
import { openTestGateway, type TestGateway } from "#test/gateway/gateway-under-test.ts";
import { CAPACITY, eventually, Rig } from "../executor-under-test.ts";

let gateway: TestGateway;
let server: RunningGateway;
let rig: Rig;
let child: ChildProcess;

beforeAll(async () => {
  gateway = await openTestGateway();
  server = await startGateway({ ports: gateway.ports, host: "127.0.0.1", port: 0 });
  rig = await Rig.open(gateway);
});
afterAll(async () => {
  await end("SIGTERM");
  await rig?.[Symbol.asyncDispose]();
  await server?.close();
  await gateway?.close();
});

const QUESTIONS = 6;
/** Only the process of its own has room for the one, which then has no room for the other. */
const READER = { cpu_cores: 0.9, memory_mb: 64 };
const WRITER = { cpu_cores: 0.5, memory_mb: 64 };

test("sandboxes on two executors exchange messages in order, and lose none though one executor is killed", async () => {
  await startProcess();
  const reader = await rig.submit({
    job: "exchange",
    command: ["python3", "-u", "-c", READ],
    resources: READER,
    channels: [{ name: "questions", reads: true, schema: { type: "object", required: ["n"] } }],
  });
  await rig.begun(reader.id);
  await rig.start({ capacity: { ...CAPACITY, cpu_cores: WRITER.cpu_cores } });
  const writer = await rig.submit({
    job: "exchange",
    command: ["sh", "-c", WRITE],
    resources: WRITER,
    channels: [{ name: "answers", reads: true }],
  });

  const said = async () => {
    const events = await gateway.store.listEvents(reader.id as never, 0, 1000);
    return events
      .map((event) => (event.type === "stdout" ? Buffer.from(event.data, "base64").toString() : ""))
      .join("");
  };
  await eventually(async () => (await said()).endsWith("4 keeps me\n"));
  const leftIn = await rig.get(reader.id);
  await end("SIGKILL");
  await startProcess();

  const { task: written, stdout: answers } = await rig.finished(writer.id);
  const { task: read, stdout: questions } = await rig.finished(reader.id);
  // What it was working on when its executor was killed it gets again, and what it had dealt with it does not.
  expect(questions.toString()).toBe("ready\n4\n5\n6\n");
  expect(await said()).toBe(`ready\n1\n2\n3\n4 keeps me\n${questions}`);
  expect(answers.toString()).toBe("1\n2\n3\n4\n5\n6\n");
  expect([written.state, read.state]).toEqual(["succeeded", "succeeded"]);
  expect([written.attempts, read.attempts]).toEqual([1, 2]);
  expect(written.executor_id).not.toBe(leftIn.executor_id);
}, 300_000);

/** Answers each question before it acknowledges it; in its first attempt the fourth one keeps it for ever. */
const READ = `
import time
from dsec.memory import Memory
from dsec.messages import Channel
memory = Memory()
print("ready")
for question in Channel("questions"):
    n = question.body["n"]
    if n == 4 and "kept" not in memory:
        memory["kept"] = True
        print(n, "keeps me")
        time.sleep(3600)
    print(n)
    Channel("answers").send(n)
    if n == ${QUESTIONS}: break
`;

/** Asks the next question once the last one is answered. */
const WRITE = `
for n in $(seq ${QUESTIONS}); do
  dsec-tool message send questions "{\\"n\\": $n}" > /dev/null
  answer=; while [ -z "$answer" ]; do answer=$(dsec-tool message receive answers --wait 20000 --ack); done
  echo "$answer"
done
`;

/** `dsec executor` over its own data folder; resolves once it pulls. */
async function startProcess(): Promise<void> {
  const data = join(rig.directory, "other");
  const offer = ["--offer", `cpu_cores=${READER.cpu_cores}`];
  child = spawn(
    process.execPath,
    ["cli/main.ts", "executor", "--gateway", server.url, "--data", data, ...offer],
    { env: { ...process.env, DSEC_TOKEN: rig.token }, stdio: ["ignore", "ignore", "pipe"] },
  );
  const lines: string[] = [];
  for await (const line of createInterface(child.stderr!)) {
    lines.push(line);
    if (!/executor exec_\S+ pulls/.test(line)) continue;
    child.stderr!.resume();
    return;
  }
  throw new Error(`the executor ended before it pulled:\n${lines.join("\n")}`);
}

async function end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  child?.kill(signal);
  if (child !== undefined && child.exitCode === null && child.signalCode === null) await once(child, "exit");
}
