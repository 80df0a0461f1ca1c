import { hash } from "node:crypto";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import type { MessageBus } from "../messages/bus.ts";
import type { EventLog } from "./event-log.ts";

/** The bus as one sandbox uses it: what it sends, receives and acknowledges is an event. */
export function recordedBus(bus: MessageBus, log: EventLog): MessageBus {
  return {
    ...bus,
    async send(job, channel, from, json) {
      const id = await bus.send(job, channel, from, json);
      log.append("message", { op: "send", channel, items: [{ id, body_digest: digestOfText(json) }] });
      return id;
    },
    async receive(job, channel, reader, options) {
      const received = await bus.receive(job, channel, reader, options);
      const items = received.map(({ id, from, text }) => ({ id, from, body_digest: digestOfText(text) }));
      if (items.length > 0) log.append("message", { op: "receive", channel, items });
      return received;
    },
    async acknowledge(job, channel, reader, through) {
      await bus.acknowledge(job, channel, reader, through);
      log.append("message", { op: "acknowledge", channel, items: [], through });
    },
  };
}

function digestOfText(text: string | Uint8Array): Digest {
  return digestOf(hash("sha256", text, "buffer"));
}
