import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { bodyOf, encodeEvent } from "#trace/events/codec.ts";
import { EVENT_TYPES, type EventBody, SECTIONS, sectionOf } from "#trace/events/event.ts";
import { splitEvent } from "#trace/events/place.ts";
import { skippableFrame } from "#trace/format/frames.ts";
import { TrajectoryWriter } from "#trace/format/writer.ts";
import { nodeEngine } from "#trace/node/engine.ts";
import { chosenSeed, Random } from "../events/random-events.ts";
import { eventsOf, expectSame, HEADER, made, opened, type Reads, randomBodies, STARTED_US } from "./made.ts";

const DICTIONARY = join(import.meta.dirname, "../../../proto/trace-1.dictionary");

const seed = chosenSeed();
const random = new Random(seed);
const bodies = randomBodies(random, 2000);

/** What `zstd -dc` makes of a file: the reference for which frames there are. */
function zstdContent(bytes: Uint8Array): Buffer {
  const { status, stdout, stderr } = spawnSync("zstd", ["-dc", "-D", DICTIONARY], {
    input: bytes,
    maxBuffer: 1 << 30,
  });
  expect(stderr.toString()).toBe("");
  expect(status).toBe(0);
  return stdout;
}

test("events of all sections come back in their order, sealed or open, however often they were flushed", async () => {
  for (const options of [{}, { flushEvery: 1 }, { flushEvery: 7 }, { flushEvery: 500, sealed: false }]) {
    const file = await opened(made(bodies, options));
    const [segment] = file.segments;
    expect(file.damage).toBe(null);
    expect(segment!.state).toBe(options.sealed === false ? "open" : "sealed");
    const events = await eventsOf(file);
    expect(
      events.map(({ seq }) => seq),
      `seed ${seed}`,
    ).toEqual(bodies.map((_, at) => at + 1));
    expectSame(events.map(bodyOf), bodies, `seed ${seed}`);
    expect(events[4]).toMatchObject({ t_us: 50, wall_us: STARTED_US + 50 });
    expect(await segment!.verify()).toEqual({ events: bodies.length, chain_head: segment!.chainHead });
  }
});

test("times come back as they were, whether they stand still, go back or leap, and with any wall clock beside them", async () => {
  const parts: Uint8Array[] = [];
  const writer = new TrajectoryWriter(HEADER, nodeEngine, (bytes) => parts.push(bytes));
  const places: { t_us: number; wall_us: number }[] = [];
  const encoded: Uint8Array[] = [];
  for (const body of bodies) {
    const t_us = random.pick([0, 5, 1_000_000, 2 ** 40, LIMITS.traceTimeUs, random.below(1e9)]);
    // the first three hundred have a clock that is right
    const wall_skew_us = writer.count < 300 ? 0 : random.pick([0, -3_600_000_000, 17, -1]);
    const place = { seq: writer.count + 1, t_us, wall_skew_us };
    const bytes = encodeEvent(body, place);
    encoded.push(bytes);
    places.push({ t_us, wall_us: STARTED_US + t_us + wall_skew_us });
    writer.add(bytes, { ...place, type: body.type });
    if (writer.count % 150 === 0) writer.flush();
  }
  const late = { seq: writer.count + 1, t_us: LIMITS.traceTimeUs + 1, wall_skew_us: 0 };
  const type = bodies[0]!.type;
  expect(() => writer.add(encodeEvent(bodies[0]!, late), { ...late, type })).toThrow(
    /at most 4503599627370495/,
  );
  writer.seal();
  const file = await opened(Buffer.concat(parts));
  const events = await eventsOf(file);
  expectSame(
    events.map(({ t_us, wall_us }) => ({ t_us, wall_us })),
    places,
    `seed ${seed}`,
  );
  expectSame(events.map(bodyOf), bodies, `seed ${seed}`);
  const raw: Uint8Array[] = [];
  for await (const { bytes } of file.segments[0]!.rawEvents()) raw.push(bytes);
  expectSame(raw, encoded, `seed ${seed}`);
  await file.segments[0]!.verify();
});

test("the chain is over the events alone: it ends alike however they were flushed and grouped", async () => {
  const heads = new Set<string>();
  for (const options of [{}, { flushEvery: 1 }, { flushEvery: 33, sealed: false }]) {
    heads.add((await opened(made(bodies, options))).segments[0]!.chainHead);
  }
  expect(heads.size).toBe(1);
  const other = made(bodies, { header: { ...HEADER, trace_id: "trace-2" } });
  expect(heads).not.toContain((await opened(other)).segments[0]!.chainHead);
});

test("a range of numbers and a choice of sections give just these", async () => {
  const file = await opened(made(bodies, { flushEvery: 100 }));
  for (let round = 0; round < 50; round++) {
    const fromSeq = random.below(2200);
    const toSeq = fromSeq + random.below(300);
    const sections = SECTIONS.filter(() => random.below(2) === 1);
    const wanted = bodies.map(({ type }, at) => ({ seq: at + 1, type }));
    const events = await eventsOf(file, { fromSeq, toSeq, sections });
    expectSame(
      events.map(({ seq, type }) => ({ seq, type })),
      wanted.filter(({ seq, type }) => seq >= fromSeq && seq <= toSeq && sections.includes(sectionOf(type))),
      `seed ${seed}`,
    );
  }
});

test("a step and a call are found by their numbers, with a footer and without", async () => {
  const story: EventBody[] = [];
  for (let step = 1; step <= 40; step++) {
    story.push({ type: "plan_step", state: "begun", step, name: `step ${step}` });
    // call 7 was not kept
    if (step !== 7) story.push({ type: "tool_call_start", call: step, kind: "http", via: "http" });
    story.push({ type: "plan_step", state: "ended", step, name: `step ${step}` });
  }
  // begun in another order than they are numbered
  for (const call of [60, 55]) story.push({ type: "tool_call_start", call, kind: "http", via: "http" });
  for (const sealed of [true, false]) {
    const [segment] = (await opened(made(story, { flushEvery: 5, sealed }))).segments;
    expect(await segment!.step(1)).toBe(1);
    expect(await segment!.step(40)).toBe(117);
    expect(await segment!.call(8)).toBe(22);
    expect(await segment!.call(60)).toBe(120);
    expect(await segment!.call(55)).toBe(121);
    for (const absent of [50, 56, 61]) expect(await segment!.call(absent)).toBe(null);
    for (const absent of [0, 41, 1e9]) expect(await segment!.step(absent)).toBe(null);
    expect(await segment!.call(7)).toBe(null);
  }
});

test("a seek in a sealed trace reads its end, one block, and nothing between", async () => {
  const story = Array.from(
    { length: 20_000 },
    (_, at): EventBody => ({ type: "output", stream: "stdout", offset: at, data: random.bytes(400) }),
  );
  story[15_000] = { type: "plan_step", state: "begun", step: 1, name: "here" };
  const bytes = made(story);
  const reads: Reads = [];
  const file = await opened(bytes, reads);
  const seq = await file.segments[0]!.step(1);
  for await (const event of file.segments[0]!.events({ fromSeq: seq! })) {
    expect(event).toMatchObject({ seq: 15_001, type: "plan_step", step: 1 });
    break;
  }
  expect(bytes.length).toBeGreaterThan(8_000_000);
  expect(reads.length).toBeLessThan(6);
  expect(reads.reduce((sum, { length }) => sum + length, 0)).toBeLessThan(330_000);
});

test("the zstd frames of a file are one Trace message, whatever lies between them", async () => {
  const bytes = made(bodies, { flushEvery: 300 });
  const content = zstdContent(bytes);
  let events = 0;
  for await (const { bytes: event } of (await opened(bytes)).segments[0]!.rawEvents()) {
    expect(content.includes(Buffer.from(splitEvent(event).body))).toBe(true);
    if (++events === 200) break;
  }
  // field 1, length-delimited, again and again to the end
  let at = 0;
  let blocks = 0;
  while (at < content.length) {
    expect(content[at++]).toBe(0x0a);
    let [length, shift] = [0, 0];
    do length += (content[at]! & 0x7f) * 2 ** (shift++ * 7);
    while (content[at++]! >= 0x80);
    at += length;
    blocks++;
  }
  expect(at).toBe(content.length);
  expect(blocks).toBe((await opened(bytes)).segments[0]!.blocks.length);
});

test("files that are joined are read to the end, with skippable and empty frames before, between and after (B63)", async () => {
  const foreign = Buffer.from("502a4d1805000000aabbccddee", "hex");
  foreign[0] = 0x5a;
  const empty = spawnSync("zstd", ["-c"], { input: "" }).stdout;
  expect(empty.length).toBeGreaterThan(8);
  const one = made(bodies.slice(0, 600), { flushEvery: 100 });
  const two = made(bodies.slice(600), { flushEvery: 100, sealed: false });
  const three = made(bodies.slice(0, 10));
  const pads = [[], [foreign], [empty], [foreign, empty, foreign]];
  for (const [a, b, c, d] of pads.flatMap((pad) => [
    [pad, pad, pad, pad],
    [pad, [], pad, []],
    [[], pad, [], pad],
  ])) {
    const joined = Buffer.concat([...a!, one, ...b!, two, ...c!, three, ...d!]);
    const file = await opened(joined);
    expect(file.damage).toBe(null);
    expect(file.segments.map(({ state, count }) => [state, count])).toEqual([
      ["sealed", 600],
      ["open", 1400],
      ["sealed", 10],
    ]);
    expectSame((await eventsOf(file)).map(bodyOf), [...bodies, ...bodies.slice(0, 10)], `seed ${seed}`);
    for (const segment of file.segments) await segment.verify();
    expect(zstdContent(joined).equals(Buffer.concat([one, two, three].map(zstdContent)))).toBe(true);
  }
});

test("a trace without events, and one of a single large event, are traces", async () => {
  const none = await opened(made([]));
  expect(await none.segments[0]!.verify()).toEqual({ events: 0, chain_head: none.segments[0]!.chainHead });
  expect((await opened(made([], { sealed: false }))).segments[0]!.count).toBe(0);
  const large: EventBody = { type: "output", stream: "stdout", offset: 0, data: new Uint8Array(16_000_000) };
  const [event] = await eventsOf(await opened(made([large])));
  expect((event as { data: Uint8Array }).data.length).toBe(16_000_000);
  const tooLarge: EventBody = { ...large, data: new Uint8Array(17_000_000) };
  expect(() => made([tooLarge])).toThrow(/output, has 170000\d\d bytes; at most 16777216/);
});

test("a write that fails loses nothing and counts nothing twice: the flush is tried again", async () => {
  const parts: Uint8Array[] = [];
  let room = true;
  const writer = new TrajectoryWriter(HEADER, nodeEngine, (bytes) => {
    if (!room) throw new Error("no space");
    parts.push(bytes);
  });
  let failures = 0;
  for await (const event of (await opened(made(bodies))).segments[0]!.rawEvents()) {
    writer.add(event.bytes, event);
    room = random.below(3) > 0;
    try {
      writer.flush();
    } catch {
      failures++;
    }
  }
  room = false;
  expect(() => writer.seal()).toThrow("no space");
  room = true;
  writer.seal();
  expect(failures).toBeGreaterThan(100);
  const file = await opened(Buffer.concat(parts));
  expectSame((await eventsOf(file)).map(bodyOf), bodies, `seed ${seed}`);
  await file.segments[0]!.verify();
});

test("no more blocks are written than are read again, and those that are there stay a trace", async () => {
  // a million take half a minute to write
  const limits = LIMITS as { traceBlocks: number };
  const { traceBlocks } = limits;
  try {
    limits.traceBlocks = 5;
    const parts: Uint8Array[] = [];
    const writer = new TrajectoryWriter(HEADER, nodeEngine, (bytes) => parts.push(bytes));
    const add = () => {
      const place = { seq: writer.count + 1, t_us: 1, wall_skew_us: 0 };
      writer.add(encodeEvent({ type: "reward", components: [], sum: 1 }, place), {
        ...place,
        type: "reward",
      });
      writer.flush();
    };
    for (let block = 1; block <= 5; block++) add();
    expect(add).toThrow(/has 5 blocks; more than 5 nobody reads again/);
    const file = await opened(Buffer.concat(parts));
    expect(file).toMatchObject({ damage: null, segments: [{ count: 5 }] });
    expect(() => writer.seal()).toThrow(/nobody reads again/);
  } finally {
    limits.traceBlocks = traceBlocks;
  }
});

test("every type of event finds its section again", async () => {
  const one = EVENT_TYPES.map((type) => bodies.find((body) => body.type === type)!);
  const [segment] = (await opened(made(one))).segments;
  expect(new Set(segment!.blocks.map(({ section }) => section))).toEqual(new Set(SECTIONS));
  // as small as they are, they share a frame
  expect(new Set(segment!.blocks.map(({ offset }) => offset)).size).toBe(1);
  for (const section of SECTIONS) {
    for await (const event of segment!.events({ sections: [section] })) {
      expect(sectionOf(event.type)).toBe(section);
    }
  }
});

test("a frame that no block header announces is no part of a trace", async () => {
  const frame = spawnSync("zstd", ["-c"], { input: "hello" }).stdout;
  const bytes = Buffer.concat([made(bodies.slice(0, 10), { sealed: false }), frame]);
  const file = await opened(bytes);
  expect(file.damage).toMatchObject({ reason: expect.stringMatching(/no block header announces/) });
  expect(await eventsOf(file)).toHaveLength(10);
  expect(skippableFrame(0x184d2a5f).length).toBe(8);
});
