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
import type { MessageBus } from "../messages/bus.ts";
import { messageRoutes } from "../messages/routes.ts";
import {
  failureReply,
  jsonReply,
  judge,
  methodNotAllowed,
  nameInPath,
  readCondition,
  readJsonBody,
  readOrigin,
  readQuery,
} from "./http.ts";
import type { Memory, MemoryIdentity, MemoryView, Page } from "./memory.ts";
import type { Entry, Expectation } from "./store.ts";

/** The sandbox behind a socket, as the executor knows it. */
export type SandboxIdentity = MemoryIdentity & {
  /** The job whose sandboxes may exchange messages; a task of its own is a job of its own. */
  jobId: string;
  /** The sandbox's name within the job: the sender and reader of messages. */
  member: string;
};

export type MemoryRoutesOptions = {
  memory: Memory;
  messages: MessageBus;
  identity: SandboxIdentity;
  newRequestId?: () => string;
};

export function createMemoryRoutes(options: MemoryRoutesOptions): (request: Request) => Promise<Response> {
  const { memory, messages, identity, newRequestId = () => `req_${randomUUID()}` } = options;
  const answerMessages = messageRoutes(messages, identity);

  async function answer(request: Request): Promise<Response> {
    const url = new URL(request.url);
    if (url.pathname.startsWith("/v1/messages/")) return answerMessages(request, url);
    const view = (name: string | undefined) => memory.view(identity, name ?? null, readOrigin(request));
    if (url.pathname === "/v1/memory") return answerNamespace(request, url, view);
    if (url.pathname.startsWith("/v1/memory/")) return answerKey(request, url, view);
    throw new DsecError(
      "NOT_FOUND",
      `${request.method} ${url.pathname.slice(0, 200)} is not a route of this socket`,
    );
  }

  return async (request) => {
    try {
      return await answer(request);
    } catch (error) {
      return failureReply(request, error, newRequestId());
    }
  };
}

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

async function answerKey(request: Request, url: URL, viewOf: ViewOf): Promise<Response> {
  const key = nameInPath(url, "/v1/memory/");
  switch (request.method) {
    case "GET":
    case "HEAD": {
      const query = readQuery(url, ValueQuery);
      const known = readCondition(request, "if-none-match");
      const entry = await viewOf(query.namespace).get(key);
      if (entry === null)
        throw new DsecError("MEMORY_NOT_FOUND", `memory key ${JSON.stringify(key)} is not there`);
      const headers = entryHeaders(entry);
      if (known === "*" || known === entry.version) return new Response(null, { status: 304, headers });
      return jsonReply(request, entry.text, 200, headers);
    }
    case "PUT": {
      const query = readQuery(url, PutQuery);
      const expect = expectation(request);
      const body = await readJsonBody(request, LIMITS.memoryValueBytes);
      const { old, entry } = await viewOf(query.namespace).put(key, body, { expect, ttlMs: query.ttl_ms });
      const status = old === null ? 201 : 200;
      return jsonReply(request, `{${writtenMembers(entry)}}`, status, entryHeaders(entry));
    }
    case "DELETE": {
      const query = readQuery(url, ValueQuery);
      await viewOf(query.namespace).delete(key, { expect: expectation(request) });
      return new Response(null, { status: 204 });
    }
    default:
      throw methodNotAllowed(request, url, "GET, PUT or DELETE");
  }
}

async function answerNamespace(request: Request, url: URL, viewOf: ViewOf): Promise<Response> {
  switch (request.method) {
    case "GET":
    case "HEAD": {
      const { namespace, ...query } = readQuery(url, ListQuery);
      return jsonReply(request, pageText(await viewOf(namespace).list(query)));
    }
    case "POST": {
      readQuery(url, z.strictObject({}));
      // Escapes may make six bytes of one.
      const body = await readJsonBody(request, 6 * LIMITS.memorySearchTextBytes + 4096);
      const given = parseJson(body, "the request body");
      const { namespace, ...query } = judge(MemorySearchSchema, given, "the request body");
      return jsonReply(request, pageText(await viewOf(namespace).search(query)));
    }
    case "DELETE": {
      const query = readQuery(url, ClearQuery);
      const removed = await viewOf(query.namespace).clear();
      return jsonReply(request, JSON.stringify({ removed }));
    }
    default:
      throw methodNotAllowed(request, url, "GET, POST (search) or DELETE");
  }
}

function expectation(request: Request): Expectation {
  const match = readCondition(request, "if-match");
  const noneMatch = readCondition(request, "if-none-match");
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
  return { etag: `"${entry.version}"`, ...(expiry === null ? {} : { "dsec-expires-at": expiry }) };
}

function expiresAt({ expiresAtMs }: Entry): string | null {
  return expiresAtMs === null ? null : new Date(expiresAtMs).toISOString();
}

function writtenMembers(entry: Entry): string {
  const { key, version } = entry;
  const members = { key, version, expires_at: expiresAt(entry) };
  return JSON.stringify(members).slice(1, -1);
}

function pageText({ entries, nextCursor }: Page): string {
  const items = entries.map((entry) => `{${writtenMembers(entry)},"value":${entry.text}}`);
  return `{"items":[${items.join(",")}],"next_cursor":${JSON.stringify(nextCursor)}}`;
}
