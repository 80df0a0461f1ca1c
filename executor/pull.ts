import { setImmediate as turn } from "node:timers/promises";
import { LIMITS } from "#core/limits.ts";
import type { Resources } from "#core/resources.ts";
import { toWire } from "#core/wire/common.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { GatewayClient, Granted, Unsupported } from "./gateway-client.ts";
import type { Ledger } from "./ledger.ts";
import { backoffMs, isPassing, pause } from "./retry.ts";

/** So many polls may stand at once, each offering a part of what is free. */
const OPEN_POLLS = 4;
/**
 * Turns of the event loop in which leases go to the launcher before the next poll: the memory answers at the end of the
 * first and of the second, and what waits for nothing else is launched with that.
 */
const LAUNCH_TURNS = 3;
/** A poll that offers only a part ends this soon, so that what was freed meanwhile is offered together with it. */
const PART_WAIT_MS = 1_000;

/**
 * Long-polls for leases with what the ledger has free, several leases at once. Resources that come free while a poll
 * stands are offered in a poll of their own: an open poll is never aborted to change its offer, because a grant that
 * crosses the abort would be a lease that nobody runs.
 */
export class Puller {
  readonly #client: Pick<GatewayClient, "acquire">;
  readonly #ledger: Ledger;
  readonly #hasRoom: () => boolean;
  readonly #onLease: (lease: Lease, askedAtMs: number) => void;
  readonly #onUnsupported: (unsupported: Unsupported) => void;
  readonly #onFailure: (error: unknown) => void;
  readonly #stop = new AbortController();
  readonly #polls = new Set<Promise<void>>();
  #state: "pulling" | "paused" | "waiting" | "stopped" = "pulling";
  #failures = 0;
  #isLookingAgain = false;

  /**
   * @param hasRoom whether this host can take a task; where it cannot, it is asked again in a moment
   * @param onLease called for each granted lease, also for one that comes in while pulling stops
   * @param onUnsupported the same for those whose tasks cannot run here
   */
  constructor(options: {
    client: Pick<GatewayClient, "acquire">;
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
    if (this.#state !== "pulling" || this.#polls.size >= OPEN_POLLS) return;
    if (!this.#hasRoom()) {
      void this.#lookAgain();
      return;
    }
    const offer = this.#ledger.offer();
    if (offer === null) {
      // What others on the host use may be freed without anybody's saying so.
      void this.#lookAgain();
      return;
    }
    const poll = this.#poll(offer).then(async (leases) => {
      this.#polls.delete(poll);
      // More tasks wait only where it brought as many as it may.
      if (leases > 0 && leases < LIMITS.leaseBatch) await launchesFirst();
      this.offer();
    });
    this.#polls.add(poll);
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
    await Promise.all(this.#polls);
  }

  async #lookAgain(): Promise<void> {
    if (this.#isLookingAgain) return;
    this.#isLookingAgain = true;
    await pause(LIMITS.hostRoomCheckEveryMs, this.#stop.signal).catch(() => {});
    this.#isLookingAgain = false;
    this.offer();
  }

  /** Resolves to how many leases it brought. */
  async #poll(offer: Resources): Promise<number> {
    const askedAtMs = performance.now();
    const wait_ms = this.#ledger.isWhole(offer) ? LIMITS.longPollMs : PART_WAIT_MS;
    const request = { free: toWire(offer), max_leases: LIMITS.leaseBatch, wait_ms };
    let granted: Granted;
    try {
      granted = await this.#client.acquire(request, this.#stop.signal);
      this.#failures = 0;
    } catch (error) {
      this.#ledger.withdraw(offer);
      if (!this.#stop.signal.aborted) await this.#backOff(error);
      return 0;
    }
    this.#ledger.withdraw(offer);
    const { leases, unsupported } = granted;
    for (const lease of leases) this.#onLease(lease, askedAtMs);
    for (const one of unsupported) this.#onUnsupported(one);
    return leases.length + unsupported.length;
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
