import { closeSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expandBraces } from "#core/brace-expansion.ts";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { Sandbox } from "#native/index.ts";
import { compileGlob, type GlobStep, matchesName } from "./glob.ts";
import { bytesFromName, nameFromBytes } from "./sandbox-path.ts";

/** The part of an ended sandbox that outputs are read from. */
export type OutputSource = Pick<Sandbox, "listOutput" | "openOutput">;

/**
 * Paths of the files that the patterns match in an ended sandbox. It is walked once for all alternatives together, and only
 * folders that a wildcard needs listed are listed. Patterns and names are the task's own, and may be made to cost: the cost
 * is bounded, and others have their turn meanwhile.
 *
 * Rejects with OUTPUT_TOO_LARGE past the bounds of `core/limits.ts`.
 * @param base the folder that relative patterns start from
 */
export async function matchOutputs(
  source: OutputSource,
  patterns: readonly string[],
  base: string,
): Promise<ReadonlySet<string>> {
  const walk = new OutputWalk(source);
  await walk.run(patterns, base);
  return walk.found;
}

/** A place in an alternative: the step that the next name must match, and where that leads; null is its end. */
type Place = { step: GlobStep; next: Place | null };

/** The places that are open in one folder. */
type Open = { wild: Place[]; fixed: Map<string, Place[]> };

type Kind = ReturnType<OutputSource["listOutput"]> extends Iterable<{ kind: infer K }[]> ? K : never;

class OutputWalk {
  readonly found = new Set<string>();
  readonly #source: OutputSource;
  readonly #effort = new Effort();
  readonly #pending: { path: string; places: Place[] }[] = [];
  #waiting = 0;

  constructor(source: OutputSource) {
    this.#source = source;
  }

  async run(patterns: readonly string[], base: string): Promise<void> {
    this.#goInto("", await this.#compile(patterns, base));
    for (let folder = this.#pending.pop(); folder !== undefined; folder = this.#pending.pop()) {
      this.#waiting -= folder.places.length;
      const open = await this.#open(folder.places);
      if (open.wild.length > 0) await this.#list(folder.path, open);
      else await this.#goOn(folder.path, open.fixed);
    }
  }

  async #compile(patterns: readonly string[], base: string): Promise<Place[]> {
    const places: Place[] = [];
    for (const alternative of patterns.flatMap(expandBraces)) {
      this.#effort.spend(alternative.length);
      if (this.#effort.isDue) await this.#effort.rest();
      const steps = compileGlob(alternative, base);
      const first = steps.reduceRight<Place | null>((next, step) => ({ step, next }), null);
      if (first !== null) places.push(first);
    }
    return places;
  }

  /** `**` also stands for no folder at all: then the step after it is to match here too. */
  async #open(places: Place[]): Promise<Open> {
    const seen = new Set<Place>();
    const open: Open = { wild: [], fixed: new Map() };
    for (const first of places) {
      for (let place: Place | null = first; place !== null && !seen.has(place); place = place.next) {
        const { step } = place;
        seen.add(place);
        this.#effort.spend(1);
        if (this.#effort.isDue) await this.#effort.rest();
        if (typeof step === "object" && "name" in step) {
          const same = open.fixed.get(step.name);
          if (same === undefined) open.fixed.set(step.name, [place]);
          else same.push(place);
        } else open.wild.push(place);
        if (step !== "**") break;
      }
    }
    return open;
  }

  /** Where no wildcard asks what there is, names are tried. Each may be a link: it is resolved within the root. */
  async #goOn(path: string, fixed: Open["fixed"]): Promise<void> {
    for (const [name, places] of fixed) {
      this.#effort.look();
      if (this.#effort.isDue) await this.#effort.rest();
      const child = `${path}/${name}`;
      if (places.some((place) => place.next === null)) this.#takeFile(child, null);
      this.#goInto(
        child,
        places.flatMap((place) => place.next ?? []),
      );
    }
  }

  async #list(path: string, open: Open): Promise<void> {
    this.#effort.look();
    for (const piece of this.#source.listOutput(bytesFromName(path === "" ? "/" : path))) {
      for (const { name, kind } of piece) {
        this.#effort.look();
        await this.#visit(path, nameFromBytes(name), kind, open);
      }
    }
  }

  async #visit(path: string, name: string, kind: Kind, { wild, fixed }: Open): Promise<void> {
    const child = `${path}/${name}`;
    const characters = [...name];
    const next: Place[] = [];
    let isMatch = false;
    for (const place of wild) {
      if (this.#effort.isDue) await this.#effort.rest();
      if (!this.#matches(place.step, characters)) continue;
      isMatch ||= place.next === null;
      // Wildcards do not descend through links.
      if (kind !== "directory") continue;
      if (place.step === "**") next.push(place);
      else if (place.next !== null) next.push(place.next);
    }
    for (const place of fixed.get(name) ?? []) {
      if (place.next === null) isMatch = true;
      else if (kind === "directory" || kind === "link") next.push(place.next);
    }
    if (isMatch) this.#takeFile(child, kind);
    this.#goInto(child, next);
  }

  #matches(step: GlobStep, characters: string[]): boolean {
    if (typeof step === "object" && "parts" in step) return matchesName(step.parts, characters, this.#spend);
    this.#effort.spend(1);
    return true;
  }

  readonly #spend = (comparisons: number) => this.#effort.spend(comparisons);

  /** @param kind where it was listed; null is a name that was tried */
  #takeFile(path: string, kind: Kind | null): void {
    if (kind === "directory" || kind === "other" || this.found.has(path)) return;
    if (kind !== "file" && !this.#leadsToFile(path)) return;
    if (this.found.size === LIMITS.outputFiles) {
      throw tooLarge(
        `more than ${LIMITS.outputFiles} files match the output patterns; put out an archive instead`,
      );
    }
    this.found.add(path);
  }

  #leadsToFile(path: string): boolean {
    this.#effort.look();
    const descriptor = this.#source.openOutput(bytesFromName(path));
    if (descriptor !== null) closeSync(descriptor);
    return descriptor !== null;
  }

  #goInto(path: string, places: Place[]): void {
    if (places.length === 0) return;
    this.#waiting += places.length;
    if (this.#waiting > LIMITS.outputPlacesWaiting) throw tooDear("folders wait to be looked into");
    this.#pending.push({ path, places });
  }
}

/** Other tasks, whose leases are to be renewed, wait no longer than this. */
const SLICE_MS = 5;
/** So much is done before the clock is read again: a fraction of a millisecond's work. */
const UNTIMED_COMPARISONS = 16 * 1024;

/** What the walk has cost, and when it is to let others go on. */
class Effort {
  #names = 0;
  #comparisons = 0;
  /** When so many have been made the clock is read. */
  #readsClockAt = 0;
  #restsAtMs = performance.now() + SLICE_MS;

  /** A name is looked at, which asks the kernel. @throws OUTPUT_TOO_LARGE */
  look(): void {
    this.#readsClockAt = 0;
    if (++this.#names > LIMITS.outputNames) throw tooDear(`${LIMITS.outputNames} names are looked at`);
  }

  /** @throws OUTPUT_TOO_LARGE */
  spend(comparisons: number): void {
    this.#comparisons += comparisons;
    if (this.#comparisons > LIMITS.outputComparisons)
      throw tooDear(`${LIMITS.outputComparisons} characters are compared`);
  }

  get isDue(): boolean {
    if (this.#comparisons < this.#readsClockAt) return false;
    this.#readsClockAt = this.#comparisons + UNTIMED_COMPARISONS;
    return performance.now() >= this.#restsAtMs;
  }

  async rest(): Promise<void> {
    await nextTurn();
    this.#restsAtMs = performance.now() + SLICE_MS;
  }
}

function tooDear(what: string): DsecError {
  return tooLarge(
    `the output patterns ask for too much: more than ${what}; name a folder, or use fewer wildcards`,
  );
}

function tooLarge(message: string): DsecError {
  return new DsecError("OUTPUT_TOO_LARGE", message);
}
