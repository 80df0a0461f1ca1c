/** Events of every type with random members, from a seed that tests print. */
import { EVENT_TYPES, type EventBody, type EventType } from "#trace/events/event.ts";
import { type Field, PLANS, type Plan } from "#trace/events/plans.ts";

/** A generator that gives the same numbers for the same seed (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** From 0 to below 1. */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  }

  /** From 0 to below `end`. */
  below(end: number): number {
    return Math.floor(this.fraction() * end);
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!;
  }

  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.below(256));
  }
}

/** A seed from the environment, to replay a failure, or a new one. */
export function chosenSeed(): number {
  return Number(process.env.DSEC_SEED ?? Math.floor(Math.random() * 2 ** 32));
}

/** Of the type named, or of any. */
export function randomBody(random: Random, type: EventType = random.pick(EVENT_TYPES)): EventBody {
  const field = PLANS.Event.fields.find(({ name }) => name === type)!;
  return { type, ...randomMessage(random, field.message!) } as unknown as EventBody;
}

function randomMessage(random: Random, plan: Plan): Record<string, unknown> {
  const message: Record<string, unknown> = {};
  for (const field of plan.fields) {
    if (field.repeated) {
      message[field.name] = Array.from({ length: random.below(4) }, () => randomValue(random, field));
    } else if (field.optional && random.below(3) === 0) message[field.name] = null;
    else message[field.name] = randomValue(random, field);
  }
  return message;
}

function randomValue(random: Random, field: Field): unknown {
  switch (field.kind) {
    case "uint32":
      return random.pick([0, 1, 127, 128, 0xffff_ffff, random.below(2 ** 32)]);
    case "uint64":
      return random.pick([0, 1, 2 ** 32, Number.MAX_SAFE_INTEGER, random.below(2 ** 53)]);
    case "int64":
    case "sint64":
      return random.pick([0, -1, 1, -(2 ** 40), random.below(2 ** 51)]);
    case "bool":
      return random.below(2) === 1;
    case "double":
      return random.pick([0, -0, 0.1, -1.5e-300, Number.POSITIVE_INFINITY, random.fraction()]);
    case "string":
      return random.pick(TEXTS);
    case "bytes":
      return random.bytes(random.pick([0, 1, 40, 300]));
    case "digest":
      return `sha256:${Buffer.from(random.bytes(32)).toString("hex")}`;
    case "message":
      return randomMessage(random, field.message!);
  }
}

const TEXTS = [
  "",
  "a",
  '{"n":9007199254740993,"m":18446744073709551615,"f":1.0}',
  "ünïcode – 中文 \u{1f600}",
  "\uFEFFmark first",
  "\u0000\u001b[31m",
  "x".repeat(31),
  "x".repeat(32),
  "y".repeat(700),
  `${"é".repeat(20)}`,
];
