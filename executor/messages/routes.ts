import { z } from "zod";
import { DsecError } from "#core/errors.ts";
import { parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { MessageAcknowledgeSchema } from "#core/wire/memory.ts";
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

/** Who talks: set by the executor for each socket. */
export type Member = { owner: string; jobId: string; member: string };

/** The name of a job on the bus, for the executor's own calls: no two owners share one. */
export function busJob({ owner, jobId }: Pick<Member, "owner" | "jobId">): string {
  return `${encodeURIComponent(owner)}:${jobId}`;
}

/** `/v1/messages/{channel}` and `/v1/messages/{channel}/ack`; the table is in memory/routes.ts. */
export function messageRoutes(
  messages: MessageBus,
  identity: Member,
): (exchange: Exchange) => Promise<Reply> {
  const job = busJob(identity);
  const { member } = identity;

  return async (exchange) => {
    const [channel = "", action, ...rest] = nameInPath(exchange, "/v1/messages/").split("/");
    if (rest.length > 0 || (action !== undefined && action !== "ack")) {
      throw new DsecError("NOT_FOUND", `${exchange.path.slice(0, 200)} is neither a channel nor its ack`);
    }
    if (action === "ack") {
      if (exchange.method !== "POST") throw methodNotAllowed(exchange, "POST");
      readQuery(exchange, NO_QUERY);
      const body = parseJson(await readJsonBody(exchange, 1024), "the request body");
      const { through } = judge(MessageAcknowledgeSchema, body, "the request body");
      await messages.acknowledge(job, channel, member, through);
      return NO_CONTENT;
    }
    switch (exchange.method) {
      case "POST": {
        readQuery(exchange, NO_QUERY);
        const id = await messages.send(
          job,
          channel,
          member,
          await readJsonBody(exchange, LIMITS.messageBytes),
        );
        return jsonReply(JSON.stringify({ id }), 201);
      }
      case "GET": {
        const { after, limit, wait_ms: waitMs } = readQuery(exchange, ReceiveQuery);
        const options = { after, limit, waitMs, signal: exchange.signal };
        const received = await messages.receive(job, channel, member, options);
        return jsonReply(`{"items":[${received.map(messageText).join(",")}]}`);
      }
      default:
        throw methodNotAllowed(exchange, "GET or POST");
    }
  };
}

const ReceiveQuery = z.strictObject({
  after: z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).nullable().default(null),
  limit: z.coerce.number().int().min(1).max(LIMITS.messagesPerReceive).default(LIMITS.messagesPerReceive),
  wait_ms: z.coerce.number().int().min(0).max(LIMITS.longPollMs).default(0),
});

function messageText({ id, from, atMs, text }: Message): string {
  const members = JSON.stringify({ id, from, at: new Date(atMs).toISOString() });
  return `${members.slice(0, -1)},"body":${text}}`;
}
