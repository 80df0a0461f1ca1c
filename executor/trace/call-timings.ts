import type { Timing } from "#trace/events/event.ts";
import type { CpuReading, SandboxCpu } from "./sandbox-cpu.ts";

/** How long what one side says took the other to read, and to put into words; in microseconds. */
export class SerializationTime {
  us = 0;

  /** @param work that waits for nothing */
  during<T>(work: () => T): T {
    const startedMs = performance.now();
    try {
      return work();
    } finally {
      this.us += (performance.now() - startedMs) * 1000;
    }
  }
}

type Draft = {
  networkUs: number | null;
  gatewayUs: number | null;
  serialization: SerializationTime | null;
  /** Of the agent's sandbox at its first look, or what another sandbox waited that ran for this call alone. */
  cpu:
    | { state: "unwatched" }
    | { state: "early"; firstLook: NodeJS.Timeout }
    | { state: "agent"; before: CpuReading }
    | { state: "apart"; waited: CpuReading | null };
};

/** To look at every thread of a sandbox takes as long as to send a call: nothing is looked at for one that is shorter. */
const FIRST_LOOK_MS = 10;

/** While calls are under way: of threads that came and went between two readings nothing is known (cgroup v1). */
const LOOK_EVERY_MS = 100;

/** Where the time of each call goes, put together from those who spend it. Calls have their numbers in the event log. */
export class CallTimings {
  readonly #drafts = new Map<number, Draft>();
  #cpu: SandboxCpu | null = null;
  #looking: NodeJS.Timeout | null = null;

  /** Whose waiting for a processor counts from here on; null where nobody's does. */
  watch(cpu: SandboxCpu | null): void {
    this.#cpu = cpu;
    if (cpu === null) this.#stopLooking();
  }

  begin(call: number): void {
    const draft: Draft = {
      networkUs: null,
      gatewayUs: null,
      serialization: null,
      cpu: { state: "unwatched" },
    };
    this.#drafts.set(call, draft);
    const cpu = this.#cpu;
    if (cpu === null) return;
    const look = () => {
      if (this.#cpu !== cpu) {
        draft.cpu = { state: "unwatched" };
        return;
      }
      draft.cpu = { state: "agent", before: cpu.read() };
      this.#looking ??= setInterval(() => this.#cpu?.look(), LOOK_EVERY_MS).unref();
    };
    draft.cpu = { state: "early", firstLook: setTimeout(look, FIRST_LOOK_MS).unref() };
  }

  /** What the channel spends on the call's messages is measured there; it is looked at when the call ends. */
  serialized(call: number, time: SerializationTime): void {
    const draft = this.#drafts.get(call);
    if (draft !== undefined) draft.serialization = time;
  }

  /**
   * The work is done in a sandbox of its own, whose waiting is the call's, and not that of the agent's.
   * @param waited in all its life; null until that has ended
   */
  apart(call: number, waited: CpuReading | null): void {
    const draft = this.#drafts.get(call);
    if (draft === undefined) return;
    noFirstLook(draft);
    draft.cpu = { state: "apart", waited };
  }

  /**
   * One try of a call went through the gateway. Tries add up.
   * @param elapsedUs from here to the gateway and back, with all that lies between
   * @param upstreamUs of it, by the receipt; null where nothing was sent to the upstream, or nobody knows
   */
  proxied(call: number, elapsedUs: number, upstreamUs: number | null): void {
    const draft = this.#drafts.get(call);
    if (draft === undefined) return; // it came after its call had ended
    if (upstreamUs !== null) draft.networkUs = (draft.networkUs ?? 0) + upstreamUs;
    draft.gatewayUs = (draft.gatewayUs ?? 0) + Math.max(0, elapsedUs - (upstreamUs ?? 0));
  }

  /** Null where nothing is known. */
  end(call: number): Timing | null {
    const draft = this.#drafts.get(call);
    if (draft === undefined) return null;
    this.#drafts.delete(call);
    noFirstLook(draft);
    if (this.#drafts.size === 0) this.#stopLooking();
    const { networkUs, gatewayUs, serialization } = draft;
    const waited = this.#waited(draft.cpu);
    const timing = {
      network_us: whole(networkUs),
      serialization_us: whole(serialization?.us ?? null),
      gateway_us: whole(gatewayUs),
      snapshot_us: null,
      cpu_wait_us: whole(waited?.waitUs ?? null),
      throttled_us: whole(waited?.throttledUs ?? null),
      gpu_us: null,
    };
    return Object.values(timing).every((us) => us === null) ? null : timing;
  }

  #stopLooking(): void {
    if (this.#looking !== null) clearInterval(this.#looking);
    this.#looking = null;
  }

  #waited(cpu: Draft["cpu"]): CpuReading | null {
    if (cpu.state === "apart") return cpu.waited;
    if (cpu.state !== "agent") return null;
    const { before } = cpu;
    const after = this.#cpu?.read() ?? null;
    // A call that was over between two readings waited for nothing that could be seen.
    if (after === null || after === before) return null;
    return {
      waitUs: difference(after.waitUs, before.waitUs),
      throttledUs: difference(after.throttledUs, before.throttledUs),
    };
  }
}

function noFirstLook({ cpu }: Draft): void {
  if (cpu.state === "early") clearTimeout(cpu.firstLook);
}

function difference(after: number | null, before: number | null): number | null {
  return after === null || before === null ? null : Math.max(0, after - before);
}

function whole(us: number | null): number | null {
  return us === null ? null : Math.round(us);
}
