import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DsecError } from "#core/errors.ts";
import { newId, type TaskId } from "#core/ids.ts";
import type { Outcome } from "#core/task.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { Output, TaskSpec } from "#core/wire/tasks.ts";
import { ArtifactCache, type FetchArtifact } from "../artifact-cache.ts";
import { measureFree } from "../capacity.ts";
import { OwnGroups } from "../cgroups.ts";
import { Channels } from "../channel/channels.ts";
import { AgentServices } from "../channel/services.ts";
import { contentDigest } from "../content-digest.ts";
import { ImageStore } from "../images/store.ts";
import { LauncherKeeper } from "../launcher-keeper.ts";
import { Leases } from "../leases.ts";
import { taskNamespace } from "../memory/memory.ts";
import { Place } from "../place.ts";
import { sandboxId } from "../plan.ts";
import { runInSandbox } from "../sandbox-run.ts";
import { Collector } from "../trace/collector.ts";
import { LiveTrajectories } from "../trace/live.ts";
import type { Divergence } from "./divergence.ts";
import { checkReplayable } from "./live-point.ts";
import { listProcesses, type SandboxProcess } from "./processes.ts";
import { type Recording, readRecording, recordedSpec, type StreamRecord } from "./recording.ts";
import { type Held, Replay } from "./replay.ts";
import { restoreMemory } from "./restore-memory.ts";
import { unheardMessages } from "./unheard-messages.ts";

export type ReplaySettings = {
  /** Whence the task's inputs come. */
  fetchArtifact: FetchArtifact;
  /** The folder of an executor, whose images are used. */
  imagesOf: string;
  /** In place of the one that the task names. */
  image?: string | undefined;
  /** Number of the call at which the agent is kept waiting; null is none. */
  holdAt: number | null;
  /** Looks at a sandbox that is kept waiting, and says what then. After a divergence it ends in any case. */
  onHeld(held: HeldSandbox): Promise<{ next: "end" } | { next: "go on"; holdAt: number | null }>;
  realTime: boolean;
  onProgress(begun: number): void;
  /** Where the trace of the replay is put; null where it is not kept. */
  keep?: ((tracePath: string) => Promise<void>) | undefined;
  signal: AbortSignal;
};

/** A sandbox whose agent waits for an answer. */
export type HeldSandbox = Held & {
  /** Of its init, in this host's eyes. */
  pid: number;
  /** The task's memory: JSON of an object; null where that is too large to show. */
  memory(): Promise<string | null>;
  /** So far, and as far as it is recorded. */
  stdout(): Buffer;
  stderr(): Buffer;
  processes(): SandboxProcess[];
};

export type ReplayEnd = {
  /** `equal`: every call was made again and everything came out as before. */
  state: "equal" | "different" | "diverged" | "ended";
  /** Calls answered from the trace, and recorded ones that were not made again. */
  calls: { answered: number; unused: { call: number; tool: string | null; url: string | null }[] };
  divergence: Divergence | null;
  /** What came out otherwise; empty where nothing did. */
  differences: { what: string; recorded: unknown; replayed: unknown }[];
  outcome: Outcome | null;
  stdout: StreamRecord;
  stderr: StreamRecord;
  outputs: Output[];
};

/** What replays on one host share: the launcher of their sandboxes, and who writes their traces. */
export type ReplayHost = { launcher: LauncherKeeper; collector: Collector; close(): Promise<void> };

/** @throws HOST_UNSUITABLE */
export async function openReplayHost(): Promise<ReplayHost> {
  const directory = await mkdtemp(join(tmpdir(), "dsec-replay-"));
  const opened: (() => Promise<unknown>)[] = [() => rm(directory, { recursive: true, force: true })];
  const close = async () => {
    for (const closeOne of opened.splice(0).reverse()) await closeOne();
  };
  try {
    const launcher = await LauncherKeeper.start({ stateDirectory: directory }, () => {});
    opened.push(() => launcher.close());
    const collector = await Collector.start();
    opened.push(() => collector.close());
    return { launcher, collector, close };
  } catch (error) {
    await close();
    throw error;
  }
}

const MEMORY_SHOWN_BYTES = 16 * 1024 * 1024;
/** After a divergence, until the sandbox is ended: the agent may still say what it thinks of it. */
const LAST_WORDS_MS = 1_000;

/**
 * Runs a recorded command again in a sandbox of its own, with a channel that answers from the trace. There is no gateway:
 * nothing that it does can reach the world.
 * @throws NOT_REPLAYABLE before anything is run; IMAGE_NOT_FOUND; what fetching an input throws
 */
export async function runReplay(
  recording: Recording,
  { launcher, collector }: Omit<ReplayHost, "close">,
  settings: ReplaySettings,
): Promise<ReplayEnd> {
  checkReplayable(recording);
  const lease = leaseOf(recording, settings.image);
  const directory = await mkdtemp(join(tmpdir(), "dsec-replay-"));
  const opened: (() => Promise<unknown>)[] = [() => rm(directory, { recursive: true, force: true })];
  try {
    const services = await AgentServices.open({ dataDirectory: directory });
    opened.push(() => services.close());
    const { fetchArtifact, imagesOf } = settings;
    const artifacts = await ArtifactCache.open(join(directory, "artifacts"), fetchArtifact);
    const findImage = async (name: string) =>
      name === "host"
        ? ({ kind: "host" } as const)
        : ({ kind: "erofs", path: (await (await ImageStore.open(imagesOf)).find(name)).path } as const);
    await restoreMemory(services.memory, recording, lease);

    const held = new Leases().add(lease, performance.now());
    const stop = () => held.stopped.abort("cancelled");
    settings.signal.addEventListener("abort", stop, { once: true });
    if (settings.signal.aborted) stop();
    const attempts = join(directory, "attempts");
    await mkdir(attempts);
    const place = (await Place.make(directory)).giveTo(attempts, held.hold);
    opened.push(() => place.door.close());

    const said: Record<"stdout" | "stderr", Uint8Array[]> = { stdout: [], stderr: [] };
    const launched = Promise.withResolvers<number>();
    let endedByHand = false;
    let lastWords: NodeJS.Timeout | undefined;
    const looking = Promise.withResolvers<never>();
    looking.promise.catch(() => {}); // told below
    const replay = new Replay(recording, {
      mode: "whole",
      holdAt: settings.holdAt,
      realTime: settings.realTime,
      onHeld: async (at) => {
        const namespace = taskNamespace(lease.task_id as TaskId);
        // An agent may call before its launcher has said that it lives.
        const pid = await launched.promise;
        const sandbox: HeldSandbox = {
          ...at,
          pid,
          memory: async () => (await services.memory.snapshot(namespace, MEMORY_SHOWN_BYTES))?.json ?? null,
          stdout: () => Buffer.concat(said.stdout),
          stderr: () => Buffer.concat(said.stderr),
          processes: () => listProcesses(pid),
        };
        try {
          const then = await settings.onHeld(sandbox);
          if (at.at === "divergence") {
            lastWords = setTimeout(stop, LAST_WORDS_MS);
            return NO_HOLD;
          }
          if (then.next === "go on") return then;
          endedByHand = true;
        } catch (error) {
          looking.reject(error);
        }
        stop();
        return new Promise(() => {}); // it is not answered any more
      },
      onCall: settings.onProgress,
    });
    const channels = new Channels({
      ...{
        collector,
        services,
        gateway: { ...NO_GATEWAY, messages: unheardMessages() },
        tracesDirectory: join(directory, "traces"),
      },
      exec: { launcher, findImage },
    });
    const ran = await runInSandbox(
      held,
      await findImage(lease.spec.image),
      place,
      () => {},
      {
        ...{ channels, artifacts, closing: new AbortController().signal },
        onShortage: () => {}, // the replay fails of it
        measureFree: () => measureFree(directory, OwnGroups.find()),
        launcher: {
          launch: async (plan) => {
            const sandbox = await launcher.launch(plan);
            if (plan.id === sandboxId(lease)) launched.resolve(sandbox.pid);
            return sandbox;
          },
        },
        live: {
          sink: (_hold, stream) => ({ data: (_offset, bytes) => said[stream].push(bytes), truncated() {} }),
        },
        trajectories: new LiveTrajectories({ sendTrajectory: nothingIsSent }, AbortSignal.abort()),
        client: { policy: async () => lease.spec.policy, earlierTrace: nothingIsSent },
        services,
      },
      replay,
    ).finally(() => clearTimeout(lastWords));
    await ran.destroyed;
    settings.signal.throwIfAborted();
    await Promise.race([looking.promise, Promise.resolve()]);
    const again = await readRecording(ran.channel.trace.path);
    await settings.keep?.(ran.channel.trace.path);
    return endOf(recording, again, replay, endedByHand, ran);
  } finally {
    for (const close of opened.reverse()) await close();
  }
}

function endOf(
  recording: Recording,
  again: Recording,
  replay: Replay,
  endedByHand: boolean,
  ran: { outcome: Outcome; outputs: Output[] },
): ReplayEnd {
  const { divergence } = replay;
  const ended = divergence !== null || endedByHand;
  const differences = ended ? [] : differencesOf(recording, again, replay);
  const unused = replay.unused.map(({ start: { call, tool, url } }) => ({ call, tool, url }));
  const state =
    divergence !== null ? "diverged" : endedByHand ? "ended" : differences.length > 0 ? "different" : "equal";
  return {
    ...{ state, calls: { answered: replay.begun, unused }, divergence, differences },
    ...{ outcome: ended ? null : ran.outcome, ...again.streams, outputs: ran.outputs },
  };
}

function differencesOf(recording: Recording, again: Recording, replay: Replay): ReplayEnd["differences"] {
  const found: ReplayEnd["differences"] = [];
  const { length: recorded } = recording.calls;
  if (replay.unused.length > 0) found.push({ what: "calls", recorded, replayed: replay.begun });
  for (const name of ["stdout", "stderr"] as const) {
    const [before, now] = [recording.streams[name], again.streams[name]];
    if (before.digest !== now.digest) found.push({ what: name, recorded: before, replayed: now });
  }
  for (const name of ["exit_code", "signal", "reason"] as const) {
    const [before, now] = [recording.end?.[name] ?? null, again.end?.[name] ?? null];
    if (before !== now) found.push({ what: name, recorded: before, replayed: now });
  }
  return found;
}

/** The recorded attempt under a lease of nobody's. The task keeps its id, which its agent may have seen. */
function leaseOf(recording: Recording, image: string | undefined): Lease {
  const spec: TaskSpec = { ...recordedSpec(recording), ...(image === undefined ? {} : { image }) };
  const { task_id, attempt, spec_digest } = recording.header;
  return {
    ...{ lease_id: newId("lease"), task_id: task_id!, key_id: newId("key"), fence: 1, attempt: attempt ?? 1 },
    ...{ ttl_ms: Number.MAX_SAFE_INTEGER, expires_at: new Date(8.64e15).toISOString() },
    ...{ spec, spec_digest: spec_digest ?? contentDigest("") },
  };
}

const NO_HOLD = { holdAt: null };

const unreachable = (): never => {
  throw new DsecError("GATEWAY_UNREACHABLE", "a replay has no gateway");
};
const nothingIsSent = async (): Promise<never> => unreachable();
const NO_GATEWAY = {
  proxy: nothingIsSent,
  tunnel: nothingIsSent,
  receipts: nothingIsSent,
};
