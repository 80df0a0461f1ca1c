import { mkdir, rm } from "node:fs/promises";
import type { Hold } from "#core/wire/leases.ts";
import { Place } from "./place.ts";

/** So many are ready, for leases that come together. */
const READY = 4;
/** Where no attempt has begun for so long, none is in its beginning. */
const QUIET_MS = 1_000;

/**
 * Places for the attempts to come, as the launcher keeps roots for the sandboxes to come. Each is taken once; who finds none
 * ready waits for one to be made.
 */
export class Places {
  readonly #directory: string;
  readonly #attemptsDirectory: string;
  readonly #ready: Place[] = [];
  #making: Promise<void> | null = null;
  #quiet: NodeJS.Timeout | undefined;
  #state: "open" | "closed" = "open";

  /**
   * Removes what an earlier life of this executor left; of a place that was taken, its attempt's folder tells.
   * @param directory for those that nobody has taken, on the file system of the attempts' folders
   */
  static async open(directory: string, attemptsDirectory: string): Promise<Places> {
    await rm(directory, { recursive: true, force: true });
    await mkdir(directory, { mode: 0o700 });
    return new Places(directory, attemptsDirectory);
  }

  private constructor(directory: string, attemptsDirectory: string) {
    this.#directory = directory;
    this.#attemptsDirectory = attemptsDirectory;
  }

  /** Under the lease's name, which the next life of this executor answers for after a crash. */
  async take(hold: Hold): Promise<Place> {
    const place = this.#takeReady() ?? (await Place.make(this.#directory));
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(() => this.prepare(), QUIET_MS).unref();
    try {
      return place.giveTo(this.#attemptsDirectory, hold);
    } catch (error) {
      await discard(place);
      throw error;
    }
  }

  /** Makes what is missing. To be called in a quiet moment: beside a launch it makes that one milliseconds longer. */
  prepare(): void {
    if (this.#state === "closed") return;
    // A failure shows again, and is told, where an attempt finds none ready.
    this.#making ??= this.#fill()
      .catch(() => {})
      .finally(() => {
        this.#making = null;
      });
  }

  /** Removes those that nobody has taken, and makes no more. */
  async close(): Promise<void> {
    this.#state = "closed";
    clearTimeout(this.#quiet);
    await this.#making;
    await Promise.all(this.#ready.splice(0).map(discard));
  }

  #takeReady(): Place | undefined {
    for (let place = this.#ready.shift(); place !== undefined; place = this.#ready.shift()) {
      if (place.authority.isFresh) return place;
      void discard(place);
    }
    return undefined;
  }

  async #fill(): Promise<void> {
    while (this.#state === "open" && this.#ready.length < READY) {
      this.#ready.push(await Place.make(this.#directory));
    }
  }
}

/** What cannot be removed goes with the next life. */
async function discard(place: Place): Promise<void> {
  await place.remove().catch(() => {});
}
