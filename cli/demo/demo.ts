/**
 * The main job of `dsec up --demo`: submits every demo task at once, follows them live, saves outputs and
 * attestations, and verifies each offline from the saved files alone.
 */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Task } from "#core/wire/tasks.ts";
import type { Client } from "#sdk/client.ts";
import { decodeData } from "#sdk/task-events.ts";
import { ending, runTime } from "../commands/task.ts";
import { writeAtomically } from "../data-folder.ts";
import { saveResult } from "../result-folder.ts";
import { plainLine } from "../terminal.ts";
import { JWKS_FILE, readJwksFile, type Verification, verifyFolder } from "../verification.ts";
import { type Board, createBoard, resultTable } from "./board.ts";
import { DEMO_TASKS, type DemoTask, readAgentFile } from "./tasks.ts";

export type DemoResult = { name: string; task: Task; verification: Verification; asExpected: boolean };

/**
 * Undefined where it was stopped: some of the tasks have no result then.
 * @param folder gets `jwks.json` and, for each task, its `output.json`, its streams and `attestation.jwt`
 */
export async function runDemo(options: {
  client: Client;
  folder: string;
  issuer: string;
  out: NodeJS.WriteStream;
  /** Cancels what still runs. */
  stop: AbortSignal;
}): Promise<DemoResult[] | undefined> {
  const { client, folder, issuer, out, stop } = options;
  out.write(`Running ${DEMO_TASKS.length} tasks at once, each in a sandbox of its own:\n\n`);
  const board = createBoard(
    DEMO_TASKS.map(({ name }) => name),
    out,
  );
  let finished: { demo: DemoTask; task: Task; nonce: string }[];
  try {
    finished = await Promise.all(DEMO_TASKS.map((demo) => runOne(client, demo, board, stop)));
  } finally {
    board.close();
  }
  if (stop.aborted) return undefined;

  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeAtomically(join(folder, JWKS_FILE), `${JSON.stringify(await client.jwks(), null, 2)}\n`);
  const results: DemoResult[] = [];
  for (const { demo, task, nonce } of finished) {
    const taskFolder = join(folder, demo.name);
    await saveResult(client, task, taskFolder, { withKeys: false });
    const jwks = await readJwksFile(join(folder, JWKS_FILE));
    const verification = await verifyFolder(taskFolder, { jwks, issuer, nonce });
    results.push({ name: demo.name, task, verification, asExpected: isAsExpected(demo, task, verification) });
  }

  const rows = results.map(({ name, task, verification, asExpected }) => ({
    name,
    state: task.state,
    time: runTime(task),
    end: ending(task),
    attestation: verification.state === "verified" ? "verified" : verification.code,
    asExpected,
  }));
  out.write(`\n${resultTable(rows, out)}\n\n`);
  for (const { name, verification } of results) {
    if (verification.state === "refused")
      out.write(`${name}: ${verification.code}: ${plainLine(verification.message)}\n`);
  }
  return results;
}

async function runOne(
  client: Client,
  demo: DemoTask,
  board: Board,
  stop: AbortSignal,
): Promise<{ demo: DemoTask; task: Task; nonce: string }> {
  const inputs = [];
  for (const name of demo.inputs) {
    const { artifact } = await client.artifacts.put(readAgentFile(name));
    inputs.push({ artifact, mount_path: `/inputs/${name}` });
  }
  const nonce = crypto.randomUUID();
  const { id } = await client.tasks.submit({
    command: demo.command,
    inputs,
    outputs: ["output.json"],
    resources: demo.resources,
    timeout_ms: demo.timeout_ms,
    labels: { demo: demo.name },
    nonce,
  });
  const cancel = () => void client.tasks.cancel(id).catch(() => {});
  if (stop.aborted) cancel();
  stop.addEventListener("abort", cancel, { once: true });
  const decoder = new TextDecoder();
  for await (const event of client.tasks.events(id)) {
    if (event.type === "state") board.state(demo.name, event.state);
    else if (event.type !== "truncated") {
      const line = plainLine(decoder.decode(decodeData(event)).trimEnd().split("\n").at(-1) ?? "");
      if (line !== "") board.line(demo.name, line);
    }
  }
  return { demo, task: await client.tasks.get(id), nonce };
}

function isAsExpected({ expected }: DemoTask, task: Task, verification: Verification): boolean {
  const outcome = task.result?.outcome;
  return (
    verification.state === "verified" &&
    verification.files.includes("output.json") &&
    task.state === expected.state &&
    outcome?.reason === expected.reason &&
    (expected.exitCode === undefined || outcome.exit_code === expected.exitCode)
  );
}
