import { existsSync, mkdirSync } from "node:fs";
import { rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { Worker } from "node:worker_threads";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { Ring, type RingCounters } from "#native/index.ts";
import type { EventType } from "#trace/events/event.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import { removeUnpublished, type SealedTrace } from "#trace/node/files.ts";
import { tracePathOf } from "./paths.ts";
import { type CollectorMessage, type CollectorSetup, kindOf, type Opening, RECORD } from "./protocol.ts";
import { Sealer } from "./sealer.ts";

/** `lost` counts events that could be written nowhere, each of an attempt that was ended for it. */
export type RecorderCounters = RingCounters & { lost: number };

/** A sealed trace and where it lies on this host. */
export type KeptTrace = SealedTrace & { path: string };

/** Recordings under way at once; more than a host has sandboxes. */
const SLOTS = 8192;

/**
 * What happens in all sandboxes of an executor, on its way to disk: a ring in shared memory and the thread that empties
 * it. Recording an event copies it into the ring. Where that is full the executor waits: nothing is recorded late and
 * nothing is left out.
 */
export class Collector {
  readonly #ring = new Ring(LIMITS.recorderRingBytes);
  readonly #flushedBytes = new BigInt64Array(new SharedArrayBuffer(SLOTS * 8));
  readonly #worker: Worker;
  readonly #sealer: Sealer;
  readonly #recordings = new Map<number, Recording>();
  readonly #free: number[] = [];
  readonly #ended = Promise.withResolvers<void>();
  readonly #broken = Promise.withResolvers<never>();
  #slots = 0;
  #lost = 0;
  #state: "running" | "closing" = "running";

  /** Rejects with STORE_UNAVAILABLE where the threads cannot be started. */
  static async start(): Promise<Collector> {
    const sealer = new Sealer();
    const collector = new Collector(sealer);
    try {
      await Promise.all([collector.#ready.promise, sealer.ready]);
    } catch (error) {
      collector.#ring.close();
      await sealer.close();
      throw error;
    }
    return collector;
  }

  readonly #ready = Promise.withResolvers<void>();

  private constructor(sealer: Sealer) {
    this.#sealer = sealer;
    const setup: CollectorSetup = {
      ringDescriptor: this.#ring.descriptor,
      flushedBytes: this.#flushedBytes.buffer as SharedArrayBuffer,
    };
    this.#worker = new Worker(new URL("./collector-thread.ts", import.meta.url), {
      workerData: setup,
      execArgv: [],
    });
    this.#worker.on("message", (message: CollectorMessage) => this.#on(message));
    this.#worker.on("error", (error) => this.#fail(error));
    this.#worker.on("exit", () => {
      if (this.#state === "running") this.#fail(new Error("its thread has ended"));
      this.#ended.resolve();
    });
    this.#broken.promise.catch(() => {}); // also where nobody waits for it
  }

  /** Rejects where nothing can be recorded any more, which nothing may be done after. */
  get broken(): Promise<never> {
    return this.#broken.promise;
  }

  /** Begins a recording. @param path of its trajectory, which is not there yet */
  record(path: string, header: NewTraceHeader): Recording {
    if (this.#recordings.size >= SLOTS)
      throw new DsecError("STORE_UNAVAILABLE", `${SLOTS} recordings are under way; at most so many can be`);
    // Each time: a day's folder may have been removed with the traces in it.
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const slot = this.#free.pop() ?? this.#slots++;
    Atomics.store(this.#flushedBytes, slot, 0n);
    const recording = new Recording(path, {
      push: (kind, timeUs, bytes, urgent) => this.#push(slot, kind, timeUs, bytes, urgent),
      flushedBytes: () => Number(Atomics.load(this.#flushedBytes, slot)),
      hold: (held) => (held ? this.#worker.ref() : this.#letGo()),
    });
    this.#recordings.set(slot, recording);
    this.#push(slot, RECORD.open, 0, Buffer.from(JSON.stringify({ path, header } satisfies Opening)), false);
    return recording;
  }

  /**
   * Makes the trace of what an earlier life left. Null where there is none to be made: that life ended before anything was
   * written, or between making it and removing the trajectory, which then goes.
   */
  async sealLeft(trajectory: string): Promise<SealedTrace | null> {
    removeUnpublished(tracePathOf(trajectory));
    const { size } = await stat(trajectory);
    if (size > 0 && !existsSync(tracePathOf(trajectory))) return this.#sealer.seal(trajectory);
    await rm(trajectory);
    return null;
  }

  counters(): RecorderCounters {
    return { ...this.#ring.counters(), lost: this.#lost };
  }

  /** Writes out what recordings hold, which stay open, and ends the threads. */
  async close(): Promise<void> {
    if (this.#state === "running") {
      this.#state = "closing";
      // Awaited below: a process that has nothing else left would otherwise end within it.
      this.#worker.ref();
      if (this.#ring.push(0, RECORD.stop, 0, NO_BYTES, true)) await this.#ended.promise;
      await this.#sealer.close();
    }
    await this.#ended.promise;
  }

  #push(slot: number, kind: number, timeUs: number, bytes: Uint8Array, urgent: boolean): void {
    if (this.#ring.push(slot, kind, timeUs, bytes, urgent)) return;
    throw new DsecError("STORE_UNAVAILABLE", "nothing can be recorded: the collector has ended");
  }

  #on(message: CollectorMessage): void {
    if (message.type === "ready") {
      this.#worker.unref();
      this.#ready.resolve();
      return;
    }
    const recording = this.#recordings.get(message.slot);
    if (recording === undefined) return;
    if (message.type === "flushed") {
      recording.onFlushed();
      return;
    }
    if (message.type === "failed") {
      this.#lost += message.lost === 0 ? 0 : 1;
      recording.onFailed(message.message);
      return;
    }
    this.#recordings.delete(message.slot);
    this.#free.push(message.slot);
    if (message.type === "closed") recording.onClosed(this.#sealer.seal(recording.trajectoryPath));
    else if (message.type === "sealed")
      recording.onClosed(this.#sealer.publish(recording.trajectoryPath, message.trace));
    else {
      recording.onFailed(message.message);
      recording.onClosed(Promise.reject(recording.failure));
    }
  }

  #fail(cause: Error): void {
    this.#ring.close();
    const error = new DsecError("STORE_UNAVAILABLE", `nothing can be recorded: ${cause.message}`, { cause });
    this.#ready.reject(error);
    this.#broken.reject(error);
    for (const recording of this.#recordings.values()) {
      recording.onFailed(error.message);
      recording.onClosed(Promise.reject(error));
    }
    this.#recordings.clear();
  }

  #letGo(): void {
    if ([...this.#recordings.values()].every((recording) => !recording.isEnding)) this.#worker.unref();
  }
}

type Slot = {
  push(kind: number, timeUs: number, bytes: Uint8Array, urgent: boolean): void;
  flushedBytes(): number;
  /** Whether the process must live until the collector has answered. */
  hold(held: boolean): void;
};

/** One sandbox's events on their way to its trajectory, and at the end its trace. */
export class Recording {
  readonly trajectoryPath: string;
  readonly tracePath: string;
  readonly #slot: Slot;
  readonly #sealed = Promise.withResolvers<KeptTrace>();
  readonly #failed = Promise.withResolvers<never>();
  /** Those who wait, in the order in which they are answered. */
  #flushes: (() => void)[] = [];
  #state: "open" | "ending" | "ended" = "open";
  #failure: DsecError | null = null;
  #endedBytes = 0;

  constructor(path: string, slot: Slot) {
    this.trajectoryPath = path;
    this.tracePath = tracePathOf(path);
    this.#slot = slot;
    this.#sealed.promise.catch(() => {}); // whoever seals is told
    this.#failed.promise.catch(() => {}); // also where nobody waits for it
  }

  /**
   * Waits where the ring is full.
   * @throws STORE_UNAVAILABLE where the collector has ended, or sealing has begun: the slot may be another recording's then
   */
  push(type: EventType, timeUs: number, bytes: Uint8Array): void {
    if (this.#state !== "open") {
      throw new DsecError(
        "STORE_UNAVAILABLE",
        `${this.tracePath} is being sealed: nothing more is recorded in it`,
      );
    }
    this.#slot.push(kindOf(type), timeUs, bytes, false);
  }

  /** Why its events cannot be written at the moment. */
  get failure(): DsecError | null {
    return this.#failure;
  }

  /** Rejects once they cannot: then what happens must end. */
  get failed(): Promise<never> {
    return this.#failed.promise;
  }

  /** Bytes of the trajectory that are whole flushes, and stay as they are. */
  get flushedBytes(): number {
    return this.#state === "ended" ? this.#endedBytes : this.#slot.flushedBytes();
  }

  /** Resolves once everything that was recorded until now is in the trajectory. @throws STORE_UNAVAILABLE */
  async flush(): Promise<void> {
    if (this.#state !== "open") return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#flushes.push(resolve);
    this.#slot.push(RECORD.flush, 0, NO_BYTES, true);
    await Promise.race([promise, this.#failed.promise]);
  }

  get isEnding(): boolean {
    return this.#state === "ending";
  }

  /** Nothing is taken any more. Idempotent. Rejects with STORE_UNAVAILABLE where the trace cannot be made. */
  seal(): Promise<KeptTrace> {
    if (this.#state === "open") {
      this.#state = "ending";
      this.#slot.hold(true);
      try {
        this.#slot.push(RECORD.end, 0, NO_BYTES, true);
      } catch (error) {
        this.#sealed.reject(error);
      }
    }
    return this.#sealed.promise;
  }

  /** For the collector. */
  onFailed(message: string): void {
    if (this.#failure !== null) return;
    this.#failure = new DsecError("STORE_UNAVAILABLE", `the event log cannot be written: ${message}`);
    this.#failed.reject(this.#failure);
  }

  /** For the collector. */
  onFlushed(): void {
    this.#flushes.shift()?.();
  }

  /** For the collector: the trajectory is closed, and becomes a trace by this. */
  onClosed(sealing: Promise<SealedTrace>): void {
    this.#endedBytes = this.#slot.flushedBytes();
    this.#state = "ended";
    for (const flushed of this.#flushes.splice(0)) flushed();
    this.#slot.hold(false);
    sealing.then(
      (trace) => this.#sealed.resolve({ ...trace, path: this.tracePath }),
      (error: unknown) => this.#sealed.reject(error),
    );
  }
}

const NO_BYTES = new Uint8Array();
