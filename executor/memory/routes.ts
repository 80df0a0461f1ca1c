/**
 * Memory and messages over HTTP, as one pure function that the tool channel mounts for each sandbox:
 *
 * | request | what it does |
 * | --- | --- |
 * | `GET /v1/memory/{key}` | the value itself, its version as ETag; `If-None-Match: "3"` answers 304 where it still is that |
 * | `PUT /v1/memory/{key}?ttl_ms=` | stores the body, for so long (`keep`: for what was left); `If-Match: "3"` only over version 3, `If-None-Match: *` only where nothing is |
 * | `DELETE /v1/memory/{key}` | `If-Match` as above |
 * | `GET /v1/memory?prefix=&cursor=&limit=` | entries in order of their keys |
 * | `POST /v1/memory` `{text}` | entries that hold the text |
 * | `DELETE /v1/memory?clear=true` | empties the namespace |
 * | `POST /v1/messages/{channel}` | sends the body |
 * | `GET /v1/messages/{channel}?after=&limit=&wait_ms=` | what the caller has not acknowledged |
 * | `POST /v1/messages/{channel}/ack` `{through}` | acknowledges |
 *
 * `namespace=` in the query names a shared namespace. Bodies and values are JSON, kept exactly as they are written.
 */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { DsecError } from "#core/errors.ts";
import { parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { MemoryNameSchema, MemorySearchSchema } from "#core/wire/memory.ts";
import type { Exchange, Reply, Routes } from "../channel/exchange.ts";
import type { MessageBus } from "../messages/bus.ts";
import { messageRoutes } from "../messages/routes.ts";
import {
  failureReply,
  jsonReply,
  judge,
  methodNotAllowed,
  NO_CONTENT,
  NO_QUERY,
  nameInPath,
  notFound,
  readCondition,
  readJsonBody,
  readOrigin,
  readQuery,
} from "./http.ts";
import type { Memory, MemoryIdentity, MemoryView, Page } from "./memory.ts";
import type { Entry, Expectation } from "./store.ts";

export type MemoryRoutesOptions = {
  memory: Memory;
  /** Of the sandbox behind the socket. */
  messages: MessageBus;
  /** That sandbox, as the executor knows it. */
  identity: MemoryIdentity;
  newRequestId?: () => string;
};

export function createMemoryRoutes(options: MemoryRoutesOptions): Routes {
  const { memory, messages, identity, newRequestId = () => `req_${randomUUID()}` } = options;
  const answerMessages = messageRoutes(messages);

  function answer(exchange: Exchange): Promise<Reply> {
    const { path } = exchange;
    const view = (name: string | undefined) => memory.view(identity, name ?? null, readOrigin(exchange));
    if (path.startsWith(KEYS)) return answerKey(exchange, view);
    if (path === "/v1/memory") return answerNamespace(exchange, view);
    if (path.startsWith("/v1/messages/")) return answerMessages(exchange);
    throw notFound(exchange);
  }

  return async (exchange) => {
    try {
      return await answer(exchange);
    } catch (error) {
      return failureReply(error, newRequestId());
    }
  };
}

const KEYS = "/v1/memory/";

type ViewOf = (name: string | undefined) => MemoryView;

const namespace = MemoryNameSchema.optional();
const ValueQuery = z.strictObject({ namespace });
const PutQuery = z.strictObject({
  namespace,
  ttl_ms: z
    .union([z.literal("keep"), z.coerce.number().int().min(1).max(LIMITS.memoryTtlMsMax)])
    .nullable()
    .default(null),
});
const ListQuery = z.strictObject({
  namespace,
  prefix: z.string().default(""),
  cursor: z.string().max(1024).optional(),
  limit: z.coerce.number().int().min(1).max(LIMITS.pageMax).default(LIMITS.pageDefault),
});
const ClearQuery = z.strictObject({
  namespace,
  // Without it a client that forgot its key would empty the namespace.
  clear: z.literal("true", "say clear=true to empty the namespace, or name a key in the path"),
});

async function answerKey(exchange: Exchange, viewOf: ViewOf): Promise<Reply> {
  const key = nameInPath(exchange, KEYS);
  switch (exchange.method) {
    case "GET":
    case "HEAD": {
      const query = readQuery(exchange, ValueQuery);
      const known = readCondition(exchange, "if-none-match");
      const entry = await viewOf(query.namespace).get(key);
      if (entry === null)
        throw new DsecError("MEMORY_NOT_FOUND", `memory key ${JSON.stringify(key)} is not there`);
      const headers = entryHeaders(entry);
      if (known === "*" || known === entry.version) return { status: 304, headers, body: null };
      return jsonReply(entry.text, 200, headers);
    }
    case "PUT": {
      const query = readQuery(exchange, PutQuery);
      const expect = expectation(exchange);
      const body = await readJsonBody(exchange, LIMITS.memoryValueBytes);
      const { old, entry } = await viewOf(query.namespace).put(key, body, { expect, ttlMs: query.ttl_ms });
      const status = old === null ? 201 : 200;
      return jsonReply(`{${writtenMembers(entry)}}`, status, entryHeaders(entry));
    }
    case "DELETE": {
      const query = readQuery(exchange, ValueQuery);
      await viewOf(query.namespace).delete(key, { expect: expectation(exchange) });
      return NO_CONTENT;
    }
    default:
      throw methodNotAllowed(exchange, "GET, PUT or DELETE");
  }
}

async function answerNamespace(exchange: Exchange, viewOf: ViewOf): Promise<Reply> {
  switch (exchange.method) {
    case "GET":
    case "HEAD": {
      const { namespace, ...query } = readQuery(exchange, ListQuery);
      return jsonReply(pageText(await viewOf(namespace).list(query)));
    }
    case "POST": {
      readQuery(exchange, NO_QUERY);
      // Escapes may make six bytes of one.
      const body = await readJsonBody(exchange, 6 * LIMITS.memorySearchTextBytes + 4096);
      const given = parseJson(body, "the request body");
      const { namespace, ...query } = judge(MemorySearchSchema, given, "the request body");
      return jsonReply(pageText(await viewOf(namespace).search(query)));
    }
    case "DELETE": {
      const query = readQuery(exchange, ClearQuery);
      const removed = await viewOf(query.namespace).clear();
      return jsonReply(JSON.stringify({ removed }));
    }
    default:
      throw methodNotAllowed(exchange, "GET, POST (search) or DELETE");
  }
}

function expectation(exchange: Exchange): Expectation {
  const match = readCondition(exchange, "if-match");
  const noneMatch = readCondition(exchange, "if-none-match");
  if (match !== null && noneMatch !== null) {
    throw new DsecError("INVALID_REQUEST", "send if-match or if-none-match, not both");
  }
  if (typeof noneMatch === "number") {
    throw new DsecError(
      "INVALID_REQUEST",
      "a write takes if-none-match only as *: only where nothing is yet",
    );
  }
  if (noneMatch === "*") return "absent";
  return match === "*" ? "present" : (match ?? "anything");
}

function entryHeaders(entry: Entry): Record<string, string> {
  const expiry = expiresAt(entry);
  const etag = `"${entry.version}"`;
  return expiry === null ? { etag } : { etag, "dsec-expires-at": expiry };
}

function expiresAt({ expiresAtMs }: Entry): string | null {
  return expiresAtMs === null ? null : new Date(expiresAtMs).toISOString();
}

function writtenMembers(entry: Entry): string {
  const expiry = expiresAt(entry);
  return `"key":${JSON.stringify(entry.key)},"version":${entry.version},"expires_at":${expiry === null ? null : `"${expiry}"`}`;
}

function pageText({ entries, nextCursor }: Page): string {
  const items = entries.map((entry) => `{${writtenMembers(entry)},"value":${entry.text}}`);
  return `{"items":[${items.join(",")}],"next_cursor":${JSON.stringify(nextCursor)}}`;
}
