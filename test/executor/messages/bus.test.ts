import { afterAll, beforeAll, expect, test } from "vitest";
import { MessageListSchema } from "#core/wire/messages.ts";
import { createMessageBus } from "#executor/messages/bus.ts";
import { ChannelRig, type OpenChannel } from "../channel/channel-under-test.ts";
import { eventually } from "../executor-under-test.ts";

const signal = new AbortController().signal;
let rig: ChannelRig;
let jobs = 0;

beforeAll(async () => {
  rig = await ChannelRig.open();
});
afterAll(async () => {
  await rig[Symbol.asyncDispose]();
});

async function pair(spec: Parameters<ChannelRig["channel"]>[0] = {}): Promise<[OpenChannel, OpenChannel]> {
  const job = `job-${++jobs}`;
  return [await rig.channel({ job, ...spec }), await rig.channel({ job })];
}

test("a message goes from one sandbox of the job to the other as it was written, and stays until it is acknowledged", async () => {
  const [one, two] = await pair();
  const sent = await one.send("POST", "/v1/messages/results", '{ "score": 1.0, "text": "\\u20ac" }');
  expect([sent.status, sent.json]).toEqual([201, { id: 1 }]);
  for (let again = 0; again < 2; again++) {
    const received = await two.send("GET", "/v1/messages/results");
    expect(received.body.toString()).toContain('"body":{"score":1.0,"text":"€"}');
    expect(MessageListSchema.parse(received.json).items).toMatchObject([{ id: 1, from: one.lease.task_id }]);
  }
  expect((await two.send("POST", "/v1/messages/results/ack", { through: 1 })).status).toBe(204);
  expect((await two.send("GET", "/v1/messages/results")).json).toEqual({ items: [] });
  const ahead = await two.send("POST", "/v1/messages/results/ack", { through: 2 });
  expect([ahead.status, ahead.json.error?.code]).toEqual([400, "INVALID_REQUEST"]);
});

test("whoever waits has its answer as soon as a message is sent, whatever wakes it for nothing", async () => {
  const [one, two] = await pair();
  const waiting = [one, two].map((each) => each.send("GET", "/v1/messages/later?wait_ms=25000"));
  await one.send("POST", "/v1/messages/other", "0");
  await two.send("POST", "/v1/messages/later", "1");
  for (const { json } of await Promise.all(waiting)) expect(json.items).toMatchObject([{ id: 1, body: 1 }]);
});

test("a receive that waits ends with its client, at the gateway too", async () => {
  const [one] = await pair();
  const asked: Request[] = [];
  rig.onRequest = (request) => void (request.url.includes("/messages/empty") && asked.push(request));
  const gone = new AbortController();
  const abandoned = one.send("GET", "/v1/messages/empty?wait_ms=25000", undefined, { signal: gone.signal });
  await eventually(() => asked.length === 1);
  gone.abort();
  await expect(abandoned).rejects.toThrow();
  await eventually(() => asked[0]!.signal.aborted);
});

test("a message whose answer was lost is there once", async () => {
  const [one, two] = await pair();
  let lost = 0;
  rig.onAnswer = (request, answer) => {
    if (request.method !== "POST" || !request.url.includes("/messages/c?") || lost++ >= 2) return answer;
    throw new TypeError("fetch failed");
  };
  expect((await one.send("POST", "/v1/messages/c", '"a"')).json).toEqual({ id: 1 });
  expect((await one.send("POST", "/v1/messages/c", '"a"')).json).toEqual({ id: 2 });
  expect(lost).toBe(4);
  expect((await two.send("GET", "/v1/messages/c")).json.items).toMatchObject([{ id: 1 }, { id: 2 }]);
});

test("an agent's own Idempotency-Key makes a message once, and is not the executor's", async () => {
  const [one] = await pair();
  const send = (body: string, key?: string) =>
    one.send(
      "POST",
      "/v1/messages/c",
      body,
      key === undefined ? {} : { headers: { "idempotency-key": key } },
    );
  const bodies = [
    await send("1", "n:1:1"),
    await send("1"),
    await send("1", "n:1:1"),
    await send("2", "n:1:1"),
    await send("1", "a b"),
  ];
  expect(bodies.map(({ json }) => json.id ?? json.error?.code)).toEqual([
    ...[1, 2, 1],
    ...["IDEMPOTENCY_KEY_REUSED", "INVALID_REQUEST"],
  ]);
});

test("what a task declares holds for its job from its sandbox's start on", async () => {
  const schema = { type: "object", required: ["score"], properties: { score: { type: "number" } } };
  const [one, two] = await pair({ channels: [{ name: "scores", schema, reads: true, capacity: 2 }] });
  const refused = await two.send("POST", "/v1/messages/scores", { score: "high" });
  expect([refused.status, refused.json.error?.code]).toEqual([422, "MESSAGE_REFUSED"]);
  await two.send("POST", "/v1/messages/scores", { score: 1 });
  // It reads already: nobody else's acknowledgement takes away what it has not seen.
  await two.send("POST", "/v1/messages/scores/ack", { through: 1 });
  await two.send("POST", "/v1/messages/scores", { score: 2 });
  expect((await two.send("POST", "/v1/messages/scores", { score: 3 })).json.error?.code).toBe("CHANNEL_FULL");
  expect((await one.send("GET", "/v1/messages/scores")).json.items).toMatchObject([{ id: 1 }, { id: 2 }]);
});

test("an attempt that does what the one before it did sends nothing twice, and one that does not is not held to it", async () => {
  const [one] = await pair();
  const attempt = () => createMessageBus(rig.gateway.messages, one.lease, "");
  const [first, second] = [attempt(), attempt()];
  expect(await first.send("c", "1", { signal })).toBe(1);
  expect(await first.send("c", "2", { signal })).toBe(2);
  expect(await second.send("c", "1", { signal })).toBe(1);
  expect(await second.send("c", "3", { signal })).toBe(3);
  expect(await second.send("c", "4", { signal })).toBe(4);
});

test("what was refused and then sent is not sent again by an attempt that finds room at once", async () => {
  const [one] = await pair({ channels: [{ name: "narrow", capacity: 1, reads: true }] });
  const attempt = () => createMessageBus(rig.gateway.messages, one.lease, "");
  const [first, second] = [attempt(), attempt()];
  expect(await first.send("narrow", "1", { signal })).toBe(1);
  await expect(first.send("narrow", "2", { signal })).rejects.toMatchObject({ code: "CHANNEL_FULL" });
  await first.acknowledge("narrow", 1, signal);
  expect(await first.send("narrow", "2", { signal })).toBe(2);
  await first.acknowledge("narrow", 2, signal);
  expect(await second.send("narrow", "1", { signal })).toBe(1);
  expect(await second.send("narrow", "2", { signal })).toBe(2);
});

test.each([
  [{ channels: [{ name: "a b" }] }, "channels[0].name"],
  [{ channels: [{ name: "a" }, { name: "a" }] }, "channels"],
  [{ channels: [{ name: "a", schema: { typ: "object" } }] }, "channels[0].schema"],
  [{ channels: [{ name: "a", capacity: 0 }] }, "channels[0].capacity"],
] as const)("a task that declares a channel wrongly is refused at submit: %j", async (spec, path) => {
  const refusal = await rig.proxy.client.refused("POST", "/v1/tasks", { command: ["true"], ...spec });
  expect(refusal.code).toBe("INVALID_REQUEST");
  expect(refusal.message).toContain(path);
});
