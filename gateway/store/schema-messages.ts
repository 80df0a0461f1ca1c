/** The tables of messages between the tasks of a job; schema.ts has all others, and says what holds for these too. */
import { bigint, integer, pgTable, primaryKey, text, uniqueIndex } from "drizzle-orm/pg-core";
import { time } from "./schema.ts";

/** Message channels of a job: all tasks of one key that name it, or one task alone. */
export const channels = pgTable(
  "channels",
  {
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity(),
    keyId: text("key_id").notNull(),
    /** The job's name; of a task that names none, `:` and its id, which no name can be. */
    job: text("job").notNull(),
    name: text("name").notNull(),
    /** JSON text; null takes any JSON. */
    schema: text("schema"),
    capacity: integer("capacity").notNull(),
    /** Of the latest message. */
    lastId: bigint("last_id", { mode: "number" }).notNull(),
    /** Up to here every reader has acknowledged. */
    goneId: bigint("gone_id", { mode: "number" }).notNull(),
    /** How many are not gone, and the bytes of their bodies. */
    messages: integer("messages").notNull(),
    bytes: integer("bytes").notNull(),
  },
  (table) => [uniqueIndex("channels_of_job").on(table.keyId, table.job, table.name)],
);

export const channelMessages = pgTable(
  "channel_messages",
  {
    channelId: bigint("channel_id", { mode: "number" }).notNull(),
    id: bigint("id", { mode: "number" }).notNull(),
    /** The task that sent it. */
    sender: text("sender").notNull(),
    /** What the sender calls it: sent once more under this name it is the same message. */
    sendKey: text("send_key").notNull(),
    at: time("at").notNull(),
    sizeBytes: integer("size_bytes").notNull(),
    /** SHA-256 of the body, in hexadecimal. */
    digest: text("digest").notNull(),
    /** JSON text; null once it is gone, when its row only keeps name and digest. */
    body: text("body"),
  },
  (table) => [
    primaryKey({ columns: [table.channelId, table.id] }),
    uniqueIndex("channel_messages_sent").on(table.channelId, table.sender, table.sendKey),
  ],
);

/** How far each task has acknowledged a channel that it reads. */
export const channelReaders = pgTable(
  "channel_readers",
  {
    channelId: bigint("channel_id", { mode: "number" }).notNull(),
    taskId: text("task_id").notNull(),
    acknowledged: bigint("acknowledged", { mode: "number" }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.channelId, table.taskId] })],
);
