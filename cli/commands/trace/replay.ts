import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { copyFile, lstat } from "node:fs/promises";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { Divergence } from "#executor/replay/divergence.ts";
import { checkReplayable } from "#executor/replay/live-point.ts";
import { type Recording, readRecording, recordedSpec } from "#executor/replay/recording.ts";
import {
  openReplayHost,
  type ReplayEnd,
  type ReplaySettings,
  runReplay,
} from "#executor/replay/run-replay.ts";
import { connect, findGateway } from "../../connection.ts";
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
import { paintFor, plainLine } from "../../terminal.ts";
import { continueLive } from "../../trace-continuation.ts";
import { filesBelow, progress } from "../../trace-files.ts";
import { type HeldState, lookAround, shortLine, stateOf, stateText } from "../../trace-replay-held.ts";

type Options = {
  step?: number;
  call?: number;
  inputs?: string;
  image?: string;
  realTime?: boolean;
  continueLive?: boolean;
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
    .option(
      "--continue-live",
      "go on live where the record ends, or from --call or --step on: as a task of a gateway",
    )
    .addOption(gatewayOption())
    .addOption(dataOption())
    .action(run);
  examples(command, [
    ["whether an agent does the same again", "dsec trace replay task.trace --inputs inputs/"],
    [
      "look at its memory and files where it calls for the fifth time",
      "dsec trace replay task.trace --call 5",
    ],
    ["do anew what it did from its third step on", "dsec trace replay task.trace --step 3 --continue-live"],
  ]);
  command.addHelpText(
    "after",
    `\nThe recorded command runs again in a sandbox of this host, and every call that it makes is answered from the trace:
nothing it does reaches the world. A call that is not the recorded one, by its place and its arguments, is a divergence:
it is shown, and the exit code is 1. So it is where outputs or the exit code come out otherwise. With --call or --step the
agent is kept waiting: on a terminal you can look around and go on, otherwise the state is printed and the sandbox ends.

With --continue-live, and only then, something is done in the world: the task is submitted to the gateway anew, its agent is
given what is recorded, and from there on its calls are made, signed and attested like any other. No recorded call is made
again. Where the agent leaves the record before, the task ends.`,
  );
}

async function run(file: string, options: Options): Promise<void> {
  const recording = await readRecording(file);
  checkReplayable(recording);
  const call = callOf(recording, options);
  if (!options.continueLive) return replay(recording, call, options);
  if (options.realTime) throw usageError("--real-time is of replays that do not go on live");
  const client = await connect(options);
  const { inputs } = options;
  const files = inputs === undefined ? null : await inputFiles(recording, inputs);
  await continueLive(recording, call, client, { ...options, inputs: files });
}

async function replay(recording: Recording, holdAt: number | null, options: Options): Promise<void> {
  const { file } = recording;
  const shown = progress("replaying");
  const stopping = new AbortController();
  const stopListening = onStopSignal((signal) =>
    stopping.abort(new DsecError("CALL_CANCELLED", `ended by ${signal}`)),
  );
  let held: HeldState | null = null;
  let reached = holdAt === null;
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
        reached ||= sandbox.at === "call";
        if (!options.json && process.stdin.isTTY && process.stdout.isTTY)
          return lookAround(sandbox, recording.calls.length);
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
    else process.stdout.write(report(recording, end) + (held === null ? "" : stateText(held)));
    if (!reached && end.divergence === null) note(`the agent ended before call ${holdAt}`);
    process.exitCode = reached && (end.state === "equal" || end.state === "ended") ? EXIT.done : EXIT.failed;
  } finally {
    shown.end();
    stopListening();
  }
}

/** The call that --call or --step names. */
function callOf(recording: Recording, { call, step }: Options): number | null {
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
    const files = await inputFiles(recording, options.inputs);
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

/** @throws NOT_FOUND where one of the task's inputs is not in the folder */
async function inputFiles(recording: Recording, folder: string): Promise<Map<Digest, string>> {
  const files = await filesByContent(folder);
  const { inputs } = recordedSpec(recording);
  const lacking = inputs.find(({ artifact }) => !files.has(artifact as Digest));
  if (lacking === undefined) return files;
  throw new DsecError(
    "NOT_FOUND",
    `no file in ${folder} has the content ${lacking.artifact}, which the task has at ${lacking.mount_path}`,
  );
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

function report(recording: Recording, end: ReplayEnd): string {
  const paint = paintFor(process.stdout);
  const name = plainLine(recording.file);
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
