import { zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { encodeEvent, encodeMessage } from "#trace/events/codec.ts";
import type { EventBody, Section } from "#trace/events/event.ts";
import { splitEvent } from "#trace/events/place.ts";
import { type BlockEvents, encodeBlock } from "#trace/format/block.ts";
import { type BlockFacts, type BlockHeader, encodeBlockHeader } from "#trace/format/block-header.ts";
import { type Ends, encodeFooter, type NewFooter } from "#trace/format/footer.ts";
import { BLOCK_FRAME, FOOTER_FRAME, HEADER_FRAME, skippableFrame } from "#trace/format/frames.ts";
import { completeHeader, encodeHeader, type NewTraceHeader, type TraceHeader } from "#trace/format/header.ts";
import { nodeEngine } from "#trace/node/engine.ts";
import { eventsOf, HEADER, made, opened } from "./made.ts";

const STEP: EventBody = { type: "plan_step", state: "begun", step: 1, name: "one" };
const REWARD: EventBody = { type: "reward", components: [], sum: 1 };

type Part = {
  section: Section;
  seqs: number[];
  body: EventBody;
  header?: Partial<BlockHeader & BlockFacts>;
  content?: Uint8Array;
  mark?: number;
};

type Forgery = {
  header?: Partial<TraceHeader>;
  footer?: Partial<NewFooter>;
  ends?: { [K in keyof Ends]?: Uint8Array };
};

/** A file whose frames say what they are told to; otherwise as an honest writer's are. */
function forged(parts: Part[], { header = {}, footer, ends = {} }: Forgery = {}): Uint8Array {
  const first = encodeHeader({ ...completeHeader(HEADER, nodeEngine), ...header }, nodeEngine);
  const frames = [skippableFrame(HEADER_FRAME, first)];
  const size = () => frames.reduce((sum, { length }) => sum + length, 0);
  let last = nodeEngine.sha256(first);
  const blocks: NewFooter["blocks"] = [];
  for (const { section, seqs, body, header: given, content: givenContent, mark } of parts) {
    const content = givenContent ?? encodeBlock(section, eventsAt(seqs, body));
    const frame = nodeEngine.compress(content);
    const place = {
      ...{ section, offset: size(), first_seq: seqs[0]!, last_seq: seqs.at(-1)!, events: seqs.length },
      ...{ first_t_us: seqs[0]!, last_t_us: seqs.at(-1)! },
    };
    const { compressed_bytes = frame.length, uncompressed_bytes = content.length, ...facts } = given ?? {};
    const payload = encodeBlockHeader({
      blocks: [{ ...place, ...facts }],
      ...{ compressed_bytes, uncompressed_bytes },
      frame_digest: digestOf(nodeEngine.sha256(frame)),
      chain_digest: mark === undefined ? null : digestOf(new Uint8Array(32)),
      chain_seq: mark ?? null,
    });
    last = nodeEngine.sha256(payload);
    blocks.push(place);
    frames.push(skippableFrame(BLOCK_FRAME, payload), frame);
  }
  if (footer !== undefined) {
    const made: NewFooter = {
      ...{ segment_bytes: size(), ended_t_us: 9, blocks, step_seqs: [], call_seqs: [] },
      ...footer,
    };
    const named = { header: nodeEngine.sha256(first), last, ...ends };
    frames.push(skippableFrame(FOOTER_FRAME, encodeFooter(made, named, nodeEngine)));
  }
  return Buffer.concat(frames);
}

/** One microsecond apart, all with the same bytes after their places. */
function eventsAt(seqs: readonly number[], body: EventBody | Uint8Array): BlockEvents {
  const bytes =
    body instanceof Uint8Array
      ? body
      : splitEvent(encodeEvent(body, { seq: 1, t_us: 0, wall_skew_us: 0 })).body;
  return {
    ...{ seqs: [...seqs], times: [...seqs], wallSkews: seqs.map(() => 0) },
    bodies: seqs.map(() => bytes),
  };
}

/** Block{section: plan_execution} with lists that say what they are told to. Small: its lengths are of one byte. */
function block(
  seqSteps: number[],
  timeSteps: number[],
  {
    skews,
    events = 2,
    body = Uint8Array.of(0x6a, 0),
  }: { skews?: number[]; events?: number; body?: Uint8Array } = {},
): Uint8Array {
  const list = (tag: number, values: bigint[]) => {
    const bytes = values.flatMap(varint);
    return Buffer.of(tag, bytes.length, ...bytes);
  };
  const zigzagged = (values: number[]) =>
    values.map((value) => (value < 0 ? -2n * BigInt(value) - 1n : 2n * BigInt(value)));
  const inner = Buffer.concat([
    Buffer.of(0x08, 1),
    list(0x12, seqSteps.map(BigInt)),
    list(0x1a, zigzagged(timeSteps)),
    ...(skews === undefined ? [] : [list(0x22, zigzagged(skews))]),
    ...Array.from({ length: events }, () => Buffer.of(0x2a, body.length, ...body)),
  ]);
  return Buffer.concat([Buffer.of(0x0a, inner.length), inner]);
}

function varint(value: bigint): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return [...bytes, Number(rest)];
}

async function refusal(bytes: Uint8Array): Promise<{ code: string; message: string }> {
  try {
    const file = await opened(bytes);
    if (file.damage !== null) return { code: "damage", message: file.damage.reason };
    await eventsOf(file);
    for (const segment of file.segments) await segment.verify();
  } catch (error) {
    return error as { code: string; message: string };
  }
  throw new Error("it was read without a complaint");
}

test("a forged file with nothing wrong in it is read: what the tests below refuse is what they say", async () => {
  const parts: Part[] = [
    { section: "plan_execution", seqs: [1, 3], body: STEP },
    { section: "reward_signal", seqs: [2], body: REWARD, mark: 3 },
  ];
  expect((await eventsOf(await opened(forged(parts)))).map(({ seq }) => seq)).toEqual([1, 2, 3]);
  expect((await eventsOf(await opened(forged(parts, { footer: {} })))).map(({ seq }) => seq)).toEqual([
    1, 2, 3,
  ]);
});

test("what is no trace is told so, with the file's name and what to do", async () => {
  for (const bytes of [
    Buffer.alloc(0),
    Buffer.from("{}"),
    Buffer.from("PK\x03\x04 and so on"),
    Buffer.alloc(5000),
  ]) {
    const { code, message } = await refusal(bytes);
    expect(code).toBe("TRACE_CORRUPT");
    expect(message).toMatch(/^made\.trace: at offset 0: .*fetch the file again/);
  }
  expect((await refusal(skippableFrame(HEADER_FRAME, Buffer.from("SOMETHING ELSE")))).message).toMatch(
    /this is no trace/,
  );
});

test("a newer container, trace, section or event is refused with the advice to use a newer dsec", async () => {
  const container = made([STEP]);
  container[15] = "2".charCodeAt(0);
  const unknownEvent = Uint8Array.of(0xba, 0x06, 0);
  const cases: [Uint8Array, RegExp][] = [
    [container, /container is of version "2"/],
    [forged([], { header: { version: 2 } }), /trace is of version 2/],
    [
      forged([
        {
          section: "plan_execution",
          seqs: [1],
          body: STEP,
          content: encodeBlock("plan_execution", eventsAt([1], unknownEvent)),
          mark: 1,
        },
      ]),
      /event 1 is of a type/,
    ],
  ];
  for (const [bytes, says] of cases) {
    const { code, message } = await refusal(bytes);
    expect(message).toMatch(says);
    expect(message).toMatch(/at offset \d+.*newer dsec/);
    expect(code).toBe("TRACE_UNSUPPORTED");
  }
  const header = encodeMessage("BlockHeader", {
    ...{ sections: [6], first_seqs: [1], last_seqs: [1], event_counts: [1], first_t_us: [0], last_t_us: [0] },
    frame_digest: digestOf(new Uint8Array(32)),
  });
  const strange = Buffer.concat([made([], { sealed: false }), skippableFrame(BLOCK_FRAME, header)]);
  expect((await refusal(strange)).message).toMatch(/section 6 is not known to this version/);
});

test("a block that unpacks to more than it says, or says more than is read, is not unpacked", async () => {
  const bomb = encodeBlock("plan_execution", eventsAt([1], new Uint8Array(64 * 1024 * 1024)));
  const part: Part = { section: "plan_execution", seqs: [1], body: STEP, content: bomb, mark: 1 };
  expect((await refusal(forged([part]))).message).toMatch(/unpack to 67108\d+; at most/);
  const lying = forged([{ ...part, header: { uncompressed_bytes: 1000 } }]);
  expect((await refusal(lying)).message).toMatch(/does not unpack/);
  const many = forged([
    { ...part, header: { events: LIMITS.traceBlockEvents + 1, last_seq: 1e6, uncompressed_bytes: 1000 } },
  ]);
  expect((await refusal(many)).message).toMatch(/has 65537 events; at most/);
});

test("an event of a million empty members is refused before they take memory", async () => {
  // tokens, each of no bytes: two bytes in the file, hundreds in memory
  const tokens = Buffer.alloc(2_000_000, Buffer.of(0x1a, 0));
  const size = Buffer.of(
    0x80 | (tokens.length & 0x7f),
    0x80 | ((tokens.length >> 7) & 0x7f),
    tokens.length >> 14,
  );
  const event = Buffer.concat([Buffer.of(0xc2, 0x02), size, tokens]);
  const content = encodeBlock("token_logit", eventsAt([1], event));
  const { message } = await refusal(
    forged([{ section: "token_logit", seqs: [1], body: STEP, content, mark: 1 }]),
  );
  expect(message).toMatch(/tokens has more than 65536 items/);
});

test("lengths that lead past the file are refused before anything is read for them", async () => {
  for (const [magic, length] of [
    [HEADER_FRAME, 0xffff_ffff],
    [BLOCK_FRAME, 0xffff_ffff],
    [FOOTER_FRAME, 0x7fff_ffff],
    [0x184d2a5f, 0xffff_fff0],
  ] as const) {
    const head = Buffer.alloc(8);
    head.writeUInt32LE(magic, 0);
    head.writeUInt32LE(length, 4);
    expect((await refusal(Buffer.concat([made([STEP], { sealed: false }), head]))).message).toMatch(
      /middle of a frame/,
    );
  }
  const large = skippableFrame(BLOCK_FRAME, new Uint8Array(5000));
  expect((await refusal(Buffer.concat([made([STEP], { sealed: false }), large]))).message).toMatch(
    /5000 bytes; at most 1024/,
  );
});

test("an index that lies about its blocks is found out, though it is signed by its own digest", async () => {
  const parts: Part[] = [
    { section: "plan_execution", seqs: [1, 2], body: STEP },
    { section: "plan_execution", seqs: [3, 4], body: STEP, mark: 4 },
  ];
  const honest = (await opened(forged(parts, { footer: {} }))).segments[0]!.blocks.map((block) => ({
    ...block,
  }));
  const [one, two] = honest as [(typeof honest)[0], (typeof honest)[0]];
  const other = new Uint8Array(32);
  const forgeries: [Forgery, RegExp][] = [
    [{ footer: {}, ends: { header: other } }, /not of the segment/],
    [{ footer: {}, ends: { last: other } }, /not of the segment/],
  ];
  const lies: [Partial<NewFooter>, RegExp][] = [
    [{ blocks: [one, { ...two, offset: one.offset }] }, /entry of block 2 contradicts|different lengths/],
    [{ blocks: [one, { ...two, offset: one.offset + 10 }] }, /no block header is where|has no such block/],
    [{ blocks: [one, { ...two, offset: 1e9 }] }, /entry of block 2 contradicts/],
    [{ blocks: [one, { ...two, first_seq: 2 }] }, /entry of block 2 contradicts/],
    [{ blocks: [one, { ...two, events: 1 }] }, /footer has 3 events, of which the last is 4/],
    [{ blocks: [one] }, /not of the segment|footer has 2 events/],
    [{ blocks: [{ ...one, last_seq: 3, events: 3 }, two] }, /entry of block 2 contradicts/],
    [{ blocks: [one, { ...two, section: "reward_signal" }] }, /section of the block is plan_execution/],
    [{ segment_bytes: 77 }, /entry of block 2 contradicts/],
  ];
  forgeries.push(...lies.map(([footer, says]): [Forgery, RegExp] => [{ footer }, says]));
  for (const [forgery, says] of forgeries) {
    const { message } = await refusal(forged(parts, forgery));
    expect(message, JSON.stringify(forgery)).toMatch(says);
  }
});

test("events that are missing, come twice, out of order or in another section are told", async () => {
  const [plan, reward] = ["plan_execution", "reward_signal"] as const;
  const cases: [Part[], RegExp][] = [
    [[{ section: plan, seqs: [1, 3], body: STEP, mark: 3 }], /3 events are whole; there are 2/],
    [[{ section: plan, seqs: [2, 3], body: STEP, mark: 2 }], /2 events are whole/],
    [
      [
        { section: plan, seqs: [1, 2], body: STEP, mark: 2 },
        { section: plan, seqs: [2, 3], body: STEP, mark: 4 },
      ],
      /event 2 comes again/,
    ],
    [
      [
        { section: plan, seqs: [1, 2], body: STEP },
        { section: reward, seqs: [2], body: REWARD, mark: 3 },
      ],
      /events are whole/,
    ],
    [
      [
        { section: plan, seqs: [1, 3], body: STEP },
        { section: reward, seqs: [3, 4], body: REWARD, mark: 4 },
      ],
      /event (2|3|4) of 4 is missing/,
    ],
    [
      [
        {
          section: plan,
          seqs: [1, 2],
          body: STEP,
          content: block([1, 0], [1, 1]),
          header: { first_seq: 1, last_seq: 2, first_t_us: 1, last_t_us: 2 },
          mark: 2,
        },
      ],
      /event 1 follows event 1/,
    ],
    [
      [{ section: plan, seqs: [1], body: REWARD, mark: 1 }],
      /event 1, a reward, stands in section plan_execution/,
    ],
    [[{ section: plan, seqs: [1, 2], body: STEP, header: { last_seq: 3 }, mark: 3 }], /3 events are whole/],
    [
      [{ section: plan, seqs: [1, 2], body: STEP, header: { first_t_us: 5 }, mark: 2 }],
      /not those that its header names/,
    ],
    [
      [{ section: plan, seqs: [1], body: STEP, header: { uncompressed_bytes: 1_000 }, mark: 1 }],
      /unpacks to \d+ bytes, its header says 1000/,
    ],
    [
      [{ section: plan, seqs: [1], body: STEP, header: { section: reward }, mark: 1 }],
      /not of section reward_signal/,
    ],
    [[{ section: plan, seqs: [1], body: STEP, content: zstdCompressSync("x"), mark: 1 }], /not one block/],
    [[{ section: plan, seqs: [1], body: STEP }], /last flush is not whole/],
    [[{ section: plan, seqs: [1], body: STEP, mark: 1 }], /the chain (breaks|ends)/],
  ];
  for (const [parts, says] of cases) expect((await refusal(forged(parts))).message).toMatch(says);
});

test("places that are not one for each event, do not grow, or are past what a number can be are told", async () => {
  const honest = { first_seq: 1, last_seq: 2, first_t_us: 1, last_t_us: 2 };
  const large = 2 ** 53 - 1;
  const cases: [Uint8Array, Part["header"] & object, RegExp][] = [
    [block([1], [1, 1]), honest, /seq_steps are not one for each of its 2/],
    [block([1, 1, 1], [1, 1]), honest, /seq_steps are not one for each of its 2/],
    [block([1, 1], [1]), honest, /t_us_steps are not one for each of its 2/],
    [block([1, 1], [1, 1], { skews: [1] }), honest, /wall_skews_us are not one for each of its 2/],
    [block([1, 1], [1, 1], { skews: [1, 1, 1] }), honest, /wall_skews_us are not one for each of its 2/],
    [block([1, 1], [1, 1], { events: 1 }), honest, /not those that its header names/],
    [block([1, 1], [1, 1], { events: 3 }), honest, /not those that its header names/],
    [block([1, 2], [1, 1]), honest, /not those that its header names/],
    [block([0, 2], [1, 1]), honest, /event 0 follows event 0/],
    [block([1, large], [1, 1]), honest, /not those that its header names/],
    [block([1, 2 ** 53], [1, 1]), honest, /past 2\^53 - 1/],
    [block([1, 1], [1, -2]), { ...honest, first_t_us: 0, last_t_us: 1 }, /not those that its header names/],
    [block([1, 1], [LIMITS.traceTimeUs, 8]), honest, /not those that its header names/],
    [block([1, 1], [1, 1], { body: Uint8Array.of(0x08, 5, 0x6a, 0) }), honest, /says a second time where/],
    [block([1, 1], [1, 1], { body: Uint8Array.of(0x6a, 0, 0x10, 5) }), honest, /says a second time where/],
    [block([1, 1], [1, 1], { body: Uint8Array.of(0x6a, 9) }), honest, /length that leads past its end/],
  ];
  for (const [content, header, says] of cases) {
    const part: Part = { section: "plan_execution", seqs: [1, 2], body: STEP, content, header, mark: 2 };
    const { message } = await refusal(forged([part]));
    expect(message).toMatch(says);
    expect(message).toMatch(/^made\.trace: at offset \d+/);
  }
  const [seqs, times] = [Uint8Array.of(0x12, 1, 1), Uint8Array.of(0x1a, 1, 2)];
  const [section, event] = [Uint8Array.of(0x08, 1), Uint8Array.of(0x2a, 2, 0x6a, 0)];
  for (const parts of [
    [section, times, seqs, event],
    [section, event, seqs, times],
    [section, seqs, times, Uint8Array.of(0x32, 0), event],
  ]) {
    const inner = Buffer.concat(parts);
    const content = Buffer.concat([Buffer.of(0x0a, inner.length), inner]);
    const part: Part = { section: "plan_execution", seqs: [1], body: STEP, content, mark: 1 };
    const { code, message } = await refusal(forged([part]));
    expect(message).toMatch(/where this version puts them|does not know/);
    expect(code).toBe("TRACE_UNSUPPORTED");
  }
});

test("blocks that share a frame are those which its header names, each once and in the order of their sections", async () => {
  const [plan, reward] = [
    encodeBlock("plan_execution", eventsAt([1], STEP)),
    encodeBlock("reward_signal", eventsAt([2], REWARD)),
  ];
  const facts = (section: Section, seq: number): BlockFacts => ({
    ...{ section, first_seq: seq, last_seq: seq, events: 1, first_t_us: seq, last_t_us: seq },
  });
  const both = [facts("plan_execution", 1), facts("reward_signal", 2)];
  const file = (content: Uint8Array, blocks: BlockFacts[]) => {
    const frame = nodeEngine.compress(content);
    const payload = encodeBlockHeader({
      ...{ blocks, compressed_bytes: frame.length, uncompressed_bytes: content.length },
      frame_digest: digestOf(nodeEngine.sha256(frame)),
      ...{ chain_digest: digestOf(new Uint8Array(32)), chain_seq: 2 },
    });
    return Buffer.concat([made([], { sealed: false }), skippableFrame(BLOCK_FRAME, payload), frame]);
  };
  expect(await eventsOf(await opened(file(Buffer.concat([plan, reward]), both)))).toHaveLength(2);
  const cases: [Uint8Array[], BlockFacts[], RegExp][] = [
    [[reward, plan], both, /not of section (plan_execution|reward_signal)/],
    [[plan, reward, reward], both, /more blocks than its header names/],
    [[plan], both, /fewer blocks than its header names/],
    [[plan, reward], both.toReversed(), /section plan_execution after section reward_signal/],
    [[plan, plan], [both[0]!, facts("plan_execution", 2)], /section plan_execution after section plan_ex/],
  ];
  for (const [contents, blocks, says] of cases) {
    expect((await refusal(file(Buffer.concat(contents), blocks))).message).toMatch(says);
  }
});

test("a header that names another attempt than its chain begins with is refused", async () => {
  const attempt: NewTraceHeader = { ...HEADER, lease_id: "lease_1", fence: 3 };
  const bytes = made([STEP], { sealed: false, header: attempt });
  await (await opened(bytes)).segments[0]!.verify();
  const blocks = bytes.subarray(8 + Buffer.from(bytes).readUInt32LE(4));
  for (const other of [{ fence: 4 }, { lease_id: "lease_2" }, { lease_id: null, fence: null }]) {
    const header = encodeHeader(completeHeader({ ...attempt, ...other }, nodeEngine), nodeEngine);
    const exchanged = Buffer.concat([skippableFrame(HEADER_FRAME, header), blocks]);
    expect((await refusal(exchanged)).message).toMatch(/the chain breaks at event 1/);
  }
  const half = { lease_id: "lease_1", fence: null };
  expect((await refusal(forged([], { header: half }))).message).toMatch(/names half of an attempt/);
});

test("trailing garbage is told, and what is before it is read", async () => {
  for (const garbage of [Buffer.from("garbage"), Buffer.alloc(100), Buffer.from("\n")]) {
    const file = await opened(Buffer.concat([made([STEP, REWARD]), garbage]));
    expect(file.damage).not.toBe(null);
    expect(file.segments[0]!.state).toBe("sealed");
    expect(await eventsOf(file)).toHaveLength(2);
    await file.segments[0]!.verify();
  }
});
