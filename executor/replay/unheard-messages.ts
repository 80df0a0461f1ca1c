import type { MessageGateway } from "../messages/bus.ts";
import { pause } from "../retry.ts";

/**
 * Messages of a sandbox that is alone in the world: each channel numbers what is sent and nobody hears it. A recording that
 * received any is not replayed, so nothing comes in either.
 */
export function unheardMessages(): MessageGateway {
  const sent = new Map<string, number>();
  return {
    async declareChannel() {},
    async sendMessage(_hold, channel) {
      const id = (sent.get(channel) ?? 0) + 1;
      sent.set(channel, id);
      return id;
    },
    async receiveMessages(_hold, _channel, { waitMs }, signal) {
      await pause(waitMs, signal);
      return [];
    },
    async acknowledgeMessages() {},
  };
}
