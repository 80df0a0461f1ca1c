import type { ExecutorId } from "#core/ids.ts";
import { axisThatDoesNotFit, type Resources } from "#core/resources.ts";
import type { Lease } from "#core/wire/leases.ts";

/** What an executor has free for a task. */
export type Room = { executorId: ExecutorId; free: Resources };

type Offer = {
  readonly room: Room;
  /** Aborts once it has a lease. */
  readonly granted: AbortController;
  /** What becomes of it in the submission that has taken it; null while none has. */
  lease: Promise<Lease | null> | null;
};

/**
 * What executors that wait at this process have free. A task that comes alone is granted to one of them by the statement
 * that stores it: waking them, so that they claim it, takes another statement, another commit and turns of a busy event
 * loop.
 */
export class Offers {
  readonly #standing = new Set<Offer>();

  /**
   * Lets the room stand until `wait` is over, which its signal is to end early.
   * @returns the lease that came of it, or null
   */
  async during(room: Room, wait: (granted: AbortSignal) => Promise<void>): Promise<Lease | null> {
    const offer: Offer = { room, granted: new AbortController(), lease: null };
    this.#standing.add(offer);
    try {
      await wait(offer.granted.signal);
    } finally {
      this.#standing.delete(offer);
    }
    // Before the submission that has taken it is over nobody knows whether its room is still free.
    return offer.lease;
  }

  /**
   * Takes the offer that has stood longest of those with room for `asked`, so that no other submission does.
   * @returns `settle`, to be called with what was granted to it; null where no such offer stands
   */
  take(asked: Resources): { room: Room; settle: (lease: Lease | null) => void } | null {
    for (const offer of this.#standing) {
      if (offer.lease !== null || axisThatDoesNotFit(asked, offer.room.free) !== undefined) continue;
      const { promise, resolve } = Promise.withResolvers<Lease | null>();
      offer.lease = promise;
      const settle = (lease: Lease | null) => {
        if (lease === null) offer.lease = null;
        else offer.granted.abort();
        resolve(lease);
      };
      return { room: offer.room, settle };
    }
    return null;
  }
}
