import type { Timing } from "#trace/events/event.ts";
import type { SandboxCpu } from "./sandbox-cpu.ts";

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
  before: ReturnType<SandboxCpu["read"]> | null;
};

/** Where the time of each call goes, put together from those who spend it. Calls have their numbers in the event log. */
export class CallTimings {
  readonly #drafts = new Map<number, Draft>();
  #cpu: SandboxCpu | null = null;

  /** Whose waiting for a processor counts from here on; null where nobody's does. */
  watch(cpu: SandboxCpu | null): void {
    this.#cpu = cpu;
  }

  begin(call: number): void {
    const before = this.#cpu?.read() ?? null;
    this.#drafts.set(call, { networkUs: null, gatewayUs: null, serialization: null, before });
  }

  /** What the channel spends on the call's messages is measured there; it is looked at when the call ends. */
  serialized(call: number, time: SerializationTime): void {
    const draft = this.#drafts.get(call);
    if (draft !== undefined) draft.serialization = time;
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
    const { networkUs, gatewayUs, serialization, before } = draft;
    const after = before === null ? null : (this.#cpu?.read() ?? null);
    // A call that was over between two readings waited for nothing that could be seen.
    const isRead = before !== null && after !== null && after !== before;
    const timing = {
      network_us: whole(networkUs),
      serialization_us: whole(serialization?.us ?? null),
      gateway_us: whole(gatewayUs),
      snapshot_us: null,
      cpu_wait_us: isRead ? difference(after.waitUs, before.waitUs) : null,
      throttled_us: isRead ? difference(after.throttledUs, before.throttledUs) : null,
      gpu_us: null,
    };
    return Object.values(timing).every((us) => us === null) ? null : timing;
  }
}

function difference(after: number | null, before: number | null): number | null {
  return after === null || before === null ? null : whole(Math.max(0, after - before));
}

function whole(us: number | null): number | null {
  return us === null ? null : Math.round(us);
}
