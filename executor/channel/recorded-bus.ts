import { contentDigest } from "../content-digest.ts";
import type { MessageBus } from "../messages/bus.ts";
import type { EventLog } from "./event-log.ts";

/** The bus as one sandbox uses it: what it sends, receives and acknowledges is an event. */
export function recordedBus(bus: MessageBus, log: EventLog): MessageBus {
  return {
    ...bus,
    async send(channel, json, options) {
      const id = await bus.send(channel, json, options);
      log.append("message", { op: "send", channel, items: [{ id, body_digest: contentDigest(json) }] });
      return id;
    },
    async receive(channel, options) {
      const received = await bus.receive(channel, options);
      const items = received.map(({ id, from, json }) => ({ id, from, body_digest: contentDigest(json) }));
      if (items.length > 0) log.append("message", { op: "receive", channel, items });
      return received;
    },
    async acknowledge(channel, through, signal) {
      await bus.acknowledge(channel, through, signal);
      log.append("message", { op: "acknowledge", channel, items: [], through });
    },
  };
}
