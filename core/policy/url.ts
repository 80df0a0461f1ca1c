import { escapedBytes, utf8OfLatin1 } from "../bytes.ts";
import { DsecError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import { type Host, quote, readHost } from "./host.ts";

/** A URL as policy judges it, and as the proxy must send it. */
export type Target = {
  scheme: "http" | "https";
  host: Host;
  port: number;
  /** Normalised by the WHATWG URL standard: dot segments, also `%2e` ones, are resolved. */
  path: string;
  /** With `?`, or empty. */
  query: string;
  /** The whole in canonical form, without a fragment. To send anything else is to send what was not judged. */
  url: string;
};

/** What `origin` of two targets is compared for: scheme, host and port (RFC 6454). */
export function originOf(target: Target): string {
  return `${target.scheme}://${target.host.text}:${target.port}`;
}

export const DEFAULT_PORT = { http: 80, https: 443 } as const;

/**
 * Reads an absolute `http`, `https`, `ws` or `wss` URL (RFC 9110 section 4.2, RFC 6455 section 3) that comes from
 * outside. The WHATWG parser repairs what it can; here whatever it would repair in front of the path is refused,
 * because the upstream's parser, or one in between, may repair it differently.
 * @throws DsecError URL_INVALID or HOST_INVALID; the message never holds path, query or userinfo
 */
export function parseUrl(raw: string): Target {
  if (raw.length > LIMITS.urlChars) throw invalid(`it is longer than ${LIMITS.urlChars} characters`);
  if (REPAIRED.test(raw) || !raw.isWellFormed()) {
    throw invalid("spaces, control characters, backslashes and lone surrogates must be percent-encoded");
  }
  const parts = ABSOLUTE.exec(raw);
  if (parts === null) throw invalid("it must be absolute: https://host/path, or http, ws, wss");
  const [, given = "", authority = "", rest = ""] = parts;
  if (authority.includes("@")) {
    throw invalid(
      "userinfo has no place in it; let the policy inject credentials (secrets) or send a header",
    );
  }
  const { host: rawHost, port: rawPort } = splitAuthority(authority);
  const scheme = /^(https|wss)$/i.test(given) ? "https" : "http";
  const { host, hostname } = readHost(rawHost);
  const port = rawPort ?? DEFAULT_PORT[scheme];
  let url: URL;
  try {
    url = new URL(`${scheme}://${authority}${rest}`);
  } catch (cause) {
    throw invalid(`the URL standard refuses it for host ${quote(rawHost)}`, cause);
  }
  // One reading of the authority alone and one of the whole: if they differ, a third parser may differ again.
  const samePort = (url.port === "" ? DEFAULT_PORT[scheme] : Number(url.port)) === port;
  if (url.hostname !== hostname || !samePort || url.username !== "" || url.password !== "") {
    throw invalid(`two readings of it disagree about host ${quote(rawHost)}`);
  }
  const at = port === DEFAULT_PORT[scheme] ? host.text : `${host.text}:${port}`;
  const whole = `${scheme}://${at}${url.pathname}${url.search}`;
  return { scheme, host, port, path: url.pathname, query: url.search, url: whole };
}

/**
 * Takes `host` or `host:port` apart (RFC 3986 section 3.2), the host still as it was written.
 * @throws DsecError URL_INVALID where a port is empty, not decimal, 0 or above 65535
 */
export function splitAuthority(authority: string): { host: string; port: number | null } {
  const colon = authority.indexOf(":", authority.startsWith("[") ? authority.indexOf("]") + 1 : 0);
  if (colon < 0) return { host: authority, port: null };
  const digits = authority.slice(colon + 1);
  const port = Number(digits);
  if (!/^[0-9]{1,5}$/.test(digits) || port < 1 || port > 65_535) {
    throw invalid(`the port in ${quote(authority)} must be a decimal number from 1 to 65535`);
  }
  return { host: authority.slice(0, colon), port };
}

/**
 * The text of a URL that came as bytes, one character for each: of UTF-8 what it says, of anything else the escapes of the bytes.
 * They are the same but in a host, which is no text of ours where it is not UTF-8.
 */
export function urlFromBytes(latin1: string): string {
  return utf8OfLatin1(latin1) ?? escapedBytes(latin1);
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it refuses
const REPAIRED = /[\x00-\x20\x7f\\]/;
const ABSOLUTE = /^(https?|wss?):\/\/([^/?#]*)([^#]*)/i;

function invalid(why: string, cause?: unknown): DsecError {
  return new DsecError("URL_INVALID", `url: ${why}`, { cause });
}
