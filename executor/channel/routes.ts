/** The sandbox's socket as one function from request to answer; docs/channel.md has the table of its routes. */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { DsecError } from "#core/errors.ts";
import { parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import {
  ApiCallSchema,
  ContextSchema,
  LogitsSchema,
  ObservationsQuerySchema,
  RewardSchema,
  StepBeginSchema,
  StepEndSchema,
  ToolCallSchema,
  ToolRunEndSchema,
} from "#core/wire/channel.ts";
import {
  failureReply,
  jsonReply,
  judge,
  methodNotAllowed,
  nameInPath,
  readJsonBody,
  readQuery,
} from "../memory/http.ts";
import type { EventLog } from "./event-log.ts";
import { utf8Text } from "./http-tool.ts";
import { answerRpc } from "./mcp.ts";
import type { ObservationQueue } from "./observations.ts";
import type { ProxiedCalls } from "./proxied-calls.ts";
import type { AgentRecords } from "./records.ts";
import type { PlanSteps } from "./steps.ts";
import type { ApiAnswer, ToolAnswer, ToolCalls } from "./tool-calls.ts";

export type ChannelParts = {
  log: EventLog;
  tools: ToolCalls;
  calls: ProxiedCalls;
  steps: PlanSteps;
  records: AgentRecords;
  observations: ObservationQueue;
  /** `/v1/memory…` and `/v1/messages…` */
  memoryAndMessages: (request: Request) => Promise<Response>;
};

export function createChannelRoutes(parts: ChannelParts): (request: Request) => Promise<Response> {
  const { log, tools, observations } = parts;

  async function answer(request: Request): Promise<Response> {
    const url = new URL(request.url);
    const { pathname } = url;
    log.checkRoom();
    if (/^\/v1\/(memory|messages)(\/|$)/.test(pathname)) return parts.memoryAndMessages(request);
    if (pathname.startsWith("/v1/tools/")) return answerTool(request, url, parts);
    const step = /^\/v1\/steps\/([1-9]\d{0,8})\/end$/.exec(pathname)?.[1];
    if (step !== undefined) {
      const { status, detail } = await posted(request, url, StepEndSchema, LIMITS.contextBytes);
      return jsonReply(request, JSON.stringify({ status: parts.steps.end(Number(step), status, detail) }));
    }
    switch (pathname) {
      case "/v1/tools":
        readGet(request, url);
        return jsonReply(request, JSON.stringify({ items: tools.list() }));
      case "/v1/calls":
        readGet(request, url);
        return jsonReply(request, JSON.stringify({ items: parts.calls.running().map(shownRunning) }));
      case "/v1/call": {
        const call = await posted(request, url, ApiCallSchema, LIMITS.channelBodyBytes);
        const made = await tools.api(call, request.signal);
        return jsonReply(request, apiText(made.answer, made.call, observations.take(made.call.number)));
      }
      case "/v1/steps": {
        const { name, state } = await posted(request, url, StepBeginSchema, LIMITS.contextBytes);
        return jsonReply(request, JSON.stringify({ step: parts.steps.begin(name, state) }), 201);
      }
      case "/v1/rewards": {
        const reward = await posted(request, url, RewardSchema, LIMITS.requestBodyBytes);
        return jsonReply(request, JSON.stringify(parts.records.reward(reward)), 201);
      }
      case "/v1/logits": {
        const logits = await posted(request, url, LogitsSchema, LIMITS.requestBodyBytes);
        return jsonReply(request, JSON.stringify(parts.records.logits(logits)), 201);
      }
      case "/v1/context": {
        const { context } = await posted(request, url, ContextSchema, LIMITS.contextBytes);
        return jsonReply(request, JSON.stringify(parts.records.saveContext(context)), 201);
      }
      case "/v1/observations": {
        if (request.method !== "GET") throw methodNotAllowed(request, url, "GET");
        const { wait_ms } = readQuery(url, ObservationsQuerySchema);
        await observations.wait(wait_ms, request.signal);
        // Taken for a client that has left they would be lost.
        const items = request.signal.aborted ? [] : observations.take(null);
        return jsonReply(request, JSON.stringify({ items }));
      }
      case "/mcp":
        return answerMcp(request, url, parts);
      default:
        throw notFound(request, pathname);
    }
  }

  return async (request) => {
    let response: Response;
    try {
      response = await answer(request);
    } catch (error) {
      response = failureReply(request, error, `req_${randomUUID()}`);
      // So that dsec-tool knows that the tool is its own to run.
      const where = error instanceof DsecError ? error.details?.where : undefined;
      if (where === "sandbox") response.headers.set("dsec-where", where);
    }
    if (observations.count > 0) response.headers.set("dsec-observations", String(observations.count));
    return response;
  };
}

/** `/v1/tools/{name}`, and `begin` and `end` below it for a tool that the caller runs within the sandbox. */
async function answerTool(request: Request, url: URL, parts: ChannelParts): Promise<Response> {
  const [name = "", action, ...rest] = nameInPath(url, "/v1/tools/").split("/");
  if (rest.length > 0) throw notFound(request, url.pathname);
  switch (action) {
    case undefined: {
      const { input } = await posted(request, url, ToolCallSchema, LIMITS.requestBodyBytes);
      const answer = await parts.tools.call(name, input, "http", request.signal);
      return jsonReply(request, toolText(answer, parts.observations.take(answer.call.number)));
    }
    case "begin": {
      const { input } = await posted(request, url, ToolCallSchema, LIMITS.requestBodyBytes);
      return jsonReply(request, JSON.stringify(await parts.tools.beginInSandbox(name, input)), 201);
    }
    case "end": {
      const end = await posted(request, url, ToolRunEndSchema, LIMITS.channelBodyBytes);
      const answer = await parts.tools.endInSandbox(end);
      return jsonReply(request, toolText(answer, parts.observations.take(answer.call.number)));
    }
    default:
      throw notFound(request, url.pathname);
  }
}

async function answerMcp(request: Request, url: URL, parts: ChannelParts): Promise<Response> {
  // GET would open a stream of the server's own messages, of which there are none (405 says so), DELETE end a session.
  if (request.method !== "POST") throw methodNotAllowed(request, url, "POST");
  readQuery(url, NO_QUERY);
  const message = parseJson(await readJsonBody(request, LIMITS.requestBodyBytes), "the request body");
  const take = (call: number | null) => parts.observations.take(call);
  const { status, text } = await answerRpc(message, parts.tools, take, request.signal);
  return text === null ? new Response(null, { status }) : jsonReply(request, text, status);
}

function toolText({ outputText, isError, fallback, call }: ToolAnswer, observations: unknown[]): string {
  const rest = JSON.stringify({ is_error: isError, ...(fallback ? { fallback } : {}), call, observations });
  // The output passes as the tool wrote it: parsed and written anew, 1.0 would become 1.
  return `{"output":${outputText},${rest.slice(1)}`;
}

function apiText({ body, ...head }: ApiAnswer, call: unknown, observations: unknown[]): string {
  const text = utf8Text(body);
  const content = text === null ? { body_base64: body.toString("base64") } : { body: text };
  return JSON.stringify({ ...head, ...content, call, observations });
}

function shownRunning(call: ReturnType<ProxiedCalls["running"]>[number]) {
  const { seq, tool, startedAtMs, bytesDown } = call;
  return { seq, tool, running_ms: Math.round(performance.now() - startedAtMs), bytes_down: bytesDown };
}

const NO_QUERY = z.strictObject({});

function readGet(request: Request, url: URL): void {
  if (request.method !== "GET" && request.method !== "HEAD") throw methodNotAllowed(request, url, "GET");
  readQuery(url, NO_QUERY);
}

async function posted<S extends z.ZodType>(
  request: Request,
  url: URL,
  schema: S,
  maxBytes: number,
): Promise<z.output<S>> {
  if (request.method !== "POST") throw methodNotAllowed(request, url, "POST");
  readQuery(url, NO_QUERY);
  const body = await readJsonBody(request, maxBytes);
  return judge(schema, parseJson(body, "the request body"), "the request body");
}

function notFound(request: Request, path: string): DsecError {
  return new DsecError(
    "NOT_FOUND",
    `${request.method} ${path.slice(0, 200)} is not a route of this socket; see dsec-tool --help`,
  );
}
