/**
 * The task's tools as an MCP server: Streamable HTTP without sessions and without streams, each request answered with
 * one JSON message (modelcontextprotocol.io, specification 2025-06-18, "Transports").
 */
import { DsecError } from "#core/errors.ts";
import { faultText, readAs } from "#core/schema-faults.ts";
import { RpcMessageSchema, RpcToolCallSchema } from "#core/wire/channel.ts";
import packageJson from "../../package.json" with { type: "json" };
import type { SerializationTime } from "../trace/call-timings.ts";
import { failureOf } from "./call-failures.ts";
import { memberText } from "./exact-numbers.ts";
import type { ToolAnswer, ToolCalls } from "./tool-calls.ts";

/** Newest first. A client that asks for another is offered the newest (specification, "Lifecycle"). */
const VERSIONS = ["2025-06-18", "2025-03-26", "2024-11-05"];

/** JSON-RPC 2.0 section 5.1. */
const RPC = {
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
} as const;

export type RpcAnswer = { status: 200 | 202 | 400; text: string | null };

/**
 * Answers one message, which was parsed but not judged.
 * @param time has that of the parsing
 * @param observations takes what is to be given to the agent with the answer of a call
 */
export async function answerRpc(
  message: unknown,
  tools: ToolCalls,
  observations: (call: number | null) => unknown[],
  signal: AbortSignal,
  time: SerializationTime,
): Promise<RpcAnswer> {
  const read = readAs(RpcMessageSchema, message);
  if (!read.ok) {
    const why = Array.isArray(message)
      ? "batches are not taken (removed in 2025-06-18)"
      : faultText(read.faults[0]);
    return { status: 400, text: failureText(null, RPC.invalidRequest, `not a JSON-RPC request: ${why}`) };
  }
  const { method, params = {} } = read.value;
  // A notification has no id and gets no answer, whatever it says.
  if (read.value.id === undefined) return { status: 202, text: null };
  const id = idText(message as object);
  switch (method) {
    case "initialize":
      return result(id, JSON.stringify(initialized(params.protocolVersion)));
    case "ping":
      return result(id, "{}");
    case "tools/list":
      return result(id, JSON.stringify({ tools: listed(tools) }));
    case "tools/call":
      return { status: 200, text: await callText(id, params, tools, observations, signal, time) };
    default:
      return {
        status: 200,
        text: failureText(id, RPC.methodNotFound, `method ${method.slice(0, 100)} is not offered here`),
      };
  }
}

/** JSON of a request's id, as it was sent: a client knows its request by that and by nothing else. */
type Id = string;

function idText(message: object): Id {
  const { id } = message as { id: unknown };
  return typeof id === "string" ? JSON.stringify(id) : memberText(message, "id");
}

function initialized(asked: unknown) {
  return {
    protocolVersion: typeof asked === "string" && VERSIONS.includes(asked) ? asked : VERSIONS[0],
    capabilities: { tools: { listChanged: false } },
    serverInfo: { name: "dsec", version: packageJson.version },
  };
}

/** A tool that must run within the sandbox cannot be run from here. */
function listed(tools: ToolCalls) {
  return tools
    .list()
    .filter((tool) => tool.where !== "sandbox")
    .map(({ name, description, parameters, read_only }) => ({
      name,
      description,
      inputSchema: typeof parameters === "object" ? { type: "object", ...parameters } : { type: "object" },
      annotations: { readOnlyHint: read_only },
    }));
}

async function callText(
  id: Id,
  params: { [member: string]: unknown },
  tools: ToolCalls,
  observations: (call: number | null) => unknown[],
  signal: AbortSignal,
  time: SerializationTime,
): Promise<string> {
  const read = readAs(RpcToolCallSchema, params);
  if (!read.ok) return failureText(id, RPC.invalidParams, `tools/call: ${faultText(read.faults[0])}`);
  try {
    const answer = await tools.call(read.value.name, read.value.arguments, "mcp", signal, time);
    return resultText(id, toolResult(answer, observations(answer.call.number)));
  } catch (error) {
    const { code, message } = failureOf(error);
    if (code === "TOOL_NOT_FOUND" || code === "TOOL_INPUT_INVALID" || code === "INVALID_REQUEST") {
      return failureText(id, RPC.invalidParams, message);
    }
    if (!(error instanceof DsecError)) return failureText(id, RPC.internal, message);
    // "Any errors that originate from the tool SHOULD be reported inside the result": the model is to see them.
    const content = [{ type: "text", text: `${code}: ${message}` }, ...shown(observations(null))];
    return resultText(id, JSON.stringify({ content, isError: true }));
  }
}

function toolResult({ outputText, isError, fallback, call }: ToolAnswer, observations: unknown[]): string {
  const output: unknown = JSON.parse(outputText);
  const text = typeof output === "string" ? output : outputText;
  // Where a tool that failed put nothing out, its standard error is the output.
  const errors = typeof call.stderr === "string" && call.output_bytes !== 0 ? [call.stderr] : [];
  const texts = [text, ...errors].map((text) => ({ type: "text", text }));
  const content = JSON.stringify([...texts, ...shown(observations)]);
  const structured = output !== null && typeof output === "object" && !Array.isArray(output);
  const meta = JSON.stringify({ "dsec/call": call, ...(fallback ? { "dsec/fallback": true } : {}) });
  return `{"content":${content},${structured ? `"structuredContent":${outputText},` : ""}"isError":${isError},"_meta":${meta}}`;
}

function shown(observations: unknown[]) {
  return observations.map((observation) => ({ type: "text", text: JSON.stringify({ observation }) }));
}

function result(id: Id, text: string): RpcAnswer {
  return { status: 200, text: resultText(id, text) };
}

function resultText(id: Id, text: string): string {
  return `{"jsonrpc":"2.0","id":${id},"result":${text}}`;
}

function failureText(id: Id | null, code: number, message: string): string {
  return `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify({ code, message })}}`;
}
