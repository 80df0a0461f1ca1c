import { hash } from "node:crypto";
import { digestOf } from "#core/json.ts";
import type { MessageBus } from "../messages/bus.ts";
import type { EventLog } from "./event-log.ts";

/** The bus as one sandbox uses it: what it sends, receives and acknowledges is an event. */
export function recordedBus(bus: MessageBus, log: EventLog): MessageBus {
  return {
    ...bus,
    async send(job, channel, from, json) {
      const id = await bus.send(job, channel, from, json);
      const digest = digestOf(hash("sha256", json, "buffer"));
      log.append("message", { op: "send", channel, id, digest });
      return id;
    },
    async receive(job, channel, reader, options) {
      const received = await bus.receive(job, channel, reader, options);
      const messages = received.map(({ id, from, text }) => ({
        id,
        from,
        digest: digestOf(hash("sha256", text, "buffer")),
      }));
      if (messages.length > 0) log.append("message", { op: "receive", channel, messages });
      return received;
    },
    async acknowledge(job, channel, reader, through) {
      await bus.acknowledge(job, channel, reader, through);
      log.append("message", { op: "acknowledge", channel, through });
    },
  };
}
