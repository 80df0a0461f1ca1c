/** Requests from a sandbox, read within bounds and judged strictly, and the answers to them. */
import type { z } from "zod";
import { DsecError, errorBody } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";

/** The whole body, counted while it arrives. UNSUPPORTED_MEDIA_TYPE, BODY_TOO_LARGE. */
export async function readJsonBody(request: Request, maxBytes: number): Promise<Uint8Array> {
  const type = (request.headers.get("content-type") ?? "").toLowerCase();
  if (!/^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/.test(type)) {
    const given = type === "" ? "none" : type.slice(0, 100);
    throw new DsecError("UNSUPPORTED_MEDIA_TYPE", `content-type is ${given}; send application/json (UTF-8)`);
  }
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of (request.body ?? []) as AsyncIterable<Uint8Array>) {
    size += part.length;
    if (size > maxBytes) {
      throw new DsecError("BODY_TOO_LARGE", `the request body is larger than ${maxBytes} bytes`, {
        details: { max_bytes: maxBytes },
      });
    }
    parts.push(part);
  }
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}

/** INVALID_REQUEST for a member that is unknown, repeated or wrong: a misspelt condition must not be no condition. */
export function readQuery<S extends z.ZodType>(url: URL, schema: S): z.output<S> {
  const members: Record<string, string> = Object.create(null);
  for (const [name, value] of url.searchParams) {
    if (name in members) throw new DsecError("INVALID_REQUEST", `query member ${quoted(name)} is repeated`);
    members[name] = value;
  }
  return judge(schema, { ...members }, "the query");
}

export function judge<S extends z.ZodType>(schema: S, value: unknown, what: string): z.output<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0]!;
  throw new DsecError(
    "INVALID_REQUEST",
    `${what}: ${path.length > 0 ? `${path.join(".")}: ` : ""}${message}`,
  );
}

/** What follows the prefix in the path, with its percent escapes resolved once; a slash in it is part of the name. */
export function nameInPath(url: URL, prefix: string): string {
  try {
    return decodeURIComponent(url.pathname.slice(prefix.length));
  } catch (cause) {
    throw new DsecError(
      "INVALID_REQUEST",
      `path ${quoted(url.pathname)}: bad percent escape; escape UTF-8 bytes`,
      {
        cause,
      },
    );
  }
}

/** The one entity tag that a condition names (RFC 9110 section 8.8.3), `*`, or null where there is no such header. */
export function readCondition(request: Request, header: "if-match" | "if-none-match"): number | "*" | null {
  const given = request.headers.get(header);
  if (given === null || given === "*") return given;
  const version = /^"(0|[1-9][0-9]{0,15})"$/.exec(given.trim())?.[1];
  if (version !== undefined) return Number(version);
  throw new DsecError("INVALID_REQUEST", `${header} is ${quoted(given)}; send * or one version such as "3"`);
}

/** `text` is JSON already: values pass through as they were written. */
export function jsonReply(
  request: Request,
  text: string,
  status = 200,
  headers: Record<string, string> = {},
): Response {
  const bytes = encoder.encode(text);
  return new Response(request.method === "HEAD" ? null : bytes, {
    status,
    // Of a HEAD answer too, as GET would send it (RFC 9110 section 9.3.2).
    headers: { "content-type": "application/json", "content-length": String(bytes.length), ...headers },
  });
}

export function failureReply(request: Request, error: unknown, requestId: string): Response {
  const body = errorBody(error, requestId);
  const status = error instanceof DsecError ? error.status : 500;
  const headers: Record<string, string> = { "x-request-id": requestId };
  if (status === 429 || status === 503) {
    const afterMs = Number(body.error.details?.retry_after_ms ?? 1000);
    headers["retry-after"] = String(Math.max(1, Math.ceil(afterMs / 1000)));
  }
  return jsonReply(request, JSON.stringify(body), status, headers);
}

/** Where in the sandbox's program the call was made: percent-escaped, since header text is Latin-1 (RFC 9110 section 5.5). */
export function readOrigin(request: Request): string | null {
  const given = request.headers.get("dsec-origin");
  if (given === null) return null;
  let text: string;
  try {
    text = decodeURIComponent(given);
  } catch {
    // A remark is no reason to refuse the call.
    text = given;
  }
  return text.replaceAll("\0", "").slice(0, LIMITS.memoryOriginChars).toWellFormed();
}

export function methodNotAllowed(request: Request, url: URL, allowed: string): DsecError {
  return new DsecError("METHOD_NOT_ALLOWED", `${request.method} ${url.pathname}: send ${allowed}`);
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}

const encoder = new TextEncoder();
