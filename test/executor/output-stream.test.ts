import { createHash, randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { EventsRequestSchema } from "#core/wire/leases.ts";
import { LiveEvents } from "#executor/live-events.ts";
import { captureStream } from "#executor/output-stream.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "dsec-output-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Captures chunks and returns what was kept, what went live and how often the mark came. */
async function capture(chunks: Buffer[]) {
  const path = join(directory, "stdout");
  const live: Buffer[] = [];
  let nextOffset = 0;
  let marks = 0;
  const stream = await captureStream(Readable.from(chunks), path, {
    data(offset, bytes) {
      expect(offset).toBe(nextOffset);
      expect(marks).toBe(0);
      nextOffset += bytes.length;
      live.push(Buffer.from(bytes));
    },
    truncated: () => marks++,
  });
  const kept = existsSync(path) ? await readFile(path) : null;
  return { stream, kept, live: Buffer.concat(live), marks };
}

test("bytes that are no text are kept and sent as they are (B04)", async () => {
  const bytes = Buffer.concat([
    Buffer.from([0xff, 0xfe]),
    Buffer.from("ok\x80", "latin1"),
    randomBytes(4096),
  ]);
  const { stream, kept, live } = await capture([bytes.subarray(0, 1), bytes.subarray(1)]);
  expect(kept).toEqual(bytes);
  expect(live).toEqual(bytes);
  expect(stream.digest).toBe(`sha256:${createHash("sha256").update(bytes).digest("hex")}`);
});

test("a stream that nothing is written to makes no file and has the digest of no bytes", async () => {
  const { stream, kept } = await capture([]);
  expect(kept).toBeNull();
  expect(stream).toEqual({
    digest: `sha256:${createHash("sha256").digest("hex")}`,
    kept_bytes: 0,
    total_bytes: 0,
  });
});

test.each([
  ["one byte under", -1, 0],
  ["exactly at", 0, 0],
  ["one byte over", 1, 1],
])("a stream %s the live bound has %i marks of truncation, and is kept whole", async (_, delta, marks) => {
  const bytes = randomBytes(LIMITS.streamLiveBytes + delta);
  const captured = await capture([bytes.subarray(0, 70_000), bytes.subarray(70_000)]);
  expect(captured.marks).toBe(marks);
  expect(captured.live.equals(bytes.subarray(0, LIMITS.streamLiveBytes))).toBe(true);
  expect(captured.kept!.equals(bytes)).toBe(true);
});

test("what passes the kept bound is counted to the last byte, and the digest is of what is kept", async () => {
  const chunk = randomBytes(1024 * 1024);
  const count = LIMITS.streamKeptBytes / chunk.length + 3;
  const { stream, kept } = await capture([...Array.from({ length: count }, () => chunk), Buffer.from("end")]);
  expect(stream.total_bytes).toBe(count * chunk.length + 3);
  expect(stream.kept_bytes).toBe(LIMITS.streamKeptBytes);
  expect(kept!.length).toBe(LIMITS.streamKeptBytes);
  expect(stream.digest).toBe(`sha256:${createHash("sha256").update(kept!).digest("hex")}`);
});

const HOLD = { lease_id: `lease_${"0".repeat(26)}`, fence: 7 };
const OTHER = { lease_id: `lease_${"1".repeat(26)}`, fence: 1 };
type Events = ReturnType<typeof EventsRequestSchema.parse>["events"];

/** Live events whose batches the test takes one at a time. */
function controlled() {
  const batches: { events: Events; answer: PromiseWithResolvers<void> }[] = [];
  const live = new LiveEvents((events) => {
    const answer = Promise.withResolvers<void>();
    batches.push({ events: EventsRequestSchema.parse({ events }).events, answer });
    return answer.promise;
  });
  const next = async () => {
    while (batches.length === 0) await new Promise((resolve) => setImmediate(resolve));
    return batches.shift()!;
  };
  return { live, next };
}

const bytesOf = (events: Events) =>
  Buffer.concat(events.map((e) => ("data" in e ? Buffer.from(e.data, "base64") : Buffer.alloc(0))));

test("the first bytes go out alone, and what comes while they travel goes together afterwards, in order", async () => {
  const { live, next } = controlled();
  const out = live.sink(HOLD, "stdout");
  out.data(0, Buffer.from("a"));
  const first = await next();
  expect(first.events).toEqual([{ type: "stdout", ...HOLD, offset: 0, data: "YQ==" }]);
  out.data(1, Buffer.from("b"));
  live.sink(HOLD, "stderr").data(0, Buffer.from("!"));
  out.data(2, Buffer.from("c"));
  first.answer.resolve();
  const second = await next();
  expect(second.events.map((event) => [event.type, "offset" in event && event.offset])).toEqual([
    ["stdout", 1],
    ["stderr", 0],
  ]);
  expect(bytesOf(second.events).toString()).toBe("bc!");
});

test("a large write is cut into events within their bound, and batches stay within one request", async () => {
  const { live, next } = controlled();
  const bytes = randomBytes(LIMITS.streamLiveBytes);
  live.sink(HOLD, "stdout").data(0, bytes);
  live.sink(HOLD, "stdout").truncated();
  const got: Buffer[] = [];
  for (let marks = 0; marks === 0; ) {
    const { events, answer } = await next();
    expect(JSON.stringify({ events }).length).toBeLessThan(LIMITS.requestBodyBytes);
    got.push(bytesOf(events));
    marks = events.filter((event) => event.type === "truncated").length;
    answer.resolve();
  }
  expect(Buffer.concat(got).equals(bytes)).toBe(true);
});

test("flushed waits for the lease's own output, on its way or still gathering, and for nobody else's", async () => {
  const { live, next } = controlled();
  await live.flushed(HOLD.lease_id);
  live.sink(HOLD, "stdout").data(0, Buffer.from("a"));
  const first = await next();
  let flushed = false;
  const flushing = live.flushed(HOLD.lease_id).then(() => {
    flushed = true;
  });
  live.sink(OTHER, "stdout").data(0, Buffer.from("x"));
  expect(flushed).toBe(false);
  first.answer.resolve();
  await flushing;
  (await next()).answer.resolve();
});

test("output that waits for a lost lease is dropped, and a batch that cannot be sent stops nothing", async () => {
  const { live, next } = controlled();
  live.sink(OTHER, "stdout").data(0, Buffer.from("x"));
  const first = await next();
  live.sink(HOLD, "stdout").data(0, Buffer.from("a"));
  live.sink(OTHER, "stdout").data(1, Buffer.from("y"));
  live.drop(HOLD.lease_id);
  first.answer.reject(new Error("outage"));
  const second = await next();
  expect(second.events.map((event) => event.lease_id)).toEqual([OTHER.lease_id]);
  second.answer.resolve();
  await live.flushed(HOLD.lease_id);
});
