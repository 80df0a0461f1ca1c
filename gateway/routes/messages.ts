/** Messages between the sandboxes of a job, for the executors that run them: what they may name is their leases' job alone. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import { parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { FenceSchema } from "#core/wire/common.ts";
import {
  ChannelNameSchema,
  LeaseAcknowledgeSchema,
  LeaseChannelSchema,
  LeaseMessagesQuerySchema,
  LeaseMessagesSchema,
  MessageSentSchema,
} from "#core/wire/messages.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { json, noContent } from "../reply.ts";
import { readBytes } from "../request.ts";
import { holdOf, LeaseParams } from "./lease-ends.ts";
import { longPoll } from "./long-poll.ts";
import { idempotencyKeyOf } from "./tasks.ts";

const ChannelParams = LeaseParams.extend({ channel: ChannelNameSchema });
const SendQuery = z.strictObject({ fence: z.coerce.number().pipe(FenceSchema) });
const SendHeaders = z.object({
  "idempotency-key": z.string().min(1).max(LIMITS.idempotencyKeyChars).optional(),
});

export function messageRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store } = gateway;
  const access = ["executor"] as const;
  const tag = "leases";
  const path = "/v1/leases/{id}/messages/{channel}";
  /** By lease and name, of those that were read lately. An id that is old wakes nobody: then polling finds what is there. */
  const channelIds = new Map<string, number>();

  serve(
    app,
    gateway,
    {
      method: "put",
      path,
      tag,
      summary: "Declare a channel",
      description:
        "Makes the channel with its rules, or gives an existing one these rules from now on. With `reads` the lease's task is a reader from here on.",
      access,
      params: ChannelParams,
      body: LeaseChannelSchema,
      responses: { 204: { description: "declared", body: null } },
    },
    async (c, { caller, params, body: { fence, ...rules } }) => {
      const hold = holdOf(params.id, fence);
      await store.declareChannel(caller.executorId, hold, { name: params.channel, ...rules });
      return noContent(c);
    },
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path,
      tag,
      summary: "Send a message",
      description:
        "The body is the message, any JSON that the channel's schema takes, and is kept as it is written. Sent again with its Idempotency-Key it is the same message.",
      access,
      params: ChannelParams,
      query: SendQuery,
      headers: SendHeaders,
      body: "bytes",
      responses: { 201: { description: "its id", body: MessageSentSchema } },
    },
    async (c, { caller, params, query }) => {
      const { channel } = params;
      const key = idempotencyKeyOf(c) ?? crypto.randomUUID();
      const bytes = await readBytes(c, LIMITS.messageBytes);
      const value = parseJson(bytes, `the message to channel ${channel}`);
      const text = new TextDecoder().decode(bytes);
      const message = { channel, key, text, value };
      return json(
        c,
        await store.sendMessage(caller.executorId, holdOf(params.id, query.fence), message),
        201,
      );
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path,
      tag,
      summary: "Receive messages",
      description:
        "Long poll: in order what the lease's task has not acknowledged, or what follows on `after`, and nothing after `wait_ms`. Messages come again until they are acknowledged.",
      access,
      params: ChannelParams,
      query: LeaseMessagesQuerySchema,
      waits: true,
      responses: { 200: { description: "messages", body: LeaseMessagesSchema } },
    },
    async (c, { caller, params, query: { fence, wait_ms: waitMs, after = null, limit } }) => {
      const from = { channel: params.channel, after, limit };
      const place = `${params.id} ${params.channel}`;
      let channelId = channelIds.get(place);
      const look = async () => {
        const { messages, ...found } = await store.receiveMessages(
          caller.executorId,
          holdOf(params.id, fence),
          from,
        );
        channelId = found.channelId;
        remember(channelIds, place, channelId);
        return messages.length > 0 ? messages : null;
      };
      // What is waited for is known from an earlier look: the first one of a reader is made for it.
      const first = channelId !== undefined && waitMs > 0 ? null : await look();
      if (first !== null || waitMs === 0) return json(c, { items: first ?? [] });
      const topic = `messages:${channelId!}` as const;
      const found = await longPoll(gateway, c, { topic, waitMs, look });
      return json(c, { items: found ?? [] });
    },
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: `${path}/ack`,
      tag,
      summary: "Acknowledge messages",
      description: "The lease's task has dealt with everything up to `through`; nobody takes that back.",
      access,
      params: ChannelParams,
      body: LeaseAcknowledgeSchema,
      responses: { 204: { description: "noted", body: null } },
    },
    async (c, { caller, params, body: { fence, through } }) => {
      const hold = holdOf(params.id, fence);
      await store.acknowledgeMessages(caller.executorId, hold, { channel: params.channel, through });
      return noContent(c);
    },
  );

  return app;
}

const CHANNEL_IDS_MAX = 10_000;

function remember(ids: Map<string, number>, place: string, id: number): void {
  if (ids.size >= CHANNEL_IDS_MAX && !ids.has(place)) ids.clear();
  ids.set(place, id);
}
