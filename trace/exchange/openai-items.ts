/**
 * Items of the responses API that are calls, and their answers. By the API's own rule of names an item `x_call` calls tool x, and
 * `x_call_output` or `x_output` answers it; so types that are not known yet are read like the others.
 */
import { itemsOf, type JsonDocument, type JsonNode, memberOf, stringOf } from "./json-tree.ts";

export type GivenAnswer = { text: string | null; failed: boolean };

export type GivenCall = {
  tool: string;
  id: string | null;
  /** What the item says besides, as JSON: what the tool was asked. */
  rest_json: string;
  /** In the item itself; in a later one; or it never came, for the tool was still at work. */
  answer: GivenAnswer | "comes" | "never";
};

/** Null where the item does not say which tool it calls. */
export function callIn(document: JsonDocument, item: JsonNode, type: string): GivenCall | null {
  const tool = toolOf(item, type);
  if (tool === null) return null;
  const id = stringOf(memberOf(item, "call_id")) ?? stringOf(memberOf(item, "id"));
  return { tool, id, rest_json: restOf(document, item), answer: answerWithin(document, item) };
}

export function answerIn(document: JsonDocument, item: JsonNode, type: string) {
  const output = memberOf(item, "output") ?? memberOf(item, "tools");
  const text = output === null ? null : textIn(document, output);
  return {
    callId: stringOf(memberOf(item, "call_id")),
    /** That of `local_shell_call_output` is the call's. */
    itemId: stringOf(memberOf(item, "id")),
    tool: type === "function_call_output" ? null : type.replace(/(_call)?_output$/, ""),
    answer: { text, failed: failedBy(item, text) || hasFailedCommand(document, output) },
  };
}

/** As the agent was given it: a string's own text, all else as it was written. */
export function textIn(document: JsonDocument, node: JsonNode): string {
  return node.kind === "string" ? node.value : document.textOf(node);
}

export function failedBy(item: JsonNode, text: string | null): boolean {
  const said = memberOf(item, "is_error");
  if (said?.kind === "literal") return said.value === true;
  return stringOf(memberOf(item, "status")) === "failed" || text?.startsWith("Error") === true;
}

/** Of an MCP server's tool with the server's label, for two servers may have tools of one name. */
function toolOf(item: JsonNode, type: string): string | null {
  if (type !== "mcp_call") return type.slice(0, -"_call".length) || null;
  const name = stringOf(memberOf(item, "name"));
  const server = stringOf(memberOf(item, "server_label"));
  return name && server ? `${server}/${name}` : name || null;
}

const ANSWERS = ["output", "outputs", "results", "result"];
const OF_THE_ITEM = ["type", "id", "call_id", "status", "error", ...ANSWERS];

function restOf(document: JsonDocument, item: JsonNode): string {
  if (item.kind !== "object") return "{}";
  const rest = item.members.filter(({ name }) => !OF_THE_ITEM.includes(name));
  return `{${rest.map(({ name, value }) => `${JSON.stringify(name)}:${document.textOf(value)}`)}}`;
}

function answerWithin(document: JsonDocument, item: JsonNode): GivenCall["answer"] {
  const error = memberOf(item, "error");
  if (error !== null) return { text: textIn(document, error), failed: true };
  for (const name of ANSWERS) {
    const answer = memberOf(item, name);
    if (answer === null) continue;
    const text = textIn(document, answer);
    return { text, failed: failedBy(item, text) };
  }
  // only a call that the caller answers has such an id
  if (item.kind === "object" && item.members.some(({ name }) => name === "call_id")) return "comes";
  const status = stringOf(memberOf(item, "status")) ?? "completed";
  if (status !== "completed" && status !== "failed") return "never";
  return { text: null, failed: status === "failed" };
}

/** `shell_call_output` has the outcome of each command. */
function hasFailedCommand(document: JsonDocument, output: JsonNode | null): boolean {
  return itemsOf(output).some((command) => {
    const outcome = memberOf(command, "outcome");
    const code = memberOf(outcome, "exit_code");
    const exited = code?.kind === "number" && document.textOf(code) !== "0";
    return exited || stringOf(memberOf(outcome, "type")) === "timeout";
  });
}
