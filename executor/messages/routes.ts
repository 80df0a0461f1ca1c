import { DsecError } from "#core/errors.ts";
import { parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { MessageAcknowledgeSchema, MessagesQuerySchema } from "#core/wire/messages.ts";
import type { Exchange, Reply } from "../channel/exchange.ts";
import {
  jsonReply,
  judge,
  methodNotAllowed,
  NO_CONTENT,
  NO_QUERY,
  nameInPath,
  readJsonBody,
  readQuery,
} from "../memory/http.ts";
import type { Message, MessageBus } from "./bus.ts";

/** `/v1/messages/{channel}` and `/v1/messages/{channel}/ack`; the table is in memory/routes.ts. */
export function messageRoutes(messages: MessageBus): (exchange: Exchange) => Promise<Reply> {
  return async (exchange) => {
    const [channel = "", action, ...rest] = nameInPath(exchange, "/v1/messages/").split("/");
    if (rest.length > 0 || (action !== undefined && action !== "ack")) {
      throw new DsecError("NOT_FOUND", `${exchange.path.slice(0, 200)} is neither a channel nor its ack`);
    }
    const { signal } = exchange;
    if (action === "ack") {
      if (exchange.method !== "POST") throw methodNotAllowed(exchange, "POST");
      readQuery(exchange, NO_QUERY);
      const body = parseJson(await readJsonBody(exchange, 1024), "the request body");
      const { through } = judge(MessageAcknowledgeSchema, body, "the request body");
      await messages.acknowledge(channel, through, signal);
      return NO_CONTENT;
    }
    switch (exchange.method) {
      case "POST": {
        readQuery(exchange, NO_QUERY);
        const body = await readJsonBody(exchange, LIMITS.messageBytes);
        const id = await messages.send(channel, body, { key: keyOf(exchange), signal });
        return jsonReply(JSON.stringify({ id }), 201);
      }
      case "GET": {
        const { after = null, limit, wait_ms: waitMs } = readQuery(exchange, MessagesQuerySchema);
        const received = await messages.receive(channel, { after, limit, waitMs, signal });
        return jsonReply(`{"items":[${received.map(messageText).join(",")}]}`);
      }
      default:
        throw methodNotAllowed(exchange, "GET or POST");
    }
  };
}

/** Room is left for what the bus puts before it. */
const KEY_CHARS_MAX = LIMITS.idempotencyKeyChars - 10;

function keyOf(exchange: Exchange): string | null {
  const key = exchange.header("idempotency-key");
  if (key === null || (/^[\x21-\x7e]+$/.test(key) && key.length <= KEY_CHARS_MAX)) return key;
  throw new DsecError(
    "INVALID_REQUEST",
    `Idempotency-Key must be 1 to ${KEY_CHARS_MAX} visible ASCII characters without spaces, such as a UUID`,
  );
}

function messageText({ id, from, at, json }: Message): string {
  const members = JSON.stringify({ id, from, at });
  return `${members.slice(0, -1)},"body":${json}}`;
}
