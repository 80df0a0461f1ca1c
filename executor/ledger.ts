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

/** What of the executor's capacity attempts have taken, and what is left of it for others. */
export class Ledger {
  readonly capacity: Resources;
  readonly #room: () => Room;
  #taken: Resources = NO_RESOURCES;

  /** @param room what the host has for all attempts together now, of what others use too; above the capacity it is no more */
  constructor(capacity: Resources, room: () => Room) {
    this.capacity = capacity;
    this.#room = room;
  }

  /** What no attempt has taken. */
  free(): Resources {
    return notNegative(subtract(this.#present(), this.#taken));
  }

  /**
   * Takes what a granted task asks for, unless it is more than attempts have left of the capacity (`excessive`), which no
   * gateway grants, or than the host has by now (`short`).
   */
  take(asked: Resources): "taken" | "excessive" | "short" {
    if (axisThatDoesNotFit(asked, subtract(this.capacity, this.#taken)) !== undefined) return "excessive";
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

/** Where the host has less than attempts have taken, nothing is left. */
function notNegative(resources: Resources): Resources {
  return Object.fromEntries(AXES.map((axis) => [axis, Math.max(0, resources[axis])])) as Resources;
}
