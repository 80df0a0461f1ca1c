/** Where the time of calls goes, and what takes most of it. */
import type { Timing } from "#trace/events/event.ts";
import type { CallFacts } from "./facts.ts";

export const PARTS = [
  "network",
  "serialization",
  "gateway",
  "snapshot",
  "cpu_wait",
  "throttled",
  "gpu",
  "unexplained",
] as const;
export type Part = (typeof PARTS)[number];

export type Bottleneck = {
  calls: number;
  /** Calls of which some part is known. */
  timed: number;
  /** Of the timed calls, in microseconds. */
  total_us: number;
  parts: { part: Part; us: number; share: number; known_calls: number }[];
  /** The part that took most; null where no call says where its time went. */
  largest: Part | null;
  /** Calls whose parts overlap, so that they add up to more than the whole. */
  overlapping: number;
};

export class BottleneckAnalysis {
  readonly #us = new Map<Part, number>();
  readonly #known = new Map<Part, number>();
  #calls = 0;
  #timed = 0;
  #totalUs = 0;
  #overlapping = 0;

  add(calls: readonly CallFacts[]): void {
    for (const { timing, duration_us } of calls) {
      if (duration_us === null) continue;
      this.#calls++;
      const known = timing === null ? [] : knownParts(timing);
      if (known.length === 0) continue;
      this.#timed++;
      this.#totalUs += duration_us;
      let explained = 0;
      for (const [part, us] of known) {
        explained += us;
        this.#add(part, us);
      }
      if (explained > duration_us) this.#overlapping++;
      this.#add("unexplained", Math.max(0, duration_us - explained));
    }
  }

  result(): Bottleneck {
    const parts = PARTS.filter((part) => this.#known.has(part))
      .map((part) => {
        const us = this.#us.get(part)!;
        const share = this.#totalUs === 0 ? 0 : us / this.#totalUs;
        return { part, us, share, known_calls: this.#known.get(part)! };
      })
      .sort((one, other) => other.us - one.us);
    return {
      ...{ calls: this.#calls, timed: this.#timed, total_us: this.#totalUs, parts },
      ...{ largest: parts[0]?.part ?? null, overlapping: this.#overlapping },
    };
  }

  #add(part: Part, us: number): void {
    this.#us.set(part, (this.#us.get(part) ?? 0) + us);
    this.#known.set(part, (this.#known.get(part) ?? 0) + 1);
  }
}

function knownParts(timing: Timing): [Part, number][] {
  return PARTS.flatMap((part): [Part, number][] => {
    const us = part === "unexplained" ? null : timing[`${part}_us`];
    return us === null ? [] : [[part, us]];
  });
}
