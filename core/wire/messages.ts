/** Messages between the sandboxes of one job: as a task declares them, and as they cross sockets and the gateway. */
import { z } from "zod";
import { DsecError } from "../errors.ts";
import type { Json } from "../json.ts";
import { compileSchema } from "../json-schema.ts";
import { LIMITS } from "../limits.ts";
import { FenceSchema, strict, TimeSchema } from "./common.ts";

export const ChannelNameSchema = z
  .string()
  .regex(
    /^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/,
    "must be up to 100 letters, digits, . _ - and begin with no dot or dash",
  );

/** What a task says of a channel before it uses it: from then on it holds for every task of the job. */
export const ChannelDeclarationSchema = strict({
  name: ChannelNameSchema,
  /** JSON Schema of its messages, in the subset of docs/channel.md; null takes any JSON. */
  schema: z
    .unknown()
    .default(null)
    .superRefine((schema, context) => {
      const why = faultOf(schema);
      if (why !== null) context.addIssue({ code: "custom", message: why });
    }),
  /** Messages that not every reader has acknowledged. */
  capacity: z.number().int().min(1).max(LIMITS.channelMessages).default(LIMITS.channelMessages),
  /** The task reads it from its sandbox's start on, not from its first receive on. */
  reads: z.boolean().default(false),
});
export type ChannelDeclaration = z.output<typeof ChannelDeclarationSchema>;

export const ChannelsSchema = z
  .array(ChannelDeclarationSchema)
  .max(LIMITS.channelsPerTask)
  .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, "a channel's name is repeated");

/** Ids count up by one in each channel and are never used again. */
const MessageIdSchema = z.number().int().min(1).max(Number.MAX_SAFE_INTEGER);
/** The greatest id that has been dealt with; 0 is none. */
const Through = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

export const MessageSentSchema = z.object({ id: MessageIdSchema });

/** As a sandbox gets it; `from` is the task that sent it. */
export const MessageSchema = z.object({
  id: MessageIdSchema,
  from: z.string(),
  at: TimeSchema,
  body: z.json(),
});
export const MessageListSchema = z.object({ items: z.array(MessageSchema) });
export const MessageAcknowledgeSchema = strict({ through: Through });

/** Where a reader goes on, and how long it waits for a first message. */
export const MessagesQuerySchema = z.strictObject({
  /** Messages with greater ids; without it, those that the reader has not acknowledged. */
  after: z.coerce.number().pipe(Through).optional(),
  limit: z.coerce.number().int().min(1).max(LIMITS.messagesPerReceive).default(LIMITS.messagesPerReceive),
  wait_ms: z.coerce.number().int().min(0).max(LIMITS.longPollMs).default(0),
});

export const LeaseMessagesQuerySchema = MessagesQuerySchema.extend({
  fence: z.coerce.number().pipe(FenceSchema),
});
/** `json` is the body's text as it was sent: a number that is written 1.0 stays apart from 1. */
export const LeaseMessagesSchema = z.object({
  items: z.array(MessageSchema.omit({ body: true }).extend({ json: z.string() })),
});
export const LeaseAcknowledgeSchema = MessageAcknowledgeSchema.extend({ fence: FenceSchema });
export const LeaseChannelSchema = ChannelDeclarationSchema.omit({ name: true }).extend({
  fence: FenceSchema,
});

function faultOf(schema: unknown): string | null {
  if (schema === null) return null;
  try {
    compileSchema(schema as Json, "channel");
    return null;
  } catch (error) {
    if (error instanceof DsecError) return error.message;
    throw error;
  }
}
