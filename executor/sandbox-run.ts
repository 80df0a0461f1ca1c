import { writeFileSync } from "node:fs";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { axisThatDoesNotFit, type Resources } from "#core/resources.ts";
import type { Outcome } from "#core/task.ts";
import { fromWire } from "#core/wire/common.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { Output, Stream } from "#core/wire/tasks.ts";
import type { Launcher, LaunchPlan, Sandbox } from "#native/index.ts";
import type { ArtifactCache } from "./artifact-cache.ts";
import type { AttemptFolder } from "./attempt-folder.ts";
import type { Channel, ChannelRecord } from "./channel/channel.ts";
import type { Channels } from "./channel/channels.ts";
import type { AgentServices } from "./channel/services.ts";
import { collectOutputs } from "./collect.ts";
import { Egress } from "./egress/egress.ts";
import { type Lived, wireText } from "./evidence.ts";
import type { GatewayClient } from "./gateway-client.ts";
import type { Room } from "./host-room.ts";
import { type HeldLease, stopOf } from "./leases.ts";
import type { LiveEvents } from "./live-events.ts";
import { outcomeOf } from "./outcome.ts";
import { captureStream } from "./output-stream.ts";
import type { Place } from "./place.ts";
import { isInsufficient, planLaunch } from "./plan.ts";
import { givenFirst } from "./replay/fast-forward.ts";
import type { Replay } from "./replay/replay.ts";
import type { LiveTrajectories } from "./trace/live.ts";
import { ProcessRecord } from "./trace/process-record.ts";
import { SandboxCpu } from "./trace/sandbox-cpu.ts";

export type SandboxParts = {
  live: Pick<LiveEvents, "sink">;
  trajectories: LiveTrajectories;
  launcher: Pick<Launcher, "launch">;
  artifacts: ArtifactCache;
  channels: Channels;
  client: Pick<GatewayClient, "policy" | "earlierTrace">;
  services: Pick<AgentServices, "memory">;
  /** what nobody uses on this host at this moment */
  measureFree: () => Room;
  /** hears that it was too little for a task that was granted, which is given back */
  onShortage: (error: DsecError) => void;
  /** aborts when this executor ends, whatever is still to be delivered */
  closing: AbortSignal;
};

/** What one sandbox did and left. */
export type Ran = {
  lived: Lived;
  channel: ChannelRecord;
  outcome: Outcome;
  outputs: Output[];
  stdout: Stream;
  stderr: Stream;
  /** Resolves once nothing of the sandbox is left on the host. */
  destroyed: Promise<void>;
};

/** A command that came to its own end, which a fault of ours that follows does not undo. */
export type Ended = { lived: Lived; outcome: Outcome };

/** A fault of ours ended an attempt that had a sandbox, and this is what is known of it. */
export class Interrupted extends Error {
  /** What had passed through its channel until then; null where that cannot be told. */
  readonly channel: ChannelRecord | null;
  /** Null where the fault kept the command from its end. */
  readonly ended: Ended | null;

  constructor(cause: unknown, channel: ChannelRecord | null, ended: Ended | null) {
    super("a fault of the executor's ended the sandbox", { cause });
    this.channel = channel;
    this.ended = ended;
  }
}

/**
 * Runs the command of a lease in a sandbox: inputs, plan, launch, output as it comes, the end, the files it left.
 * Rejects, with nothing left behind, where a fault of ours kept the command from its end or what is known of it from
 * being kept (`Interrupted` where it had a channel), and with the `Stop` where the attempt was stopped before there was a
 * sandbox.
 * @param replay answers the command's calls in place of the world
 * @param onRunning called once the command runs, before anything that it puts out is sent
 */
export async function runInSandbox(
  held: HeldLease,
  image: LaunchPlan["image"],
  { folder, door, authority }: Place,
  onRunning: () => void,
  parts: SandboxParts,
  replay: Replay | null = null,
): Promise<Ran> {
  const { lease } = held;
  const { signal } = held.stopped;
  const inputs: Digest[] = [];
  let channel: Channel | null = null;
  let egress: Egress | null = null;
  let ended: Ended | null = null;
  let unfollow = () => {};
  const acquireInputs = async () => {
    const paths: string[] = [];
    for (const { artifact } of lease.spec.inputs) {
      paths.push(await parts.artifacts.acquire(artifact as Digest, signal));
      inputs.push(artifact as Digest);
    }
    return paths;
  };
  const openDoors = async () => {
    const again = replay ?? (await givenFirst(lease, folder.path, parts, signal));
    const goesOn = lease.spec.fast_forward && again?.mode !== "whole";
    const persist = goesOn
      ? {
          now: () => parts.trajectories.sync(held.hold, signal),
          soon: () => parts.trajectories.syncSoon(held.hold, signal),
        }
      : null;
    channel = await parts.channels.open(lease, folder.path, door, { replay: again, persist, signal });
    unfollow = parts.trajectories.follow(held.hold, channel.log.recording);
    egress = new Egress(lease, folder.path, authority, channel, parts.client, signal);
    channel.letToolsOut(egress);
    return { channel, egress };
  };
  try {
    const stdinPath = writeStdin(lease, folder);
    const [inputPaths, doors] = await allSettled([acquireInputs(), openDoors()]);
    signal.throwIfAborted();
    const free = freeOnHost(fromWire(lease.spec.resources), parts.measureFree());
    const plan = planLaunch(lease, {
      image,
      inputPaths,
      stdinPath,
      socketPath: doors.channel.socketPath,
      environment: doors.channel.environment,
      free,
    });
    const sandbox = await parts.launcher.launch(doors.egress.agent.plan(plan));
    onRunning();
    const onEnded = (end: Ended) => {
      ended = end;
    };
    const ran = await followSandbox(sandbox, doors, held, folder, parts.live, onEnded);
    await doors.egress.agent.close();
    return { ...ran, channel: await closed(channel!, ran.destroyed, parts.closing) };
  } catch (error) {
    if (isInsufficient(error)) {
      // Nothing has run, and another host may have more.
      parts.onShortage(error);
      held.stopped.abort("released");
    }
    const stop = stopOf(held);
    if (channel === null || stop === "lost" || stop === "released") throw error;
    // Calls were perhaps made: the attempt's evidence must name them, however it ended.
    await (egress as Egress | null)?.agent.close();
    const record = await (channel as Channel).close(parts.closing).catch(() => null);
    throw record === null && ended === null ? error : new Interrupted(error, record, ended);
  } finally {
    // Whoever goes on from an attempt that is given back is to know all that it was answered.
    if (stopOf(held) === "released" && channel !== null && lease.spec.fast_forward)
      await parts.trajectories.sync(held.hold, parts.closing).catch(() => {});
    unfollow();
    await (egress as Egress | null)?.agent.close();
    if (channel !== null) await parts.channels.end(channel);
    for (const digest of inputs) parts.artifacts.release(digest);
  }
}

/** What passed through the channel. Where that cannot be told, nothing of the sandbox is left behind either. */
async function closed(
  channel: Channel,
  destroyed: Promise<void>,
  closing: AbortSignal,
): Promise<ChannelRecord> {
  try {
    return await channel.close(closing);
  } catch (error) {
    await destroyed.catch(() => {}); // the first failure is the one to tell
    throw error;
  }
}

async function followSandbox(
  sandbox: Sandbox,
  { channel, egress }: { channel: Channel; egress: Egress },
  held: HeldLease,
  folder: AttemptFolder,
  live: SandboxParts["live"],
  onEnded: (end: Ended) => void,
): Promise<Omit<Ran, "channel">> {
  const { signal } = held.stopped;
  const kill = () => sandbox.kill();
  signal.addEventListener("abort", kill);
  if (signal.aborted) kill();
  // Nothing is to happen that cannot be recorded, nor twice.
  channel.log.failed.catch(kill);
  channel.failed.catch(kill);
  const cpu = SandboxCpu.open(sandbox.pid);
  channel.timings.watch(cpu);
  const record = new ProcessRecord(channel.log, channel.failures);
  const sink = (stream: "stdout" | "stderr") => record.sink(stream, live.sink(held.hold, stream));
  // Beside all else: until the proxy serves, connections wait at its listener.
  const serving = egress.agent.serve(sandbox.listeners);
  const capturing: Promise<Stream>[] = [];
  try {
    record.began(held.lease.spec.command);
    // Both streams are drained from the start and apart from the end: a full pipe must not keep it from coming.
    const stdoutCaptured = captureStream(sandbox.stdout, folder.stdout, sink("stdout"));
    const stderrCaptured = captureStream(sandbox.stderr, folder.stderr, sink("stderr"));
    capturing.push(stdoutCaptured, stderrCaptured);
    const [stdout, stderr, end] = await Promise.all([stdoutCaptured, stderrCaptured, sandbox.ended, serving]);
    const stop = stopOf(held);
    if (stop === "lost" || stop === "released") throw stop;
    channel.checkFollows(end.reason === "exited" || end.reason === "signaled");
    const lived = { observation: sandbox.observation, launchUs: sandbox.launchUs, end };
    const ended = outcomeOf(end);
    if (end.reason !== "killed") onEnded({ lived, outcome: ended });
    channel.log.checkRecorded();
    if (end.reason === "killed" && stop !== "cancelled") {
      throw new DsecError("LAUNCHER_LOST", `sandbox ${sandbox.id} was killed, and not by its executor`);
    }
    await record.ended(end, ended);
    const { outputs, outcome } = await collect(sandbox, held, folder, ended);
    const destroyed = sandbox.destroy();
    destroyed.catch(() => {}); // awaited by the caller, perhaps after it has met another failure
    return { lived, outcome, outputs, stdout, stderr, destroyed };
  } catch (error) {
    kill();
    // What it still says is nobody's result, and the log that it would go to is sealed next.
    sandbox.stdout.destroy();
    sandbox.stderr.destroy();
    await Promise.allSettled([...capturing, sandbox.destroy(), serving]); // the first failure is the one to tell
    throw error;
  } finally {
    signal.removeEventListener("abort", kill);
    channel.timings.watch(null);
    cpu?.close();
  }
}

async function collect(
  sandbox: Sandbox,
  held: HeldLease,
  folder: AttemptFolder,
  ended: Outcome,
): Promise<{ outputs: Output[]; outcome: Outcome }> {
  const { spec } = held.lease;
  const options = { workingDirectory: spec.working_directory, directory: folder.outputs };
  try {
    return { outputs: await collectOutputs(sandbox, spec.outputs, options), outcome: ended };
  } catch (error) {
    if (error instanceof DsecError && error.code === "OUTPUT_TOO_LARGE") {
      return { outputs: [], outcome: withoutOutputs(ended, error) };
    }
    throw error;
  }
}

/** The outcome of a command whose outputs pass the bounds: none is kept, and a success it is not. */
export function withoutOutputs(outcome: Outcome, error: DsecError): Outcome {
  const message = wireText(`${error.code}: ${error.message}`);
  return { ...outcome, reason: outcome.reason === "exited" ? "output_too_large" : outcome.reason, message };
}

/** Where the command's standard input lies; null where it has none. */
function writeStdin(lease: Lease, folder: AttemptFolder): string | null {
  const { stdin } = lease.spec;
  if (stdin === null) return null;
  writeFileSync(folder.stdin, stdin, { mode: 0o444 });
  return folder.stdin;
}

/** All of it at once, and each part to its end: what was made must be known before it can be undone. */
async function allSettled<Parts extends readonly unknown[] | []>(parts: Parts) {
  await Promise.allSettled(parts);
  return Promise.all(parts);
}

/** What the host has for one task now: on the axes the kernel tells at once; the ledger has judged the others. */
function freeOnHost(asked: Resources, measured: Room): Resources {
  const free = { ...asked, ...measured };
  return axisThatDoesNotFit(asked, free) === undefined ? asked : free;
}
