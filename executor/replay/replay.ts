import { DsecError, type ErrorCode, isErrorCode } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { MemoryEvent, MemoryShown } from "#core/wire/memory.ts";
import type { Observation } from "#core/wire/observations.ts";
import type { Shown } from "#trace/events/event.ts";
import type { StartMembers } from "../channel/recorded-calls.ts";
import { pause } from "../retry.ts";
import { type Divergence, differing, errorOf, likeness, nameOf, shownCall } from "./divergence.ts";
import { again, mayHaveActed, type Turn } from "./effects.ts";
import { type LivePoint, livePointOf } from "./live-point.ts";
import type { CallEnd, MemoryRead, RecordedCall, Recording } from "./recording.ts";

/** Where an agent is kept waiting, so that somebody can look: at a call with what it will be given, or where it left the record. */
export type Held =
  | { at: "call"; call: RecordedCall; divergence: null }
  | { at: "divergence"; call: null; divergence: Divergence };

/**
 * `whole`: nothing but the record. `continue`: the record to its end, and then the world. `fast_forward`: what the record does not
 * have is asked of the world, once nothing is left in it that would be done a second time.
 */
export type ReplayMode = "whole" | "continue" | "fast_forward";

export type ReplayOptions = {
  mode: ReplayMode;
  /** The first call that is kept waiting; null where none is. */
  holdAt: number | null;
  /**
   * Is asked at each call that is kept waiting, and in a whole replay at the first divergence; what waits goes on once it
   * resolves, and the next call is held at `holdAt`.
   */
  onHeld: (held: Held) => Promise<{ holdAt: number | null }>;
  /** Whether calls take as long as they took. */
  realTime: boolean;
  /** The largest number of an observation in the record that was of another task; the task's own are numbered after it. */
  foreignObservations?: number;
  /** Is told how many recorded calls were made again. */
  onCall: (begun: number) => void;
};

/**
 * Gives an agent that runs again what it was given the first time. Each call is matched with the recorded one that has its
 * place and its arguments. Calls that were under way at once may come in any order; one that comes before others on
 * whose answers it may rest waits for them. What is not in the record is a divergence: from the first one on, nothing is
 * answered any more, and nothing is ever done in the world.
 */
export class Replay {
  readonly recording: Recording;
  readonly #options: ReplayOptions;
  /** Those that were not made again yet, in the order in which they began. */
  readonly #waiting: Set<RecordedCall>;
  /** The same by what they are recognized by, the first of each last. Attempts make up to a hundred thousand of them. */
  readonly #alike: Map<string, RecordedCall[]>;
  /** Those of them that ended, the first to end last; some may have been made again since. */
  readonly #toEnd: RecordedCall[];
  /** Of each key, the first last. */
  readonly #reads: Map<string, MemoryRead[]>;
  readonly #observations: Recording["observations"];
  readonly #diverged = Promise.withResolvers<Divergence>();
  #looked: Promise<unknown> = Promise.resolve();
  #holdAt: number | null;
  #divergence: Divergence | null = null;
  #begun = 0;
  #ends = 0;
  #wallUs: number;
  #moved = Promise.withResolvers<void>();

  constructor(recording: Recording, options: ReplayOptions) {
    this.recording = recording;
    this.#options = options;
    this.#holdAt = options.holdAt;
    this.#wallUs = recording.header.told_wall_us ?? recording.header.started_wall_us;
    this.#waiting = new Set(recording.calls);
    this.#alike = Map.groupBy(recording.calls.toReversed(), ({ start }) => likeness(start));
    this.#toEnd = recording.calls
      .filter(({ end }) => end !== null)
      .toSorted((one, other) => other.end!.seq - one.end!.seq);
    this.#observations = [...recording.observations];
    this.#reads = Map.groupBy(recording.reads.toReversed(), keyOfRead);
  }

  /**
   * The recorded call that this one is, which is taken by it.
   * @param signal gives up waiting for its turn
   * @throws REPLAY_DIVERGED; CALL_OUTCOME_UNKNOWN in a fast-forward, where the call was under way when the record broke off
   */
  async next(given: StartMembers, signal: AbortSignal): Promise<Turn> {
    const giveUpAtMs = performance.now() + LIMITS.replayOrderMs;
    const same = this.#alike.get(likeness(given)) ?? [];
    for (;;) {
      if (this.#divergence !== null) throw errorOf(this.#divergence);
      if (this.isLive) return { kind: "live" };
      // Of those that are alike the first is due before the others.
      const match = same.at(-1);
      if (match !== undefined && this.#isDue(match)) {
        same.pop();
        this.#waiting.delete(match);
        this.#begun++;
        this.#options.onCall(this.#begun);
        this.#progressed();
        await this.#hold(match, signal);
        return this.mode === "whole" || this.#wasAnswered(match)
          ? { kind: "recorded", call: match }
          : again(match);
      }
      const leftMs = giveUpAtMs - performance.now();
      if (same.length === 0 || leftMs <= 0) {
        if (this.mode !== "fast_forward" || this.unused.some(mayHaveActed)) {
          throw this.#divergedAt(given);
        }
        // What is left would only be looked at again.
        this.#waiting.clear();
      } else await Promise.race([this.#moved.promise, pause(leftMs, signal)]);
    }
  }

  /** The call's end has been given. */
  ended({ end }: RecordedCall): void {
    this.#ends++;
    if (end !== null) this.#wallUs = Math.max(this.#wallUs, toldUs(end));
    this.#progressed();
  }

  /** Waits as long as the call took, where that was asked for. */
  async takeTime({ end }: RecordedCall, signal: AbortSignal): Promise<void> {
    if (this.#options.realTime && end !== null) await pause(end.duration_us / 1000, signal);
  }

  /** What is to be given now: with the answer to a call, or where the agent asks for it. */
  observationsFor(call: number | null): Observation[] {
    const isDue = (given: Recording["observations"][number]) =>
      call === null ? given.call === null && given.ends <= this.#ends : given.call === call;
    const due = this.#observations.filter((given) => this.isLive || isDue(given));
    for (const given of due) this.#observations.splice(this.#observations.indexOf(given), 1);
    return due.map(({ observation }) => observation);
  }

  /** Observations come to the agent under numbers of which those of another task's are the first. */
  get foreignObservations(): number {
    return this.#options.foreignObservations ?? 0;
  }

  /** Whether the observation is in the record, and comes when its time is there. */
  has(seq: number): boolean {
    return this.#observations.some(({ observation }) => observation.seq === seq);
  }

  /** The task's memory is real; what it reads must be what it read. */
  seeMemory(event: MemoryEvent): void {
    const { op, key } = event;
    // Where it leads to other calls, those diverge.
    if (this.mode === "fast_forward" || this.isLive) return;
    if (op !== "get" && op !== "list" && op !== "search") return;
    const expected = this.#reads.get(keyOfRead(event))?.pop();
    const given = { op, key, value: event.old };
    if (expected === undefined) {
      this.#diverge({
        what: "memory",
        call: null,
        recorded: null,
        given,
        members: [],
        message: `memory ${op} of ${quoted(key)} was not read so often`,
      });
    } else if (!sameShown(expected.old, event.old)) {
      const recorded = { op, key, value: expected.old };
      this.#diverge({
        what: "memory",
        call: expected.call,
        recorded,
        given,
        members: ["value"],
        message: `memory ${op} of ${quoted(key)} reads another value than it read`,
      });
    }
  }

  /** A tool within the sandbox ran again: what it wrote must be what it wrote. Null where it is. */
  differenceOf(
    { start, end }: RecordedCall,
    members: Pick<CallEnd, "state" | "output_digest" | "exit_code">,
  ): DsecError | null {
    if (end === null || this.mode === "fast_forward") return null;
    const { state, output_digest, exit_code } = end;
    const recorded = { state, output_digest, exit_code };
    const differ = (["state", "output_digest", "exit_code"] as const).filter(
      (name) => recorded[name] !== members[name],
    );
    if (differ.length === 0) return null;
    const message = `tool ${start.tool} ran again within the sandbox, and its ${differ.join(", ")} differ`;
    return this.#diverge({
      what: "output",
      call: start.call,
      recorded,
      given: members,
      members: differ,
      message,
    });
  }

  /** The record breaks off within this call. */
  breaksOff(call: RecordedCall): DsecError {
    const { start } = call;
    const message = `the record breaks off within call ${start.call} (${nameOf(start)}), and does not say how it ended`;
    return this.#diverge({
      what: "call",
      call: start.call,
      recorded: shownCall(start),
      given: shownCall(start),
      members: [],
      message,
    });
  }

  /** The agent ended by itself: before the record did, where it was to go on from its end. */
  endedEarly(): DsecError | null {
    const [due] = this.#waiting;
    if (this.mode !== "continue" || due === undefined) return null;
    return this.#diverge({
      what: "call",
      call: due.start.call,
      recorded: shownCall(due.start),
      given: {},
      members: [],
      message: `the agent ended before call ${due.start.call} (${nameOf(due.start)}), and so before it could go on live`,
    });
  }

  /** Whether the world answers: once the record is at its end, where the agent goes on from there. */
  get isLive(): boolean {
    return this.mode !== "whole" && this.#divergence === null && this.#waiting.size === 0;
  }

  /** Where the record ends for this replay. */
  get livePoint(): LivePoint {
    return livePointOf(this.recording, this.#options.holdAt);
  }

  get mode(): ReplayMode {
    return this.#options.mode;
  }

  /** Resolves at the first divergence. */
  get diverged(): Promise<Divergence> {
    return this.#diverged.promise;
  }

  /** Resolves at once, or when whoever looks at the divergence has seen enough: until then nothing is answered. */
  async looked(signal: AbortSignal): Promise<void> {
    if (this.#divergence !== null) await Promise.race([this.#looked, aborted(signal)]).catch(() => {});
  }

  /** Rejects at the first divergence of a replay that goes on live: nobody else ends it. */
  get failed(): Promise<never> {
    if (this.mode === "whole") return new Promise(() => {});
    return this.#diverged.promise.then((divergence) => Promise.reject(errorOf(divergence)));
  }

  /** @throws REPLAY_DIVERGED */
  check(): void {
    if (this.#divergence !== null) throw errorOf(this.#divergence);
  }

  get divergence(): Divergence | null {
    return this.#divergence;
  }

  /** Recorded calls that were made again. */
  get begun(): number {
    return this.#begun;
  }

  /** Recorded calls that were not, in the order in which they were recorded. */
  get unused(): readonly RecordedCall[] {
    return [...this.#waiting];
  }

  /** Larger than every recorded call's number. */
  get nextNumber(): number {
    return this.recording.calls.reduce((last, { start }) => Math.max(last, start.call), 0) + 1;
  }

  /** Microseconds since 1970: when the last answer was given the first time. */
  get wallUs(): number {
    return this.#wallUs;
  }

  /** A call may rest on every answer that had been given when it began; those must have been asked for by now. */
  #isDue({ start }: RecordedCall): boolean {
    while (this.#toEnd.length > 0 && !this.#waiting.has(this.#toEnd.at(-1)!)) this.#toEnd.pop();
    const first = this.#toEnd.at(-1);
    return first === undefined || first.end!.seq > start.seq;
  }

  /** A call that its sandbox's end cut off was not: nobody knows what became of it. */
  #wasAnswered({ end }: RecordedCall): boolean {
    if (end === null) return false;
    return end.state !== "cancelled" || end.seq < this.recording.lastActSeq;
  }

  async #hold(call: RecordedCall, signal: AbortSignal): Promise<void> {
    if (this.#holdAt !== null && call.start.call >= this.#holdAt) {
      this.#holdAt = null;
      const held = this.#options.onHeld({ at: "call", call, divergence: null }).then(({ holdAt }) => {
        this.#holdAt = holdAt;
      });
      await Promise.race([held, aborted(signal)]);
    }
  }

  #divergedAt(given: StartMembers): DsecError {
    // The one that comes closest among those that are due; otherwise the first.
    const [due] = this.unused
      .filter((call) => this.#isDue(call))
      .toSorted((a, b) => differing(a.start, given).length - differing(b.start, given).length);
    const shown = shownCall(given);
    if (due === undefined) {
      const { length } = this.recording.calls;
      const message = `call ${this.#begun + 1} (${nameOf(given)}) is one more than the ${length} that were recorded; --continue-live goes on from there`;
      return this.#diverge({ what: "call", call: null, recorded: null, given: shown, members: [], message });
    }
    const members = differing(due.start, given);
    const message =
      members.length === 0
        ? `call ${due.start.call} (${nameOf(given)}) came before others that had been answered before it`
        : `call ${due.start.call} was ${nameOf(due.start)}, and now it is ${nameOf(given)}: ${members.join(", ")} differ`;
    return this.#diverge({
      what: "call",
      call: due.start.call,
      recorded: shownCall(due.start),
      given: shown,
      members,
      message,
    });
  }

  #diverge(divergence: Divergence): DsecError {
    if (this.#divergence === null) {
      this.#divergence = divergence;
      if (this.mode === "whole")
        this.#looked = this.#options.onHeld({ at: "divergence", call: null, divergence });
      this.#diverged.resolve(divergence);
      this.#progressed();
    }
    return errorOf(this.#divergence);
  }

  #progressed(): void {
    this.#moved.resolve();
    this.#moved = Promise.withResolvers();
  }
}

/** The error that the agent was told of. */
export function recordedError({ code, text, details_json }: CallEnd): DsecError {
  const known: ErrorCode = isErrorCode(code) ? code : "INTERNAL";
  const details =
    details_json === null ? undefined : (JSON.parse(details_json) as { [member: string]: unknown });
  return new DsecError(known, text ?? "", details === undefined ? {} : { details });
}

/** When the agent was told that the call had ended: what a replay said is said again. */
function toldUs({ told_wall_us, wall_us }: CallEnd): number {
  return told_wall_us ?? wall_us;
}

/** Each task has one namespace of its own, and where another task goes on from the record it is that one's. */
function keyOfRead({ op, namespace, key }: Pick<MemoryEvent, "op" | "namespace" | "key">): string {
  return `${op} ${namespace.startsWith("task:") ? "task" : namespace} ${key}`;
}

function sameShown(recorded: Shown | null, now: MemoryShown | null): boolean {
  if (recorded === null || now === null) return recorded === now;
  return "json" in now ? recorded.value_json === now.json : recorded.value_digest === now.digest;
}

function quoted(key: string): string {
  return JSON.stringify(key.slice(0, 100));
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
