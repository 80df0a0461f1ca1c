import type { Lease } from "#core/wire/leases.ts";
import type { ObservationForLease } from "#core/wire/observations.ts";
import { Channel, type ChannelParts } from "./channel.ts";
import type { Door } from "./door.ts";

/** The channels of an executor's sandboxes, by the leases they run under. */
export class Channels {
  readonly #parts: ChannelParts;
  readonly #open = new Map<string, Channel>();

  constructor(parts: ChannelParts) {
    this.#parts = parts;
  }

  /**
   * @param directory the attempt's private folder
   * @param door in that folder; it is closed with the channel
   * @param options.replay answers in place of the world
   * @param options.persist makes what was recorded outlive this executor, where that is needed
   * @param options.signal aborts where the attempt is to end before its command has
   */
  async open(
    lease: Lease,
    directory: string,
    door: Door,
    { replay = null, persist = null, signal = NEVER }: Partial<Parameters<typeof Channel.open>[4]> = {},
  ): Promise<Channel> {
    const channel = await Channel.open(lease, directory, door, this.#parts, { replay, persist, signal });
    this.#open.set(keyOf(lease), channel);
    return channel;
  }

  /** Whether the observation has arrived in its sandbox: not before there is one, nor after it has ended. */
  inject({ observation, ...hold }: ObservationForLease): boolean {
    return this.#open.get(keyOf(hold))?.inject(observation) ?? false;
  }

  /** Lets go of a channel, whether or not it was closed. */
  async end(channel: Channel): Promise<void> {
    for (const [key, open] of this.#open) if (open === channel) this.#open.delete(key);
    await channel.discard();
  }
}

const NEVER = new AbortController().signal;

function keyOf(hold: { lease_id: string; fence: number }): string {
  return `${hold.lease_id} ${hold.fence}`;
}
