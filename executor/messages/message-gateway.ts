import type { z } from "zod";
import type { Hold } from "#core/wire/leases.ts";
import { LeaseMessagesSchema, MessageSentSchema } from "#core/wire/messages.ts";
import type { CallOptions } from "../gateway-client.ts";
import type { MessageGateway } from "./bus.ts";

/** How the executor calls its gateway, once. */
type Transport = {
  json<Schema extends z.ZodType>(
    schema: Schema,
    method: string,
    path: string,
    options: CallOptions,
  ): Promise<z.output<Schema>>;
  call(method: string, path: string, options: CallOptions): Promise<unknown>;
};

/** The gateway's routes for messages (docs/messages.md). */
export function messageGateway({ json, call }: Transport): MessageGateway {
  return {
    async declareChannel(hold, { name, ...rules }, signal) {
      await call("PUT", pathOf(hold, name), { json: { fence: hold.fence, ...rules }, signal });
    },

    async sendMessage(hold, channel, key, text, signal) {
      const path = `${pathOf(hold, channel)}?fence=${hold.fence}`;
      const body = new TextEncoder().encode(text);
      const sent = await json(MessageSentSchema, "POST", path, {
        ...{ body, contentType: "application/json", idempotencyKey: key, signal },
      });
      return sent.id;
    },

    async receiveMessages(hold, channel, { after, limit, waitMs }, signal) {
      const from = after === null ? "" : `&after=${after}`;
      const path = `${pathOf(hold, channel)}?fence=${hold.fence}&limit=${limit}&wait_ms=${waitMs}${from}`;
      return (await json(LeaseMessagesSchema, "GET", path, { signal, waitMs })).items;
    },

    async acknowledgeMessages(hold, channel, through, signal) {
      await call("POST", `${pathOf(hold, channel)}/ack`, { json: { fence: hold.fence, through }, signal });
    },
  };
}

function pathOf({ lease_id }: Hold, channel: string): string {
  return `/v1/leases/${lease_id}/messages/${channel}`;
}
