/** From a declared http tool and its input to a call, and from the answer to what the agent is given. */
import { DsecError } from "#core/errors.ts";
import { type Json, parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { HttpTool } from "#core/wire/tools.ts";
import { contentDigest } from "../content-digest.ts";
import { exactJson, memberText } from "./exact-numbers.ts";
import type { OpenCall, OutgoingCall } from "./proxied-calls.ts";

export type ToolInput = { [member: string]: unknown };

/** @throws TOOL_INPUT_INVALID where the URL lacks a member, or one would change the path's shape */
export function outgoingCall(
  tool: HttpTool,
  input: ToolInput,
  timeoutMs: number,
): Omit<OutgoingCall, "call"> {
  const rest = new Map(Object.entries(input));
  const queryStart = tool.url.indexOf("?");
  const filled = tool.url.replaceAll(/\{(\w+)\}/g, (_place, name: string, at: number) => {
    if (!Object.hasOwn(input, name)) throw invalid(tool.name, `${name} is missing, which its URL needs`);
    rest.delete(name);
    const value = memberText(input, name);
    const inPath = queryStart < 0 || at < queryStart;
    // Percent-encoding leaves dots as they are: such a segment would name another path than the tool's.
    if (inPath && /^\.{0,2}$/.test(value))
      throw invalid(tool.name, `${name} is ${JSON.stringify(value)}, which no path segment may be`);
    return encodeURIComponent(value);
  });
  const url = new URL(filled);
  const headers: [string, string][] = Object.entries(tool.headers);
  const has = (name: string) => headers.some(([given]) => given.toLowerCase() === name);
  if (!has("accept")) headers.push(["accept", "application/json, */*;q=0.5"]);
  let body = NO_BYTES;
  if (tool.method === "GET" || tool.method === "HEAD" || tool.method === "DELETE") {
    for (const [name, value] of rest) {
      const [holder, names] = Array.isArray(value) ? [value, Object.keys(value)] : [input, [name]];
      for (const one of names) url.searchParams.append(name, memberText(holder, one));
    }
  } else {
    body = Buffer.from(exactJson(input, rest));
    if (!has("content-type")) headers.push(["content-type", "application/json"]);
  }
  const { name, method } = tool;
  const digest = contentDigest(body);
  return { tool: name, method, url: url.href, headers, body, digest, timeoutMs, answer: "final" };
}

/** The whole body. RESPONSE_TOO_LARGE past `toolOutputBytes`; the upstream is then let go of. */
export async function collectBody(answer: OpenCall): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of answer.body) {
    size += part.length;
    if (size > LIMITS.toolOutputBytes) {
      throw new DsecError(
        "RESPONSE_TOO_LARGE",
        `the answer of ${new URL(answer.head.url).host} is larger than ${LIMITS.toolOutputBytes} bytes; ask for less of it`,
      );
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/**
 * What the agent is given, as JSON text: a JSON answer exactly as it was written, any other as one string, bytes that
 * are no text as `{"base64": …}`.
 */
export function outputText(body: Buffer, contentType: string | null): string {
  if (body.length === 0) return "null";
  if (contentType === null || /^(application\/([\w.+-]+\+)?json)\b/i.test(contentType)) {
    const text = jsonText(body);
    if (text !== null) return text;
  }
  const text = utf8Text(body);
  return JSON.stringify(text ?? { base64: body.toString("base64") });
}

/** The text of a JSON value that every reader reads alike; null where the bytes are none. */
export function jsonText(bytes: Buffer): string | null {
  try {
    const value: Json = parseJson(bytes, "the output");
    // Numbers that no double holds pass as they were written; what JSON.parse made of them is not used.
    return value === undefined ? null : bytes.toString("utf8").trim();
  } catch {
    return null;
  }
}

export function utf8Text(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

export function header(answer: OpenCall, name: string): string | null {
  return answer.head.headers.find(([given]) => given.toLowerCase() === name)?.[1] ?? null;
}

function invalid(tool: string, why: string): DsecError {
  return new DsecError("TOOL_INPUT_INVALID", `input of tool ${tool}: ${why}`);
}

const NO_BYTES: Uint8Array = new Uint8Array();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
