import { DsecError } from "../errors.ts";
import { type Address, effectiveAddress, formatAddress, parseAddress } from "./address.ts";

/**
 * A host in the one form that rules are compared in. `text` is what belongs in a URL, a Host field and a TLS name:
 * lower-case A-labels without the root dot, dotted decimal, or RFC 5952 text in brackets.
 */
export type Host = { kind: "name"; text: string } | { kind: "address"; text: string; address: Address };

/**
 * The canonical form of a host that comes from outside, by the WHATWG URL standard's host parser and then stricter:
 * no percent escapes, no userinfo, no port, no zone id, only letters, digits, `-` and `_` in labels, valid A-labels,
 * one root dot at most. An IPv4-mapped IPv6 address becomes the IPv4 address that a socket would connect to.
 * @throws DsecError HOST_INVALID, naming the host and what to send instead
 */
export function canonicalHost(raw: string): Host {
  return readHost(raw).host;
}

/** A host together with what the URL parser made of it, which `parseUrl` compares with its reading of the whole URL. */
export function readHost(raw: string): { hostname: string; host: Host } {
  const known = readings.get(raw);
  if (known !== undefined) return known;
  const hostname = parseHostname(raw);
  const reading = { hostname, host: judgeHostname(hostname, raw) };
  // A task calls the same few hosts over and over; IDNA costs more than the rest of a decision.
  if (readings.size >= READINGS_KEPT) readings.clear();
  readings.set(raw, reading);
  return reading;
}

const readings = new Map<string, { hostname: string; host: Host }>();
const READINGS_KEPT = 1024;

const HOST_CHARS = 1024;

// What the WHATWG calls forbidden host code points, less the brackets and the colon of IPv6, and `%`: percent-decoding
// in a host is what parsers disagree about most. \p{Zs} holds the no-break and ideographic spaces.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it refuses
const FORBIDDEN = /[\x00-\x20\x7f-\x9f\p{Zs}\u2028\u2029%@/\\?#<>^|]/u;

const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

function parseHostname(raw: string): string {
  if (raw === "") throw invalid(raw, "it is empty");
  if (raw.length > HOST_CHARS) throw invalid(raw, `it has more than ${HOST_CHARS} characters`);
  if (!raw.isWellFormed()) throw invalid(raw, "it holds a lone surrogate");
  if (FORBIDDEN.test(raw)) {
    throw invalid(
      raw,
      "white space, control characters and any of % @ / \\ ? # < > ^ | have no place in a host",
    );
  }
  if (raw.startsWith("[") ? !/^\[[0-9A-Fa-f:.]+\]$/.test(raw) : /[:[\]]/.test(raw)) {
    throw invalid(raw, "write a name, an IPv4 address, or an IPv6 address in brackets without a zone id");
  }
  try {
    return new URL(`http://${raw}/`).hostname;
  } catch (cause) {
    throw invalid(raw, "the URL standard (IDNA included) refuses it", cause);
  }
}

function judgeHostname(hostname: string, raw: string): Host {
  const address = parseAddress(hostname.startsWith("[") ? hostname.slice(1, -1) : hostname);
  if (address !== null) return addressHost(effectiveAddress(address));
  const name = hostname.endsWith(".") ? hostname.slice(0, -1) : hostname;
  // Labels of the DNS (RFC 1035 section 2.3.4) in the preferred syntax, and `_`, which real hosts use.
  if (name.length > 253) throw invalid(raw, "it is longer than the 253 characters of a DNS name");
  for (const label of name.split(".")) {
    if (label === "") throw invalid(raw, "it has an empty label (two dots together, or one in front)");
    if (!LABEL.test(label)) {
      throw invalid(raw, "a label is 1 to 63 letters, digits, - or _ and neither begins nor ends with -");
    }
  }
  if (/(?:^|\.)xn--/.test(name) && !hasValidALabels(name))
    throw invalid(raw, "an xn-- label is not valid IDNA");
  return { kind: "name", text: name };
}

function addressHost(address: Address): Host {
  const text = formatAddress(address);
  return { kind: "address", text: address.length === 4 ? text : `[${text}]`, address };
}

/**
 * The URL parser lets an ASCII name pass unread, so that `xn--a` reaches DNS; with one Unicode label in front of the
 * root it has to read all of them.
 */
function hasValidALabels(name: string): boolean {
  return URL.canParse(`http://${name}.\u00df/`);
}

function invalid(raw: string, why: string, cause?: unknown): DsecError {
  return new DsecError("HOST_INVALID", `host ${quote(raw)}: ${why}`, { cause });
}

/** Text from outside, made safe for one line of a message or a log: bounded, and anything but plain ASCII escaped. */
export function quote(text: string): string {
  const escaped = JSON.stringify(text.slice(0, 100)).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return text.length > 100 ? `${escaped}…` : escaped;
}
