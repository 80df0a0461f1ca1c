import { expect, test } from "vitest";
import { type ExecutorId, type KeyId, newId } from "#core/ids.ts";
import type { Json } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { Lease } from "#core/wire/leases.ts";
import { ChannelDeclarationSchema } from "#core/wire/messages.ts";
import {
  type Context,
  claim,
  complete,
  holdOf,
  newExecutor,
  newKey,
  onBothDatabases,
  ROOMY,
  submit,
} from "./support.ts";

onBothDatabases((context) => {
  test("messages of many senders have one order, and each sender's own is kept", async () => {
    const job = await Job.begin(context);
    const [reader, ...senders] = await job.members(4);
    await Promise.all(
      senders.map(async (sender) => {
        for (let n = 0; n < 15; n++) await sender.send({ n });
      }),
    );
    const received = [];
    for (let after = 0; ; after = received.at(-1)!.id) {
      const page = await reader!.receive({ after, limit: 20 });
      if (page.length === 0) break;
      received.push(...page);
    }
    expect(received.map(({ id }) => id)).toEqual(Array.from({ length: 45 }, (_, at) => at + 1));
    for (const sender of senders) {
      const own = received.filter(({ from }) => from === sender.taskId).map(({ json }) => JSON.parse(json).n);
      expect(own).toEqual(Array.from({ length: 15 }, (_, at) => at));
    }
  });

  test("each reader gets every message again until it acknowledges it", async () => {
    const job = await Job.begin(context);
    const [one, two, three, sender] = await job.members(4);
    for (let n = 0; n < 3; n++) await sender!.send(n);
    expect(await one!.ids()).toEqual([1, 2, 3]);
    expect(await two!.ids()).toEqual([1, 2, 3]);
    await one!.acknowledge(2);
    expect(await one!.ids()).toEqual([3]);
    expect(await two!.ids()).toEqual([1, 2, 3]);
    expect(await two!.ids({ limit: 2 })).toEqual([1, 2]);
    await two!.acknowledge(3);
    await one!.acknowledge(3);
    // A late reader begins with what is sent from now on: nothing older is left.
    expect(await three!.ids()).toEqual([]);
    await sender!.send("more");
    expect(await three!.ids()).toEqual([4]);
  });

  test("an acknowledgement is neither taken back nor given ahead", async () => {
    const [member] = await (await Job.begin(context)).members(1);
    await member!.send(1);
    await member!.send(2);
    await member!.acknowledge(2);
    await member!.acknowledge(2);
    for (const through of [1, 3]) {
      await expect(member!.acknowledge(through)).rejects.toMatchObject({ code: "INVALID_REQUEST" });
    }
  });

  test("a message that is sent again is there once, also where everybody has acknowledged it", async () => {
    const [sender, reader, another] = await (await Job.begin(context)).members(3);
    const again = await Promise.all([1, 2, 3, 4].map(() => sender!.send("once", { key: "a" })));
    expect(again).toEqual([1, 1, 1, 1]);
    expect(await sender!.send("twice", { key: "b" })).toBe(2);
    // Another sandbox's names are its own.
    expect(await another!.send("once", { key: "a" })).toBe(3);
    await expect(sender!.send("otherwise", { key: "a" })).rejects.toMatchObject({
      code: "IDEMPOTENCY_KEY_REUSED",
    });
    expect(await reader!.ids()).toEqual([1, 2, 3]);
    await reader!.acknowledge(3);
    expect(await sender!.send("once", { key: "a" })).toBe(1);
    await expect(sender!.send("otherwise", { key: "a" })).rejects.toMatchObject({
      code: "IDEMPOTENCY_KEY_REUSED",
    });
    expect(await reader!.ids()).toEqual([]);
  });

  test("a full channel refuses and loses nothing, and takes more once its slowest reader has acknowledged", async () => {
    const job = await Job.begin(context);
    const [sender, slow, quick] = await job.members(3);
    await slow!.declare({ capacity: 3, reads: true });
    for (let n = 0; n < 3; n++) await sender!.send(n);
    await quick!.acknowledge(3);
    await expect(sender!.send(3, { key: "fourth" })).rejects.toMatchObject({
      code: "CHANNEL_FULL",
      details: { messages: 3, slowest_reader: slow!.taskId },
    });
    expect(await slow!.ids()).toEqual([1, 2, 3]);
    await slow!.acknowledge(1);
    expect(await sender!.send(3, { key: "fourth" })).toBe(4);
    expect(await slow!.ids()).toEqual([2, 3, 4]);
    await expect(sender!.send(4)).rejects.toMatchObject({ code: "CHANNEL_FULL" });
    // A task that has ended holds nobody up.
    await slow!.end();
    await context.store.sweepChannels();
    expect(await sender!.send(4)).toBe(5);
    expect(await quick!.ids()).toEqual([4, 5]);
  });

  test("bytes bound a channel as well as numbers, and one answer stays small", async () => {
    const [sender, reader] = await (await Job.begin(context)).members(2);
    const body = "x".repeat(LIMITS.messageBytes - 2);
    const most = Math.floor(LIMITS.channelBytes / LIMITS.messageBytes);
    for (let n = 0; n < most; n++) await sender!.send(body);
    await expect(sender!.send("one more")).rejects.toMatchObject({ code: "CHANNEL_FULL" });
    expect(await reader!.ids()).toEqual([1, 2, 3, 4]);
    await reader!.acknowledge(1);
    await sender!.send("one more");
  });

  test("a declared schema judges what is sent from then on", async () => {
    const [sender, other] = await (await Job.begin(context)).members(2);
    const schema = { type: "object", required: ["score"], properties: { score: { minimum: 0 } } };
    await sender!.send("anything");
    await other!.declare({ schema });
    await sender!.send({ score: 0.5 });
    for (const [body, place] of [
      [{ score: -1 }, "/score"],
      [{}, "score"],
      [1, "the body"],
    ] as const) {
      await expect(sender!.send(body)).rejects.toMatchObject({
        code: "MESSAGE_REFUSED",
        message: expect.stringContaining(place),
      });
    }
    // Who was refused by an old rule is judged by the new one.
    await other!.declare({ schema: { type: "integer" } });
    await expect(sender!.send({ score: 0.5 })).rejects.toMatchObject({ code: "MESSAGE_REFUSED" });
    expect(await sender!.send(1)).toBe(3);
    await other!.declare({});
    expect(await sender!.send({})).toBe(4);
  });

  test("no job and no key reaches another's channel, whatever it is called", async () => {
    const key = await newKey(context.store);
    const [one] = await (await Job.begin(context, { key, name: "job" })).members(1);
    await one!.send("mine");
    const [namesake] = await (await Job.begin(context, { name: "job" })).members(1);
    expect(await namesake!.ids()).toEqual([]);
    // A task of its own is a job of its own, which no name is.
    const [alone] = await (await Job.begin(context, { key, name: null })).members(1);
    await alone!.send("mine alone");
    const [impostor] = await (await Job.begin(context, { key, name: alone!.taskId })).members(1);
    expect(await impostor!.ids()).toEqual([]);
    expect(await alone!.ids()).toEqual([1]);
    // Nor does an executor with another's lease.
    const stranger = await newExecutor(context.store);
    const hold = holdOf(one!.lease);
    await expect(
      context.store.receiveMessages(stranger, hold, { channel: "channel", after: null, limit: 1 }),
    ).rejects.toMatchObject({ code: "LEASE_NOT_FOUND" });
  });

  test("an attempt that lost its lease writes nothing, and the next one goes on where it was", async () => {
    const job = await Job.begin(context);
    const [sender, reader] = await job.members(2);
    for (let n = 0; n < 3; n++) await sender!.send(n);
    await reader!.acknowledge(1);
    const again = await reader!.nextAttempt();
    const late = [reader!.send("late"), reader!.acknowledge(3), reader!.ids(), reader!.declare({})];
    expect(await codesOf(late)).toEqual(Array(4).fill("LEASE_FENCED"));
    expect(await again.ids()).toEqual([2, 3]);
  });

  test("channels and readers are bounded", async () => {
    const [member, neighbour] = await (await Job.begin(context)).members(2);
    for (let n = 0; n < LIMITS.channelsPerJob; n++) await member!.send(1, { channel: `c${n}` });
    const refused = [
      member!.send(1, { channel: "one.more" }),
      neighbour!.receive({ channel: "one.more" }),
      neighbour!.declare({ name: "one.more" }),
    ];
    expect(await codesOf(refused)).toEqual(Array(3).fill("CHANNEL_FULL"));
    await context.sql.query(
      `insert into channel_readers (channel_id, task_id, acknowledged)
       select c.id, 'task_' || n, 0 from channels c, generate_series(1, $2::int) n
       where c.name = 'c1' and c.key_id = $1`,
      [member!.keyId, LIMITS.channelReaders],
    );
    await expect(member!.receive({ channel: "c1" })).rejects.toMatchObject({ code: "CHANNEL_FULL" });
  });

  test("a job's channels stay while a task of it has not ended, and go with the last", async () => {
    const job = await Job.begin(context);
    const [first, second] = await job.members(2);
    await first!.send("for whoever comes");
    await first!.end();
    await second!.end();
    const queued = await job.submit();
    await context.store.sweepChannels();
    const late = await job.claim(queued);
    expect(await late.ids()).toEqual([1]);
    await late.end();
    expect(await context.store.sweepChannels()).toBeGreaterThan(0);
    const left = await context.sql.query(
      "select from channels where key_id = $1 union all select from channel_messages where sender = $2",
      [job.keyId, first!.taskId],
    );
    expect(left).toEqual([]);
    // A task that comes after that is a new beginning.
    const [anew] = await job.members(1);
    expect(await anew!.send("again")).toBe(1);
  });

  test("of what everybody has acknowledged so many names stay, and no body", async () => {
    const [sender, reader] = await (await Job.begin(context)).members(2);
    await sender!.send("first", { key: "first" });
    await reader!.acknowledge(1);
    const kept = async () =>
      context.sql.query("select id, body from channel_messages where sender = $1 order by id", [
        sender!.taskId,
      ]);
    expect(await kept()).toMatchObject([{ body: null }]);
    // As if that many had gone since.
    await context.sql.query(
      `update channels set last_id = last_id + $2::int, gone_id = gone_id + $2::int where key_id = $1`,
      [sender!.keyId, LIMITS.messageKeysKept - 1],
    );
    const id = await sender!.send("last");
    await context.sql.query("update channel_readers set acknowledged = $2::bigint where task_id = $1", [
      reader!.taskId,
      id - 1,
    ]);
    await reader!.acknowledge(id);
    expect((await kept()).map((row) => Number(row.id))).toEqual([id]);
  });
});

/** Tasks of one key that name one job, each held by an executor that all share. */
class Job {
  readonly #context: Context;
  readonly #executorId: ExecutorId;
  readonly keyId: KeyId;
  readonly #name: string | null;

  private constructor(context: Context, executorId: ExecutorId, keyId: KeyId, name: string | null) {
    this.#context = context;
    this.#executorId = executorId;
    this.keyId = keyId;
    this.#name = name;
  }

  static async begin(
    context: Context,
    { key, name = "job" }: { key?: KeyId; name?: string | null } = {},
  ): Promise<Job> {
    await emptyQueueOf(context);
    return new Job(context, await newExecutor(context.store), key ?? (await newKey(context.store)), name);
  }

  async members(count: number): Promise<Member[]> {
    const members: Member[] = [];
    while (members.length < count) members.push(await this.claim(await this.submit()));
    return members;
  }

  async submit(): Promise<string> {
    return (await submit(this.#context.store, this.keyId, { job: this.#name, retries: 3 })).task.id;
  }

  async claim(taskId: string): Promise<Member> {
    const lease = await claim(this.#context.store, this.#executorId);
    if (lease.task_id !== taskId) throw new Error(`${lease.task_id} was claimed in place of ${taskId}`);
    return new Member(this.#context, this.#executorId, this.keyId, lease);
  }
}

/** What an executor does for a sandbox. */
class Member {
  readonly #context: Context;
  readonly #executorId: ExecutorId;
  readonly keyId: KeyId;
  readonly lease: Lease;

  constructor(context: Context, executorId: ExecutorId, keyId: KeyId, lease: Lease) {
    this.#context = context;
    this.#executorId = executorId;
    this.keyId = keyId;
    this.lease = lease;
  }

  get taskId(): string {
    return this.lease.task_id;
  }

  async send(value: Json, { channel = "channel", key = newId("lease") as string } = {}): Promise<number> {
    const message = { channel, key, text: JSON.stringify(value), value };
    return (await this.#context.store.sendMessage(this.#executorId, holdOf(this.lease), message)).id;
  }

  async receive({ channel = "channel", after = null as number | null, limit = 100 } = {}) {
    const from = { channel, after, limit };
    return (await this.#context.store.receiveMessages(this.#executorId, holdOf(this.lease), from)).messages;
  }

  async ids(from: Parameters<Member["receive"]>[0] = {}): Promise<number[]> {
    return (await this.receive(from)).map(({ id }) => id);
  }

  async acknowledge(through: number): Promise<void> {
    const read = { channel: "channel", through };
    await this.#context.store.acknowledgeMessages(this.#executorId, holdOf(this.lease), read);
  }

  async declare(
    rules: Partial<Parameters<typeof ChannelDeclarationSchema.parse>[0] & object>,
  ): Promise<void> {
    const declaration = ChannelDeclarationSchema.parse({ name: "channel", ...rules });
    await this.#context.store.declareChannel(this.#executorId, holdOf(this.lease), declaration);
  }

  async end(): Promise<void> {
    await complete(this.#context.store, this.#executorId, this.lease);
  }

  /** The executor is lost, and another one takes the task up. */
  async nextAttempt(): Promise<Member> {
    const { store, sql } = this.#context;
    await sql.query("update leases set expires_at = dsec_now() where id = $1", [this.lease.lease_id]);
    await store.expireLeases();
    await sql.query("update queue set available_at = dsec_now()");
    const executorId = await newExecutor(store);
    return new Member(this.#context, executorId, this.keyId, await claim(store, executorId, ROOMY));
  }
}

async function codesOf(refused: Promise<unknown>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(refused);
  return settled.map((one) => (one.status === "rejected" ? one.reason.code : one.value));
}

/** Tasks of other tests must not be claimed in place of this one's. */
const emptyQueueOf = (context: Context) =>
  context.sql.query("delete from queue where task_id in (select id from tasks)");
