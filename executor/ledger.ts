import {
  AXES,
  add,
  axisThatDoesNotFit,
  INSUFFICIENT,
  NO_RESOURCES,
  type Resources,
  subtract,
  WIRE_NAME,
} from "#core/resources.ts";
import { toWire, type WireResources } from "#core/wire/common.ts";
import type { Room } from "./host-room.ts";

/**
 * Who holds which part of the executor's capacity. A part is free, or offered to the gateway in an open poll, or
 * taken by an attempt; no part is ever two of these, so that however many polls are open, what is granted fits.
 */
export class Ledger {
  readonly capacity: Resources;
  readonly #room: () => Room;
  #offered: Resources = NO_RESOURCES;
  #taken: Resources = NO_RESOURCES;

  /** @param room what the host has for all attempts together now, of what others use too; above the capacity it is no more */
  constructor(capacity: Resources, room: () => Room) {
    this.capacity = capacity;
    this.#room = room;
  }

  /** What no attempt has taken, offered or not. */
  free(): Resources {
    return notNegative(subtract(this.#present(), this.#taken));
  }

  /** Sets aside all that is neither offered nor taken, or nothing (null) where not even the smallest task fits. */
  offer(): Resources | null {
    const rest = notNegative(subtract(subtract(this.#present(), this.#taken), this.#offered));
    if (axisThatDoesNotFit(SMALLEST, rest) !== undefined) return null;
    this.#offered = add(this.#offered, rest);
    return rest;
  }

  /** True where the offer is everything there is: no attempt has taken any, so that none is freed while it stands. */
  isWhole(offer: Resources): boolean {
    return AXES.every((axis) => this.#taken[axis] === 0 && this.#offered[axis] === offer[axis]);
  }

  withdraw(offer: Resources): void {
    this.#offered = subtract(this.#offered, offer);
  }

  /**
   * Takes what a granted task asks for, unless it is more than was ever offered (`excessive`), or the host has less by now
   * (`short`).
   */
  take(asked: Resources): "taken" | "excessive" | "short" {
    const unoffered = subtract(subtract(this.capacity, this.#taken), this.#offered);
    if (axisThatDoesNotFit(asked, unoffered) !== undefined) return "excessive";
    if (axisThatDoesNotFit(asked, this.free()) !== undefined) return "short";
    this.#taken = add(this.#taken, asked);
    return "taken";
  }

  /** In words, the first axis on which `asked` is more than is left. */
  shortfall(asked: Resources): string {
    const free = this.free();
    const axis = axisThatDoesNotFit(asked, free) ?? "cpu_millis";
    const name = WIRE_NAME[axis] as keyof WireResources;
    return `${INSUFFICIENT[axis]}: ${name} ${toWire(asked)[name]} is asked for, ${toWire(free)[name]} left`;
  }

  give(asked: Resources): void {
    this.#taken = subtract(this.#taken, asked);
  }

  #present(): Resources {
    const { memory_mb, disk_mb } = this.#room();
    return {
      ...this.capacity,
      memory_mb: Math.min(this.capacity.memory_mb, memory_mb),
      disk_mb: Math.min(this.capacity.disk_mb, disk_mb),
    };
  }
}

/** The least that the task schema lets a client ask for. */
const SMALLEST: Resources = { ...NO_RESOURCES, cpu_millis: 10, memory_mb: 4, pids: 2 };

/** Where the host has less than attempts have taken, nothing is left. */
function notNegative(resources: Resources): Resources {
  return Object.fromEntries(AXES.map((axis) => [axis, Math.max(0, resources[axis])])) as Resources;
}
