/**
 * Messages between the sandboxes of one job. A channel is a log: every reader gets every message, in order, from its own
 * place on, and gets it again until it acknowledges it. A message goes once all readers have acknowledged it; a full
 * channel refuses what is sent and loses nothing.
 */
import { DsecError } from "#core/errors.ts";
import type { Json } from "#core/json.ts";
import { type Check, compileSchema } from "#core/json-schema.ts";
import { LIMITS } from "#core/limits.ts";
import { type ChannelDeclaration, ChannelDeclarationSchema, ChannelNameSchema } from "#core/wire/memory.ts";
import { exactJson } from "../memory/exact-json.ts";
import { check } from "../memory/keys.ts";
import type { SqliteDatabase } from "../memory/sqlite-database.ts";
import { Waiters } from "./waiters.ts";

/** `text` is the body's exact JSON. */
export type Message = { id: number; from: string; atMs: number; text: string };

export type ReceiveOptions = {
  /** Give messages with greater ids; null is the reader's acknowledged place. */
  after?: number | null;
  limit?: number;
  /** How long to wait for a first message, in milliseconds. */
  waitMs?: number;
  signal?: AbortSignal;
};

/** `job` names whatever may talk together and carries its owner; it comes from the executor, never from a sandbox. */
export type MessageBus = {
  /**
   * Makes a channel with its rules before its first use, or gives an existing one these rules from now on.
   * @throws INVALID_REQUEST for a schema that this subset does not know
   */
  declare(job: string, declaration: ChannelDeclaration): Promise<void>;
  /**
   * Appends a message and returns its id. A channel that nobody declared takes any JSON.
   * @throws MALFORMED_JSON, BODY_TOO_LARGE, MESSAGE_REFUSED (not what the schema says), CHANNEL_FULL
   */
  send(job: string, channel: string, from: string, json: Uint8Array | string): Promise<number>;
  /** Messages in order, none where the time ran out. The first call makes the caller a reader of what is still there. */
  receive(job: string, channel: string, reader: string, options?: ReceiveOptions): Promise<Message[]>;
  /** The reader has dealt with everything up to the id. Going back is refused with INVALID_REQUEST. */
  acknowledge(job: string, channel: string, reader: string, through: number): Promise<void>;
  /** The sandbox is gone: nothing is kept for it any longer. */
  leave(job: string, reader: string): Promise<void>;
  /** Removes the job's channels; who still waits gets nothing. */
  endJob(job: string): Promise<void>;
};

export function createMessageBus(database: SqliteDatabase, now: () => number = Date.now): MessageBus {
  const sql = prepare(database);
  const waiters = new Waiters();
  /** Compiled schemas by their text: many channels share few. */
  const checks = new Map<string, Check>();

  function checkOf(schema: string, what: string): Check {
    let compiled = checks.get(schema);
    if (compiled === undefined) {
      compiled = compileSchema(JSON.parse(schema) as Json, what);
      if (checks.size >= COMPILED_SCHEMAS) checks.clear();
      checks.set(schema, compiled);
    }
    return compiled;
  }

  function open(job: string, name: string): Channel {
    const row = sql.findChannel.get(job, name) as Channel | undefined;
    if (row !== undefined) return row;
    const { count } = sql.countChannels.get(job) as { count: number };
    if (count >= LIMITS.channelsPerJob) throw tooManyChannels(job, name);
    return sql.addChannel.get(job, name, LIMITS.channelMessages) as Channel;
  }

  function addReader(channel: Channel, reader: string): void {
    const { count } = sql.countReaders.get(channel.id) as { count: number };
    if (count >= LIMITS.channelReaders) throw tooManyReaders(channel.name);
    // A new reader begins with what is still there.
    const { first } = sql.firstMessage.get(channel.id) as { first: number | null };
    sql.addReader.run(channel.id, reader, (first ?? channel.last_id + 1) - 1);
  }

  function acknowledged(channel: Channel, reader: string): number {
    let row = sql.findReader.get(channel.id, reader) as { acknowledged: number } | undefined;
    if (row === undefined) {
      addReader(channel, reader);
      row = sql.findReader.get(channel.id, reader) as { acknowledged: number };
    }
    return row.acknowledged;
  }

  /** Removes what every reader has acknowledged. Without readers everything stays for the first one. */
  function trim(channelId: number): void {
    const { through } = sql.leastAcknowledged.get(channelId) as { through: number | null };
    if (through === null) return;
    const { count, bytes } = sql.sizeThrough.get(channelId, through) as {
      count: number;
      bytes: number | null;
    };
    if (count === 0) return;
    sql.removeThrough.run(channelId, through);
    sql.shrink.run(count, bytes, channelId);
  }

  return {
    async declare(job, declaration) {
      check(
        ChannelDeclarationSchema,
        declaration,
        `channel ${JSON.stringify(declaration.name).slice(0, 80)}`,
      );
      const { name, schema, readers, capacity } = ChannelDeclarationSchema.parse(declaration);
      const text = schema === undefined ? null : JSON.stringify(schema);
      if (text !== null) checkOf(text, `channel ${name}`);
      await database.run(() => {
        const channel = open(job, name);
        sql.setRules.run(text, capacity, channel.id);
        for (const reader of readers) acknowledged(channel, reader);
      });
    },

    async send(job, channel, from, json) {
      check(ChannelNameSchema, channel, "channel name");
      const bytes = typeof json === "string" ? Buffer.byteLength(json) : json.length;
      if (bytes > LIMITS.messageBytes) throw tooLarge(channel, bytes);
      const { text, value } = exactJson(json, `the message to channel ${channel}`, "exact");
      const result = await database.run(() => {
        const row = open(job, channel);
        const why = row.schema === null ? null : checkOf(row.schema, `channel ${channel}`)(value);
        if (why !== null) return { state: "refused", why } as const;
        const size = Buffer.byteLength(text);
        if (row.messages >= row.capacity || row.bytes + size > LIMITS.channelBytes) {
          const slowest = sql.slowestReader.get(row.id) as { name: string } | undefined;
          return { state: "full", messages: row.messages, slowest: slowest?.name ?? null } as const;
        }
        const id = row.last_id + 1;
        sql.addMessage.run(row.id, id, from, text, now());
        sql.grow.run(id, size, row.id);
        return { state: "sent", id } as const;
      });
      if (result.state === "refused") {
        throw new DsecError("MESSAGE_REFUSED", `message to channel ${channel}: ${result.why}`);
      }
      if (result.state === "full") throw full(channel, result.messages, result.slowest);
      waiters.wake(topic(job, channel));
      return result.id;
    },

    async receive(
      job,
      channel,
      reader,
      { after = null, limit = LIMITS.messagesPerReceive, waitMs = 0, signal } = {},
    ) {
      check(ChannelNameSchema, channel, "channel name");
      const deadline = performance.now() + waitMs;
      for (;;) {
        // Before the look, so that what is sent in between is not missed.
        const restMs = deadline - performance.now();
        const stop = new AbortController();
        const woken = waiters.wait(
          topic(job, channel),
          Math.max(0, restMs),
          signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal]),
        );
        try {
          const messages = await database.run(() => {
            const row = open(job, channel);
            const place = acknowledged(row, reader);
            return take(sql.messages.iterate(row.id, after ?? place), limit);
          });
          if (messages.length > 0 || restMs <= 0 || signal?.aborted) return messages;
          await woken;
        } finally {
          stop.abort();
        }
        if (signal?.aborted) return [];
      }
    },

    async acknowledge(job, channel, reader, through) {
      check(ChannelNameSchema, channel, "channel name");
      const result = await database.run(() => {
        const row = open(job, channel);
        const place = acknowledged(row, reader);
        if (through < place || through > row.last_id) return { place, lastId: row.last_id };
        sql.setAcknowledged.run(through, row.id, reader);
        trim(row.id);
        return null;
      });
      if (result === null) return;
      throw new DsecError(
        "INVALID_REQUEST",
        `channel ${channel}: ${reader} cannot acknowledge through ${through}; it may from ${result.place} to ${result.lastId}`,
      );
    },

    async leave(job, reader) {
      await database.run(() => {
        for (const { id } of sql.channelsOf.all(job, reader) as { id: number }[]) {
          sql.removeReader.run(id, reader);
          trim(id);
        }
      });
    },

    async endJob(job) {
      await database.run(() => sql.removeChannels.run(job));
    },
  };
}

type Channel = {
  id: number;
  name: string;
  schema: string | null;
  capacity: number;
  last_id: number;
  messages: number;
  bytes: number;
};

const COMPILED_SCHEMAS = 256;

function topic(job: string, channel: string): string {
  return `${channel} ${job}`;
}

/** As many as were asked for, or as fill one page; at least one. */
function take(rows: Iterable<unknown>, limit: number): Message[] {
  const messages: Message[] = [];
  let bytes = 0;
  for (const { id, sender, body, at_ms } of rows as Iterable<MessageRow>) {
    bytes += Buffer.byteLength(body);
    if (messages.length === limit || (messages.length > 0 && bytes > LIMITS.memoryPageBytes)) break;
    messages.push({ id, from: sender, atMs: at_ms, text: body });
  }
  return messages;
}

type MessageRow = { id: number; sender: string; body: string; at_ms: number };

function prepare({ connection }: SqliteDatabase) {
  const channel = "id, name, schema, capacity, last_id, messages, bytes";
  return {
    findChannel: connection.prepare(`select ${channel} from channel where job = ? and name = ?`),
    countChannels: connection.prepare("select count(*) as count from channel where job = ?"),
    addChannel: connection.prepare(
      `insert into channel (job, name, capacity) values (?, ?, ?) returning ${channel}`,
    ),
    setRules: connection.prepare("update channel set schema = ?, capacity = ? where id = ?"),
    grow: connection.prepare(
      "update channel set last_id = ?, messages = messages + 1, bytes = bytes + ? where id = ?",
    ),
    shrink: connection.prepare("update channel set messages = messages - ?, bytes = bytes - ? where id = ?"),
    removeChannels: connection.prepare("delete from channel where job = ?"),
    channelsOf: connection.prepare(
      "select id from channel join reader on channel_id = id where job = ? and reader.name = ?",
    ),

    addMessage: connection.prepare(
      "insert into message (channel_id, id, sender, body, at_ms) values (?, ?, ?, ?, ?)",
    ),
    messages: connection.prepare(
      "select id, sender, body, at_ms from message where channel_id = ? and id > ? order by id",
    ),
    firstMessage: connection.prepare("select min(id) as first from message where channel_id = ?"),
    sizeThrough: connection.prepare(
      "select count(*) as count, sum(octet_length(body)) as bytes from message where channel_id = ? and id <= ?",
    ),
    removeThrough: connection.prepare("delete from message where channel_id = ? and id <= ?"),

    findReader: connection.prepare("select acknowledged from reader where channel_id = ? and name = ?"),
    countReaders: connection.prepare("select count(*) as count from reader where channel_id = ?"),
    addReader: connection.prepare("insert into reader (channel_id, name, acknowledged) values (?, ?, ?)"),
    setAcknowledged: connection.prepare(
      "update reader set acknowledged = ? where channel_id = ? and name = ?",
    ),
    leastAcknowledged: connection.prepare(
      "select min(acknowledged) as through from reader where channel_id = ?",
    ),
    slowestReader: connection.prepare(
      "select name from reader where channel_id = ? order by acknowledged, name limit 1",
    ),
    removeReader: connection.prepare("delete from reader where channel_id = ? and name = ?"),
  };
}

function full(channel: string, messages: number, slowest: string | null): DsecError {
  const holder = slowest === null ? "nobody reads it" : `${slowest} has acknowledged least`;
  return new DsecError(
    "CHANNEL_FULL",
    `channel ${channel} holds ${messages} messages and takes no more; ${holder}; send again later`,
    { details: { retry_after_ms: 100, messages, slowest_reader: slowest } },
  );
}

function tooLarge(channel: string, bytes: number): DsecError {
  return new DsecError(
    "BODY_TOO_LARGE",
    `message to channel ${channel}: ${bytes} bytes, at most ${LIMITS.messageBytes}; write a file and send its path`,
    { details: { max_bytes: LIMITS.messageBytes } },
  );
}

function tooManyChannels(job: string, name: string): DsecError {
  return new DsecError(
    "CHANNEL_FULL",
    `job ${job} has ${LIMITS.channelsPerJob} channels and takes no other; channel ${name} was not made`,
  );
}

function tooManyReaders(channel: string): DsecError {
  return new DsecError(
    "CHANNEL_FULL",
    `channel ${channel} has ${LIMITS.channelReaders} readers and takes no other`,
  );
}
