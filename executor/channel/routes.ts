/** The sandbox's socket as one function from request to answer; docs/channel.md has the table of its routes. */
import type { z } from "zod";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import {
  AgentErrorSchema,
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
  NO_QUERY,
  nameInPath,
  notFound,
  readJsonBody,
  readQuery,
} from "../memory/http.ts";
import { SerializationTime } from "../trace/call-timings.ts";
import type { Failures } from "../trace/failures.ts";
import type { EventLog } from "./event-log.ts";
import { exactJson, parseExact } from "./exact-numbers.ts";
import type { Exchange, Reply, Routes } from "./exchange.ts";
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
  failures: Failures;
  observations: ObservationQueue;
  clock: () => { wall_us: number; seed: number; replaying: boolean };
  /** `/v1/memory…` and `/v1/messages…` */
  memoryAndMessages: Routes;
};

export function createChannelRoutes(parts: ChannelParts): Routes {
  const { log, tools, observations } = parts;

  function answer(exchange: Exchange): Promise<Reply> {
    const { path } = exchange;
    log.checkRoom();
    return path.startsWith("/v1/memory") || path.startsWith("/v1/messages/")
      ? parts.memoryAndMessages(exchange)
      : answerHere(exchange);
  }

  async function answerHere(exchange: Exchange): Promise<Reply> {
    const { path } = exchange;
    if (path.startsWith("/v1/tools/")) return answerTool(exchange, parts);
    switch (path) {
      case "/v1/tools":
        readGet(exchange);
        return jsonReply(JSON.stringify({ items: tools.list() }));
      case "/v1/calls":
        readGet(exchange);
        return jsonReply(JSON.stringify({ items: parts.calls.running().map(shownRunning) }));
      case "/v1/call": {
        const time = new SerializationTime();
        const call = await posted(exchange, ApiCallSchema, LIMITS.channelBodyBytes, time);
        const made = await tools.api(call, exchange.signal, time);
        return jsonReply(apiText(made.answer, made.call, observations.take(made.call.number)));
      }
      case "/v1/steps": {
        const { name, state } = await posted(exchange, StepBeginSchema, LIMITS.contextBytes);
        return jsonReply(JSON.stringify({ step: parts.steps.begin(name, state) }), 201);
      }
      case "/v1/rewards": {
        const reward = await posted(exchange, RewardSchema, LIMITS.requestBodyBytes);
        return jsonReply(JSON.stringify(parts.records.reward(reward)), 201);
      }
      case "/v1/errors": {
        const { code, text, stack } = await posted(exchange, AgentErrorSchema, LIMITS.contextBytes);
        const seq = await parts.failures.record({ code, text, stack, step: parts.steps.current });
        return jsonReply(JSON.stringify({ seq }), 201);
      }
      case "/v1/logits": {
        const logits = await posted(exchange, LogitsSchema, LIMITS.requestBodyBytes);
        return jsonReply(JSON.stringify(parts.records.logits(logits)), 201);
      }
      case "/v1/context": {
        const { context } = await posted(exchange, ContextSchema, LIMITS.contextBytes);
        return jsonReply(JSON.stringify(parts.records.saveContext(context)), 201);
      }
      case "/v1/clock":
        readGet(exchange);
        return jsonReply(JSON.stringify(parts.clock()));
      case "/v1/observations": {
        if (exchange.method !== "GET") throw methodNotAllowed(exchange, "GET");
        const { wait_ms } = readQuery(exchange, ObservationsQuerySchema);
        await observations.wait(wait_ms, exchange.signal);
        // Taken for a client that has left they would be lost.
        const items = exchange.signal.aborted ? [] : observations.take(null);
        return jsonReply(JSON.stringify({ items }));
      }
      case "/mcp":
        return answerMcp(exchange, parts);
      default: {
        const step = /^\/v1\/steps\/([1-9]\d{0,8})\/end$/.exec(path)?.[1];
        if (step === undefined) throw notFound(exchange);
        const { status, detail } = await posted(exchange, StepEndSchema, LIMITS.contextBytes);
        return jsonReply(JSON.stringify({ status: parts.steps.end(Number(step), status, detail) }));
      }
    }
  }

  /** Counted, so that an agent that is replayed is told the same. */
  let refusals = 0;
  return async (exchange) => {
    let reply: Reply;
    try {
      reply = await answer(exchange);
    } catch (error) {
      reply = failureReply(error, `req_${++refusals}`);
      // So that dsec-tool knows that the tool is its own to run.
      const where = error instanceof DsecError ? error.details?.where : undefined;
      if (where === "sandbox") reply.headers["dsec-where"] = where;
    }
    if (observations.count === 0) return reply;
    return { ...reply, headers: { ...reply.headers, "dsec-observations": String(observations.count) } };
  };
}

/** `/v1/tools/{name}`, and `begin` and `end` below it for a tool that the caller runs within the sandbox. */
async function answerTool(exchange: Exchange, parts: ChannelParts): Promise<Reply> {
  const [name = "", action, ...rest] = nameInPath(exchange, "/v1/tools/").split("/");
  if (rest.length > 0) throw notFound(exchange);
  const time = new SerializationTime();
  switch (action) {
    case undefined: {
      const { input } = await posted(exchange, ToolCallSchema, LIMITS.requestBodyBytes, time);
      const answer = await parts.tools.call(name, input, "http", exchange.signal, time);
      return jsonReply(toolText(answer, parts.observations.take(answer.call.number)));
    }
    case "begin": {
      const { input } = await posted(exchange, ToolCallSchema, LIMITS.requestBodyBytes, time);
      return jsonReply(exactJson(await parts.tools.beginInSandbox(name, input, time)), 201);
    }
    case "end": {
      const end = await posted(exchange, ToolRunEndSchema, LIMITS.channelBodyBytes, time);
      const answer = await parts.tools.endInSandbox(end, time);
      return jsonReply(toolText(answer, parts.observations.take(answer.call.number)));
    }
    default:
      throw notFound(exchange);
  }
}

async function answerMcp(exchange: Exchange, parts: ChannelParts): Promise<Reply> {
  // GET would open a stream of the server's own messages, of which there are none (405 says so), DELETE end a session.
  if (exchange.method !== "POST") throw methodNotAllowed(exchange, "POST");
  readQuery(exchange, NO_QUERY);
  const body = await readJsonBody(exchange, LIMITS.requestBodyBytes);
  const time = new SerializationTime();
  const message = time.during(() => parseExact(body, "the request body"));
  const take = (call: number | null) => parts.observations.take(call);
  const { status, text } = await answerRpc(message, parts.tools, take, exchange.signal, time);
  return text === null ? { status, headers: {}, body: null } : jsonReply(text, status);
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

function readGet(exchange: Exchange): void {
  if (exchange.method !== "GET" && exchange.method !== "HEAD") throw methodNotAllowed(exchange, "GET");
  readQuery(exchange, NO_QUERY);
}

async function posted<S extends z.ZodType>(
  exchange: Exchange,
  schema: S,
  maxBytes: number,
  time = new SerializationTime(),
): Promise<z.output<S>> {
  if (exchange.method !== "POST") throw methodNotAllowed(exchange, "POST");
  readQuery(exchange, NO_QUERY);
  const body = await readJsonBody(exchange, maxBytes);
  return time.during(() => judge(schema, parseExact(body, "the request body"), "the request body"));
}
