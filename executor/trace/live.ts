import { closeSync, openSync, readSync } from "node:fs";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { Hold } from "#core/wire/leases.ts";
import { type GatewayClient, isLeaseLost } from "../gateway-client.ts";
import { untilAnswered } from "../retry.ts";
import type { Recording } from "./collector.ts";

/** A sandbox that ends sooner is known by its trace; nothing of it is sent before. */
const BEGIN_AFTER_MS = 1_000;
const EVERY_MS = 1_000;
/** What is to be sent soon waits so long for more; an agent that goes on at once brings it along. */
const SOON_MS = 20;

/** Makes what was recorded until now outlive this executor: before anything else happens, or in a moment. */
export type Persist = { now(): Promise<void>; soon(): void };

type Live = {
  hold: Hold;
  recording: Recording;
  beganAtMs: number;
  sentBytes: number;
  sending: Promise<void> | null;
  soon: NodeJS.Timeout | null;
  state: "held" | "lost";
};

/**
 * Sends what running sandboxes record to the gateway, about once a second, so that others can look on, and so that another
 * executor knows what happened where this one is lost. It is a copy: what cannot be sent now is sent with the next.
 */
export class LiveTrajectories {
  readonly #client: Pick<GatewayClient, "sendTrajectory">;
  readonly #signal: AbortSignal;
  readonly #live = new Set<Live>();
  #timer: NodeJS.Timeout | null = null;

  /** @param signal ends it */
  constructor(client: Pick<GatewayClient, "sendTrajectory">, signal: AbortSignal) {
    this.#client = client;
    this.#signal = signal;
    signal.addEventListener("abort", () => this.#stop(), { once: true });
  }

  /** Until what is returned is called. */
  follow(hold: Hold, recording: Recording): () => void {
    const live: Live = {
      hold,
      recording,
      beganAtMs: performance.now(),
      sentBytes: 0,
      sending: null,
      soon: null,
      state: "held",
    };
    this.#live.add(live);
    if (!this.#signal.aborted) this.#timer ??= setInterval(() => this.#sendAll(), EVERY_MS).unref();
    return () => {
      this.#live.delete(live);
      if (live.soon !== null) clearTimeout(live.soon);
      if (this.#live.size === 0) this.#stop();
    };
  }

  /**
   * Sends everything that was recorded until now, and resolves once the gateway has it: for what must be known there before
   * anything else happens. Rejects where it cannot be sent, with LEASE_LOST and the like, or with the signal's reason.
   */
  async sync(hold: Hold, signal: AbortSignal): Promise<void> {
    const live = this.#of(hold);
    if (live === undefined) throw new DsecError("INTERNAL", `nothing is recorded for ${hold.lease_id}`);
    if (live.soon !== null) clearTimeout(live.soon);
    live.soon = null;
    await live.recording.flush();
    const { flushedBytes } = live.recording;
    while (live.sentBytes < flushedBytes) {
      await untilAnswered(() => this.#send(live), { signal });
    }
  }

  /** Sends it in a moment: for what is to be known there, though nothing waits for that. */
  syncSoon(hold: Hold, signal: AbortSignal): void {
    const live = this.#of(hold);
    if (live === undefined) return;
    // What cannot be sent now is sent with the next.
    live.soon ??= setTimeout(() => this.sync(hold, signal).catch(() => {}), SOON_MS).unref();
  }

  #of(hold: Hold): Live | undefined {
    return [...this.#live].find((one) => one.hold === hold);
  }

  #stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  #sendAll(): void {
    const nowMs = performance.now();
    for (const live of this.#live) {
      const isIdle = live.state === "held" && live.sending === null;
      if (!isIdle || nowMs - live.beganAtMs < BEGIN_AFTER_MS) continue;
      // What cannot be sent now is sent with the next.
      if (live.recording.flushedBytes > live.sentBytes) this.#send(live).catch(() => {});
    }
  }

  /** One part after the other: who comes meanwhile waits with who sends. */
  #send(live: Live): Promise<void> {
    live.sending ??= this.#sendNow(live).finally(() => {
      live.sending = null;
    });
    return live.sending;
  }

  async #sendNow(live: Live): Promise<void> {
    try {
      const { trajectoryPath, flushedBytes } = live.recording;
      await sendTrajectory(trajectoryPath, live.sentBytes, flushedBytes, async (offset, bytes) => {
        live.sentBytes = await this.#client.sendTrajectory(live.hold, offset, bytes, this.#signal);
        return live.sentBytes;
      });
    } catch (error) {
      if (isLeaseLost(error)) live.state = "lost";
      throw error;
    }
  }
}

/**
 * Sends a file's bytes in parts. Each goes from where the receiver says that it is, which may have lost what it had.
 * @param send returns how far the trajectory is known there
 * @throws TRACE_GAP where it loses that again, or does not take what it is sent: it would be sent the same for ever
 */
export async function sendTrajectory(
  path: string,
  from: number,
  end: number,
  send: (offset: number, bytes: Uint8Array<ArrayBuffer>) => Promise<number>,
): Promise<void> {
  // Read without waiting for a thread: it was written a moment ago, and a call may wait for it.
  const file = openSync(path, "r");
  try {
    let wentBack = false;
    for (let offset = from; offset < end; ) {
      const bytes = read(file, offset, Math.min(LIMITS.trajectoryPartBytes, end - offset));
      if (bytes.length === 0) return;
      const size = await send(offset, bytes).catch(knownBytes);
      if (size <= offset) {
        if (wentBack) throw goesRound(path, size);
        wentBack = true;
      }
      offset = size;
    }
  } finally {
    closeSync(file);
  }
}

/** Where a gap would be left, the receiver has said how far it is. */
function knownBytes(error: unknown): number {
  const size = error instanceof DsecError && error.code === "TRACE_GAP" ? error.details?.size : null;
  if (typeof size === "number") return size;
  throw error;
}

function goesRound(path: string, size: number): DsecError {
  return new DsecError("TRACE_GAP", `${path} is known up to byte ${size} again, though more of it was sent`, {
    details: { size },
  });
}

function read(file: number, offset: number, length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  return bytes.subarray(0, readSync(file, bytes, 0, length, offset));
}
