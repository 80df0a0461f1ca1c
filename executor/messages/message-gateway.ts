import type { Hold } from "#core/wire/leases.ts";
import { LeaseMessagesSchema, MessageSentSchema } from "#core/wire/messages.ts";
import type { GatewayCalls } from "../gateway-calls.ts";
import type { MessageGateway } from "./bus.ts";

/** The gateway's routes for messages (docs/messages.md). */
export function messageGateway(gateway: Pick<GatewayCalls, "json" | "done">): MessageGateway {
  return {
    async declareChannel(hold, { name, ...rules }, signal) {
      await gateway.done("PUT", pathOf(hold, name), { json: { fence: hold.fence, ...rules }, signal });
    },

    async sendMessage(hold, channel, key, text, signal) {
      const path = `${pathOf(hold, channel)}?fence=${hold.fence}`;
      const body = new TextEncoder().encode(text);
      const sent = await gateway.json(MessageSentSchema, "POST", path, {
        ...{ body, contentType: "application/json", idempotencyKey: key, signal },
      });
      return sent.id;
    },

    async receiveMessages(hold, channel, { after, limit, waitMs }, signal) {
      const from = after === null ? "" : `&after=${after}`;
      const path = `${pathOf(hold, channel)}?fence=${hold.fence}&limit=${limit}&wait_ms=${waitMs}${from}`;
      return (await gateway.json(LeaseMessagesSchema, "GET", path, { signal, waitMs })).items;
    },

    async acknowledgeMessages(hold, channel, through, signal) {
      await gateway.done("POST", `${pathOf(hold, channel)}/ack`, {
        json: { fence: hold.fence, through },
        signal,
      });
    },
  };
}

function pathOf({ lease_id }: Hold, channel: string): string {
  return `/v1/leases/${lease_id}/messages/${channel}`;
}
