import { LIMITS } from "#core/limits.ts";
import { type Exchange, tooLarge } from "./exchange.ts";

/** Requests that may be taken as they are; of larger ones the reading costs more than node:http does. */
export const WHOLE_BYTES = 64 * 1024;

/**
 * A request that came in one piece and leaves nothing to judge: a path, fields that stand once each in visible ASCII, a
 * length or no body. Most of those that programs send are of this kind.
 */
export class WholeRequest implements Exchange {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** Whether the client wants the connection closed after the answer. */
  readonly isLast: boolean;
  readonly #fields: Map<string, string>;
  readonly #body: Uint8Array;
  readonly #leaving: () => AbortSignal;

  /** @param leaving makes the signal, which few ask for */
  constructor(
    { method, target, fields }: Head,
    { body, isLast, leaving }: { body: Uint8Array; isLast: boolean; leaving: () => AbortSignal },
  ) {
    const mark = target.indexOf("?");
    this.method = method;
    this.path = mark < 0 ? target : target.slice(0, mark);
    this.query = mark < 0 ? "" : target.slice(mark + 1);
    this.isLast = isLast;
    this.#fields = fields;
    this.#body = body;
    this.#leaving = leaving;
  }

  header(name: string): string | null {
    return this.#fields.get(name) ?? null;
  }

  body(maxBytes: number): Promise<Uint8Array> {
    return this.#body.length > maxBytes ? Promise.reject(tooLarge(maxBytes)) : Promise.resolve(this.#body);
  }

  get signal(): AbortSignal {
    return this.#leaving();
  }
}

/**
 * Reads one request of which nothing is missing and nothing is left over. It recognizes and does not parse: `other` is
 * whatever is not of the one form below, good or bad, and is for node:http to judge; so is what comes in more than two
 * pieces. `begun` is a request whose head is of that form and whose body has yet to come.
 */
export function readWholeRequest(
  bytes: Buffer,
  leaving: () => AbortSignal,
): WholeRequest | "begun" | "other" {
  const text = bytes.toString("latin1", 0, LIMITS.channelHeaderBytes);
  const headBytes = text.indexOf("\r\n\r\n") + 4;
  const head = headBytes < 4 ? null : readHead(text.slice(0, headBytes));
  if (head === null) return "other";
  const length = bodyLength(head.fields);
  const end = headBytes + length;
  if (bytes.length !== end) return bytes.length < end && end <= WHOLE_BYTES ? "begun" : "other";
  const connection = head.fields.get("connection")?.toLowerCase() ?? "keep-alive";
  if (connection !== "keep-alive" && connection !== "close") return "other";
  return new WholeRequest(head, {
    body: bytes.subarray(headBytes),
    isLast: connection === "close",
    leaving,
  });
}

type Head = { method: string; target: string; fields: Map<string, string> };

/** Characters of RFC 3986 in the target, of RFC 9110 in names and values, without those above ASCII. */
const HEAD =
  /^(GET|HEAD|PUT|POST|DELETE) (\/[\w.~!$&'()*+,;=:@%/?-]*) HTTP\/1\.1\r\n((?:[\w!#$%&'*+.^`|~-]+:[\t\x20-\x7e]*\r\n)+)\r\n$/;

/** What says more about a request than that it is one. */
const TELLING = ["transfer-encoding", "upgrade", "expect", "proxy-connection"];

function readHead(text: string): Head | null {
  const read = HEAD.exec(text);
  if (read === null) return null;
  const [, method, target, lines] = read as unknown as [string, string, string, string];
  const fields = new Map<string, string>();
  let count = 0;
  for (let at = 0; at < lines.length; count++) {
    const colon = lines.indexOf(":", at);
    const end = lines.indexOf("\r\n", colon);
    fields.set(lines.slice(at, colon).toLowerCase(), lines.slice(colon + 1, end).trim());
    at = end + 2;
  }
  if (fields.size !== count || !fields.has("host")) return null;
  for (const name of TELLING) if (fields.has(name)) return null;
  return { method, target, fields };
}

/** Not a number where the length is no such short one, which then equals nothing. */
function bodyLength(fields: Map<string, string>): number {
  const length = fields.get("content-length");
  if (length === undefined) return 0;
  return /^\d{1,5}$/.test(length) ? Number(length) : Number.NaN;
}
