import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import protobuf from "protobufjs";
import { expect, test } from "vitest";
import { bodyOf, decodeEvent, decodeMessage, encodeEvent, encodeMessage } from "#trace/events/codec.ts";
import { EVENT_TYPES, type EventBody, sectionOf } from "#trace/events/event.ts";
import { type Peeked, peekBody } from "#trace/events/peek.ts";
import { placeBytes, splitEvent, writePlace } from "#trace/events/place.ts";
import { WireReader } from "#trace/events/wire.ts";
import { chosenSeed, Random, randomBody } from "./random-events.ts";

const ROOT = join(import.meta.dirname, "../../..");
const STARTED_US = 1_764_000_000_000_000;
const PLACE = { seq: 7, t_us: 1234, wall_skew_us: -5 };
const DIGEST = `sha256:${"ab".repeat(32)}` as const;

/** The library that everybody uses, reading the same .proto file. */
const Event = protobuf
  .parse(readFileSync(join(ROOT, "proto/trace.proto"), "utf8"), { keepCase: true })
  .root.lookupType("dsec.trace.v1.Event");

test("proto/trace.json is what `npm run proto` makes of trace.proto", () => {
  const { proto } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).scripts;
  const [, ...words] = proto.replace("--out proto/trace.json", "").split(/ +/);
  const made = execFileSync(join(ROOT, "node_modules/.bin/pbjs"), words, { cwd: ROOT });
  expect(JSON.parse(made.toString())).toEqual(
    JSON.parse(readFileSync(join(ROOT, "proto/trace.json"), "utf8")),
  );
});

test("events of every type come back as they were written", () => {
  const seed = chosenSeed();
  const random = new Random(seed);
  for (let round = 0; round < 1000; round++) {
    const body = randomBody(random, EVENT_TYPES[round % EVENT_TYPES.length]!);
    const event = decodeEvent(encodeEvent(body, PLACE), STARTED_US);
    expect(bodyOf(event), `seed ${seed}, round ${round}`).toEqual(body);
    expect(event.wall_us).toBe(STARTED_US + 1229);
  }
});

test("a stock Protocol Buffers library reads our events, and writes them in the same bytes", () => {
  const seed = chosenSeed();
  const random = new Random(seed);
  for (let round = 0; round < 500; round++) {
    const bytes = encodeEvent(randomBody(random, EVENT_TYPES[round % EVENT_TYPES.length]!), PLACE);
    expect(Buffer.from(Event.encode(Event.decode(bytes)).finish()), `seed ${seed}, round ${round}`).toEqual(
      Buffer.from(bytes),
    );
  }
});

test("members left out and members that are null are the same bytes", () => {
  const short: EventBody = { type: "context", context_digest: DIGEST, context_json: "{}" };
  const call: EventBody = { type: "tool_call_start", call: 1, kind: "http", via: "http" };
  expect(encodeEvent({ ...call, tool: null, url: null }, PLACE)).toEqual(encodeEvent(call, PLACE));
  expect(decodeEvent(encodeEvent(short, PLACE), 0)).toMatchObject(short);
  expect(decodeEvent(encodeEvent(call, PLACE), 0)).toMatchObject({ tool: null, read_only: null });
});

test("absent and zero stay apart where a member may be absent", () => {
  const body: EventBody = { type: "process", state: "exit", pid: 0, argv: [], exit_code: 0 };
  expect(decodeEvent(encodeEvent(body, PLACE), 0)).toMatchObject({ pid: 0, exit_code: 0, signal: null });
});

test("JSON members keep integers past 2^53, number spellings and member order to the letter (B61)", () => {
  const json = '{"b":9007199254740993,"a":1234552132131231239,"n":-9223372036854775808,"x":1.0,"y":1e2}';
  const body: EventBody = { type: "context", context_digest: DIGEST, context_json: json };
  expect(decodeEvent(encodeEvent(body, PLACE), 0)).toMatchObject({ context_json: json });
});

test("an integer that no number can be is refused on the way in and on the way out", () => {
  const token = (id: number): EventBody => ({
    type: "token_logit",
    tokens: [{ id, logprob: 0, top_ids: [], top_logprobs: [], top_texts: [] }],
  });
  for (const id of [2 ** 53, -1, 1.5, Number.NaN]) {
    expect(() => encodeEvent(token(id), PLACE)).toThrow(expect.objectContaining({ code: "INVALID_REQUEST" }));
  }
  const most = encodeEvent(token(Number.MAX_SAFE_INTEGER), PLACE);
  expect(decodeEvent(most, 0)).toMatchObject({ tokens: [{ id: Number.MAX_SAFE_INTEGER }] });
  for (const id of ["9007199254740992", "9007199254740993", "18446744073709551615"]) {
    const bytes = Event.encode({ seq: 1, token_logit: { tokens: [{ id }] } }).finish();
    expect(() => decodeEvent(bytes, 0)).toThrow(/past 2\^53/);
  }
});

test("a start before 1970 and one far after it come back", () => {
  for (const started_wall_us of [-1, -(2 ** 53) + 1, 0, 1, 2 ** 53 - 1]) {
    const header = { version: 1, trace_id: "t", source: "s", started_wall_us };
    expect(decodeMessage("FileHeader", encodeMessage("FileHeader", header), "header")).toMatchObject(header);
  }
});

test("text that UTF-8 cannot carry, and bytes that are no UTF-8, are refused", () => {
  const name = (text: string): EventBody => ({ type: "plan_step", state: "begun", step: 1, name: text });
  expect(() => encodeEvent(name("\ud800"), PLACE)).toThrow(/lone surrogate/);
  expect(() => encodeEvent(name(`${"x".repeat(40)}\udc00`), PLACE)).toThrow(/lone surrogate/);
  // a refusal leaves nothing behind for the next event
  expect(decodeEvent(encodeEvent(name("after"), PLACE), 0)).toMatchObject({ name: "after" });
  const bytes = Uint8Array.of(0x08, 1, 0x6a, 4, 0x1a, 2, 0xff, 0xfe);
  expect(() => decodeEvent(bytes, 0)).toThrow(expect.objectContaining({ code: "TRACE_CORRUPT" }));
});

test("what is no event, an unknown one, or two in one is told apart", () => {
  const unknown = Uint8Array.of(0x08, 9, 0xba, 0x06, 0);
  for (const read of [peeked, (bytes: Uint8Array) => decodeEvent(bytes, 0)]) {
    expect(() => read(unknown)).toThrow(
      expect.objectContaining({
        code: "TRACE_UNSUPPORTED",
        message: expect.stringMatching(/event 9 .*newer dsec/),
      }),
    );
  }
  const two = Uint8Array.of(0x08, 9, 0x9a, 0x01, 0, 0x92, 0x03, 0);
  expect(() => decodeEvent(two, 0)).toThrow(/two types, snapshot and reward/);
  for (const read of [peeked, (bytes: Uint8Array) => decodeEvent(bytes, 0)])
    expect(() => read(Uint8Array.of(0x08, 9))).toThrow(/event 9 has no type/);
  for (const again of [0x08, 0x10, 0x18]) {
    const twice = Uint8Array.of(0x08, 9, 0x9a, 0x01, 0, again, 3);
    expect(() => peeked(twice)).toThrow(/event 9 says a second time where it stands/);
  }
});

test("an event's place and its other bytes are together the event's own encoding, or are not taken apart", () => {
  const seed = chosenSeed();
  const random = new Random(seed);
  const numbers = [0, 1, 127, 128, 2 ** 31, 2 ** 32, Number.MAX_SAFE_INTEGER, random.below(2 ** 53)];
  for (let round = 0; round < 500; round++) {
    const [seq, t_us] = [random.pick(numbers), random.pick(numbers)];
    const wall_skew_us = random.pick([0, 1, -1, 63, -64, 64, 2 ** 52 - 1, -(2 ** 52) + 1]);
    const bytes = encodeEvent(randomBody(random), { seq, t_us, wall_skew_us });
    const { place, body } = splitEvent(bytes);
    expect(place, `seed ${seed}, round ${round}`).toEqual({ seq, t_us, wall_skew_us });
    const before = placeBytes(seq, t_us, wall_skew_us);
    const joined = new Uint8Array(before + body.length);
    expect(writePlace(joined, 0, seq, t_us, wall_skew_us)).toBe(before);
    joined.set(body, before);
    expect(joined).toEqual(bytes);
  }
  // a varint that is longer than it need be, and zeros that are written down
  for (const bytes of [
    [0x08, 0x81, 0],
    [0x08, 0],
    [0x08, 1, 0x10, 0],
    [0x08, 1, 0x18, 0],
  ]) {
    expect(() => splitEvent(Uint8Array.of(...bytes, 0x9a, 0x01, 0))).toThrow(/not the one encoding/);
  }
});

test("peeking at an event gives what decoding it gives", () => {
  const random = new Random(chosenSeed());
  for (let round = 0; round < 500; round++) {
    const body = randomBody(random);
    const bytes = encodeEvent(body, PLACE);
    const begins = body.type === "plan_step" && body.state === "begun";
    const index = body.type === "tool_call_start" ? body.call : begins ? body.step : 0;
    expect(peeked(bytes)).toEqual({ type: body.type, index });
  }
  const begun = encodeEvent({ type: "plan_step", state: "begun", step: 3, name: "n" }, PLACE);
  expect(peeked(begun).index).toBe(3);
  const ended = encodeEvent({ type: "plan_step", state: "ended", step: 3, name: "n" }, PLACE);
  expect(peeked(ended).index).toBe(0);
});

test("every event has a section, and every section of the format events", () => {
  expect(new Set(EVENT_TYPES.map(sectionOf)).size).toBe(5);
  const kinds = Event.oneofs.kind!.oneof;
  expect([...kinds].sort()).toEqual([...EVENT_TYPES].sort());
});

function peeked(event: Uint8Array): Peeked {
  const { place, body } = splitEvent(event);
  return peekBody(new WireReader(body), body.length, place.seq);
}
