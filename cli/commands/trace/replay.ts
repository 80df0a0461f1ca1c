import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { copyFile, lstat } from "node:fs/promises";
import { createInterface } from "node:readline/promises";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { listFolder, readStart } from "#executor/replay/look.ts";
import { type Recording, readRecording, recordedSpec } from "#executor/replay/recording.ts";
import type { Divergence } from "#executor/replay/replay.ts";
import {
  checkReplayable,
  type HeldSandbox,
  openReplayHost,
  type ReplayEnd,
  type ReplaySettings,
  runReplay,
} from "#executor/replay/run-replay.ts";
import { findGateway } from "../../connection.ts";
import { dataFolder } from "../../data-folder.ts";
import {
  type Command,
  dataOption,
  EXIT,
  examples,
  gatewayOption,
  note,
  onStopSignal,
  printJson,
  usageError,
  wholeNumber,
} from "../../program.ts";
import { byteCount, paintFor, plainLine } from "../../terminal.ts";
import { filesBelow, progress } from "../../trace-files.ts";

type Options = {
  step?: number;
  call?: number;
  inputs?: string;
  image?: string;
  realTime?: boolean;
  keep?: string;
  gateway?: string;
  data: string;
  json?: boolean;
};

export function define(command: Command): void {
  command
    .argument("<file>", "the trace")
    .option(
      "--call <n>",
      "stop before the answer to this call",
      wholeNumber("--call", 1, LIMITS.traceIndexNumber),
    )
    .option(
      "--step <n>",
      "stop before the first answer within this plan step",
      wholeNumber("--step", 1, LIMITS.traceIndexNumber),
    )
    .option(
      "--inputs <dir>",
      "folder with the task's inputs, known by their content (default: from the gateway)",
    )
    .option("--image <name>", "image to run in (default: the task's)")
    .option("--real-time", "let calls take as long as they took")
    .option("--keep <file>", "keep the trace of the replay there")
    .addOption(gatewayOption())
    .addOption(dataOption())
    .action(run);
  examples(command, [
    ["whether an agent does the same again", "dsec trace replay task.trace --inputs inputs/"],
    [
      "look at its memory and files where it calls for the fifth time",
      "dsec trace replay task.trace --call 5",
    ],
  ]);
  command.addHelpText(
    "after",
    `\nThe recorded command runs again in a sandbox of this host, and every call that it makes is answered from the trace:
nothing it does reaches the world. A call that is not the recorded one, by its place and its arguments, is a divergence:
it is shown, and the exit code is 1. So it is where outputs or the exit code come out otherwise. With --call or --step the
agent is kept waiting: on a terminal you can look around and go on, otherwise the state is printed and the sandbox ends.`,
  );
}

async function run(file: string, options: Options): Promise<void> {
  const recording = await readRecording(file);
  checkReplayable(recording);
  const holdAt = holdOf(recording, options);
  const shown = progress("replaying");
  const stopping = new AbortController();
  const stopListening = onStopSignal((signal) =>
    stopping.abort(new DsecError("CALL_CANCELLED", `ended by ${signal}`)),
  );
  let held: object | null = null;
  try {
    const settings: ReplaySettings = {
      fetchArtifact: await inputsOf(recording, options),
      imagesOf: dataFolder(options.data).executor,
      image: options.image,
      holdAt,
      realTime: options.realTime === true,
      onProgress: (begun) => shown.at(file, begun),
      onHeld: async (sandbox) => {
        shown.end();
        if (!options.json && process.stdin.isTTY && process.stdout.isTTY)
          return lookAround(sandbox, recording);
        held = await stateOf(sandbox);
        return { next: "end" };
      },
      ...(options.keep === undefined ? {} : { keep: (path) => copyFile(path, options.keep!) }),
      signal: stopping.signal,
    };
    const host = await openReplayHost();
    const end = await runReplay(recording, host, settings).finally(() => host.close());
    shown.end();
    if (options.json) printJson({ file, ...end, ...(held === null ? {} : { held }) });
    else if (held !== null) printJson(held);
    else process.stdout.write(report(file, recording, end));
    const reached = holdAt === null || end.state === "ended";
    if (!reached) note(`the agent ended before call ${holdAt}`);
    process.exitCode = reached && (end.state === "equal" || end.state === "ended") ? EXIT.done : EXIT.failed;
  } finally {
    shown.end();
    stopListening();
  }
}

function holdOf(recording: Recording, { call, step }: Options): number | null {
  if (call !== undefined && step !== undefined) throw usageError("name --call or --step, not both");
  const { calls, steps, file } = recording;
  if (call !== undefined) {
    if (calls.some(({ start }) => start.call === call)) return call;
    throw new DsecError("NOT_FOUND", `${file} has no call ${call}; it has ${calls.length}`);
  }
  if (step === undefined) return null;
  const seq = steps.get(step);
  if (seq === undefined)
    throw new DsecError("NOT_FOUND", `${file} has no plan step ${step}; it has ${steps.size}`);
  const first = calls.find(({ start }) => start.seq > seq);
  if (first !== undefined) return first.start.call;
  throw new DsecError(
    "NOT_FOUND",
    `${file}: no call follows the beginning of plan step ${step}, so nothing stops there`,
  );
}

/** Where the task's inputs come from, which is said before anything is run. */
async function inputsOf(recording: Recording, options: Options): Promise<ReplaySettings["fetchArtifact"]> {
  const { inputs } = recordedSpec(recording);
  if (options.inputs !== undefined) {
    const files = await filesByContent(options.inputs);
    const lacking = inputs.find(({ artifact }) => !files.has(artifact as Digest));
    if (lacking !== undefined) {
      throw new DsecError(
        "NOT_FOUND",
        `no file in ${options.inputs} has the content ${lacking.artifact}, which the task has at ${lacking.mount_path}`,
      );
    }
    return async (digest) => {
      const { Readable } = await import("node:stream");
      return Readable.toWeb(createReadStream(files.get(digest)!)) as ReadableStream<Uint8Array>;
    };
  }
  const client = inputs.length === 0 ? undefined : await findGateway(options);
  if (inputs.length > 0 && client === undefined) {
    throw new DsecError(
      "CONFIG_INVALID",
      `the task has ${inputs.length} inputs; name the folder that has them (--inputs) or the gateway (--gateway)`,
    );
  }
  return async (digest) =>
    new Blob([(await client!.artifacts.get(digest)) as Uint8Array<ArrayBuffer>]).stream();
}

async function filesByContent(folder: string): Promise<Map<Digest, string>> {
  const files = new Map<Digest, string>();
  if (!(await lstat(folder).catch(() => null))?.isDirectory()) {
    throw new DsecError("NOT_FOUND", `--inputs ${folder} is no folder`);
  }
  for await (const path of filesBelow(folder)) {
    const hash = createHash("sha256");
    for await (const chunk of createReadStream(path)) hash.update(chunk);
    files.set(digestOf(hash.digest()), path);
  }
  return files;
}

/** What can be said of an agent that waits, for a program. */
async function stateOf({ call: { start, end }, memory, stdout, stderr, pid }: HeldSandbox) {
  const { call, tool, kind, method, url, arguments_json, step } = start;
  const memoryJson = await memory();
  return {
    call: { call, tool, kind, method, url, arguments_json, step, answer: answerText(end) },
    memory_json: memoryJson,
    stdout_base64: stdout().toString("base64"),
    stderr_base64: stderr().toString("base64"),
    files: listFolder(pid, "/work"),
  };
}

type RecordedEnd = HeldSandbox["call"]["end"];

function answerText(end: RecordedEnd): string | null {
  if (end === null) return null;
  const { output_json, body } = end.answer ?? { output_json: null, body: null };
  return output_json ?? (body === null ? end.text : Buffer.from(body).toString("utf8").toWellFormed());
}

const SHOWN_CHARS = 4_000;

function shortLine(text: string | null): string {
  const line = plainLine((text ?? "").slice(0, SHOWN_CHARS));
  return (text ?? "").length > SHOWN_CHARS ? `${line}…` : line;
}

/** Asks until the user goes on or ends. */
async function lookAround(
  sandbox: HeldSandbox,
  recording: Recording,
): Promise<{ next: "end" } | { next: "go on"; holdAt: number | null }> {
  const { start, end } = sandbox.call;
  const paint = paintFor(process.stdout);
  const say = (text: string) => process.stdout.write(`${text}\n`);
  const what = start.tool ?? `${start.method} ${start.url}`;
  say(`${paint("bold", `call ${start.call} of ${recording.calls.length}`)}: ${plainLine(what)}`);
  say(`  asks    ${shortLine(start.arguments_json)}`);
  say(`  answer  ${end === null ? "not recorded" : `${end.state}: ${shortLine(answerText(end))}`}`);
  const prompt = createInterface({ input: process.stdin, output: process.stdout });
  try {
    for (;;) {
      const [word = "", ...rest] = (await prompt.question(PROMPT)).trim().split(/\s+/);
      const path = rest.join(" ") || "/work";
      try {
        if (word === "n") return { next: "go on", holdAt: start.call + 1 };
        if (word === "c") return { next: "go on", holdAt: null };
        if (word === "q") return { next: "end" };
        if (word === "m") say(shortLine(await sandbox.memory()));
        else if (word === "o") say(shortLine(sandbox.stdout().toString("utf8")));
        else if (word === "ls") for (const entry of listFolder(sandbox.pid, path)) say(entryLine(entry));
        else if (word === "cat") say(shortLine(readStart(sandbox.pid, path, SHOWN_CHARS).toString("utf8")));
        else say("n: next call, c: to the end, m: memory, o: output so far, ls PATH, cat PATH, q: quit");
      } catch (error) {
        if (!(error instanceof DsecError)) throw error;
        say(plainLine(error.message));
      }
    }
  } finally {
    prompt.close();
  }
}

const PROMPT = "[n]ext [c]ontinue [m]emory [o]utput ls cat [q]uit> ";

function entryLine({ name, kind, size, target }: ReturnType<typeof listFolder>[number]): string {
  const shown =
    kind === "directory" ? "/" : kind === "link" ? ` -> ${plainLine(target ?? "")}` : `  ${byteCount(size)}`;
  return `${plainLine(name)}${shown}`;
}

function report(file: string, recording: Recording, end: ReplayEnd): string {
  const paint = paintFor(process.stdout);
  const name = plainLine(file);
  const { answered, unused } = end.calls;
  const calls = `${answered} of ${recording.calls.length} calls answered from the trace`;
  if (end.divergence !== null)
    return `${paint("red", "✗ diverged")} ${name}: ${calls}\n${divergenceLines(end.divergence)}`;
  if (end.state === "equal") return `${paint("green", "✓ equal")} ${name}: ${calls}, outputs equal\n`;
  if (end.state === "ended") return `ended ${name}: ${calls}\n`;
  const lines = end.differences.map(
    ({ what, recorded, replayed }) =>
      `    ${what}: recorded ${shortLine(JSON.stringify(recorded))}, now ${shortLine(JSON.stringify(replayed))}`,
  );
  const names = unused.slice(0, 10).map(({ call, tool, url }) => `${call} (${plainLine(tool ?? url ?? "")})`);
  if (names.length > 0)
    lines.push(`    not made again: call ${names.join(", ")}${unused.length > 10 ? ", …" : ""}`);
  return `${paint("red", "✗ different")} ${name}: ${calls}\n${lines.join("\n")}\n`;
}

function divergenceLines({ message, recorded, given, members }: Divergence): string {
  const lines = [`    ${plainLine(message)}`];
  const shownMembers = members.includes("arguments_digest")
    ? [...members, "arguments_json", "body"]
    : members;
  for (const member of shownMembers) {
    if (recorded?.[member] == null && given[member] == null) continue;
    lines.push(
      `    ${member}: recorded ${shortLine(JSON.stringify(recorded?.[member]))}`,
      `    ${" ".repeat(member.length)}  now      ${shortLine(JSON.stringify(given[member]))}`,
    );
  }
  return `${lines.join("\n")}\n`;
}
