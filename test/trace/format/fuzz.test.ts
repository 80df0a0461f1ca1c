import { isDeepStrictEqual } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { bodyOf } from "#trace/events/codec.ts";
import type { EventBody } from "#trace/events/event.ts";
import { openTrace, type TraceFile } from "#trace/format/reader.ts";
import { nodeEngine } from "#trace/node/engine.ts";
import { chosenSeed, Random } from "../events/random-events.ts";
import { HEADER, made, randomBodies, STARTED_US } from "./made.ts";

/** DSEC_SEED replays a failure, DSEC_FUZZ_ROUNDS goes on for longer. */
const ROUNDS = Number(process.env.DSEC_FUZZ_ROUNDS ?? 400);
const seed = chosenSeed();
const random = new Random(seed);

const bodies = randomBodies(random, 60);
const other = randomBodies(random, 25);
let originals: { bytes: Uint8Array; stories: EventBody[][] }[];

beforeAll(() => {
  const sealed = made(bodies, { flushEvery: 9 });
  const open = made(bodies, { flushEvery: 9, sealed: false });
  const second = made(other, { flushEvery: 6, header: { ...HEADER, trace_id: "trace-2" } });
  originals = [
    { bytes: sealed, stories: [bodies] },
    { bytes: open, stories: [bodies] },
    { bytes: Buffer.concat([sealed, second]), stories: [bodies, other] },
    { bytes: Buffer.concat([open, second]), stories: [bodies, other] },
  ];
});

test("of a file with any damage the reader gives the true events or an error, within its bounds", async () => {
  const seen = { whole: 0, part: 0, refused: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    const { bytes, stories } = random.pick(originals);
    const damaged = damage(bytes);
    const what = `seed ${seed}, round ${round}`;
    let given = 0;
    const file = await told(() => openBounded(damaged, what), what);
    if (file === null) {
      seen.refused++;
      continue;
    }
    for (const segment of file.segments) {
      const events: EventBody[] = [];
      await told(async () => {
        for await (const event of segment.events()) {
          expect(event.wall_us, what).toBe(STARTED_US + event.t_us);
          events.push(bodyOf(event));
        }
      }, what);
      given += events.length;
      // a piece of another file may have brought a whole segment of it
      const story = segment.header.trace_id === HEADER.trace_id ? bodies : other;
      const truth = isDeepStrictEqual(events, story.slice(0, events.length));
      expect(truth, `${what}: of ${segment.header.trace_id} other events than were written`).toBe(true);
      await told(() => segment.verify(), what);
    }
    const all = stories.reduce((sum, story) => sum + story.length, 0);
    if (given === all) seen.whole++;
    else seen.part++;
  }
  console.log(`seed ${seed}: ${JSON.stringify(seen)} of ${ROUNDS} damaged files`);
  expect(Math.min(seen.part, seen.refused)).toBeGreaterThan(0);
});

test("cut anywhere, a trajectory gives the events of its whole flushes and tells where it is torn", async () => {
  const open = originals[1]!.bytes;
  const whole = await openBounded(open, "whole");
  const { blocks } = whole.segments[0]!;
  // What ends with its header is whole too: nothing was flushed yet.
  const ends = [blocks[0]!.offset, ...blocks.map(({ offset, bytes }) => offset + bytes)];
  for (let size = 1; size < open.length; size += 1 + random.below(60)) {
    const file = await told(() => openBounded(open.slice(0, size), `size ${size}`), `size ${size}`);
    if (file === null) continue;
    const [segment] = file.segments;
    const events: EventBody[] = [];
    for await (const event of segment!.events()) events.push(bodyOf(event));
    expect(isDeepStrictEqual(events, bodies.slice(0, events.length)), `size ${size}`).toBe(true);
    expect(events.length % 9, `size ${size}`).toBe(0);
    await segment!.verify();
    if (!ends.includes(size)) expect(file.damage, `size ${size}`).not.toBe(null);
    if (file.damage !== null) expect(file.damage.offset).toBeLessThan(size);
  }
});

/** The outcome, or null for an error with one of our codes that names file and offset. Any other error fails the test. */
async function told<T>(work: () => Promise<T>, what: string): Promise<T | null> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof DsecError)) throw new Error(`${what}: ${(error as Error).stack}`);
    expect(["TRACE_CORRUPT", "TRACE_UNSUPPORTED"], `${what}: ${error.message}`).toContain(error.code);
    expect(error.message, what).toMatch(/made\.trace: at offset \d+: /);
    return null;
  }
}

/** Counts what is asked of the platform: no read past the file, none larger than a bound, nothing unpacked past one. */
function openBounded(bytes: Uint8Array, what: string): Promise<TraceFile> {
  const source = {
    name: "made.trace",
    size: bytes.length,
    read: async (offset: number, length: number) => {
      expect(offset >= 0 && length >= 0 && length <= bytes.length, `${what}: read ${offset} ${length}`).toBe(
        true,
      );
      return new Uint8Array(bytes.subarray(offset, offset + length));
    },
  };
  return openTrace(source, {
    ...nodeEngine,
    decompress(frame, maxBytes) {
      expect(maxBytes, what).toBeLessThanOrEqual(LIMITS.traceBlockBytes);
      return nodeEngine.decompress(frame, maxBytes);
    },
  });
}

/** One to three of: flipped bits, a byte set, a cut at either end, a piece removed, repeated, exchanged or made zero. */
function damage(original: Uint8Array): Uint8Array {
  let bytes = Uint8Array.from(original);
  for (let times = 1 + random.below(3); times > 0 && bytes.length > 0; times--) {
    // Now and then in its head: without that a file is refused.
    const at = random.below(
      random.pick([bytes.length, bytes.length, bytes.length, Math.min(bytes.length, 64)]),
    );
    const length = 1 + random.below(random.pick([4, 64, bytes.length]));
    const piece = bytes.subarray(at, at + length);
    const [before, after] = [bytes.subarray(0, at), bytes.subarray(at + length)];
    switch (random.below(8)) {
      case 0:
      case 1:
        bytes[at]! ^= 1 << random.below(8);
        break;
      case 2:
        bytes[at] = random.pick([0, 1, 0x7f, 0x80, 0xff]);
        break;
      case 3:
        bytes = Uint8Array.from(before);
        break;
      case 4:
        bytes = Uint8Array.from(Buffer.concat([before, after]));
        break;
      case 5:
        bytes = Uint8Array.from(Buffer.concat([before, piece, piece, after]));
        break;
      case 6: {
        const from = random.pick(originals).bytes;
        const start = random.below(from.length);
        bytes = Uint8Array.from(Buffer.concat([before, from.subarray(start, start + length), after]));
        break;
      }
      case 7:
        piece.fill(0);
    }
  }
  return bytes;
}
