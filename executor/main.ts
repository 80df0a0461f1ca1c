import type { DsecError } from "#core/errors.ts";
import type { Resources } from "#core/resources.ts";
import { toWire, type WireResources } from "#core/wire/common.ts";
import type { EventsRequest, Hold, Lease } from "#core/wire/leases.ts";
import { footprint } from "#core/wire/tasks.ts";
import { ArtifactCache } from "./artifact-cache.ts";
import { AttemptFolder } from "./attempt-folder.ts";
import { watchCancellations } from "./cancellations.ts";
import { measureCapacity } from "./capacity.ts";
import { OwnGroups } from "./cgroups.ts";
import { Channels } from "./channel/channels.ts";
import { AgentServices } from "./channel/services.ts";
import { failLease } from "./deliver.ts";
import { makeDirectories } from "./directories.ts";
import { DiskRoom } from "./disk-room.ts";
import { BUILD, describeHost, type HostInfo, wireText } from "./evidence.ts";
import { FailureReporter, type LogEvent } from "./failure-reporter.ts";
import type { Fetch } from "./gateway-calls.ts";
import { GatewayClient } from "./gateway-client.ts";
import { imageNames, sendHeartbeats } from "./heartbeat.ts";
import { HostRoom } from "./host-room.ts";
import { type Identity, openIdentity } from "./identity.ts";
import { hostViewDigest } from "./images/host-view.ts";
import { ImageStore } from "./images/store.ts";
import { LauncherKeeper } from "./launcher-keeper.ts";
import { Leases } from "./leases.ts";
import { Ledger } from "./ledger.ts";
import { LiveEvents } from "./live-events.ts";
import { watchObservations } from "./observations.ts";
import { Places } from "./places.ts";
import { Puller } from "./pull.ts";
import { recoverAttempts } from "./recover.ts";
import { LEAST_LEFT_MS, renewLeases } from "./renew.ts";
import { untilAnswered } from "./retry.ts";
import { type AttemptEvent, type RunParts, runAttempt } from "./run.ts";
import { Collector } from "./trace/collector.ts";
import { LiveTrajectories } from "./trace/live.ts";
import { trajectoriesIn } from "./trace/paths.ts";

export type ExecutorOptions = {
  gatewayUrl: string;
  /** API key of scope `executors:enrol` */
  token: string;
  /** Private folder: key, images, input cache, attempts under way. One living executor for each. */
  dataDirectory: string;
  /** Axes to offer in place of what is measured. */
  capacity?: Partial<WireResources>;
  /** In place of HTTP, for a gateway in the same process. */
  fetch?: Fetch;
  log: (event: LogEvent) => void;
  onEvent?: (event: AttemptEvent) => void;
  /** Keeps the agents' memory in this Redis, shared with other executors, in place of the data folder. */
  redisUrl?: string | undefined;
  /** How long a drain waits for running tasks before it gives their leases back. */
  drainGraceMs?: number;
  /** Gives up the start, which otherwise waits for a gateway that does not answer. */
  signal?: AbortSignal;
};

export type Executor = {
  readonly executorId: string;
  readonly capacity: Resources;
  /** Pulls no more, lets running tasks end within the grace, gives the other leases back unburned, and closes. */
  drain(): Promise<void>;
  /** Ends at once: kills the sandboxes and gives their leases back. A finished result goes on from disk next time. */
  close(): Promise<void>;
  /** Resolves when this executor has ended; rejects then where its launcher or its collector was lost for good. */
  readonly done: Promise<void>;
};

/** How long a drain waits for running tasks where nothing else is said. */
export const DRAIN_GRACE_MS = 10 * 60_000;
/** So long `close` tries to give leases back and to deliver what is finished. */
export const FAREWELL_MS = 5_000;

/**
 * Starts an executor: cleans up what its last life left, enrols, and runs the tasks that the gateway grants until it
 * is drained or closed.
 *
 * Rejects where the host cannot run sandboxes, the data folder is another living executor's, or the token is refused
 * (UNAUTHENTICATED, FORBIDDEN). A gateway that does not answer is waited for.
 */
export async function startExecutor(options: ExecutorOptions): Promise<Executor> {
  const { dataDirectory, log } = options;
  const directories = await makeDirectories(dataDirectory);
  // First, for it holds the lock on the data folder and removes what an earlier daemon left.
  const launcher = await LauncherKeeper.start({ stateDirectory: directories.launcher }, (error) =>
    log({ level: "error", message: `the launcher was lost: ${error.message}; starting it again` }),
  );
  let services: AgentServices | null = null;
  // Before the first attempt, which is not to wait for its threads.
  const collecting = Collector.start();
  try {
    // Not before the launcher has started, for that may have moved this process to another group.
    const groups = OwnGroups.find();
    services = await AgentServices.open({ dataDirectory, redisUrl: options.redisUrl });
    const [identity, images, capacity, hostDigest, folders, places, trajectories, collector] =
      await Promise.all([
        openIdentity(dataDirectory),
        ImageStore.open(dataDirectory),
        measureCapacity(dataDirectory, groups, options.capacity),
        hostViewDigest(),
        AttemptFolder.list(directories.attempts),
        Places.open(directories.places, directories.attempts),
        trajectoriesIn(directories.traces),
        collecting,
      ]);
    const client = new GatewayClient({ gatewayUrl: options.gatewayUrl, fetch: options.fetch, identity });
    const reporter = new FailureReporter(log);
    const artifacts = await ArtifactCache.open(
      directories.artifacts,
      (digest, signal) => client.getArtifact(digest, signal),
      { onFailure: reporter.report },
    );
    const host = describeHost();
    const enrol = async () => {
      const request = {
        public_key: identity.publicKey,
        capacity: toWire(capacity),
        images: await imageNames(images),
        build: BUILD,
        host,
      };
      return client.enrol(options.token, request);
    };
    const executorId = await untilAnswered(enrol, {
      signal: options.signal ?? new AbortController().signal,
      onFailure: reporter.report,
    });
    reporter.reached();
    log({ level: "info", message: `executor ${executorId} enrolled`, capacity: toWire(capacity) });
    return new RunningExecutor({
      ...{ options, executorId, capacity, identity, images, artifacts, client, host, hostDigest },
      ...{ launcher, services, collector, trajectories },
      room: new HostRoom(dataDirectory, groups, launcher),
      tracesDirectory: directories.traces,
      ...{ folders, places, enrol, reporter },
    });
  } catch (error) {
    await collecting.then(
      (collector) => collector.close(),
      () => {}, // the first failure is the one to tell
    );
    await services?.close();
    await launcher.close();
    throw error;
  }
}

type Made = {
  options: ExecutorOptions;
  executorId: string;
  capacity: Resources;
  room: HostRoom;
  identity: Identity;
  images: ImageStore;
  artifacts: ArtifactCache;
  client: GatewayClient;
  host: HostInfo;
  hostDigest: Awaited<ReturnType<typeof hostViewDigest>>;
  launcher: LauncherKeeper;
  services: AgentServices;
  collector: Collector;
  tracesDirectory: string;
  trajectories: string[];
  folders: AttemptFolder[];
  places: Places;
  enrol: () => Promise<unknown>;
  reporter: FailureReporter;
};

class RunningExecutor implements Executor {
  readonly executorId: string;
  readonly capacity: Resources;
  readonly done: Promise<void>;
  readonly #made: Made;
  readonly #leases = new Leases();
  readonly #ledger: Ledger;
  readonly #puller: Puller;
  readonly #disk: DiskRoom;
  readonly #parts: RunParts;
  readonly #attempts = new Set<Promise<void>>();
  readonly #loops: Promise<unknown>;
  /** Ends what keeps leases alive and delivers results. */
  readonly #closing = new AbortController();
  readonly #ended = Promise.withResolvers<void>();
  #state: "running" | "draining" | "closing" = "running";
  /** What ended it, where nobody asked it to end. */
  #failure: DsecError | null = null;

  constructor(made: Made) {
    this.#made = made;
    this.executorId = made.executorId;
    this.capacity = made.capacity;
    this.done = this.#ended.promise;
    this.done.catch(() => {}); // also where nobody waits for it
    this.#ledger = new Ledger(made.capacity, () => made.room.forSandboxes());
    const onFailure = made.reporter.report;
    const signal = this.#closing.signal;
    const { client, images } = made;
    const leases = this.#leases;
    const channels = new Channels({
      collector: made.collector,
      tracesDirectory: made.tracesDirectory,
      gateway: client,
      services: made.services,
      exec: {
        launcher: made.launcher,
        findImage: async (name) =>
          name === "host" ? { kind: "host" } : { kind: "erofs", path: (await images.find(name)).path },
      },
    });
    const { trajectories: _left, ...parts } = made;
    this.#parts = {
      ...parts,
      channels,
      hostViewDigest: made.hostDigest,
      leases,
      live: new LiveEvents((events) => this.#sendEvents(events)),
      trajectories: new LiveTrajectories(client, signal),
      measureFree: () => made.room.free(),
      onShortage: (error) => this.#onShortage(error.message),
      closing: signal,
      onFailure,
      onEvent: (event) => made.options.onEvent?.(event),
    };
    this.#disk = new DiskRoom(made.options.dataDirectory, made.options.log);
    this.#puller = new Puller({
      client,
      hasRoom: () => this.#disk.hasRoom(),
      ledger: this.#ledger,
      onLease: (lease, askedAtMs) => this.#onLease(lease, askedAtMs),
      onUnsupported: ({ hold, error }) => this.#follow(this.#fail(hold, `${error.code}: ${error.message}`)),
      onFailure,
    });
    const onDraining = (draining: boolean) => {
      made.reporter.reached();
      if (draining) this.#puller.pause();
      else this.#puller.resume();
    };
    this.#loops = Promise.all([
      renewLeases({ client, leases, signal, onFailure }),
      watchCancellations({ client, leases, signal, onFailure }),
      watchObservations({ client, channels, signal, onFailure }),
      sendHeartbeats({
        ...{ client, ledger: this.#ledger, leases, images, signal, hasRoom: () => this.#disk.hasRoom() },
        ...{ onDraining, enrolAgain: made.enrol, onFailure },
      }),
    ]);
    // Waited for as attempts are: a drain is not to cut an upload off.
    const recovery = recoverAttempts({
      ...{ folders: made.folders, trajectories: made.trajectories, collector: made.collector },
      ...{ client, leases, signal, onFailure },
    }).finally(() => this.#attempts.delete(recovery));
    this.#attempts.add(recovery);
    for (const broken of [made.launcher.broken, made.collector.broken]) {
      broken.catch((error: DsecError) => {
        made.options.log({ level: "error", message: error.message });
        this.#failure ??= error;
        this.#end();
      });
    }
    made.places.prepare();
    this.#puller.offer();
  }

  async drain(): Promise<void> {
    if (this.#state === "running") {
      this.#state = "draining";
      this.#made.options.log({ level: "info", message: `draining: ${this.#leases.size} tasks still run` });
      void this.#drainThenClose();
    }
    await this.done;
  }

  async close(): Promise<void> {
    this.#end();
    await this.done;
  }

  /** `done` says how it went. */
  #end(): void {
    if (this.#state === "closing") return;
    this.#state = "closing";
    this.#shutDown().then(() => {
      if (this.#failure === null) this.#ended.resolve();
      else this.#ended.reject(this.#failure);
    }, this.#ended.reject);
  }

  async #shutDown(): Promise<void> {
    await this.#puller.stop();
    this.#leases.stopAll("released");
    await this.#attemptsEnded(FAREWELL_MS);
    this.#closing.abort();
    await Promise.all([...this.#attempts, this.#loops]);
    await this.#made.places.close();
    await this.#made.launcher.close();
    await this.#made.services.close();
    await this.#made.collector.close();
  }

  async #drainThenClose(): Promise<void> {
    await this.#puller.stop();
    await this.#attemptsEnded(this.#made.options.drainGraceMs ?? DRAIN_GRACE_MS);
    this.#end();
  }

  /** Waits for all attempts, at most so long, and no longer once the executor closes. */
  async #attemptsEnded(graceMs: number): Promise<void> {
    if (this.#attempts.size === 0) return;
    const timer = Promise.withResolvers<void>();
    const timeout = setTimeout(timer.resolve, graceMs);
    await Promise.race([Promise.all(this.#attempts), timer.promise, this.done.catch(() => {})]);
    clearTimeout(timeout);
  }

  #onLease(lease: Lease, askedAtMs: number): void {
    const { lease_id: leaseId, fence, ttl_ms: ttlMs } = lease;
    if (this.#leases.get(leaseId)?.hold.fence === fence) {
      // The database lost the grant with its machine, and has made it again: it is the attempt that runs here.
      this.#leases.renewed(leaseId, ttlMs, askedAtMs);
      return;
    }
    const held = this.#leases.add(lease, askedAtMs);
    this.#follow(this.#run(held).finally(() => this.#leases.remove(lease.lease_id)));
  }

  /** Ends the attempt of a lease under which nothing can be done. */
  async #fail(hold: Hold, reason: string): Promise<void> {
    const message = wireText(reason);
    this.#made.options.log({ level: "error", message });
    const failure = { message, evidence: null, ended: null };
    await failLease(hold, failure, { ...this.#parts, signal: this.#closing.signal });
  }

  /** What is not to be cut off by a drain. */
  #follow(work: Promise<void>): void {
    const followed = work.catch(this.#parts.onFailure).finally(() => this.#attempts.delete(followed));
    this.#attempts.add(followed);
  }

  async #run(held: ReturnType<Leases["add"]>): Promise<void> {
    const { lease, hold } = held;
    const asked = footprint(lease.spec);
    this.#parts.onEvent({ type: "leased", taskId: lease.task_id, leaseId: lease.lease_id });
    const { client, onFailure } = this.#parts;
    const giveBack = () => client.release(hold, this.#closing.signal).catch(onFailure);
    const isLate = held.heldUntilMs - performance.now() < LEAST_LEFT_MS;
    // Granted while pulling stopped or the disk filled, or so long ago that it may end before it is renewed: given back
    // before anything was done under it.
    if (this.#state !== "running" || !this.#disk.hasRoom() || isLate) return giveBack();
    const can = this.#ledger.take(asked);
    if (can !== "taken") {
      const message = `${this.#ledger.shortfall(asked)} (task ${lease.task_id}, executor ${this.executorId})`;
      if (can === "short") {
        this.#onShortage(message);
        return giveBack();
      }
      return this.#fail(hold, message);
    }
    await runAttempt(held, this.#parts, this.#givesBack(asked));
  }

  /** Gives what was taken back, once. */
  #givesBack(asked: Resources): () => void {
    let taken = true;
    return () => {
      if (!taken) return;
      taken = false;
      this.#ledger.give(asked);
      this.#puller.offer();
    };
  }

  /** What is offered next is what the host has now, and not at once: a lease that is given back comes again as soon. */
  #onShortage(message: string): void {
    this.#made.options.log({ level: "warn", message: `${message}; its lease is given back` });
    this.#made.room.forget();
    void this.#puller.rest();
  }

  async #sendEvents(events: EventsRequest["events"]): Promise<void> {
    const { client, onFailure } = this.#parts;
    const signal = this.#closing.signal;
    const send = async () => {
      // Judged at each try: a lease may have been lost while the gateway was away.
      const writable = events.filter((event) => this.#leases.mayWrite(event.lease_id));
      if (writable.length === 0) return;
      for (const leaseId of await client.sendEvents(writable, signal)) this.#leases.stop(leaseId, "lost");
    };
    try {
      await untilAnswered(send, { signal, onFailure });
    } catch (error) {
      if (!signal.aborted) onFailure(error);
      throw error;
    }
  }
}
