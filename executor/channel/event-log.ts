import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { canonicalJson, digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { TaskSpec } from "#core/wire/tasks.ts";
import { EventChain } from "#trace/events/chain.ts";
import { encodeEvent, rawDigest } from "#trace/events/codec.ts";
import type { EventBody, EventType, Payload } from "#trace/events/event.ts";
import { completeHeader, type NewTraceHeader } from "#trace/format/header.ts";
import { nodeEngine } from "#trace/node/engine.ts";
import type { Collector, KeptTrace, Recording } from "../trace/collector.ts";
import { Keeper } from "../trace/keep.ts";
import { trajectoryPath } from "../trace/paths.ts";
import { RecentCalls } from "../trace/recent-calls.ts";

/** The members of an event of this type; null and empty ones may be left out. */
export type MembersOf<T extends EventType> = T extends "error"
  ? Omit<EventBody<"error">, "type" | "payloads"> & { payloads?: Payload[] }
  : Omit<EventBody<T>, "type">;

/** How far the wall clock may go from the monotonic one before events say so. */
const SKEW_US = 2_000;

/**
 * Everything that happened in one sandbox, in order. Appending encodes an event, chains it and hands its bytes to the
 * collector, in microseconds; the trajectory on disk follows within a quarter of a second.
 */
export class EventLog {
  readonly #recording: Recording;
  readonly #chain: EventChain;
  readonly #keeper: Keeper;
  readonly #recent = new RecentCalls();
  readonly #startMs: number;
  readonly #startedWallUs: number;
  #skewUs = 0;
  #skewKnownUs = Number.NEGATIVE_INFINITY;
  #count = 0;
  #lastUs = 0;
  #bytes = 0;

  /**
   * Begins the recording of an attempt.
   * @param directory of all recordings of this executor
   * @param replayed what the agent is given first
   */
  static open(
    collector: Collector,
    directory: string,
    lease: Lease,
    replayed: Partial<NewTraceHeader> = {},
  ): EventLog {
    const { spec, lease_id, task_id, fence, attempt, spec_digest } = lease;
    const startMs = performance.now();
    const startedMs = Date.now();
    const keeper = new Keeper(spec.trace, task_id);
    const header: NewTraceHeader = {
      ...{ trace_id: lease_id, source: "dsec", started_wall_us: startedMs * 1000, level: keeper.level },
      ...{ task_id, lease_id, fence, attempt, spec_digest: spec_digest as Digest, image: spec.image },
      labels_json: JSON.stringify(spec.labels),
      spec_json: shownSpec(spec),
      ...replayed,
    };
    const path = trajectoryPath(directory, lease, new Date(startedMs));
    return new EventLog(collector.record(path, header), header, keeper, startMs);
  }

  private constructor(recording: Recording, header: NewTraceHeader, keeper: Keeper, startMs: number) {
    this.#recording = recording;
    this.#keeper = keeper;
    this.#startMs = startMs;
    this.#startedWallUs = header.started_wall_us;
    const { genesis_digest } = completeHeader(header, nodeEngine);
    this.#chain = new EventChain(rawDigest(genesis_digest), nodeEngine.sha256);
  }

  /**
   * Appends an event, as far as the task's trace level keeps it, and returns the number of the last event.
   * @throws STORE_UNAVAILABLE where nothing can be recorded any more, as once it is being sealed
   */
  append<T extends EventType>(type: T, members: MembersOf<T>): number {
    let event = { type, ...members } as unknown as EventBody;
    if (event.type === "error" && event.payloads === undefined) {
      event = { ...event, payloads: this.#recent.payloads() };
    } else this.#recent.see(event);
    const kept = this.#keeper.kept(event);
    if (kept === null) return this.#count;
    const t_us = Math.floor((performance.now() - this.#startMs) * 1000);
    const bytes = encodeEvent(kept, { seq: this.#count + 1, t_us, wall_skew_us: this.#skewAt(t_us) });
    this.#recording.push(type, t_us, bytes);
    this.#lastUs = t_us;
    this.#chain.add(bytes);
    this.#bytes += bytes.length;
    return ++this.#count;
  }

  get count(): number {
    return this.#count;
  }

  /** Microseconds since 1970 when it was opened. */
  get startedWallUs(): number {
    return this.#startedWallUs;
  }

  /** The same of the last event. */
  get wallUs(): number {
    return this.#startedWallUs + this.#lastUs + this.#skewUs;
  }

  /** The chain after the last event. */
  get head(): Digest {
    return digestOf(this.#chain.head);
  }

  /** Rejects once its events cannot be written: then what happens must end. */
  get failed(): Promise<never> {
    return this.#recording.failed;
  }

  get recording(): Recording {
    return this.#recording;
  }

  /** @throws STORE_UNAVAILABLE where what was appended cannot be written */
  checkRecorded(): void {
    if (this.#recording.failure !== null) throw this.#recording.failure;
  }

  /**
   * Before anything is done whose events there must be room for.
   * @throws EVENT_LOG_FULL; STORE_UNAVAILABLE where the disk refuses
   */
  checkRoom(): void {
    this.checkRecorded();
    if (this.#bytes < LIMITS.eventLogBytes) return;
    throw new DsecError(
      "EVENT_LOG_FULL",
      `the attempt's event log holds ${this.#bytes} bytes, at most ${LIMITS.eventLogBytes}; nothing more can be done unrecorded`,
    );
  }

  /** Makes the trace. Rejects with STORE_UNAVAILABLE where it is not whole on disk. */
  async seal(): Promise<KeptTrace> {
    const trace = await this.#recording.seal();
    if (trace.chain_head === this.head && trace.count === this.#count) return trace;
    throw new DsecError(
      "STORE_UNAVAILABLE",
      `${trace.path} holds ${trace.count} events up to ${trace.chain_head}, recorded were ${this.#count} up to ${this.head}`,
    );
  }

  /** Zero but where the wall clock was set or runs otherwise: then events say how far it is from where it began. */
  #skewAt(tUs: number): number {
    if (tUs - this.#skewKnownUs < SKEW_US) return this.#skewUs;
    this.#skewKnownUs = tUs;
    const skewUs = Date.now() * 1000 - this.#startedWallUs - tUs;
    if (Math.abs(skewUs - this.#skewUs) > SKEW_US) this.#skewUs = skewUs;
    return this.#skewUs;
  }
}

/** What a replay runs again; a file's header has no room for one that is all but as long as requests can be. */
function shownSpec(spec: TaskSpec): string | null {
  const text = canonicalJson(spec);
  return Buffer.byteLength(text) <= LIMITS.recordedSpecBytes ? text : null;
}
