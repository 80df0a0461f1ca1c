import { AXES, add, axisThatDoesNotFit, NO_RESOURCES, type Resources, subtract } from "#core/resources.ts";

/**
 * Who holds which part of the executor's capacity. A part is free, or offered to the gateway in an open poll, or
 * taken by an attempt; no part is ever two of these, so that however many polls are open, what is granted fits.
 */
export class Ledger {
  readonly capacity: Resources;
  #offered: Resources = NO_RESOURCES;
  #taken: Resources = NO_RESOURCES;

  constructor(capacity: Resources) {
    this.capacity = capacity;
  }

  /** What no attempt has taken, offered or not. */
  free(): Resources {
    return subtract(this.capacity, this.#taken);
  }

  /** Sets aside all that is neither offered nor taken, or nothing (null) where not even the smallest task fits. */
  offer(): Resources | null {
    const rest = subtract(this.free(), this.#offered);
    if (axisThatDoesNotFit(SMALLEST, rest) !== undefined) return null;
    this.#offered = add(this.#offered, rest);
    return rest;
  }

  /** True where the offer is everything there is, so that nothing can be freed while it stands. */
  isWhole(offer: Resources): boolean {
    return AXES.every((axis) => offer[axis] === this.capacity[axis]);
  }

  withdraw(offer: Resources): void {
    this.#offered = subtract(this.#offered, offer);
  }

  /** Takes what a granted task asks for; false, and nothing taken, where it does not fit. */
  take(asked: Resources): boolean {
    if (axisThatDoesNotFit(asked, subtract(this.free(), this.#offered)) !== undefined) return false;
    this.#taken = add(this.#taken, asked);
    return true;
  }

  give(asked: Resources): void {
    this.#taken = subtract(this.#taken, asked);
  }
}

/** The least that the task schema lets a client ask for. */
const SMALLEST: Resources = { ...NO_RESOURCES, cpu_millis: 10, memory_mb: 4, pids: 2 };
