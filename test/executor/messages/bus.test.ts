import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { SqliteDatabase } from "#executor/memory/sqlite-database.ts";
import { createMessageBus, type MessageBus } from "#executor/messages/bus.ts";

let folder: string;
let database: SqliteDatabase;
let bus: MessageBus;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "dsec-bus-"));
  open();
});
afterEach(async () => {
  database.close();
  await rm(folder, { recursive: true });
});

function open(): void {
  database = new SqliteDatabase(join(folder, "memory.db"));
  bus = createMessageBus(database);
}

const ids = async (reader: string, options = {}) =>
  (await bus.receive("job", "channel", reader, options)).map((message) => message.id);

test("messages of many senders have one order, and each sender's own is kept", async () => {
  const senders = ["a", "b", "c"];
  await Promise.all(
    senders.map(async (sender) => {
      for (let n = 0; n < 40; n++) await bus.send("job", "channel", sender, `{"n":${n}}`);
    }),
  );
  const all = [];
  for (let after = 0; ; ) {
    const page = await bus.receive("job", "channel", "reader", { after, limit: 50 });
    if (page.length === 0) break;
    all.push(...page);
    after = page.at(-1)!.id;
  }
  expect(all.map((message) => message.id)).toEqual(Array.from({ length: 120 }, (_, at) => at + 1));
  for (const sender of senders) {
    const own = all.filter((message) => message.from === sender).map((message) => JSON.parse(message.text).n);
    expect(own).toEqual(Array.from({ length: 40 }, (_, at) => at));
  }
});

test("each reader gets every message again until it acknowledges it", async () => {
  for (let n = 0; n < 3; n++) await bus.send("job", "channel", "sender", "1");
  expect(await ids("one")).toEqual([1, 2, 3]);
  expect(await ids("two")).toEqual([1, 2, 3]);
  await bus.acknowledge("job", "channel", "one", 2);
  expect(await ids("one")).toEqual([3]);
  expect(await ids("two")).toEqual([1, 2, 3]);
  expect(await ids("two", { limit: 2 })).toEqual([1, 2]);
  await bus.acknowledge("job", "channel", "two", 3);
  await bus.acknowledge("job", "channel", "one", 3);
  // A late reader begins with what is sent from now on: nothing older is left.
  expect(await ids("three")).toEqual([]);
  await bus.send("job", "channel", "sender", "2");
  expect(await ids("three")).toEqual([4]);
});

test("an acknowledgement is neither taken back nor given ahead", async () => {
  await bus.send("job", "channel", "sender", "1");
  await bus.send("job", "channel", "sender", "2");
  await bus.acknowledge("job", "channel", "reader", 2);
  await bus.acknowledge("job", "channel", "reader", 2);
  for (const through of [1, 3]) {
    await expect(bus.acknowledge("job", "channel", "reader", through)).rejects.toMatchObject({
      code: "INVALID_REQUEST",
    });
  }
});

test("a full channel refuses and loses nothing, and takes more once its slowest reader has acknowledged", async () => {
  await bus.declare("job", { name: "channel", capacity: 3, readers: ["slow", "quick"] });
  for (let n = 0; n < 3; n++) await bus.send("job", "channel", "sender", String(n));
  await bus.acknowledge("job", "channel", "quick", 3);
  await expect(bus.send("job", "channel", "sender", "3")).rejects.toMatchObject({
    code: "CHANNEL_FULL",
    details: { messages: 3, slowest_reader: "slow" },
  });
  expect(await ids("slow")).toEqual([1, 2, 3]);
  await bus.acknowledge("job", "channel", "slow", 1);
  expect(await bus.send("job", "channel", "sender", "3")).toBe(4);
  expect(await ids("slow")).toEqual([2, 3, 4]);
  await expect(bus.send("job", "channel", "sender", "4")).rejects.toMatchObject({ code: "CHANNEL_FULL" });
  // A sandbox that is gone holds nobody up.
  await bus.leave("job", "slow");
  expect(await bus.send("job", "channel", "sender", "4")).toBe(5);
  expect(await ids("quick")).toEqual([4, 5]);
});

test("bytes bound a channel as well as numbers", async () => {
  const body = `"${"x".repeat(250_000)}"`;
  let sent = 0;
  const fill = async () => {
    for (;;) {
      await bus.send("job", "channel", "sender", body);
      sent++;
    }
  };
  await expect(fill()).rejects.toMatchObject({ code: "CHANNEL_FULL" });
  expect(sent).toBe(Math.floor((16 * 1024 * 1024) / body.length));
  // One answer stays small, whatever is waiting.
  expect((await bus.receive("job", "channel", "reader")).length).toBeLessThan(6);
  await expect(bus.send("job", "channel", "sender", `"${"x".repeat(262_144)}"`)).rejects.toMatchObject({
    code: "BODY_TOO_LARGE",
  });
});

test("messages and acknowledgements survive the executor's restart, and ids go on", async () => {
  await bus.send("job", "channel", "sender", "[1.0]");
  await bus.send("job", "channel", "sender", "2");
  await bus.acknowledge("job", "channel", "reader", 1);
  database.close();
  open();
  expect(await bus.receive("job", "channel", "reader")).toMatchObject([{ id: 2, from: "sender", text: "2" }]);
  await bus.acknowledge("job", "channel", "reader", 2);
  database.close();
  open();
  expect(await bus.send("job", "channel", "sender", "3")).toBe(3);
});

test("jobs do not hear each other, and an ended job leaves nothing", async () => {
  await bus.send("job", "channel", "sender", "1");
  await bus.send("other", "channel", "sender", "1");
  await bus.send("other", "channel", "sender", "2");
  expect(await ids("reader")).toEqual([1]);
  await bus.endJob("job");
  expect((await bus.receive("other", "channel", "reader")).map((message) => message.id)).toEqual([1, 2]);
  const left = database.connection.prepare(
    "select count(*) as n from message join channel on channel_id = channel.id where job = 'job'",
  );
  expect(left.get()).toEqual({ n: 0 });
});

test("channels, and who reads them, are bounded, and one sandbox's refusal is not its neighbours'", async () => {
  for (let n = 0; n < 256; n++) await bus.send("job", `c${n}`, "sender", "1");
  const [refused, neighbour] = await Promise.allSettled([
    bus.send("job", "one.more", "sender", "1"),
    bus.send("other", "channel", "sender", "1"),
  ]);
  expect(refused).toMatchObject({ status: "rejected", reason: { code: "CHANNEL_FULL" } });
  expect(neighbour).toEqual({ status: "fulfilled", value: 1 });
  await expect(bus.send("job", "bad name", "sender", "1")).rejects.toMatchObject({ code: "INVALID_REQUEST" });
});

test("a declared schema judges what is sent from then on", async () => {
  const schema = {
    type: "object",
    required: ["score"],
    properties: { score: { type: "number", minimum: 0 } },
    additionalProperties: false,
  };
  await bus.declare("job", { name: "channel", schema });
  await bus.send("job", "channel", "sender", '{"score":0.5}');
  for (const [body, place] of [
    ['{"score":-1}', "/score"],
    ["{}", "score"],
    ["1", "the body"],
    ['{"score":1,"scores":2}', "/scores"],
  ]) {
    await expect(bus.send("job", "channel", "sender", body!)).rejects.toMatchObject({
      code: "MESSAGE_REFUSED",
      message: expect.stringContaining(place!),
    });
  }
  await expect(bus.send("job", "channel", "sender", "{")).rejects.toMatchObject({ code: "MALFORMED_JSON" });
  await expect(bus.declare("job", { name: "channel", schema: { typ: "object" } })).rejects.toThrow(
    /"typ" is not known/,
  );
  await expect(bus.send("job", "channel", "sender", "1")).rejects.toMatchObject({ code: "MESSAGE_REFUSED" });
});

test("everyone who waits gets the message, whatever wakes them for nothing", async () => {
  const waiting = ["one", "two", "three"].map((reader) =>
    bus.receive("job", "channel", reader, { waitMs: 20_000 }),
  );
  await bus.send("job", "another", "sender", "0");
  await bus.send("job", "channel", "sender", "1");
  for (const received of await Promise.all(waiting))
    expect(received.map((message) => message.text)).toEqual(["1"]);
});
