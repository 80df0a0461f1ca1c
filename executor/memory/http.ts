/** Requests from a sandbox, read within bounds and judged strictly, and the answers to them. */
import { z } from "zod";
import { DsecError, errorBody } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { faultText, readAs } from "#core/schema-faults.ts";
import type { Exchange, Reply } from "../channel/exchange.ts";

/** The whole body. UNSUPPORTED_MEDIA_TYPE, BODY_TOO_LARGE. */
export function readJsonBody(exchange: Exchange, maxBytes: number): Promise<Uint8Array> {
  const type = exchange.header("content-type") ?? "";
  if (type !== "application/json" && !JSON_TYPE.test(type)) {
    const given = type === "" ? "none" : type.slice(0, 100);
    throw new DsecError("UNSUPPORTED_MEDIA_TYPE", `content-type is ${given}; send application/json (UTF-8)`);
  }
  return exchange.body(maxBytes);
}

const JSON_TYPE = /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i;

/** INVALID_REQUEST for a member that is unknown, repeated or wrong: a misspelt condition must not be no condition. */
export function readQuery<S extends z.ZodType>({ query }: Exchange, schema: S): z.output<S> {
  if (query === "") return nothingAsked(schema);
  const members: Record<string, string> = Object.create(null);
  for (const [name, value] of new URLSearchParams(query)) {
    if (name in members) throw new DsecError("INVALID_REQUEST", `query member ${quoted(name)} is repeated`);
    members[name] = value;
  }
  return judge(schema, { ...members }, "the query");
}

/** What is made of no query, once for each schema. */
function nothingAsked<S extends z.ZodType>(schema: S): z.output<S> {
  let read = NOTHING_ASKED.get(schema);
  if (read === undefined) {
    read = Object.freeze(judge(schema, {}, "the query") as object);
    NOTHING_ASKED.set(schema, read);
  }
  return read as z.output<S>;
}

const NOTHING_ASKED = new WeakMap<z.ZodType, object>();

export function judge<S extends z.ZodType>(schema: S, value: unknown, what: string): z.output<S> {
  const read = readAs(schema, value);
  if (read.ok) return read.value;
  throw new DsecError("INVALID_REQUEST", `${what}: ${faultText(read.faults[0])}`);
}

/** What follows the prefix in the path, with its percent escapes resolved once; a slash in it is part of the name. */
export function nameInPath({ path }: Exchange, prefix: string): string {
  const name = path.slice(prefix.length);
  if (!name.includes("%")) return name;
  try {
    return decodeURIComponent(name);
  } catch (cause) {
    const why = `path ${quoted(path)}: bad percent escape; escape UTF-8 bytes`;
    throw new DsecError("INVALID_REQUEST", why, { cause });
  }
}

/** The one entity tag that a condition names (RFC 9110 section 8.8.3), `*`, or null where there is no such header. */
export function readCondition(exchange: Exchange, header: "if-match" | "if-none-match"): number | "*" | null {
  const given = exchange.header(header);
  if (given === null || given === "*") return given;
  const version = /^"(0|[1-9][0-9]{0,15})"$/.exec(given.trim())?.[1];
  if (version !== undefined) return Number(version);
  throw new DsecError("INVALID_REQUEST", `${header} is ${quoted(given)}; send * or one version such as "3"`);
}

/** Routes that take no query. */
export const NO_QUERY = z.strictObject({});

export const NO_CONTENT: Reply = { status: 204, headers: {}, body: null };

/** `body` is JSON already: values pass through as they were written. */
export function jsonReply(body: string, status = 200, headers: Record<string, string> = {}): Reply {
  return { status, headers: { "content-type": "application/json", ...headers }, body };
}

export function failureReply(error: unknown, requestId: string): Reply {
  const body = errorBody(error, requestId);
  const status = error instanceof DsecError ? error.status : 500;
  const headers: Record<string, string> = { "x-request-id": requestId };
  if (status === 429 || status === 503) {
    const afterMs = Number(body.error.details?.retry_after_ms ?? 1000);
    headers["retry-after"] = String(Math.max(1, Math.ceil(afterMs / 1000)));
  }
  return jsonReply(JSON.stringify(body), status, headers);
}

/** Where in the sandbox's program the call was made: percent-escaped, since header text is Latin-1 (RFC 9110 section 5.5). */
export function readOrigin(exchange: Exchange): string | null {
  const given = exchange.header("dsec-origin");
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

export function methodNotAllowed({ method, path }: Exchange, allowed: string): DsecError {
  return new DsecError("METHOD_NOT_ALLOWED", `${method} ${path.slice(0, 200)}: send ${allowed}`);
}

export function notFound({ method, path }: Exchange): DsecError {
  return new DsecError(
    "NOT_FOUND",
    `${method} ${path.slice(0, 200)} is not a route of this socket; see dsec-tool --help`,
  );
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
