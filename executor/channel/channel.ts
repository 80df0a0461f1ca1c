import { join } from "node:path";
import type { Digest, TaskId } from "#core/ids.ts";
import type { CallsSummary } from "#core/wire/calls.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { MemoryEvent, MemoryShown } from "#core/wire/memory.ts";
import type { Observation } from "#core/wire/observations.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import type { Egress } from "../egress/egress.ts";
import { taskNamespace } from "../memory/memory.ts";
import { createMemoryRoutes } from "../memory/routes.ts";
import { createMessageBus, type MessageBus, type MessageGateway } from "../messages/bus.ts";
import { sandboxId } from "../plan.ts";
import type { Replay } from "../replay/replay.ts";
import type { ExecToolParts } from "../tools/exec-tool.ts";
import { CallTimings } from "../trace/call-timings.ts";
import type { Collector, KeptTrace } from "../trace/collector.ts";
import { Completions } from "../trace/completions.ts";
import { Failures } from "../trace/failures.ts";
import type { Persist } from "../trace/live.ts";
import { MemorySnapshots } from "../trace/memory-snapshots.ts";
import { type Door, SOCKET } from "./door.ts";
import { EventLog } from "./event-log.ts";
import type { Reply, Routes } from "./exchange.ts";
import { MemoryWatch } from "./memory-watch.ts";
import { ObservationQueue } from "./observations.ts";
import { type CallGateway, ProxiedCalls } from "./proxied-calls.ts";
import { recordedBus } from "./recorded-bus.ts";
import { RecordedCalls } from "./recorded-calls.ts";
import { AgentRecords } from "./records.ts";
import { createChannelRoutes } from "./routes.ts";
import { seedOf } from "./seed.ts";
import type { AgentServices } from "./services.ts";
import { PlanSteps } from "./steps.ts";
import { ToolCalls } from "./tool-calls.ts";

export type ChannelParts = {
  gateway: CallGateway & { messages: MessageGateway };
  services: AgentServices;
  exec: ExecToolParts;
  collector: Collector;
  /** Where traces lie, by day. */
  tracesDirectory: string;
};

/** What an attempt's evidence says of its channel. */
export type ChannelRecord = { calls: CallsSummary; trace: KeptTrace };

/**
 * The only door of one sandbox: a Unix socket in the attempt's private folder, behind which its tools, its memory and its
 * messages are. Who is on the other side is known from the socket alone. Everything that passes is in the event log.
 */
export class Channel {
  readonly socketPath: string;
  readonly observations: ObservationQueue;
  /** For the loopback proxy, whose calls are made and recorded like those of the socket. */
  readonly calls: ProxiedCalls;
  readonly recorded: RecordedCalls;
  readonly log: EventLog;
  /** Errors of whatever kind, with what surrounded them. */
  readonly failures: Failures;
  /** What the command finds of it in its environment. */
  readonly environment: Record<string, string>;
  readonly timings = new CallTimings();
  readonly #completions: Completions;
  readonly #steps: PlanSteps;
  readonly #watch: MemoryWatch;
  readonly #snapshots: MemorySnapshots;
  readonly #tools: ToolCalls;
  readonly #replay: Replay | null;
  readonly #messages: MessageBus;
  readonly #unfollow: () => void;
  readonly #endDigest: () => void;
  readonly #answering = new Set<Promise<Reply>>();
  readonly #door: Door;
  readonly #attempt: AbortSignal;
  #stopped: Promise<void> | null = null;

  /**
   * @param directory the attempt's private folder
   * @param door in that folder; it is closed with the channel
   * @param options.signal aborts where the attempt is to end before its command has
   */
  static async open(
    lease: Lease,
    directory: string,
    door: Door,
    parts: ChannelParts,
    options: { replay: Replay | null; persist: Persist | null; signal: AbortSignal },
  ): Promise<Channel> {
    const channel = new Channel(lease, directory, door, parts, options);
    try {
      for (const declared of lease.spec.channels) await channel.#messages.declare(declared, options.signal);
      if (await channel.#watch.begin()) await channel.#snapshots.begin();
      door.open(channel.#routes);
    } catch (error) {
      // Its recording is open, and nobody else knows of it.
      await channel.discard();
      throw error;
    }
    return channel;
  }

  readonly #routes: Routes;

  private constructor(
    lease: Lease,
    directory: string,
    door: Door,
    parts: ChannelParts,
    { replay, persist, signal }: Parameters<typeof Channel.open>[4],
  ) {
    const { gateway, services, exec } = parts;
    const { spec, task_id: taskId } = lease;
    const id = sandboxId(lease);
    const namespace = taskNamespace(taskId as TaskId);
    const log = EventLog.open(parts.collector, parts.tracesDirectory, lease, replayedHeader(replay));
    this.#endDigest = services.memory.follow(namespace);
    const watch = new MemoryWatch(services.memory, namespace, log);
    const snapshots = new MemorySnapshots(
      services.memory,
      namespace,
      log,
      spec.trace.memory_snapshot_interval,
    );
    this.#unfollow = services.follow(id, namespace, (event) => {
      recordMemory(log, event, this.recorded.current);
      if (event.namespace !== namespace) return;
      watch.wrote(event);
      if (!READS.has(event.op)) snapshots.wrote();
      replay?.seeMemory(event);
    });
    const records = new AgentRecords(log);
    this.#replay = replay;
    this.#door = door;
    this.#attempt = signal;
    this.socketPath = join(directory, SOCKET);
    this.log = log;
    this.failures = new Failures(log, services.memory, namespace);
    this.#watch = watch;
    this.#snapshots = snapshots;
    // Time that passes otherwise must not end a step that was in time.
    this.#steps = new PlanSteps(log, replay?.mode === "whole" ? null : spec.plan_step_timeout_ms);
    this.observations = new ObservationQueue(log, replay);
    this.#completions = new Completions(log);
    const { timings } = this;
    const hold = { lease_id: lease.lease_id, fence: lease.fence };
    // An agent that does the same in each attempt sends the same messages.
    this.#messages = createMessageBus(gateway.messages, hold, spec.fast_forward ? "" : String(lease.fence));
    this.calls = new ProxiedCalls(gateway, hold, { log, completions: this.#completions, timings });
    this.recorded = new RecordedCalls({
      ...{ log, steps: this.#steps, watch, failures: this.failures, timings },
      ...{ context: () => records.context, replay, persist },
    });
    const seed = seedOf(taskId, spec);
    this.environment = {
      DSEC_SEED: String(seed),
      DSEC_STARTED_AT: String(this.recorded.wallUs),
      ...(replay?.mode === "whole" ? { DSEC_REPLAY: "1" } : {}),
    };
    this.#tools = new ToolCalls(spec.tools, spec.tool_timeout_ms, {
      recorded: this.recorded,
      timings,
      calls: this.calls,
      exec,
      home: { sandboxId: id, taskId, image: spec.image, directory },
    });
    const memoryAndMessages = createMemoryRoutes({
      memory: services.memory,
      messages: recordedBus(this.#messages, log),
      identity: {
        owner: lease.key_id,
        taskId: taskId as TaskId,
        sandboxId: id,
        grants: spec.memory.shared,
      },
    });
    const answer = createChannelRoutes({
      ...{ log, tools: this.#tools, calls: this.calls, steps: this.#steps, records, failures: this.failures },
      ...{ observations: this.observations, memoryAndMessages },
      clock: () => ({
        wall_us: this.recorded.wallUs,
        seed,
        replaying: replay !== null && !replay.isLive,
      }),
    });
    this.#routes = (exchange) => {
      const answering = answer(exchange).finally(() => this.#answering.delete(answering));
      this.#answering.add(answering);
      return answering;
    };
  }

  /** Rejects where an agent that was to go on live has left its record: then the attempt must end. */
  get failed(): Promise<never> {
    return this.#replay === null ? new Promise(() => {}) : this.#replay.failed;
  }

  /** @param endedByItself that the command did @throws REPLAY_DIVERGED where that is so, or it ended before it went on live */
  checkFollows(endedByItself: boolean): void {
    if (this.#replay === null || this.#replay.mode === "whole") return;
    this.#replay.check();
    const early = endedByItself ? this.#replay.endedEarly() : null;
    if (early !== null) throw early;
  }

  /** Tools in sandboxes of their own leave them by this; before that they reach nothing. */
  letToolsOut(egress: Pick<Egress, "ofTool">): void {
    this.#tools.egress = egress;
  }

  /** Something from outside, for the agent's next answer. False once there will be none: then it was not received. */
  inject(observation: Observation): boolean {
    if (this.#stopped !== null || this.#attempt.aborted) return false;
    this.observations.inject(observation);
    return true;
  }

  /**
   * The sandbox has ended: nothing more is taken, what is under way is given up, and what happened is sealed.
   * @param signal gives up asking the gateway for receipts whose answers were lost
   */
  async close(signal: AbortSignal): Promise<ChannelRecord> {
    await this.#stop();
    await this.#watch.end();
    await this.#snapshots.close();
    this.#endDigest();
    const calls = await this.calls.summarize(signal);
    return { calls, trace: await this.log.seal() };
  }

  /** Lets go of everything where the attempt has no result. Idempotent. */
  async discard(): Promise<void> {
    await this.#stop().catch(() => {}); // who closed it was told
    this.#endDigest();
    await this.log.seal().catch(() => {});
  }

  #stop(): Promise<void> {
    this.#stopped ??= this.#letGo();
    return this.#stopped;
  }

  async #letGo(): Promise<void> {
    try {
      await this.#door.close();
      this.#tools.giveUp();
      // What was taken before the door was shut is recorded to its end, and then what that left behind.
      await Promise.all(this.#answering);
      await this.#tools.close();
      this.#completions.close();
    } finally {
      this.#unfollow();
      this.#steps.close();
    }
  }
}

/** What a recording says of the one that its agent was given first. */
function replayedHeader(replay: Replay | null): Partial<NewTraceHeader> {
  if (replay === null) return {};
  const { call, step } = replay.livePoint;
  return {
    replayed_from_digest: replay.recording.digest,
    ...{ replayed_until_call: call, replayed_until_step: step, told_wall_us: replay.wallUs },
  };
}

const READS = new Set<MemoryEvent["op"]>(["get", "list", "search"]);

function recordMemory(
  log: EventLog,
  { op, namespace, key, old, new: now, version, source }: MemoryEvent,
  call: number | null,
): void {
  const { origin } = source;
  const isRead = READS.has(op);
  const shown = { old: shownOf(old), new: isRead ? null : shownOf(now) };
  // What a read gave is both its old and its new value; once is enough.
  log.append(isRead ? "memory_read" : "memory_write", {
    op,
    namespace,
    key,
    ...shown,
    version,
    origin,
    call,
  });
}

function shownOf(shown: MemoryShown | null) {
  if (shown === null) return null;
  return "json" in shown
    ? { value_json: shown.json }
    : { value_digest: shown.digest as Digest, bytes: shown.bytes };
}
