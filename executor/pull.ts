import { setImmediate as turn } from "node:timers/promises";
import { LIMITS } from "#core/limits.ts";
import { AXES, type Axis, axisThatDoesNotFit, NO_RESOURCES, type Resources } from "#core/resources.ts";
import { toWire } from "#core/wire/common.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { GatewayClient, Granted, Unsupported } from "./gateway-client.ts";
import type { Ledger } from "./ledger.ts";
import { backoffMs, isPassing, pause } from "./retry.ts";

/**
 * Turns of the event loop in which leases go to the launcher before the next poll: the memory answers at the end of the
 * first and of the second, and what waits for nothing else is launched with that.
 */
const LAUNCH_TURNS = 3;
/** A poll that offers less than everything ends so soon by itself, should the gateway not hear that it is to end. */
const PART_WAIT_MS = 1_000;
/** Doubled each time. */
const END_AGAIN_MS = 50;
/** The least that the task schema lets a client ask for. */
const SMALLEST: Resources = { ...NO_RESOURCES, cpu_millis: 10, memory_mb: 4, pids: 2 };
/** What others on the host use goes up and down all the time: so much more than was offered is worth another poll. */
const HOST_STEP_MB = 64;

/**
 * Long-polls for leases, several at once, always with all that is free: two polls that each offer a part would bring nothing
 * for a task that needs both. So at most one poll stands. What comes free while it does is offered by the next, and the
 * gateway is told to end this one. An open poll is never aborted: a grant that crosses the abort would be a lease that
 * nobody runs.
 */
export class Puller {
  readonly #client: Pick<GatewayClient, "acquire" | "endPoll">;
  readonly #ledger: Ledger;
  readonly #hasRoom: () => boolean;
  readonly #onLease: (lease: Lease, askedAtMs: number) => void;
  readonly #onUnsupported: (unsupported: Unsupported) => void;
  readonly #onFailure: (error: unknown) => void;
  readonly #stop = new AbortController();
  #standing: { offer: Resources; over: Promise<void> } | null = null;
  #isEnding = false;
  #state: "pulling" | "paused" | "waiting" | "stopped" = "pulling";
  #failures = 0;
  #isLookingAgain = false;

  /**
   * @param hasRoom whether this host can take a task; where it cannot, it is asked again in a moment
   * @param onLease called for each granted lease, also for one that comes in while pulling stops
   * @param onUnsupported the same for those whose tasks cannot run here
   */
  constructor(options: {
    client: Pick<GatewayClient, "acquire" | "endPoll">;
    ledger: Ledger;
    hasRoom: () => boolean;
    onLease: (lease: Lease, askedAtMs: number) => void;
    onUnsupported: (unsupported: Unsupported) => void;
    onFailure: (error: unknown) => void;
  }) {
    this.#client = options.client;
    this.#ledger = options.ledger;
    this.#hasRoom = options.hasRoom;
    this.#onLease = options.onLease;
    this.#onUnsupported = options.onUnsupported;
    this.#onFailure = options.onFailure;
  }

  /** Offers what is free. To be called at the start and whenever something was freed. */
  offer(): void {
    if (this.#state !== "pulling") return;
    const free = this.#ledger.free();
    if (this.#standing !== null) {
      void this.#endStanding();
    } else if (this.#hasRoom() && axisThatDoesNotFit(SMALLEST, free) === undefined) {
      this.#standing = { offer: free, over: this.#poll(free) };
    }
    // What others on the host use may be freed without anybody's saying so.
    void this.#lookAgain();
  }

  /** Begins no new poll until `resume`; one that stands may still bring a lease. */
  pause(): void {
    if (this.#state !== "stopped") this.#state = "paused";
  }

  resume(): void {
    if (this.#state !== "paused") return;
    this.#state = "pulling";
    this.offer();
  }

  /** Begins no new poll for a moment: the host has less than was offered, and what it has now is to be seen first. */
  async rest(): Promise<void> {
    await this.#wait(LIMITS.hostRoomCheckEveryMs);
    this.offer();
  }

  /** Ends all polls for good. A lease that was granted meanwhile is still handed to `onLease` before this resolves. */
  async stop(): Promise<void> {
    this.#state = "stopped";
    this.#stop.abort();
    await this.#standing?.over;
  }

  async #lookAgain(): Promise<void> {
    if (this.#isLookingAgain) return;
    this.#isLookingAgain = true;
    await pause(LIMITS.hostRoomCheckEveryMs, this.#stop.signal).catch(() => {});
    this.#isLookingAgain = false;
    this.offer();
  }

  async #poll(offer: Resources): Promise<void> {
    const leases = await this.#acquire(offer);
    this.#standing = null;
    // More tasks wait only where it brought as many as it may.
    if (leases > 0 && leases < LIMITS.leaseBatch) await launchesFirst();
    this.offer();
  }

  /** Resolves to how many leases it brought. */
  async #acquire(offer: Resources): Promise<number> {
    const askedAtMs = performance.now();
    const wait_ms = isWorthAnother(this.#ledger.capacity, offer) ? PART_WAIT_MS : LIMITS.longPollMs;
    const request = { free: toWire(offer), max_leases: LIMITS.leaseBatch, wait_ms };
    let granted: Granted;
    try {
      granted = await this.#client.acquire(request, this.#stop.signal);
      this.#failures = 0;
    } catch (error) {
      if (!this.#stop.signal.aborted) await this.#backOff(error);
      return 0;
    }
    const { leases, unsupported } = granted;
    for (const lease of leases) this.#onLease(lease, askedAtMs);
    for (const one of unsupported) this.#onUnsupported(one);
    return leases.length + unsupported.length;
  }

  /** Asks that the poll that stands be answered now, again and again until it is: the first time may overtake the poll itself. */
  async #endStanding(): Promise<void> {
    if (this.#isEnding) return;
    this.#isEnding = true;
    try {
      for (let pauseMs = END_AGAIN_MS; this.#isShort(); pauseMs *= 2) {
        await this.#client.endPoll(this.#stop.signal);
        await Promise.race([this.#standing?.over, pause(pauseMs, this.#stop.signal)]);
      }
    } catch (error) {
      // It ends by itself, and is asked for again at the next look.
      if (!this.#stop.signal.aborted) this.#onFailure(error);
    } finally {
      this.#isEnding = false;
    }
  }

  /** True where a poll stands and more came free than it offers. */
  #isShort(): boolean {
    return this.#standing !== null && isWorthAnother(this.#ledger.free(), this.#standing.offer);
  }

  async #backOff(error: unknown): Promise<void> {
    this.#onFailure(error);
    await this.#wait(backoffMs(++this.#failures, isPassing(error) ? error : undefined));
  }

  async #wait(ms: number): Promise<void> {
    if (this.#state === "pulling") this.#state = "waiting";
    await pause(ms, this.#stop.signal).catch(() => {});
    if (this.#state === "waiting") this.#state = "pulling";
  }
}

async function launchesFirst(): Promise<void> {
  for (let turns = 0; turns < LAUNCH_TURNS; turns++) await turn();
}

function isWorthAnother(free: Resources, offered: Resources): boolean {
  return AXES.some((axis) => free[axis] - offered[axis] >= (LEAST_GAIN[axis] ?? 1));
}

const LEAST_GAIN: Partial<Record<Axis, number>> = { memory_mb: HOST_STEP_MB, disk_mb: HOST_STEP_MB };
