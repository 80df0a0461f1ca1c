import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Retry } from "#core/wire/tools.ts";
import { hasEffects, type Turn } from "../replay/effects.ts";
import type { RecordedCall } from "../replay/recording.ts";
import { type Replay, recordedError } from "../replay/replay.ts";
import { pause } from "../retry.ts";
import type { CallTimings } from "../trace/call-timings.ts";
import type { Failures } from "../trace/failures.ts";
import type { Persist } from "../trace/live.ts";
import { detailsOf, failureOf, isNetwork, isTimeout, missedDeadline } from "./call-failures.ts";
import { LATE, withinDeadline } from "./deadline.ts";
import type { EventLog, MembersOf } from "./event-log.ts";
import type { MemoryWatch } from "./memory-watch.ts";
import type { PlanSteps } from "./steps.ts";

/** What the events around a call say of it; the rest is known here. */
export type StartMembers = Omit<
  MembersOf<"tool_call_start">,
  "call" | "step" | "memory_digest" | "context_digest"
>;
export type EndMembers = Omit<
  MembersOf<"tool_call_end">,
  "call" | "duration_us" | "memory_digest" | "memory_changed"
>;
/** What an end says of the call itself: all that a replay gives again. */
export type ToldEnd = NonNullable<RecordedCall["end"]>;

/** One try's result, and what its end event says of it. */
export type Tried<T> = {
  value: T;
  members: Omit<EndMembers, "state" | "tries" | "code" | "text" | "timing">;
  /** What the agent is told of the call besides its answer. */
  facts: { [member: string]: unknown };
  status: number | null;
};

export type CallPlan<T> = {
  /** For the start event: which tool, what it was given. */
  members: StartMembers;
  /** For each try. */
  timeoutMs: number;
  retry: Retry | undefined;
  /** JSON text of what is answered where the last deadline is missed, which then is an end like another. */
  fallback: string | null;
  /** @param number of the call in the event log */
  attempt(signal: AbortSignal, number: number): Promise<Tried<T>>;
  /** The same of an answer that was recorded, for `Tried.members` are those of the record. */
  again(end: ToldEnd): Omit<Tried<T>, "members">;
};

export type CallEnd<T> = { number: number; tries: number; durationMs: number } & (
  | ({ state: "answered" } & Tried<T>)
  | { state: "fallback" }
);

/**
 * The execution layer around each tool call: what was there before, what was done and how long it took, what changed.
 * Nothing is done without a start event, and every start has one end. An answer that comes after its deadline changes
 * nothing for the agent any more; it is waited for a moment and recorded as late.
 */
export class RecordedCalls {
  readonly #log: EventLog;
  readonly #steps: PlanSteps;
  readonly #watch: MemoryWatch;
  readonly #context: () => Digest | null;
  readonly #failures: Failures;
  readonly #timings: CallTimings;
  readonly #replay: Replay | null;
  readonly #persist: Persist | null;
  readonly #underWay = new Set<number>();
  readonly #closing = new AbortController();
  /** Tries that go on after their callers were answered. */
  readonly #leftBehind = new Set<Promise<void>>();
  #last: number;
  #wallUs: number;

  constructor(parts: {
    log: EventLog;
    steps: PlanSteps;
    watch: MemoryWatch;
    failures: Failures;
    timings: CallTimings;
    context: () => Digest | null;
    /** Answers in place of the world. */
    replay: Replay | null;
    /** Null where nobody would go on from what is recorded. */
    persist: Persist | null;
  }) {
    this.#failures = parts.failures;
    this.#timings = parts.timings;
    this.#replay = parts.replay;
    this.#persist = parts.persist;
    this.#last = (parts.replay?.nextNumber ?? 1) - 1;
    this.#wallUs = parts.log.startedWallUs;
    this.#log = parts.log;
    this.#steps = parts.steps;
    this.#watch = parts.watch;
    this.#context = parts.context;
  }

  /** The call that is under way; null where there is none, or more than one, of which nobody knows which it is. */
  get current(): number | null {
    const [only = null] = this.#underWay;
    return this.#underWay.size === 1 ? only : null;
  }

  /** Makes a call. Rejects with what its last try failed of, or with the signal's reason. */
  async run<T>(plan: CallPlan<T>, client: AbortSignal): Promise<CallEnd<T>> {
    const step = this.#steps.enter();
    const signals = step === null ? [client, this.#closing.signal] : [client, this.#closing.signal, step];
    const { number, before } = await this.begin(plan.members);
    if (before.recorded !== null) {
      return this.#again(plan, number, before, before.recorded, AbortSignal.any(signals));
    }
    const attempts = plan.retry?.attempts ?? 1;
    let tries = 0;
    let outcome: Tried<T> | typeof LATE;
    try {
      for (;;) {
        tries++;
        const { again, result } = await this.#try(plan, number, signals);
        const { retry } = plan;
        if (again === null || retry === undefined || tries >= attempts || !retry.on.includes(again)) {
          if (result instanceof Failure) throw result.error;
          if (result === LATE && plan.fallback === null) throw missedDeadline(plan.timeoutMs, tries);
          outcome = result;
          break;
        }
        await pause(retry.backoff_ms * 2 ** (tries - 1), AbortSignal.any(signals));
      }
    } catch (error) {
      const state =
        client.aborted || this.#closing.signal.aborted
          ? "cancelled"
          : isTimeout(error)
            ? "timed_out"
            : "failed";
      const { code, message: text } = failureOf(error);
      await this.end(number, before, { state, code, text, details_json: detailsOf(error), tries });
      throw error;
    }
    const state = outcome === LATE ? "fallback" : "answered";
    const members = outcome === LATE ? { answer: { output_json: plan.fallback } } : outcome.members;
    const durationMs = await this.end(number, before, { state, tries, ...members });
    const end = { number, tries, durationMs };
    return outcome === LATE ? { ...end, state: "fallback" } : { ...end, state: "answered", ...outcome };
  }

  /**
   * Records that a call begins. Whoever calls this records its end too, and in a replay gives what was recorded.
   * @throws REPLAY_DIVERGED
   */
  async begin(members: StartMembers): Promise<{ number: number; before: Before }> {
    this.#log.checkRoom();
    // A tool whose program asks for something is one that runs, and no record answers it.
    if (this.#replay === null || members.within != null) return this.#begin(++this.#last, members, "live");
    let turn: Turn;
    try {
      turn = await this.#replay.next(members, this.#closing.signal);
    } catch (error) {
      const { number, before } = await this.#begin(++this.#last, members, "nothing");
      const { code, message: text } = failureOf(error);
      await this.end(number, before, {
        state: "failed",
        code,
        text,
        details_json: detailsOf(error),
        tries: 0,
      });
      throw error;
    }
    if (turn.kind === "live") return this.#begin(++this.#last, members, "live");
    return this.#begin(turn.call.start.call, members, turn.call);
  }

  async #begin(
    number: number,
    members: StartMembers,
    what: RecordedCall | "live" | "nothing",
  ): Promise<{ number: number; before: Before }> {
    const memory = await this.#watch.check(number);
    const around = { step: this.#steps.current, memory_digest: memory, context_digest: this.#context() };
    this.#log.append("tool_call_start", { call: number, ...members, ...around });
    this.#timings.begin(number);
    this.#underWay.add(number);
    const { tool = null, via } = members;
    const recorded = typeof what === "string" ? null : what;
    const persists = this.#persist !== null && what === "live" && hasEffects(members);
    const about = { tool, via, step: around.step, recorded, persists };
    const before: Before = { memory, atMs: performance.now(), ...about };
    // Whoever goes on from the record must know of the call before it can have done anything.
    if (persists) await this.#persistBegin(number, before);
    return { number, before };
  }

  async #persistBegin(number: number, before: Before): Promise<void> {
    try {
      await this.#persist!.now();
    } catch (error) {
      const { code, message: text } = failureOf(error);
      await this.end(number, { ...before, persists: false }, { state: "failed", code, text, tries: 0 });
      throw error;
    }
  }

  /** Records how a call ended. Resolves with the milliseconds that it took, in a replay those that it took at first. */
  async end(number: number, before: Before, members: EndMembers): Promise<number> {
    const { recorded } = before;
    await this.#replay?.looked(this.#closing.signal);
    const duration_us = recorded?.end?.duration_us ?? Math.round((performance.now() - before.atMs) * 1000);
    const timing = this.#timings.end(number);
    const memory_digest = await this.#memoryAfter(number);
    const memory_changed = memory_digest === null ? null : memory_digest !== before.memory;
    const after = { duration_us, memory_digest, memory_changed };
    this.#underWay.delete(number);
    this.#log.append("tool_call_end", { call: number, timing, ...members, ...after });
    this.#wallUs = this.#log.wallUs;
    if (recorded !== null) this.#replay?.ended(recorded);
    const { via, step } = before;
    const error = errorOf(before, members);
    if (error !== null) await this.#failures.record({ ...error, via, call: number, step });
    // Before the agent does anything on the strength of this answer, that is kept too.
    if (before.persists) this.#persist!.soon();
    return duration_us / 1000;
  }

  /** Null where memory cannot be read now: the call was made all the same, and its caller is to have its answer. */
  async #memoryAfter(call: number): Promise<Digest | null> {
    try {
      return await this.#watch.check(call);
    } catch {
      return null;
    }
  }

  /** Microseconds since 1970 when the last answer was given, or the attempt began; in a replay that was at first. */
  get wallUs(): number {
    return this.#replay === null || this.#replay.isLive ? this.#wallUs : this.#replay.wallUs;
  }

  /** In a replay, of a tool that ran again: why what it did is not what it did at first. */
  differenceOf(before: Before, did: Parameters<Replay["differenceOf"]>[1]): DsecError | null {
    const { recorded } = before;
    return recorded === null ? null : this.#replay!.differenceOf(recorded, did);
  }

  /** Gives what was recorded, as an answer or as an error, and does nothing. */
  async #again<T>(
    plan: CallPlan<T>,
    number: number,
    before: Before,
    recorded: RecordedCall,
    signal: AbortSignal,
  ): Promise<CallEnd<T>> {
    const end = await this.recordedEnd(number, before, recorded, signal);
    const { state, tries } = end;
    const durationMs = end.duration_us / 1000;
    if (state === "fallback") return { number, tries, durationMs, state };
    if (state !== "answered") throw recordedError(end);
    return { number, tries, durationMs, state, members: {}, ...plan.again(end) };
  }

  /**
   * Records again how the call ended, and resolves with it.
   * @param signal of the caller: a call that it left the first time ends when it leaves again
   * @throws REPLAY_DIVERGED where the record does not say
   */
  async recordedEnd(
    number: number,
    before: Before,
    recorded: RecordedCall,
    signal: AbortSignal,
  ): Promise<ToldEnd> {
    const { end } = recorded;
    if (end === null) {
      const error = this.#replay!.breaksOff(recorded);
      const { code, message: text } = failureOf(error);
      await this.end(number, before, { state: "failed", code, text, tries: 0 });
      throw error;
    }
    try {
      if (end.state === "cancelled") await pause(FOREVER_MS, signal);
      await this.#replay!.takeTime(recorded, signal);
    } catch {
      // It left: as it did, or before it had an answer where calls take their time.
    }
    const { seq, t_us, wall_us, type, call, duration_us, memory_digest, memory_changed, ...members } = end;
    const told_wall_us = end.told_wall_us ?? wall_us;
    await this.end(number, before, { ...members, replayed: true, told_wall_us });
    return end;
  }

  /** Gives up what is still under way. */
  giveUp(): void {
    this.#closing.abort(new DsecError("CALL_CANCELLED", "the sandbox has ended"));
  }

  /** Once all callers have been answered: waits for the ends of what they left behind. */
  async close(): Promise<void> {
    await Promise.all(this.#leftBehind);
  }

  /** One try, and what kind of failure it was where another may follow. */
  async #try<T>(
    plan: CallPlan<T>,
    number: number,
    signals: readonly AbortSignal[],
  ): Promise<{ again: Retry["on"][number] | null; result: Tried<T> | Failure | typeof LATE }> {
    for (const signal of signals) signal.throwIfAborted();
    const own = new AbortController();
    const trying = plan.attempt(own.signal, number);
    try {
      const result = await withinDeadline(trying, plan.timeoutMs, signals, (reason) => own.abort(reason));
      if (result === LATE) {
        this.#leaveBehind(trying, own, number);
        return { again: "timeout", result };
      }
      const again =
        result.status !== null && (result.status === 429 || result.status >= 500) ? "status" : null;
      return { again, result };
    } catch (error) {
      const left = signals.find((signal) => signal.aborted);
      if (left !== undefined) {
        this.#leaveBehind(trying, own, number);
        throw left.reason;
      }
      // The gateway keeps time as well, by the policy's limit: its word is the same end.
      if (isTimeout(error)) return { again: "timeout", result: LATE };
      return { again: isNetwork(error) ? "network" : null, result: new Failure(error) };
    }
  }

  /** What is not waited for any longer: its end is recorded, and it is ended where that takes too long. */
  #leaveBehind<T>(trying: Promise<Tried<T>>, own: AbortController, call: number): void {
    const startedAtMs = performance.now();
    const giveUp = () => own.abort(new DsecError("CALL_CANCELLED", "its answer is no longer waited for"));
    const timer = setTimeout(giveUp, LIMITS.lateAnswerMs);
    this.#closing.signal.addEventListener("abort", giveUp, { once: true });
    if (this.#closing.signal.aborted) giveUp();
    const late = (members: Omit<MembersOf<"tool_call_late">, "call" | "late_us">) => {
      const late_us = Math.round((performance.now() - startedAtMs) * 1000);
      this.#log.append("tool_call_late", { call, late_us, ...members });
    };
    const recorded = trying
      .then(({ members: { call_seq, status, output_digest, output_bytes } }) =>
        late({ state: "answered", call_seq, status, output_digest, output_bytes }),
      )
      .catch((error: unknown) => {
        const { code, message: text } = failureOf(error);
        late({ state: "failed", code, text });
      })
      .finally(() => {
        clearTimeout(timer);
        this.#closing.signal.removeEventListener("abort", giveUp);
        this.#leftBehind.delete(recorded);
      });
    recorded.catch(() => {}); // `close` tells
    this.#leftBehind.add(recorded);
  }
}

export type Before = {
  memory: Digest;
  atMs: number;
  tool: string | null;
  via: StartMembers["via"];
  step: number | null;
  /** The recorded call that this one is, in a replay. */
  recorded: RecordedCall | null;
  /** That it began was made to outlive this executor, and its end is to be. */
  persists: boolean;
};

/** What an end is an error of: a call that failed, or a declared tool that says it did. */
function errorOf({ tool }: Before, members: EndMembers): { code: string; text: string } | null {
  const { state, is_error, status, exit_code } = members;
  if (state === "failed" || state === "timed_out") {
    return { code: members.code ?? "INTERNAL", text: members.text ?? `the call ${state.replace("_", " ")}` };
  }
  if (state !== "answered" || !is_error) return null;
  const how = status != null ? ` (status ${status})` : exit_code != null ? ` (exit code ${exit_code})` : "";
  return { code: "TOOL_ERROR", text: `tool ${tool} answered that it failed${how}` };
}

class Failure {
  readonly error: unknown;

  constructor(error: unknown) {
    this.error = error;
  }
}

/** Longer than any sandbox lives: the most that a timer takes. */
const FOREVER_MS = 2 ** 31 - 1;
